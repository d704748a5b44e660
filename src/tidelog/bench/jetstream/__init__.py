"""The load generator's side of JetStream: cases, the loops that make load, and what is checked."""
