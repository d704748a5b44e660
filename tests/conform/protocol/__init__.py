"""Raw protocol scripts, and what plays them against a server and writes down its answers."""
