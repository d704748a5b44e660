"""Requests see what was published before them, and do not wait for ever."""

import msgspec
import pytest

from sim.disk import SimDisk
from sim.worker import SimWorker
from tidelog.base.limits import REQUEST_WAIT_NS
from tidelog.broker.desk.desk import DeskSettings
from tidelog.broker.settings import Authorization, BrokerSettings, User
from tidelog.stream.engine import EngineSettings
from tidelog.stream.surroundings import AccountLimits
from unit.broker.desk.harbor import Harbor, replies
from unit.broker.house import Client


@pytest.fixture
def harbor() -> Harbor:
    harbor = Harbor()
    harbor.stream()
    harbor.client.read()
    return harbor


WITH_SYSTEM = BrokerSettings(
    authorization=Authorization(users=(User("a", "a"), User("sys", "sys", account="$SYS")))
)


def request(subject: str, body: object = None) -> bytes:
    text = b"" if body is None else msgspec.json.encode(body)
    return b"PUB $JS.API.%b _R.1 %d\r\n%b\r\n" % (subject.encode(), len(text), text)


def create(name: str, **fields: object) -> bytes:
    return request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **fields})


def consumer(stream: str, name: str, **fields: object) -> bytes:
    config = {"durable_name": name, "ack_policy": "explicit", **fields}
    return request(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})


class Guest:
    """A client that listens to its own answers alone."""

    def __init__(self, harbor: Harbor, number: int) -> None:
        self.client = harbor.house.client(headers=True, no_responders=True)
        self.inbox = b"_Q%d.1" % number
        self.client.send(b"SUB %b 1\r\n" % self.inbox)

    def send(self, data: bytes) -> None:
        self.client.send(data.replace(b" _R.1 ", b" %b " % self.inbox))

    def read(self) -> bytes:
        return self.client.read()


def kinds(client: Client | Guest) -> list[str]:
    """What was answered: the type, and the code of a refusal."""
    found = []
    for answer in replies(client.read()):
        kind = answer.document["type"].rpartition(".")[2].removesuffix("_response")
        error = answer.document.get("error")
        found.append(f"{kind} {error['err_code']}" if error else kind)
    return found


@pytest.fixture
def slow() -> SimWorker:
    return SimWorker()


@pytest.fixture
def shop(slow: SimWorker) -> Harbor:
    """Where the disk takes its time; there is a stream S with a consumer c."""
    harbor = Harbor(worker=slow)
    for asked in (create("S"), consumer("S", "c")):
        harbor.client.send(asked)
        slow.run_all()
    harbor.client.read()
    return harbor


def test_a_message_of_the_same_burst_is_found(harbor: Harbor) -> None:
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + request("STREAM.MSG.GET.S", {"seq": 1}))
    assert harbor.client.read() == b""
    harbor.tick()
    (answer,) = replies(harbor.client.read())
    assert answer.document["message"]["seq"] == 1


def test_a_consumer_that_is_made_in_the_same_burst_counts_it(harbor: Harbor) -> None:
    create = request("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}})
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + create)
    harbor.tick()
    (answer,) = replies(harbor.client.read())
    assert answer.document["num_pending"] == 1


def test_requests_keep_their_order(harbor: Harbor) -> None:
    harbor.client.send(
        b"PUB S.a 1\r\nx\r\n" + request("STREAM.INFO.S") + request("INFO") + request("STREAM.NAMES")
    )
    assert harbor.client.read() == b""
    harbor.tick()
    assert kinds(harbor.client) == ["stream_info", "account_info", "stream_names"]


def test_nothing_waits_where_all_is_committed(harbor: Harbor) -> None:
    harbor.publish("S.a")
    harbor.client.send(request("STREAM.INFO.S"))
    assert len(replies(harbor.client.read())) == 1


def test_a_request_does_not_wait_for_ever(harbor: Harbor) -> None:
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + request("STREAM.INFO.S"))
    harbor.house.advance((REQUEST_WAIT_NS - 1) / 1e9)
    assert harbor.client.read() == b""
    harbor.house.advance(0.001)
    assert len(replies(harbor.client.read())) == 1


