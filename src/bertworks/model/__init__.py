"""The network: its description, its layers, its task heads, its weights."""
