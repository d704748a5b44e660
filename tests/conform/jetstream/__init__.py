"""What the real server and ours say to requests of the JetStream API."""
