"""Raw text: reading documents and finding their sentences."""
