"""What every room may use and what knows nothing of NATS: clock, chance, bounds, errors, byte maps, sequence sets."""
