"""Requests on `$SYS.REQ.`: who may ask what, how bodies are read, and when silence is the answer."""

import json
from typing import Any

import pytest

from tidelog.broker.settings import BrokerSettings, Permissions, ResponseRights, SubjectRights
from tidelog.serve.monitor.system import Asker, SystemDesk
from tidelog.serve.options import Options
from unit.serve.view_fake import FakeBroker, make_monitor, session

SETTINGS = BrokerSettings(server_name="tide-1", tags=("Zone:a",), metadata=(("k", "v"),))
SYSTEM = Asker("$SYS", "admin")
MEMBER = Asker("A", "u")


def make_desk() -> SystemDesk:
    broker = FakeBroker(
        open=[session(1, [b"a"], account_name="A"), session(2, [b"b"], account_name="B"), session(3)],
        closed=[session(4, reason="Client Closed", stop_ns=1)],
        account_names=("A", "B", "$G", "$SYS"),
        settings=SETTINGS,
        slow_consumers=1,
    )
    return SystemDesk(make_monitor(broker, Options(broker=SETTINGS)))


def ask(subject: str, body: bytes = b"", asker: Asker = SYSTEM) -> Any:
    answer = make_desk().answer(subject, body, asker)
    return None if answer is None else json.loads(answer)


def test_envelope_names_the_server_and_counts() -> None:
    desk = make_desk()
    first, second = (
        json.loads(desk.answer("$SYS.REQ.SERVER.PING.VARZ", b"", SYSTEM) or b"") for _ in range(2)
    )
    assert first["server"] == {
        "name": "tide-1",
        "host": "0.0.0.0",
        "id": "N" * 56,
        "ver": "2.15.0",
        "tags": ["Zone:a"],
        "metadata": {"k": "v"},
        "jetstream": False,
        "flags": 0,
        "seq": 1,
        "time": "2026-11-18T10:00:00Z",
    }
    assert second["server"]["seq"] == 2
    assert first["data"]["connections"] == 3


@pytest.mark.parametrize("name", sorted(make_desk().of_server))
def test_every_document_can_be_had_by_ping_and_by_id(name: str) -> None:
    assert "data" in ask(f"$SYS.REQ.SERVER.PING.{name}")
    assert "error" not in ask(f"$SYS.REQ.SERVER.{'N' * 56}.{name}", b"{}")


def test_answers_of_another_shape() -> None:
    assert ask("$SYS.REQ.SERVER.PING.IDZ") == {"name": "tide-1", "host": "0.0.0.0", "id": "N" * 56}
    statsz = ask("$SYS.REQ.SERVER.PING")["statsz"]
    assert statsz == ask("$SYS.REQ.SERVER.PING.STATSZ")["statsz"] | {"mem": statsz["mem"]}
    assert (statsz["connections"], statsz["active_accounts"], statsz["active_servers"]) == (3, 3, 1)
    assert statsz["slow_consumer_stats"]["clients"] == 1
    assert "stale_connections" not in statsz
    assert ask("$SYS.REQ.SERVER.PING.HEALTHZ")["data"] == {"status": "ok", "status_code": 200}


def cids(body: bytes, subject: str = "$SYS.REQ.SERVER.PING.CONNZ", asker: Asker = SYSTEM) -> list[int]:
    return [connection["cid"] for connection in ask(subject, body, asker)["data"]["connections"]]


def test_options_in_the_body() -> None:
    assert cids(b"") == cids(b"{}") == cids(b'{"unknown":[1]}') == [1, 2, 3]
    assert cids(b'{"limit":1,"offset":1}') == [2]
    assert cids(b'{"acc":"B"}') == [2]
    assert cids(b'{"cid":3}') == [3]
    assert cids(b'{"state":1}') == [4]
    assert cids(b'{"state":2,"sort":"cid"}') == [1, 2, 3, 4]
    assert cids(b'{"acc":"A","filter_subject":"*"}') == [1]
    listed = ask("$SYS.REQ.SERVER.PING.CONNZ", b'{"cid":1,"subscriptions":true}')["data"]["connections"][0]
    assert listed["subscriptions_list"] == ["a"]
    detailed = ask("$SYS.REQ.SERVER.PING.CONNZ", b'{"cid":1,"subscriptions_detail":true,"auth":true}')
    assert detailed["data"]["connections"][0]["subscriptions_list_detail"][0]["subject"] == "a"
    assert detailed["data"]["connections"][0]["account"] == "A"
    assert (
        ask("$SYS.REQ.SERVER.PING.ACCOUNTZ", b'{"account":"A"}')["data"]["account_detail"]["account_name"]
        == "A"
    )
    assert ask("$SYS.REQ.SERVER.PING.SUBSZ", b'{"subscriptions":true,"test":"a"}')["data"]["total"] == 1


