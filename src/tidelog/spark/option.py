"""What users say with `.option(...)`: names, aliases and values, checked once and turned into plain dataclasses.

Names are those that Spark users already type for Kafka and Delta; docs/reference/spark.md is the table. Spark hands
keys on in lower case, so they are compared like that.

What it promises: an error names the option as its documentation spells it, and says what to do. A name that looks
like a misspelt one of ours is refused; others are Spark's own and passed over. Secrets are in no `repr` and in no
error.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from tidelog.base.errors import TidelogError
from tidelog.client.address import parse_all
from tidelog.subject.pattern import is_valid_literal, is_valid_subject

# Name: its aliases.
CONNECT_NAMES = {
    "servers": ("kafka.bootstrap.servers", "nats.servers", "server"),
    "credentials": ("creds",),
    "nkey": (),
    "user": (),
    "password": (),
    "token": (),
    "tls.ca": (),
    "tls.cert": (),
    "tls.key": (),
    "tls.first": (),
    "pollTimeoutMs": ("kafkaConsumer.pollTimeoutMs",),
    "fetchOffset.numRetries": (),
    "fetchOffset.retryIntervalMs": (),
}
READ_NAMES = CONNECT_NAMES | {
    "stream": ("subscribe",),
    "subscribePattern": (),
    "subjects": ("filterSubjects",),
    "startingOffsets": (),
    "endingOffsets": (),
    "startingTimestamp": (),
    "endingTimestamp": (),
    "startingOffsetsByTimestamp": (),
    "endingOffsetsByTimestamp": (),
    "startingOffsetsByTimestampStrategy": (),
    "maxOffsetsPerTrigger": ("maxMessagesPerTrigger",),
    "maxBytesPerTrigger": (),
    "minOffsetsPerTrigger": (),
    "maxTriggerDelay": (),
    "minPartitions": (),
    "maxRecordsPerPartition": (),
    "failOnDataLoss": (),
    "includeHeaders": (),
    "rowFormat": (),
    "readFrom": (),
    "coldUrl": (),
    "coldLog": (),
}
WRITE_NAMES = CONNECT_NAMES | {
    "stream": (),
    "subject": ("topic",),
    "dedupe": (),
    "exactlyOnce": (),
    "markerBucket": (),
    "writerId": (),
    "maxInFlight": (),
    "maxInFlightBytes": (),
}
# What Spark itself, or another source's habit, may put beside ours.
SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "__table_name__"})
# What Kafka's source and sink have and these do not: what to do instead.
NOT_OURS = {
    "assign": "streams have no partitions to choose from; name streams with option 'stream'",
    "groupidprefix": "there are no groups of consumers: progress is in the checkpoint; leave it out",
    "kafka.group.id": "there are no groups of consumers: progress is in the checkpoint; leave it out",
    "kafka.security.protocol": "say tls:// in option 'servers', or name the authority's file with option 'tls.ca'",
    "kafka.sasl.mechanism": "give the options 'user' and 'password', or 'token', 'nkey' or 'credentials'",
    "kafka.sasl.jaas.config": "give the options 'user' and 'password', or 'token', 'nkey' or 'credentials'",
    "kafka.ssl.truststore.location": "name the authority's PEM file with option 'tls.ca'",
    "kafka.ssl.keystore.location": "name PEM files with the options 'tls.cert' and 'tls.key'",
}
# How alike two names must be for one to be called a misspelling of the other.
ALIKE = 0.85

UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

DEFAULT_SERVERS = "nats://127.0.0.1:4222"


class OptionError(TidelogError, ValueError):
    """An option that cannot be used. The text begins with its name."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"option {name!r}: {problem}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Position:
    """Where to begin or end: `seq` if it is above 0, else `time`, else the word."""

    word: str = ""  # earliest or latest
    seq: int = 0
    time: datetime | None = None


EARLIEST = Position("earliest")
LATEST = Position("latest")


@dataclass(frozen=True, slots=True)
class Positions:
    """One for each stream that was named, and one for all others."""

    option: str
    default: Position
    named: Mapping[str, Position] = field(default_factory=dict)

    def of(self, stream: str) -> Position:
        return self.named.get(stream, self.default)


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    # A URL may have a password in it.
    servers: str = field(default=DEFAULT_SERVERS, repr=False)
    credentials: str = ""
    nkey: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_first: bool = False
    # How long a task, and the planning, try again when the server does not answer.
    task_patience_s: float = 120.0
    plan_patience_s: float = 30.0

    @property
    def servers_shown(self) -> str:
        """Without the secrets that a URL may have."""
        return ", ".join(str(address) for address in parse_all(self.servers))


class ReadFrom(StrEnum):
    """Which doors rows may come through."""

    AUTO = "auto"  # history from files, the rest as SERVER
    SERVER = "server"  # blocks of Arrow where there are some, else as DIRECT
    DIRECT = "direct"  # Direct Get
    COLD = "cold"  # files, and no server is asked


