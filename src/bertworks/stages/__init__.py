"""The verbs: one file per command, each from artifacts on disk to one artifact on disk."""
