"""What a stream means: configurations, checks, documents, streams and consumers on top of the log."""
