"""A small synchronous JetStream layer on the client: the API, messages in, messages out.

js = JetStream(connection)
js.publish("orders.new", b"42")
for message in StreamReader(js, "ORDERS").backward(count=10):
    print(message.seq, message.payload)
"""

from tidelog.client.jetstream.answer import ConsumerInfo, PubAck, StreamInfo
from tidelog.client.jetstream.block import Block, BlockReader
from tidelog.client.jetstream.cursor import Cursors
from tidelog.client.jetstream.desk import JetStream
from tidelog.client.jetstream.ordered import OrderedReader
from tidelog.client.jetstream.publish import Outgoing, Publisher
from tidelog.client.jetstream.pull import Delivered, PullConsumer
from tidelog.client.jetstream.read import StreamReader
from tidelog.client.jetstream.stored import StoredMessage

__all__ = [
    "Block",
    "BlockReader",
    "ConsumerInfo",
    "Cursors",
    "Delivered",
    "JetStream",
    "OrderedReader",
    "Outgoing",
    "PubAck",
    "Publisher",
    "PullConsumer",
    "StoredMessage",
    "StreamInfo",
    "StreamReader",
]
