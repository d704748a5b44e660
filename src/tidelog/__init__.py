"""Tidelog: a message-streaming server that speaks NATS and reads its log both ways."""

__version__ = "0.1.0"

# The nats-server release whose core behaviour clients find here (docs/compatibility.md says what is missing).
PROTOCOL_VERSION = "2.14.0"

# The level of the JetStream API that goes with it.
API_LEVEL = 4
