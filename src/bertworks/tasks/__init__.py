"""What an encoder can be asked to do: every task has the same five methods."""
