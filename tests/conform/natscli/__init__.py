"""Sessions with the real `nats` command, which both servers must answer alike."""
