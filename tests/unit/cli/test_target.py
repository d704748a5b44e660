from pathlib import Path

import pytest

from tidelog.base.errors import ClientError
from tidelog.cli.target import Target, resolve
from tidelog.client.context import Context, ContextStore


@pytest.fixture
def store(tmp_path: Path) -> ContextStore:
    store = ContextStore(tmp_path)
    store.save(Context("chosen", url="nats://chosen", user="cu", password="cp", ca="/ca", tls_first=True))
    store.save(Context("named", url="nats://named", token="ct"))
    store.select("chosen")
    return store


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    assert resolve({}, {}, ContextStore(tmp_path)) == Target()


def test_a_flag_wins_over_the_environment_and_that_over_the_context(store: ContextStore) -> None:
    environment = {"NATS_URL": "nats://env", "NATS_TIMEOUT": "2s"}
    assert resolve({}, {}, store).server == "nats://chosen"
    assert resolve({}, environment, store).server == "nats://env"
    target = resolve({"server": "nats://flag", "timeout_s": 1.0}, environment, store)
    assert (target.server, target.timeout_s) == ("nats://flag", 1.0)
    assert resolve({}, environment, store).timeout_s == 2


def test_the_context_is_named_by_flag_then_environment_then_selection(store: ContextStore) -> None:
    assert resolve({"context_name": "named"}, {"NATS_CONTEXT": "x"}, store).server == "nats://named"
    assert resolve({}, {"NATS_CONTEXT": "named"}, store).server == "nats://named"
    target = resolve({}, {}, store)
    assert (target.server, target.tlsca, target.tlsfirst) == ("nats://chosen", "/ca", True)
    assert resolve({"no_context": True}, {"NATS_CONTEXT": "named"}, store) == Target()
    with pytest.raises(ClientError, match="unknown context 'x'"):
        resolve({}, {"NATS_CONTEXT": "x"}, store)


def test_an_identity_by_flag_is_not_mixed_with_the_contexts(store: ContextStore) -> None:
    target = resolve({"nkey": "/k"}, {}, store)
    assert (target.user, target.password, target.nkey) == ("", "", "/k")
    named = resolve({"context_name": "named", "user": "u", "password": "p"}, {}, store)
    assert (named.user, named.password, named.token) == ("u", "p", "")


def test_a_password_alone_goes_with_the_contexts_user(store: ContextStore) -> None:
    target = resolve({"password": "other"}, {}, store)
    assert (target.user, target.password) == ("cu", "other")


def test_a_user_without_a_password_is_a_token(store: ContextStore) -> None:
    target = resolve({"user": "t"}, {}, store)
    assert (target.user, target.token) == ("", "t")
    assert resolve({"context_name": "named"}, {}, store).token == "ct"


def test_secrets_are_not_in_repr(store: ContextStore) -> None:
    assert "cp" not in repr(resolve({}, {}, store))