def test_a_request_for_a_stream_that_goes_away_is_answered(harbor: Harbor) -> None:
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + request("STREAM.DELETE.S") + request("STREAM.INFO.S"))
    harbor.tick()
    first, second = replies(harbor.client.read())
    assert first.document["success"]
    assert second.document["error"]["err_code"] == 10059


def test_a_request_of_another_client_goes_on(harbor: Harbor) -> None:
    other = Guest(harbor, 2)
    harbor.client.send(b"PUB S.a 1\r\nx\r\n" + request("STREAM.INFO.S") + request("INFO"))
    other.send(request("STREAM.INFO.S") + request("INFO"))
    third = Guest(harbor, 3)
    third.send(request("INFO") + request("STREAM.NAMES"))
    assert kinds(third) == ["account_info", "stream_names"]
    assert kinds(other) == []
    harbor.tick()
    assert kinds(other) == ["stream_info", "account_info"]


def test_a_stream_is_answered_when_it_is_there_for_good(shop: Harbor, slow: SimWorker) -> None:
    other = Guest(shop, 2)
    shop.client.send(create("T"))
    other.send(b"PUB T.a _R.1 1\r\nx\r\n")
    # Nobody takes that yet.
    assert replies(other.read())[0].header.startswith(b"NATS/1.0 503")
    shop.client.send(create("U") + request("STREAM.NAMES"))
    # Others go on, also those who do the same.
    assert kinds(shop.client) == ["stream_names"]
    slow.run_all()
    assert kinds(shop.client) == ["stream_create", "stream_create"]


def test_requests_for_a_stream_that_is_being_made_wait(shop: Harbor, slow: SimWorker) -> None:
    other = Guest(shop, 2)
    shop.client.send(create("T") + consumer("T", "d"))
    other.send(request("STREAM.INFO.T"))
    # The same again is answered as new, but not before it is true; another one of the name is refused.
    third = Guest(shop, 3)
    third.send(create("T") + create("T", max_msgs=5))
    shop.house.advance(REQUEST_WAIT_NS / 1e9)
    assert (kinds(shop.client), kinds(other), kinds(third)) == ([], [], [])
    slow.run_all()
    assert kinds(shop.client) == ["stream_create", "consumer_create"]
    assert kinds(other) == ["stream_info"]
    assert kinds(third) == ["stream_create", "stream_create 10058"]


def test_a_stream_is_judged_by_what_others_will_be(shop: Harbor, slow: SimWorker) -> None:
    other = Guest(shop, 2)
    shop.client.send(
        request(
            "STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>", "mine"], "duplicate_window": 120_000_000_000}
        )
    )
    other.send(request("STREAM.CREATE.T", {"name": "T", "subjects": ["mine"]}))
    slow.run_all()
    assert (kinds(shop.client), kinds(other)) == (["stream_update"], ["stream_create 10065"])
    shop.client.send(request("STREAM.DELETE.S"))
    other.send(request("STREAM.CREATE.T", {"name": "T", "subjects": ["mine"]}))
    slow.run_all()
    assert (kinds(shop.client), kinds(other)) == (["stream_delete"], ["stream_create"])


def test_consumers_are_made_side_by_side_and_each_in_order(shop: Harbor, slow: SimWorker) -> None:
    other = Guest(shop, 2)
    shop.client.send(b"".join(consumer("S", name) for name in "def"))
    other.send(request("CONSUMER.INFO.S.d") + request("CONSUMER.DELETE.S.d") + request("CONSUMER.INFO.S.d"))
    assert (kinds(shop.client), kinds(other)) == ([], [])
    third = Guest(shop, 3)
    third.send(request("CONSUMER.INFO.S.c"))
    assert kinds(third) == ["consumer_info"]
    slow.run_all()
    assert kinds(shop.client) == ["consumer_create"] * 3
    assert kinds(other) == ["consumer_info", "consumer_delete", "consumer_info 10014"]


