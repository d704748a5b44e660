import json
from pathlib import Path

import pytest

from tidelog.base.errors import ClientError
from tidelog.client.context import Context, ContextStore


@pytest.fixture
def store(tmp_path: Path) -> ContextStore:
    return ContextStore(tmp_path)


def test_a_saved_context_is_where_the_nats_command_looks_for_it(store: ContextStore, tmp_path: Path) -> None:
    store.save(Context("prod", url="nats://a", user="u", password="p"))
    path = tmp_path / "nats" / "context" / "prod.json"
    document = json.loads(path.read_text())
    assert (document["url"], document["user"], document["password"]) == ("nats://a", "u", "p")
    assert document["nkey"] == ""
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["prod.json"]


def test_load_returns_what_was_saved_and_keeps_foreign_fields(store: ContextStore) -> None:
    path = store.save(Context("c", url="x", tls_first=True))
    document = json.loads(path.read_text()) | {"color_scheme": "red", "windows_ca_certs_match": ["a"]}
    path.write_text(json.dumps(document))
    loaded = store.load("c")
    assert (loaded.url, loaded.tls_first) == ("x", True)
    store.save(loaded)
    assert json.loads(path.read_text()) == document


def test_null_fields_mean_not_set(store: ContextStore) -> None:
    store.save(Context("c")).write_text('{"url": null, "user": "u"}')
    assert store.load("c") == Context("c", user="u")


def test_names_are_sorted_and_pass_over_what_is_no_context(store: ContextStore, tmp_path: Path) -> None:
    assert store.names() == []
    for name in ("b", "a"):
        store.save(Context(name))
    (tmp_path / "nats" / "context" / "empty.json").touch()
    (tmp_path / "nats" / "context" / "notes.txt").write_text("x")
    assert store.names() == ["a", "b"]


def test_selection_is_kept_with_the_one_before(store: ContextStore, tmp_path: Path) -> None:
    assert store.selected() == ""
    for name in ("a", "b"):
        store.save(Context(name))
        store.select(name)
    assert (store.selected(), store.previous()) == ("b", "a")
    assert (tmp_path / "nats" / "context.txt").read_text() == "b"
    store.unselect()
    store.unselect()
    assert store.selected() == ""


def test_remove_refuses_the_selected_one(store: ContextStore) -> None:
    for name in ("a", "b"):
        store.save(Context(name))
    store.select("a")
    with pytest.raises(ClientError, match="selected"):
        store.remove("a")
    store.remove("b")
    assert store.names() == ["a"]


@pytest.mark.parametrize("act", ["load", "select", "remove"])
def test_unknown_contexts_are_named(store: ContextStore, act: str) -> None:
    with pytest.raises(ClientError, match="unknown context 'x'"):
        getattr(store, act)("x")


@pytest.mark.parametrize("name", ["", "..", "a/b", "../a"])
def test_names_that_leave_the_directory_are_refused(store: ContextStore, name: str) -> None:
    with pytest.raises(ClientError, match="invalid context name"):
        store.load(name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "line 1"),
        ("[]", "not a JSON object"),
        ('{"url": 4}', "url is not a string"),
        ('{"password": {"hush": 1}}', "password is not a string$"),
        ('{"tls_first": "yes"}', "tls_first is not a bool"),
    ],
)
def test_a_document_that_cannot_be_used_is_told_with_its_path(
    store: ContextStore, text: str, reason: str
) -> None:
    path = store.save(Context("c"))
    path.write_text(text)
    with pytest.raises(ClientError, match=f"{path}.*{reason}"):
        store.load("c")


def test_file_names_are_expanded_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("KEYS", "/keys")
    resolved = Context("c", creds="~/my.creds", nkey="$KEYS/u.nk", url="~").resolved()
    assert (resolved.creds, resolved.nkey, resolved.url) == ("/home/me/my.creds", "/keys/u.nk", "~")


def test_nsc_is_asked_for_server_and_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nsc = tmp_path / "nsc"
    nsc.write_text(
        '#!/bin/sh\n[ "$*" = "generate profile nsc://o/a/u" ] || exit 1\n'
        'echo \'{"user_creds": "/u.creds", "operator": {"service": ["nats://a", "nats://b"]}}\'\n'
    )
    nsc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    resolved = Context("c", nsc="nsc://o/a/u").resolved()
    assert (resolved.creds, resolved.url) == ("/u.creds", "nats://a,nats://b")
    with pytest.raises(ClientError, match="nsc does not know"):
        Context("c", nsc="nsc://other").resolved()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClientError, match="not on PATH"):
        Context("c", nsc="nsc://o/a/u").resolved()


def test_secrets_are_not_in_repr() -> None:
    shown = repr(Context("c", password="hush", token="hush", user_jwt="hush"))
    assert "hush" not in shown
