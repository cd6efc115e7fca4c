"""What everything else stands on: artifacts, batches, errors, devices, progress."""

__version__ = "0.1.0"  # here, and not in the package above, so that imports point down only
