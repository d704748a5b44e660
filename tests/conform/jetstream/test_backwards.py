"""Reading backwards as docs/how-to/read-backwards.md says: its lines are run, with the stock client and with ours."""

import asyncio
import re
from pathlib import Path
from typing import Any

import nats
import pytest

from conform.conftest import StartServer
from tidelog.client import connect
from tidelog.client.jetstream import JetStream, Publisher
from tidelog.testing.peer import ServerProcess

ROOT = Path(__file__).resolve().parents[3]
COUNT = 250


def blocks() -> list[str]:
    """The Python in the document."""
    text = (ROOT / "docs" / "how-to" / "read-backwards.md").read_text()
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
