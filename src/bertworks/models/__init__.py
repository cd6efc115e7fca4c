"""Models that come with the package: each is a folder here, and is opened by its name."""
