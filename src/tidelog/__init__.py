"""Tidelog: a message-streaming server that speaks NATS and reads its log both ways."""

__version__ = "0.1.0"
