"""Accounts, sessions, rights, routing and outboxes: the server without sockets."""
