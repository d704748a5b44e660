import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tidelog.base.errors import ClientError
from tidelog.cli import command, top

BEFORE = {"in_msgs": 10, "out_msgs": 20, "in_bytes": 100, "out_bytes": 200}
NOW = {"in_msgs": 30, "out_msgs": 20, "in_bytes": 300, "out_bytes": 100}


def test_rates_are_per_second_and_survive_a_restart() -> None:
    assert top.rates(BEFORE, NOW, 2.0) == {
        "in_msgs_per_s": 10, "out_msgs_per_s": 0, "in_bytes_per_s": 100, "out_bytes_per_s": 50,
    }  # fmt: skip


def test_report_joins_connections_by_cid() -> None:
    before = top.Reading(1.0, BEFORE, [{"cid": 1, "in_msgs": 5}])
    now = top.Reading(2.0, NOW, [{"cid": 1, "in_msgs": 8, "secret": 1}, {"cid": 2, "in_msgs": 4}])
    document = top.report(before, now)
    assert [entry["rates"]["in_msgs_per_s"] for entry in document["connections"]] == [3, 4]
    assert "secret" not in document["connections"][0]
    assert document["rates"]["in_msgs_per_s"] == 20


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1K"), (1_234_567, "1.23M"), (5e9, "5G"), (2e12, "2T")],
)
def test_short_numbers_have_three_digits_and_a_letter(number: float, text: str) -> None:
    assert top.short(number) == text


class Answers(BaseHTTPRequestHandler):
    counts = 0
    asked: list[str] = []  # noqa: RUF012  # shared on purpose

    def do_GET(self) -> None:
        type(self).counts += 50
        self.asked.append(self.path)
        document: dict[str, object] = dict.fromkeys(top.COUNTERS, self.counts)
        if self.path.startswith("/connz"):
            document = {"connections": [document | {"cid": 7, "ip": "127.0.0.1", "port": 1, "name": "n"}]}
        else:
            document |= {"server_name": "S", "version": "2.1", "uptime": "1s", "mem": 2048}
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def monitor() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        Answers.asked.clear()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_once_shows_one_document(monitor: int, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["top", "-m", str(monitor), "--once", "--json", "-d", "10ms", "--sort", "subs", "-n", "5"]
    assert command.run([*arguments, "--subs"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["server"]["server_name"] == "S"
    assert document["connections"][0]["rates"]["in_msgs_per_s"] > 0
    assert Answers.asked == ["/varz", "/connz?sort=subs&limit=5&subs=1"] * 2


def test_once_for_people_has_a_line_per_connection(monitor: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["top", "-m", str(monitor), "--once", "-d", "10ms"]) == 0
    shown = capsys.readouterr().out
    assert "S version 2.1, up 1s" in shown
    assert "memory 2.05KB" in shown
    assert "127.0.0.1:1" in shown


def test_no_monitor_is_told_with_its_address() -> None:
    source = top.Monitor("127.0.0.1", 1, sort="cid", limit=1, subscriptions=False)
    with pytest.raises(ClientError, match=r"http://127.0.0.1:1/varz: .*refused"):
        source.read()
