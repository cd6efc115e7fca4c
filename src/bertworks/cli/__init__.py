"""The command line: the table of commands, and how flags and recipes become a stage's settings."""