@pytest.mark.parametrize(
    "body", [b"[1]", b"{x", b'{"limit":"a"}', b'{"auth":1}', b"[" * 100_000, b'"x"', b"\xff"]
)
def test_bodies_that_cannot_be_read(body: bytes) -> None:
    answer = ask("$SYS.REQ.SERVER.PING.CONNZ", body)
    assert answer["error"]["code"] == 400
    assert "data" not in answer


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("CONNZ", b'{"sort":"xx"}', "invalid sorting option: xx"),
        ("CONNZ", b'{"state":7}', "Error decoding state for 7"),
        ("ACCOUNTZ", b'{"account":"zz"}', "Account zz does not exist"),
        ("SUBSZ", b'{"test":"a.*"}', "invalid test subject, must be valid publish subject: a.*"),
    ],
)
def test_options_that_make_no_sense(name: str, body: bytes, text: str) -> None:
    answer = ask(f"$SYS.REQ.SERVER.PING.{name}", body)
    assert answer["error"] == {"code": 500, "description": text}
    assert answer["data"] is None


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        (b'{"server_name":"tide"}', True),
        (b'{"server_name":"other"}', False),
        (b'{"server_name":"tide","exact_match":true}', False),
        (b'{"server_name":"tide-1","exact_match":true}', True),
        (b'{"host":"0.0"}', True),
        (b'{"host":"1.1"}', False),
        (b'{"cluster":"c"}', False),
        (b'{"tags":["zone:A"]}', True),
        (b'{"tags":["zone:a","x"]}', False),
        (b'{"domain":"d"}', False),
    ],
)
def test_filters_for_other_servers_are_met_with_silence(body: bytes, meant: bool) -> None:
    for name in ("VARZ", "STATSZ"):
        assert (ask(f"$SYS.REQ.SERVER.PING.{name}", body) is not None) is meant


def test_accounts() -> None:
    assert cids(b"", "$SYS.REQ.ACCOUNT.B.CONNZ") == [2]
    # The account of the subject overrules that of the body.
    assert cids(b'{"acc":"A"}', "$SYS.REQ.ACCOUNT.B.CONNZ") == [2]
    assert ask("$SYS.REQ.ACCOUNT.A.SUBSZ")["data"]["subscriptions_list"][0]["subject"] == "a"
    assert ask("$SYS.REQ.ACCOUNT.A.INFO")["data"]["account_name"] == "A"
    assert ask("$SYS.REQ.ACCOUNT.zz.INFO")["error"]["code"] == 500
    assert ask("$SYS.REQ.ACCOUNT.A.LEAFZ")["data"]["leafs"] == []
    statistics = ask("$SYS.REQ.ACCOUNT.A.STATZ")["data"]["account_statz"]
    assert [one["acc"] for one in statistics] == ["A"]
    assert ask("$SYS.REQ.ACCOUNT.$SYS.STATZ") is None
    assert ask("$SYS.REQ.ACCOUNT.$SYS.STATZ", b'{"include_unused":true}') is not None
    every = ask("$SYS.REQ.ACCOUNT.PING.STATZ")["data"]["account_statz"]
    assert [one["acc"] for one in every] == ["$G", "A", "B"]


def test_ordinary_accounts_see_themselves_only() -> None:
    for subject in ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ"):
        assert cids(b'{"acc":"B"}', subject, MEMBER) == [1]
    statistics = ask("$SYS.REQ.ACCOUNT.PING.STATZ", b"", MEMBER)["data"]["account_statz"]
    assert [one["acc"] for one in statistics] == ["A"]
    system = make_desk().interest(system=True)
    for subject in system:
        if subject not in make_desk().interest(system=False):
            assert ask(subject.replace("*", "B"), b"", MEMBER) is None, subject


def test_interest_covers_what_is_answered() -> None:
    desk = make_desk()
    for subject in desk.interest(system=True):
        assert desk.answer(subject.replace("*", "A"), b"", SYSTEM) is not None, subject
    for subject in desk.interest(system=False):
        assert desk.answer(subject, b"", MEMBER) is not None, subject


@pytest.mark.parametrize("subject", ["$SYS.REQ.SERVER.PING.NOPE", "$SYS.REQ", "x", "$SYS.REQ.ACCOUNT.A.NOPE"])
def test_unknown_subjects(subject: str) -> None:
    assert ask(subject) is None


def test_user_info() -> None:
    assert ask("$SYS.REQ.USER.INFO", b"", MEMBER)["data"] == {
        "user": "u",
        "account": "A",
        "account_name": "A",
    }
    permissions = Permissions(
        publish=SubjectRights(allow=("x.>",)),
        subscribe=SubjectRights(deny=("q",)),
        responses=ResponseRights(3, 5),
    )
    answer = ask("$SYS.REQ.USER.INFO", b"", Asker("A", "u", permissions))
    assert answer["data"]["permissions"] == {
        "publish": {"allow": ["x.>"]},
        "subscribe": {"deny": ["q"]},
        "responses": {"max": 3, "ttl": 5},
    }
    assert ask("$SYS.REQ.USER.INFO", b"", Asker("A", "u", Permissions()))["data"]["permissions"] == {}


def test_jsz_for_leaders_only_is_met_with_silence() -> None:
    assert ask("$SYS.REQ.SERVER.PING.JSZ", b'{"leader_only":true}') is None
    assert ask("$SYS.REQ.SERVER.PING.JSZ", b'{"leader_only":false}')["data"]["disabled"] is True
