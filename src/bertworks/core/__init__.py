"""What everything else stands on: artifacts, batches, errors, devices, progress."""
