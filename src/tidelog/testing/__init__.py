"""Fixtures for other people's tests: a real server in this process or beside it."""
