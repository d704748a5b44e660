"""Where the keys of stored data come from."""

import base64
from pathlib import Path

import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.key_source import KEY_FILE_SIZE, read_key_ring

LINE = "now:" + base64.b64encode(bytes(range(32))).decode()


def test_no_name_no_keys() -> None:
    assert read_key_ring() is None


def test_from_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_KEYS", LINE)
    (tmp_path / "keys").write_text(f"# ours\n{LINE}\n")
    for ring in (read_key_ring("TIDELOG_KEYS"), read_key_ring(path=str(tmp_path / "keys"))):
        assert ring is not None
        assert ring.first.secret == bytes(range(32))


def test_what_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_KEYS", raising=False)
    with pytest.raises(ConfigError, match="TIDELOG_KEYS, which is not set"):
        read_key_ring("TIDELOG_KEYS")
    with pytest.raises(ConfigError, match=r"missing: keys cannot be read: No such file"):
        read_key_ring(path=str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="not from both"):
        read_key_ring("A", "b")


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes((LINE + "\n").encode().ljust(KEY_FILE_SIZE, b"#"))
    assert read_key_ring(path=str(path)) is not None
    path.write_bytes((LINE + "\n").encode().ljust(KEY_FILE_SIZE + 1, b"#"))
    with pytest.raises(ConfigError, match="at most"):
        read_key_ring(path=str(path))
    path.write_bytes(b"\xff" + LINE.encode())
    with pytest.raises(ConfigError, match="ASCII"):
        read_key_ring(path=str(path))
