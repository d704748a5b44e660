"""Requests find who answers them, and are answered whatever happens."""

import pytest

from tidelog.base.errors import StorageError
from tidelog.broker.desk.desk import DeskSettings
from tidelog.broker.desk.request import Entry, Parts, Request
from tidelog.broker.desk.table import ENTRIES, Table
from tidelog.broker.settings import AccountSettings, Authorization, BrokerSettings, User
from tidelog.stream.engine import EngineSettings
from unit.broker.desk.harbor import Harbor, replies


@pytest.fixture
def harbor() -> Harbor:
    return Harbor()


def test_an_account_is_described(harbor: Harbor) -> None:
    harbor.stream("A", max_bytes=500)
    harbor.stream("B", storage="memory")
    harbor.publish("A.1", b"payload")
    found = harbor.ask("INFO")
    assert found["type"] == "io.nats.jetstream.api.v1.account_info_response"
    assert (found["streams"], found["consumers"], found["reserved_storage"]) == (2, 0, 500)
    assert found["storage"] > 0 == found["memory"]
    assert found["limits"]["max_streams"] == -1
    assert found["api"]["total"] == 2


def test_refusals_are_counted(harbor: Harbor) -> None:
    assert harbor.refused("STREAM.INFO.X") == (404, 10059, "stream not found")
    assert harbor.ask("INFO")["api"]["errors"] == 1


def test_a_domain_is_told() -> None:
    harbor = Harbor(desk=DeskSettings(domain="hub"))
    assert harbor.ask("INFO")["domain"] == "hub"
    harbor.stream()
    assert harbor.ask("STREAM.INFO.S")["domain"] == "hub"


@pytest.mark.parametrize("subject", ["X", "STREAM", "STREAM.INFO", "STREAM.INFO.S.T", "STREAM.NAMES.X"])
def test_what_nobody_knows_is_not_answered(harbor: Harbor, subject: str) -> None:
    assert harbor.send(f"$JS.API.{subject}") == []


@pytest.mark.parametrize(
    "subject", ["STREAM.LEADER.STEPDOWN.S", "STREAM.PEER.REMOVE.S", "CONSUMER.LEADER.STEPDOWN.S.C"]
)
def test_what_is_for_clusters_is_refused(harbor: Harbor, subject: str) -> None:
    assert harbor.refused(subject) == (503, 10010, "JetStream clustering support required")


def test_what_others_answer_finds_nobody(harbor: Harbor) -> None:
    for subject in ("CONSUMER.MSG.NEXT.S.C", "DIRECT.GET.S", "DIRECT.GET.S.a.b"):
        (reply,) = harbor.send(f"$JS.API.{subject}")
        assert reply.header.startswith(b"NATS/1.0 503")


@pytest.mark.parametrize(("level", "good"), [("4", True), ("5", False), ("x", False), ("", True)])
def test_a_request_may_ask_for_a_level(harbor: Harbor, level: str, good: bool) -> None:
    found = harbor.ask("INFO", headers={"Nats-Required-Api-Level": level})
    assert ("error" not in found) == good
    if not good:
        assert found["error"]["err_code"] == 10185


def test_unknown_fields_are_refused_unless_they_may_be_there() -> None:
    body = {"name": "S", "odd": 1}
    assert Harbor().refused("STREAM.CREATE.S", body) == (
        400,
        10025,
        'invalid JSON: json: unknown field "odd"',
    )
    assert "error" not in Harbor(desk=DeskSettings(strict=False)).ask("STREAM.CREATE.S", body)


def test_an_account_without_streams_is_told_so() -> None:
    settings = BrokerSettings(
        accounts=(AccountSettings("A"),),
        authorization=Authorization(users=(User("a", password="p", account="A"),)),
    )
    harbor = Harbor(settings=settings)
    client = harbor.arrive(user="a", **{"pass": "p"})
    (reply,) = harbor.send("$JS.API.INFO", client=client)
    assert reply.document["error"]["err_code"] == 10039
    (reply,) = harbor.send("$JS.API.STREAM.NAMES", client=client)
    assert reply.document["error"]["err_code"] == 10039
    assert reply.document["streams"] is None


def test_what_goes_wrong_inside_is_answered(harbor: Harbor) -> None:
    def fail(_request: Request) -> Parts:
        raise StorageError("the disk is gone")

    harbor.desk.accounts["$G"].table = Table([Entry("STREAM.TEST.*", "test_response", fail)])
    assert harbor.refused("STREAM.TEST.S") == (500, 10051, "the disk is gone")


def test_every_pattern_finds_its_entry() -> None:
    table = Table()
    for entry in ENTRIES:
        subject = entry.pattern.replace("*", "x").replace(">", "x.y")
        assert table.find(subject.split(".")) is entry


