"""Streams of a running server: where they are stored, what is told of them, and what is there after a restart."""

from pathlib import Path

import msgspec
import pytest

from tidelog import API_LEVEL
from tidelog.base.errors import ConfigError
from tidelog.testing import Server


def streams(directory: Path, config: str = "") -> Server:
    return Server(config, flags=["-js", "-sd", str(directory)])


def ask(server: Server, subject: str, body: bytes = b"") -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(server.connect().request(subject, body).payload)
    return found


def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    with streams(tmp_path) as server:
        connection = server.connect()
        assert connection.info["jetstream"]
        assert connection.info["api_lvl"] == API_LEVEL
        ask(server, "$JS.API.STREAM.CREATE.S", b'{"name": "S"}')
        assert ask(server, "S", b"payload") == {"stream": "S", "seq": 1}
    assert (tmp_path / "jetstream" / "$G" / "streams" / "S" / "meta.json").exists()
    with streams(tmp_path) as server:
        assert ask(server, "S", b"payload") == {"stream": "S", "seq": 2}


def test_streams_of_another_server_are_left_alone(tmp_path: Path) -> None:
    strange = tmp_path / "jetstream" / "$G" / "streams" / "S" / "meta.inf"
    strange.parent.mkdir(parents=True)
    strange.write_text("{}")
    with streams(tmp_path) as server:
        assert ask(server, "$JS.API.STREAM.NAMES")["streams"] is None
        ask(server, "$JS.API.STREAM.CREATE.S", b'{"name": "S"}')
        assert ask(server, "S") == {"stream": "S", "seq": 1}
    assert strange.read_text() == "{}"


def test_one_directory_is_for_one_server(tmp_path: Path) -> None:
    with streams(tmp_path), pytest.raises(ConfigError, match="in use by process") as refused:
        streams(tmp_path).start()
    assert refused.value.message.startswith("Can't start JetStream: ")


def test_servers_that_nobody_has_told_where_are_not_in_each_others_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Server(flags=["-js"]) as one, Server(flags=["-js"]) as other:
        ask(one, "$JS.API.STREAM.CREATE.S", b'{"name": "S"}')
        assert ask(other, "$JS.API.STREAM.NAMES")["streams"] is None
    with Server(flags=["-js"]) as one:
        assert ask(one, "$JS.API.STREAM.NAMES")["streams"] == ["S"]


def test_there_must_be_a_place_for_streams(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "jetstream").write_text("")
    for place in (tmp_path / "file", tmp_path):
        with pytest.raises(ConfigError) as refused:
            streams(place).start()
        assert refused.value.message == "Can't start JetStream: storage directory is not a directory"
    with pytest.raises(ConfigError) as refused:
        streams(tmp_path / "file" / "below").start()
    assert refused.value.message.startswith(
        "Can't start JetStream: could not create storage directory - mkdir "
    )


def test_without_streams_nobody_answers(tmp_path: Path) -> None:
    with Server(flags=["-sd", str(tmp_path / "unused")]) as server:
        connection = server.connect()
        assert "jetstream" not in connection.info
        assert "api_lvl" not in connection.info
        assert not (tmp_path / "unused").exists()


def test_accounts_have_what_the_configuration_says(tmp_path: Path) -> None:
    config = """
        accounts {
            A { users: [{user: a, password: p}], jetstream { max_mem: 1M, max_file: 2M, max_streams: 1 } }
            B { users: [{user: b, password: p}] }
        }
        jetstream { domain: hub, strict: false, limits { max_ack_pending: 5 } }
    """
    with streams(tmp_path, config) as server:
        connection = server.connect(user="a", password="p")
        found = msgspec.json.decode(connection.request("$JS.API.INFO", b"").payload)
        assert found["domain"] == "hub"
        limits = found["limits"]
        assert (limits["max_memory"], limits["max_storage"], limits["max_streams"]) == (10**6, 2 * 10**6, 1)
        other = server.connect(user="b", password="p")
        found = msgspec.json.decode(other.request("$JS.API.INFO", b"").payload)
        assert found["error"]["err_code"] == 10039
