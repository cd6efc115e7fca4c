"""The one training loop and what it stands on: optimizer, schedule, checkpoints."""