def test_who_listens_is_told_of_every_request(harbor: Harbor) -> None:
    other = harbor.house.client()
    other.send(b"SUB $JS.EVENT.> 1\r\n")
    harbor.stream()
    harbor.refused("STREAM.INFO.X")
    harbor.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "max_msgs": 1})
    harbor.ask("STREAM.DELETE.S")
    heard = [(reply.subject, reply.document) for reply in replies(other.read())]
    kept = [event["action"] for subject, event in heard if subject.startswith("$JS.EVENT.ADVISORY.STREAM")]
    assert kept == ["create", "modify", "delete"]
    audits = [event for subject, event in heard if subject == "$JS.EVENT.ADVISORY.API"]
    assert [event["subject"].rsplit(".", 2)[1] for event in audits] == ["CREATE", "INFO", "UPDATE", "DELETE"]
    assert '"err_code":10059' in audits[1]["response"]
    assert audits[0]["client"]["id"] == harbor.client.session.cid
    assert "request" not in audits[3]


def test_a_domain_may_stand_in_front() -> None:
    harbor = Harbor(desk=DeskSettings(domain="hub"))
    harbor.stream("S", allow_direct=True)
    harbor.publish("S.a", b"payload")
    (reply,) = harbor.send("$JS.hub.API.STREAM.INFO.S")
    assert reply.document["config"]["name"] == "S"
    (reply,) = harbor.send("$JS.hub.API.DIRECT.GET.S", b'{"seq": 1}')
    assert reply.payload == b"payload"
    for subject in ("$JS.other.API.INFO", "$JS.hub.API.CONSUMER.MSG.NEXT.S.C", "$JS.hub.API.$KV.b.k"):
        (reply,) = harbor.send(subject)
        assert reply.header.startswith(b"NATS/1.0 503")
    harbor.stream("KV_b", subjects=["$KV.b.>"])
    (reply,) = harbor.send("$JS.hub.API.$KV.b.k", b"value")
    assert reply.document == {"stream": "KV_b", "seq": 1}


@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        ("STREAM.PEER.REMOVE.S", "stream_remove_peer_response"),
        ("STREAM.PEER.EVACUATE.S", "stream_evacuate_peer_response"),
        ("STREAM.LEADER.STEPDOWN.S", "stream_leader_stepdown_response"),
        ("STREAM.CANCEL_MOVE.S", "stream_cancel_move_response"),
        ("CONSUMER.LEADER.STEPDOWN.S.C", "consumer_leader_stepdown_response"),
    ],
)
def test_clusters_are_for_others(harbor: Harbor, subject: str, kind: str) -> None:
    found = harbor.ask(subject)
    assert found["type"] == f"io.nats.jetstream.api.v1.{kind}"
    assert found["error"]["err_code"] == 10010


def test_the_system_account_may_purge_another() -> None:
    settings = BrokerSettings(
        accounts=(AccountSettings("$SYS"),),
        authorization=Authorization(
            users=(User("s", password="p", account="$SYS"), User("g", password="p", account="$G"))
        ),
    )
    harbor = Harbor(settings=settings)
    harbor.client = harbor.arrive(user="g", **{"pass": "p"})
    system = harbor.arrive(user="s", **{"pass": "p"})
    harbor.stream()
    assert harbor.send("$JS.API.ACCOUNT.PURGE.$G") == []
    (reply,) = harbor.send("$JS.API.ACCOUNT.PURGE.$G", client=system)
    assert reply.document["initiated"]
    assert harbor.ask("STREAM.NAMES")["streams"] is None
    (reply,) = harbor.send("$JS.API.META.LEADER.STEPDOWN", client=system)
    assert reply.document["error"]["err_code"] == 10010
    (reply,) = harbor.send("$JS.API.INFO", client=system)
    assert reply.document["error"]["err_code"] == 10039


def test_the_operator_hears_of_requests_that_cannot_be_read_now_and_then(harbor: Harbor) -> None:
    for _ in range(3):
        harbor.refused("STREAM.NAMES", {"odd": 1})
    told = "Invalid JetStream request '$G > $JS.API.STREAM.NAMES': json: unknown field \"odd\""
    assert harbor.house.log.of("warn") == [told]
    harbor.house.advance(1)
    harbor.refused("STREAM.NAMES", {"odd": 1})
    assert harbor.house.log.of("warn") == [told, told]


def test_acknowledgements_name_the_domain() -> None:
    harbor = Harbor(engine=EngineSettings(domain="hub"), desk=DeskSettings(domain="hub"))
    harbor.stream(allow_atomic=True)
    assert harbor.publish("S.a", Nats_Msg_Id="1") == {"stream": "S", "domain": "hub", "seq": 1}
    found = harbor.publish("S.a", Nats_Msg_Id="1")
    assert found == {"stream": "S", "domain": "hub", "seq": 1, "duplicate": True}
    found = harbor.publish("S.a", Nats_Batch_Id="b", Nats_Batch_Sequence="1", Nats_Batch_Commit="1")
    assert found == {"stream": "S", "domain": "hub", "seq": 2, "batch": "b", "count": 1}
    harbor.stream("C", allow_msg_counter=True)
    assert harbor.publish("C.a", Nats_Incr="+2") == {"stream": "C", "domain": "hub", "seq": 1, "val": "2"}
