"""Answering: a model folder opened and put to work."""