@dataclass(frozen=True, slots=True)
class ReadOptions:
    connect: ConnectOptions
    streams: tuple[str, ...]
    pattern: str
    subjects: tuple[str, ...]
    starting: Positions
    ending: Positions
    latest_if_no_time: bool
    max_rows: int
    max_size: int
    min_rows: int
    max_delay_s: float
    min_partitions: int
    max_records_per_partition: int
    fail_on_data_loss: bool
    include_headers: bool
    kafka_rows: bool
    read_from: ReadFrom
    # Where the history is; empty: where the server says.
    cold_url: str
    # Which of several of a stream's name, where no server says: `<account>/<stream>/<log id>`.
    cold_log: str


@dataclass(frozen=True, slots=True)
class WriteOptions:
    connect: ConnectOptions
    stream: str
    subject: str
    dedupe: str
    exactly_once: bool
    marker_bucket: str
    writer_id: str
    max_in_flight: int
    max_in_flight_size: int


class _Given:
    """The options as given, read by the names of a table."""

    def __init__(self, options: Mapping[str, str], names: Mapping[str, Iterable[str]]) -> None:
        self._values: dict[str, str] = {}
        lowered = {str(key).lower(): str(value) for key, value in options.items()}
        known = {alias.lower(): name for name, aliases in names.items() for alias in (name, *aliases)}
        for name, aliases in names.items():
            given = [alias for alias in (name, *aliases) if alias.lower() in lowered]
            values = {lowered[alias.lower()] for alias in given}
            if len(values) > 1:
                raise OptionError(name, f"given several times with different values, as {', '.join(given)}")
            if values:
                self._values[name] = values.pop()
        for key in sorted(lowered.keys() - known.keys() - SPARKS_OWN):
            if key in NOT_OURS or key.startswith("kafka."):
                raise OptionError(
                    key, NOT_OURS.get(key, "is for Kafka's client, and does nothing here; leave it out")
                )
            if close := difflib.get_close_matches(key, known, 1, ALIKE):
                raise OptionError(key, f"is unknown; did you mean {known[close[0]]!r}?")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default).strip()

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise OptionError(name, f"must be true or false, not {text!r}")
        return text == "true"

    def count(self, name: str, default: int = 0) -> int:
        text = self.text(name)
        if not text:
            return default
        if not text.isdigit() or int(text) < 1:
            raise OptionError(name, f"must be a whole number above 0, not {text!r}")
        return int(text)

    def seconds(self, name: str, default: float) -> float:
        """As Spark writes durations: `90s`, `15m`, `1h`."""
        text = self.text(name)
        found = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h|d)", text.lower())
        if text and not found:
            raise OptionError(name, f"must be a time such as 90s or 15m, not {text!r}")
        return int(found[1]) * UNITS_S[found[2]] if found else default

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """The first is the default."""
        text = self.text(name, choices[0]).lower()
        if text not in choices:
            raise OptionError(name, f"must be one of {', '.join(choices)}, not {text!r}")
        return text

    def words(self, name: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in self.text(name).split(",") if word.strip())


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    given = _Given(options, READ_NAMES)
    streams, pattern = given.words("stream"), given.text("subscribePattern")
    if bool(streams) == bool(pattern):
        raise OptionError(
            "stream", "give the name of a stream (or several with commas), or else subscribePattern"
        )
    for name in streams:
        _check_stream("stream", name)
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError("subscribePattern", f"is no regular expression: {error}") from None
    subjects = given.words("subjects")
    for subject in subjects:
        if not is_valid_subject(subject.encode()):
            raise OptionError("subjects", f"{subject!r} is no subject or wildcard")
    strategy = given.choice("startingOffsetsByTimestampStrategy", ("error", "latest"))
    return ReadOptions(
        connect=_connect_options(given),
        streams=streams,
        pattern=pattern,
        subjects=subjects,
        starting=_positions(given, "starting", LATEST if streaming else EARLIEST),
        ending=_positions(given, "ending", LATEST),
        latest_if_no_time=strategy == "latest",
        max_rows=given.count("maxOffsetsPerTrigger"),
        max_size=given.count("maxBytesPerTrigger"),
        min_rows=given.count("minOffsetsPerTrigger"),
        max_delay_s=given.seconds("maxTriggerDelay", 15 * 60),
        min_partitions=given.count("minPartitions"),
        max_records_per_partition=given.count("maxRecordsPerPartition"),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        include_headers=given.flag("includeHeaders", default=False),
        kafka_rows=given.choice("rowFormat", ("nats", "kafka")) == "kafka",
        read_from=_read_from(given),
        cold_url=_cold_url(given),
        cold_log=given.text("coldLog"),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    given = _Given(options, WRITE_NAMES)
    stream, bucket = given.text("stream"), given.text("markerBucket", "tidelog_spark")
    if stream:
        _check_stream("stream", stream)
    if not re.fullmatch(r"[-_a-zA-Z0-9]+", bucket):
        raise OptionError("markerBucket", f"{bucket!r} may have letters, digits, - and _ only")
    subject = given.text("subject")
    if subject and not is_valid_literal(subject.encode()):
        raise OptionError("subject", f"{subject!r} cannot be published to")
    return WriteOptions(
        connect=_connect_options(given),
        stream=stream,
        subject=subject,
        dedupe=given.choice("dedupe", ("batch", "column", "none")),
        exactly_once=given.flag("exactlyOnce", default=True),
        marker_bucket=bucket,
        writer_id=given.text("writerId"),
        max_in_flight=given.count("maxInFlight", 4096),
        max_in_flight_size=given.count("maxInFlightBytes", 32 * 1024 * 1024),
    )


def connect_options(options: Mapping[str, str]) -> ConnectOptions:
    """For what only connects."""
    return _connect_options(_Given(options, CONNECT_NAMES))


def include_headers(options: Mapping[str, str]) -> bool:
    return _Given(options, READ_NAMES).flag("includeHeaders", default=False)


def kafka_rows(options: Mapping[str, str]) -> bool:
    return _Given(options, READ_NAMES).choice("rowFormat", ("nats", "kafka")) == "kafka"


def _connect_options(given: _Given) -> ConnectOptions:
    servers = given.text("servers", DEFAULT_SERVERS)
    try:
        parse_all(servers)
    except ValueError as error:
        raise OptionError("servers", f"{error}") from None
    if given.text("password") and not given.text("user"):
        raise OptionError("password", "has no user beside it; give option 'user', too")
    retries = given.count("fetchOffset.numRetries", 60)
    interval_s = given.count("fetchOffset.retryIntervalMs", 500) / 1000
    return ConnectOptions(
        servers=servers,
        credentials=given.text("credentials"),
        nkey=given.text("nkey"),
        user=given.text("user"),
        password=given.text("password"),
        token=given.text("token"),
        tls_ca=given.text("tls.ca"),
        tls_cert=given.text("tls.cert"),
        tls_key=given.text("tls.key"),
        tls_first=given.flag("tls.first", default=False),
        task_patience_s=given.count("pollTimeoutMs", 120_000) / 1000,
        plan_patience_s=retries * interval_s,
    )


def _read_from(given: _Given) -> ReadFrom:
    chosen = ReadFrom(given.choice("readFrom", tuple(ReadFrom)))
    if chosen is ReadFrom.COLD and not given.text("coldUrl"):
        raise OptionError("coldUrl", "must say where the history is when option 'readFrom' is cold")
    if "coldLog" in given and chosen is not ReadFrom.COLD:
        raise OptionError("coldLog", "is for 'readFrom' at cold: else the server says which log a stream has")
    return chosen


def _cold_url(given: _Given) -> str:
    """A folder is a URL, too."""
    text = given.text("coldUrl")
    if text and given.choice("readFrom", tuple(ReadFrom)) in (ReadFrom.SERVER, ReadFrom.DIRECT):
        raise OptionError("coldUrl", "has no meaning when option 'readFrom' is server or direct")
    return text if "://" in text or not text else Path(text).absolute().as_uri()


def _check_stream(option: str, name: str) -> None:
    if not re.fullmatch(r"[^\s.*>/\\]+", name):
        raise OptionError(option, f"{name!r} cannot be the name of a stream")


def _positions(given: _Given, which: str, default: Position) -> Positions:
    """Kafka's precedence: one time for all, then times by stream, then offsets."""
    option = f"{which}Timestamp"
    if option in given:
        return Positions(option, Position(time=_time(option, given.text(option))))
    option = f"{which}OffsetsByTimestamp"
    if option in given:
        named = _by_stream(option, given.text(option))
        return Positions(option, default, {key: Position(time=_time(option, v)) for key, v in named.items()})
    option = f"{which}Offsets"
    text = given.text(option)
    if text.startswith("{"):
        named = _by_stream(option, text)
        return Positions(option, default, {key: _position(option, value) for key, value in named.items()})
    return Positions(option, _position(option, text) if text else default)


def _by_stream(option: str, text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OptionError(option, f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise OptionError(option, 'must be an object like {"ORDERS": 1042}')
    return {name: str(value) for name, value in found.items()}


def _position(option: str, text: str) -> Position:
    """`earliest`, `latest`, a sequence, or Kafka's -2 and -1 for the two words."""
    words = {"earliest": EARLIEST, "latest": LATEST, "-2": EARLIEST, "-1": LATEST}
    if text.lower() in words:
        found = words[text.lower()]
        if option.startswith("ending") and found is EARLIEST:
            raise OptionError(option, "cannot be earliest: there would be nothing to read")
        return found
    if not text.isdigit() or int(text) < 1:
        raise OptionError(
            option, f"must be earliest, latest, a sequence above 0, or JSON by stream; not {text!r}"
        )
    return Position(seq=int(text))


def _time(option: str, text: str) -> datetime:
    """Milliseconds since 1970, as in Kafka, or ISO 8601; without a zone it is UTC."""
    try:
        if text.lstrip("-").isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise OptionError(
            option, f"must be milliseconds since 1970 or a time like 2026-11-19T08:00:00Z; not {text!r}"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
