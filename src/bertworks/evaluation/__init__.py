"""Judging: scores on held-out data, how sure they are, and the report that shows them."""
