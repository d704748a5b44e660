"""What the log is measured by: append, search, scan, open, follow, and what all of it takes of memory."""
