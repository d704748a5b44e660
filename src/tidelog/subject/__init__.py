"""Subjects: validity, wildcards, and who is interested in them."""
