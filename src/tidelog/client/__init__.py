"""A small, fast, synchronous client on the same wire room."""
