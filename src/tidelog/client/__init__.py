"""A small, fast, synchronous client on the same wire room.

with tidelog.client.connect("nats://127.0.0.1:4222") as connection:
    subscription = connection.subscribe("orders.>")
    connection.publish("orders.new", b"42")
    message = subscription.next(timeout_s=1)
"""

from tidelog.client.connection import Connection, connect
from tidelog.client.message import Message
from tidelog.client.subscription import Subscription

__all__ = ["Connection", "Message", "Subscription", "connect"]
