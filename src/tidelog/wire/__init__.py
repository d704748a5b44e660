"""NATS bytes to operations and back, for both roles, without I/O."""
