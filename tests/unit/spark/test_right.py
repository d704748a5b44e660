"""Users who may not ask for more than the peer's API read as from the peer."""

from pathlib import Path

from tidelog.client import connect
from tidelog.client.jetstream import JetStream
from tidelog.spark.batch import BatchReader
from tidelog.spark.option import read_options
from tidelog.testing import Server

CONFIG = """
authorization { users: [
    {user: admin, password: pw}
    {user: ann, password: pw, permissions: {
        publish: ["$JS.API.STREAM.INFO.*", "$JS.API.DIRECT.GET.*"], subscribe: ["_INBOX.>"]}}
] }
"""


def test_what_is_not_allowed_is_not_offered(tmp_path: Path) -> None:
    with Server(CONFIG, flags=["-js", "-sd", str(tmp_path)]) as server:
        js = JetStream(connect(server.url, user="admin", password="pw"))
        js.create_stream({"name": "S", "subjects": ["s"], "allow_direct": True})
        for _ in range(5):
            js.publish("s", b"x")
        given = {"servers": server.url, "stream": "S", "user": "ann", "password": "pw"}
        reader = BatchReader(read_options(given, streaming=False))
        found = [
            batch.column("seq").to_pylist() for part in reader.partitions() for batch in reader.read(part)
        ]
        assert found == [[1, 2, 3, 4, 5]]
        js.connection.close()
