"""Load generator, workloads, and the comparison with a peer."""
