import json

import pytest

from tidelog.cli import command
from tidelog.testing import Server


def test_every_server_is_measured(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["rtt", "2", "--json", "-s", f"{server.url},nats://127.0.0.1:1"]) == 1
    good, bad = json.loads(capsys.readouterr().out)
    assert good["url"] == server.url
    assert good["results"][0]["rtt"] > 0
    assert bad["results"][0]["error"] == "nats://127.0.0.1:1: Connection refused"


def test_people_see_address_and_time(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["rtt"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{server.url}:\n\n   {server.url}: ")