def test_a_consumer_goes_on_until_its_deletion_is_certain(shop: Harbor, slow: SimWorker) -> None:
    shop.client.send(b"PUB S.a 1\r\nx\r\n")
    shop.tick()
    slow.run_all()
    shop.client.send(request("CONSUMER.DELETE.S.c") + b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c _R.9 0\r\n\r\n")
    (delivered,) = replies(shop.client.read())
    assert delivered.subject == "S.a"
    slow.run_all()
    assert kinds(shop.client) == ["consumer_delete"]


def test_a_stream_that_goes_takes_with_it_a_consumer_that_is_being_made(
    shop: Harbor, slow: SimWorker
) -> None:
    other = Guest(shop, 2)
    other.send(request("STREAM.DELETE.S"))
    shop.client.send(consumer("S", "d"))
    slow.run_all()
    assert (kinds(other), kinds(shop.client)) == (["stream_delete"], ["consumer_create 10059"])
    shop.client.send(create("S"))
    slow.run_all()
    other.send(consumer("S", "d"))
    shop.client.send(request("STREAM.DELETE.S"))
    slow.run_all()
    assert (kinds(other), kinds(shop.client)) == (["consumer_create"], ["stream_create", "stream_delete"])


def test_a_pause_is_answered_when_it_is_certain(shop: Harbor, slow: SimWorker) -> None:
    shop.client.send(request("CONSUMER.PAUSE.S.c", {"pause_until": "2100-01-01T00:00:00Z"}))
    assert kinds(shop.client) == []
    slow.run_all()
    assert kinds(shop.client) == ["consumer_pause"]


def test_too_many_that_wait_are_dropped_and_an_advisory_says_so(slow: SimWorker) -> None:
    settings = DeskSettings(server_name="here", request_queue_limit=3)
    shop = Harbor(
        worker=slow, desk=settings, settings=WITH_SYSTEM, limits={"$G": AccountLimits(), "$SYS": None}
    )
    listener = shop.house.client(**{"user": "sys", "pass": "sys", "headers": True})
    listener.send(b"SUB $JS.EVENT.ADVISORY.> 1\r\n")
    client = shop.house.client(**{"user": "a", "pass": "a", "headers": True})
    client.send(b"SUB _R.> 1\r\n" + create("T") + request("STREAM.INFO.T") * 2)
    assert shop.house.log.of("warn") == []
    client.send(request("STREAM.INFO.T"))
    assert shop.house.log.of("warn") == ["JetStream API queue limit reached, dropping 3 requests"]
    slow.run_all()
    assert kinds(client) == ["stream_create"]
    client.send(request("STREAM.INFO.T"))
    assert kinds(client) == ["stream_info"]
    (advisory,) = (reply.document for reply in replies(listener.read()))
    assert len(advisory.pop("id")) == 22
    assert advisory.pop("timestamp")
    assert advisory == {
        "type": "io.nats.jetstream.advisory.v1.api_limit_reached",
        "server": "here",
        "dropped": 3,
    }


def test_a_full_disk_is_told_of_in_the_system_account() -> None:
    disk = SimDisk(1)
    shop = Harbor(
        disk=disk,
        desk=DeskSettings(server_name="here", server_id="N1", domain="hub"),
        engine=EngineSettings(domain="hub"),
        settings=WITH_SYSTEM,
        limits={"$G": AccountLimits(), "$SYS": None},
    )
    listener = shop.house.client(**{"user": "sys", "pass": "sys", "headers": True})
    listener.send(b"SUB $JS.EVENT.ADVISORY.> 1\r\n")
    client = shop.house.client(**{"user": "a", "pass": "a", "headers": True})
    client.send(create("T"))
    client.read()
    disk.size_max = disk.machine.used_size()
    for _ in range(3):
        client.send(b"PUB T.a 1000\r\n%b\r\n" % bytes(1000))
        shop.tick()
    (advisory,) = (reply.document for reply in replies(listener.read()))
    assert len(advisory.pop("id")) == 22
    assert advisory.pop("timestamp")
    assert advisory == {
        "type": "io.nats.jetstream.advisory.v1.server_out_of_space",
        "server": "here",
        "server_id": "N1",
        "stream": "T",
        "cluster": "",
        "domain": "hub",
    }
