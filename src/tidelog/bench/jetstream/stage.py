"""One case on one server: the stream is made and filled, and rounds run on it.

`ready` prepares a round and is not measured; `measure` runs it, and returns only if all of it was done: every
acknowledgement with the next sequence, every message the right one, and the server's own figures in agreement.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from tidelog.base.errors import ApiError
from tidelog.bench.fault import ServerFailed, require
from tidelog.bench.jetstream import content
from tidelog.bench.jetstream.case import ALWAYS, WRITES, Act, StreamCase
from tidelog.bench.jetstream.drain import CONSUMED, FETCHED, GOT, PUSHED, Expected, Source, drain
from tidelog.bench.jetstream.window import ACK, VALUE, Units, ask
from tidelog.bench.link import Link, Target, dial
from tidelog.bench.load import Run
from tidelog.bench.run import CALIBRATION_GROWTH, CALIBRATION_S, Crew, Outcome, cpu_s, plain
from tidelog.client import connect
from tidelog.client.jetstream import JetStream
from tidelog.client.jetstream.bucket import bucket_config

DRAIN_INBOX = b"_INBOX.BenchJetStreamDrain000."
# Subscribed to as it is: the peer does not notice interest by a wildcard.
PUSH_INBOX = "_INBOX.BenchJetStreamPushed00"
SECOND_NS = 1_000_000_000
FILL_COUNT = 100_000
FILL_WINDOW = 2_000
# Where calibration begins: messages, batches, or passes.
FIRST_AMOUNT = {Act.BATCH: 4, Act.ORDERED: 1, Act.PUSHED: 1, Act.FETCH: 1, Act.FILTERED: 4, Act.GET_BATCH: 1}
KINDS = {Act.ORDERED: CONSUMED, Act.PUSHED: PUSHED, Act.FETCH: FETCHED, Act.FILTERED: CONSUMED}
CALIBRATION_TIMEOUT_S = 30.0
# The peer removes a directory that holds no stream any more, even when one is just being made in it.
STORE_FAILED = 10049
CREATE_ATTEMPTS = 5
CREATE_PAUSE_S = 0.1
BUCKETS = frozenset({Act.KV_PUT, Act.KV_GET})
# No two streams of a process have one name: the peer deletes in the background, and trips over what follows quickly.
NAMES = (f"B{number:05d}" for number in itertools.count())


class Stage:
    """A context manager. `scale` is for what is stored, so that tests are quick."""

    def __init__(self, case: StreamCase, target: Target, *, scale: float = 1.0) -> None:
        self.case = case
        self._target = target
        self._stored = max(2_000, round(case.stored * min(1.0, scale))) if case.stored else 0
        if case.act is Act.FILTERED:
            self._stored = max(2, round(self._stored / 1_000)) * 1_000
        self._consumers = (f"c{number:07d}" for number in itertools.count())
        self._stack = contextlib.ExitStack()
        self._subjects: list[bytes] = [] if case.act in BUCKETS else content.subjects_of(case)
        self._units: Units | None = None
        self._expected: Expected | None = None
        self._stream = ""

    def __enter__(self) -> Self:
        url = f"nats://{self._target.host}:{self._target.port}"
        user, password = self._target.user, self._target.password
        connection = self._stack.enter_context(connect(url, timeout_s=60.0, user=user, password=password))
        self._js = JetStream(connection, timeout_s=60.0)
        if self.case.stored:
            self._make_stream()
            self._fill()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(Exception):
            self._js.delete_stream(self._stream)
        self._stack.close()

    # -- rounds ---

    def calibrate(self, seconds: float) -> int:
        """How much takes about so long."""
        amount = FIRST_AMOUNT.get(self.case.act, 200 * min(self.case.window, 20))
        while True:
            self.ready()
            elapsed_s = self.measure(amount).elapsed_ns / 1e9
            if elapsed_s >= min(CALIBRATION_S, seconds):
                return max(1, round(amount * seconds / elapsed_s))
            amount *= CALIBRATION_GROWTH

    def ready(self) -> None:
        if self.case.act in WRITES:
            if self._stream:
                self._js.delete_stream(self._stream)
            self._make_stream()
            self._write_units()

    def measure(self, amount: int) -> Outcome:
        """`amount` messages, batches, consumers, or passes through what is stored."""
        act = self.case.act
        if act in WRITES:
            return self._measure_writes(amount)
        if act in (Act.KV_GET, Act.GET):
            return self._measure_gets(amount)
        if act is Act.GET_BATCH:
            return self._measure_batches(amount)
        return self._measure_consumers(amount)

    def _run(self, job: Callable[[Run], int], count: int) -> Outcome:
        crew = Crew()
        ends = crew.work([job])
        return Outcome(count, ends[0] - crew.start_ns, cpu_s() - crew.start_cpu_s)

    def _dial(self, inbox: bytes) -> contextlib.closing[Link]:
        subscriptions = [(inbox.decode() + ">", "1")]
        if self.case.act is Act.PUSHED:
            subscriptions.append((PUSH_INBOX, "2"))
        return contextlib.closing(dial(self._target, subscriptions))

    # -- the stream ---

    def _make_stream(self) -> None:
        case = self.case
        self._stream = next(NAMES)
        config: dict[str, Any] = {
            "name": self._stream,
            "subjects": ["data.>"],
            "allow_direct": True,
            "allow_atomic": case.act is Act.BATCH,
        }
        if case.act in BUCKETS:
            bucket, self._stream = self._stream, f"KV_{self._stream}"
            config = bucket_config(bucket)
            self._subjects, self._units = content.keys_of(case, bucket), None
        config["storage"] = "file" if case.file else "memory"
        # The server's own setting holds for ALWAYS, on both sides.
        if case.sync != ALWAYS:
            config["metadata"] = {"tidelog.sync": case.sync}
        for _ in range(CREATE_ATTEMPTS):
            try:
                self._js.create_stream(config)
            except ApiError as error:
                if error.err_code != STORE_FAILED:
                    raise
                time.sleep(CREATE_PAUSE_S)
            else:
                return
        raise ServerFailed(f"stream {self._stream} could not be made {CREATE_ATTEMPTS} times")

    def _fill(self) -> None:
        """What is read later, stored without a look at the clock."""
        bodies = content.payloads_of(self.case, FILL_COUNT)
        with self._dial(content.INBOX) as link:
            for start in range(0, self._stored, FILL_COUNT):
                count = min(FILL_COUNT, self._stored - start)
                subjects = [
                    self._subjects[number % len(self._subjects)] for number in range(start, start + count)
                ]
                units = content.published(subjects, bodies[:count])
                ask(
                    Run(timeout_s=CALIBRATION_TIMEOUT_S),
                    plain(link),
                    units,
                    content.INBOX,
                    count,
                    FILL_WINDOW,
                    ACK,
                    self._stream.encode(),
                    base_seq=start,
                )
        self._require_stored(self._stored)

    def _require_stored(self, count: int) -> None:
        state = self._js.stream_info(self._stream).state
        require(
            state.last_seq == count, f"{count} messages were acknowledged, the last one is {state.last_seq}"
        )
        kept = min(count, self.case.subjects) if self.case.act in BUCKETS else count
        require(
            state.messages == kept, f"{kept} messages should be there, the server counts {state.messages}"
        )

    # -- what rounds do ---

    def _measure_writes(self, amount: int) -> Outcome:
        case = self.case
        each = case.batch if case.act is Act.BATCH else 1
        units = self._write_units()
        stream = self._stream.encode()
        with self._dial(content.INBOX) as link:
            fd = plain(link)
            outcome = self._run(
                lambda run: ask(run, fd, units, content.INBOX, amount, case.window, ACK, stream, each),
                amount * each,
            )
        self._require_stored(amount * each)
        return outcome

    def _write_units(self) -> Units:
        if self._units is None:
            case = self.case
            bodies = content.payloads_of(case, max(content.LAP_COUNT, case.subjects))
            if case.act is Act.BATCH:
                self._units = content.batched(self._subjects, bodies, case.batch)
            else:
                self._units = content.published(self._subjects, bodies)
        return self._units

    def _measure_gets(self, amount: int) -> Outcome:
        case = self.case
        if self._units is None:
            bodies = content.payloads_of(case, min(self._stored, FILL_COUNT))
            place = b"$JS.API.DIRECT.GET.%b" % self._stream.encode()
            if case.act is Act.KV_GET:
                bodies = bodies[: len(self._subjects)]
                targets = [(b"%b.%b" % (place, subject), b"") for subject in self._subjects[: len(bodies)]]
            else:
                targets = [(place, b'{"seq":%d}' % seq) for seq in range(1, len(bodies) + 1)]
            self._units = content.asked(targets, bodies)
        units = self._units
        with self._dial(content.INBOX) as link:
            fd = plain(link)
            return self._run(
                lambda run: ask(run, fd, units, content.INBOX, amount, case.window, VALUE), amount
            )

    def _measure_batches(self, amount: int) -> Outcome:
        place = f"$JS.API.DIRECT.GET.{self._stream}"
        body = b'{"seq":%b,"batch":%d}' % (b" " * 11 + b"1", self.case.batch)
        asking = b"PUB %b %bgot %d\r\n%b\r\n" % (place.encode(), DRAIN_INBOX, len(body), body)
        return self._drain([Source(request=asking, count=self._stored) for _ in range(amount)], GOT)

    def _measure_consumers(self, amount: int) -> Outcome:
        case = self.case
        if case.act is Act.FILTERED:
            return self._drain(list(self._filtered(amount)), CONSUMED)
        names = [next(self._consumers) for _ in range(amount)]
        sources = [self._whole(name) for name in names]
        outcome = self._drain(sources, KINDS[case.act])
        for name in names:
            if case.act is Act.FETCH:
                info = self._js.consumer_info(self._stream, name)
                require(info.num_ack_pending == 0, f"{info.num_ack_pending} messages are not acknowledged")
                require(
                    info.ack_floor.stream_seq == self._stored, f"the floor is {info.ack_floor.stream_seq}"
                )
            self._js.delete_consumer(self._stream, name)
        return outcome

    def _drain(self, sources: list[Source], kind: int) -> Outcome:
        if self._expected is None:
            count = max(len(self._subjects), content.PAYLOADS)
            subjects = [self._subjects[number % len(self._subjects)] for number in range(count)]
            self._expected = Expected(subjects, content.payloads_of(self.case, count))
        expected, batch = self._expected, self.case.batch
        count = self._stored * len(sources)
        if self.case.act is Act.FILTERED:
            count = self._stored // 1_000 * len(sources)
        with self._dial(DRAIN_INBOX) as link:
            fd = plain(link)
            return self._run(lambda run: drain(run, fd, expected, sources, kind, batch, DRAIN_INBOX), count)

    def _source(self, name: str, config: dict[str, Any], **settings: Any) -> Source:
        """A pass: a consumer is made, and its messages are asked for unless they are pushed."""
        place = f"$JS.API.CONSUMER.CREATE.{self._stream}.{name}"
        if "filter_subject" in config:
            place += f".{config['filter_subject']}"
        document = {"stream_name": self._stream, "config": {"name": name, **config}, "action": "create"}
        asking = b""
        if "deliver_subject" not in config:
            wanted = {"batch": self.case.batch, "expires": 30 * SECOND_NS, "idle_heartbeat": 5 * SECOND_NS}
            pull = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{name}"
            asking = content.request(pull, DRAIN_INBOX + b"pull", wanted)
        return Source(
            opening=content.request(place, DRAIN_INBOX + b"opened", document),
            request=asking,
            ack_head=f"$JS.ACK.{self._stream}.{name}.1.".encode(),
            **settings,
        )

    def _whole(self, name: str) -> Source:
        """Everything that is stored."""
        if self.case.act is Act.FETCH:
            config: dict[str, Any] = {"durable_name": name, "ack_policy": "explicit"}
        else:
            config = ordered_config()
        if self.case.act is Act.PUSHED:
            config |= {
                "deliver_subject": PUSH_INBOX,
                "flow_control": True,
                "idle_heartbeat": 5 * SECOND_NS,
            }
        return self._source(name, config, count=self._stored)

    def _filtered(self, amount: int) -> Iterator[Source]:
        for number in range(amount):
            last = number % 1_000
            config = ordered_config() | {"filter_subject": f"data.*.{last}"}
            yield self._source(
                next(self._consumers), config, first_seq=last + 1, step=1_000, count=self._stored // 1_000
            )


def ordered_config() -> dict[str, Any]:
    return {
        "ack_policy": "none",
        "deliver_policy": "all",
        "max_deliver": 1,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": 10 * SECOND_NS,
    }
