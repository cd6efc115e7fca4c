"""A service: models behind HTTP, many clients at once."""
