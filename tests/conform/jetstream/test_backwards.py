"""What docs/how-to/read-backwards.md and keep-your-place.md say: their lines are run, with both clients."""

import asyncio
import re
from pathlib import Path
from typing import Any

import nats
import pytest

from conform.conftest import StartServer
from tidelog.base.errors import ApiError
from tidelog.client import connect
from tidelog.client.jetstream import Cursors, JetStream, Publisher
from tidelog.client.jetstream.cursor import CONFLICT
from tidelog.testing.peer import ServerProcess

ROOT = Path(__file__).resolve().parents[3]
COUNT = 250


def blocks(name: str = "read-backwards.md") -> list[str]:
    """The Python in the document."""
    text = (ROOT / "docs" / "how-to" / name).read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def server(start_ours: StartServer, tmp_path: Path) -> ServerProcess:
    """With orders of three kinds in turn, the payload is the sequence."""
    running = start_ours(flags=["-js", "-sd", str(tmp_path / "js")])
    with connect(running.url) as connection:
        js = JetStream(connection)
        js.create_stream({"name": "ORDERS", "subjects": ["orders.>"], "allow_direct": True})
        publisher = Publisher(connection)
        for number in range(1, COUNT + 1):
            kind = ("created", "failed", "sent")[number % 3]
            publisher.publish(f"orders.{number % 7}.{kind}", b"%d" % number)
        publisher.flush()
        js.delete_message("ORDERS", COUNT)
    return running


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        (">", range(COUNT - 1, 0, -1)),
        ("orders.*.failed", [number for number in range(COUNT - 1, 0, -1) if number % 3 == 1]),
        ("orders.3.sent", [number for number in range(COUNT - 1, 0, -1) if number % 21 == 17]),
        ("orders.nothing", []),
    ],
)
def test_ten_lines_with_the_stock_client(server: ServerProcess, subject: str, wanted: Any) -> None:
    (lines, _, _) = blocks()
    names: dict[str, Any] = {}
    exec(lines, names)
    assert len(lines.partition("def ")[2].strip().splitlines()) == 11, "ten lines, and the first"

    async def read() -> list[int]:
        client = await nats.connect(server.url)
        try:
            found = names["backwards"](client, "ORDERS", subject)
            return [int(message.data) async for message in found]
        finally:
            await client.close()

    assert asyncio.run(read()) == list(wanted)


def test_our_own_client(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks()[2].replace("nats://127.0.0.1:4222", server.url), {})
    lines = capsys.readouterr().out.splitlines()
    wanted = [number for number in range(COUNT - 1, 0, -1) if number % 3 == 1][:10]
    assert [int(line.split()[0]) for line in lines] == wanted


def test_cursors_with_the_stock_client(server: ServerProcess) -> None:
    helper, use, _ = blocks("keep-your-place.md")
    names: dict[str, Any] = {}
    exec(helper, names)
    body = "\n".join(f"    {line}" for line in use.splitlines())
    exec(f"async def use(client, cursor):\n{body}\n    return place", names)

    async def play() -> None:
        client = await nats.connect(server.url)
        try:
            place = await names["use"](client, names["cursor"])
            assert (place["name"], place["seq"]) == ("billing", 50)
            with pytest.raises(RuntimeError, match="ahead of 3"):
                await names["cursor"](client, "SET", "ORDERS", "billing", seq=3)
        finally:
            await client.close()

    asyncio.run(play())


def test_cursors_with_our_own_client(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    lines = blocks("keep-your-place.md")[2].replace("nats://127.0.0.1:4222", server.url)
    for count in (COUNT - 1, 0):
        exec(lines, {})
        assert len(capsys.readouterr().out.splitlines()) == count
    with connect(server.url) as connection:
        cursors = Cursors(JetStream(connection), "ORDERS")
        place = cursors.get("billing")
        assert place is not None
        assert place.seq == COUNT - 1
        with pytest.raises(ApiError) as refused:
            cursors.set("billing", COUNT, expected_revision=place.revision - 1)
        assert refused.value.err_code == CONFLICT
        cursors.set("other", 7, expected_revision=0)
        assert [each.name for each in cursors.all()] == ["billing", "other"]
        cursors.set("other", 6, rewind=True)
        cursors.delete("other")
        assert cursors.get("other") is None
