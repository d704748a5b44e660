"""One run of one case against a server that is already there.

`measure` dials, prepares every byte, releases all workers at a barrier, and returns only if all the work was
done: every message received and verified, every reply checked, every PING behind the last message answered.
`calibrate` finds how much work takes about the wanted time.
"""

import contextlib
import functools
import resource
import socket
import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from tidelog.bench import exchange, load, secure
from tidelog.bench.case import PERCENTILES, RATE, Case, Kind
from tidelog.bench.check import Check
from tidelog.bench.fault import Stopped
from tidelog.bench.link import Link, Target, dial
from tidelog.bench.workload import SID, Delivered, delivered, lap, matches, published
from tidelog.bench.workload import exchange as exchange_frames

RUN_TIMEOUT_S = 60.0
# Calibration grows the work until a run takes this long; shorter ones are mostly ramp-up.
CALIBRATION_S = 0.15
CALIBRATION_GROWTH = 5

REQUEST_SUBJECT = "bench.service"

Job = Callable[[load.Run], int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did and how long it took."""

    count: int
    elapsed_ns: int
    generator_cpu_s: float
    # Request latencies in ns, sorted.
    samples: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def rate(self) -> float:
        return self.count * 1e9 / self.elapsed_ns

    def values(self) -> dict[str, float]:
        """By unit: the rate, and for requests the percentiles in microseconds."""
        found = {RATE: self.rate}
        for name, share in PERCENTILES.items() if self.samples else ():
            found[name] = self.samples[min(len(self.samples) - 1, int(len(self.samples) * share))] / 1000
        return found


class Crew:
    """Workers that start together. The first failure stops the others and is what `work` raises."""

    def __init__(self, *, timeout_s: float = RUN_TIMEOUT_S) -> None:
        self.run = load.Run(timeout_s=timeout_s)
        self.failure: BaseException | None = None
        self.start_ns = 0
        self.start_cpu_s = 0.0

    def start(self) -> None:
        self.start_cpu_s = cpu_s()
        self.start_ns = time.monotonic_ns()

    def note(self, worker: "Future[int]") -> None:
        """A worker has ended: if it failed, so must the others, and soon."""
        error = worker.exception()
        if error is not None:
            if self.failure is None and not isinstance(error, Stopped):
                self.failure = error
            self.run.stop()

    def work(self, jobs: list[Job]) -> list[int]:
        """Run the jobs in a thread each; the times at which they ended."""
        barrier = threading.Barrier(len(jobs), action=self.start)

        def worker(job: Job) -> int:
            barrier.wait(RUN_TIMEOUT_S)
            return job(self.run)

        with ThreadPoolExecutor(len(jobs)) as pool:
            workers = [pool.submit(worker, job) for job in jobs]
            for each in workers:
                each.add_done_callback(self.note)
            try:
                wait(workers)
            except BaseException:
                self.run.stop()
                raise
        if self.failure is not None:
            raise self.failure
        return [each.result() for each in workers]


def cpu_s() -> float:
    """CPU seconds that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(case: Case, target: Target, amount: int) -> Outcome:
    """One run. `amount` is laps per publisher, or requests per requester."""
    with contextlib.ExitStack() as stack:

        def connect(*subscriptions: tuple[str, str]) -> Link:
            return stack.enter_context(contextlib.closing(dial(target, subscriptions)))

        if case.kind is Kind.REQUEST:
            return measure_requests(case, connect, amount)
        return measure_messages(case, connect, amount)


def measure_messages(case: Case, connect: Callable[..., Link], laps: int) -> Outcome:
    """PUBLISH and DELIVER."""
    messages = [
        lap(case.subjects, size=case.size, count=case.lap_count(), publisher=number, headers=case.headers)
        for number in range(case.publishers)
    ]
    receivers: list[tuple[Link, Check]] = []
    count = case.publishers * case.lap_count() * laps
    if case.kind is Kind.DELIVER:
        streams = [delivered(one) for one in messages]
        receivers = [
            (connect((case.listen, SID)), expectation(streams, laps)) for _ in range(case.subscribers)
        ]
        count *= case.subscribers
    if case.patterns:
        subscriptions = {pattern: str(sid) for sid, pattern in enumerate(case.patterns, 1)}
        bystander = [delivered(one, sole_match(subscriptions, case.subjects)) for one in messages]
        receivers.append((connect(*subscriptions.items()), expectation(bystander, laps)))
        count += sum(len(stream.starts) for stream in bystander) * laps
    jobs = receiving_jobs(receivers)
    jobs += [publishing_job(connect(), published(one), laps) for one in messages]
    crew = Crew()
    ends = crew.work(jobs)
    # Publishers also end with their PONG, but what counts for a delivery is its arrival.
    end_ns = max(ends[: len(jobs) - len(messages)] or ends)
    return Outcome(count, end_ns - crew.start_ns, cpu_s() - crew.start_cpu_s)


def expectation(streams: list[Delivered], laps: int) -> Check:
    """What one subscriber must get from all publishers."""
    marks = {stream.mark_at for stream in streams}
    mark_at = marks.pop()
    if len(streams) > 1 and (marks or mark_at < 0):
        raise ValueError("several publishers need frames that are alike up to the publisher's letter")
    return Check([(stream.data, stream.starts) for stream in streams], laps=laps, mark_at=mark_at)


def sole_match(subscriptions: dict[str, str], subjects: tuple[str, ...]) -> Callable[[str], str | None]:
    """Which subscription each subject matches; more than one is refused, for their order would be free."""
    found: dict[str, str] = {}
    for subject in subjects:
        sids = [sid for pattern, sid in subscriptions.items() if matches(pattern, subject)]
        if len(sids) > 1:
            raise ValueError(f"{subject} matches {len(sids)} patterns of one connection")
        if sids:
            found[subject] = sids[0]
    return found.get


def receiving_jobs(receivers: list[tuple[Link, Check]]) -> list[Job]:
    """One thread for all plain sockets, as more would only take turns on a small machine. TLS: one each."""
    fds = [link.fileno() for link, _ in receivers if isinstance(link, socket.socket)]
    checks = [check for link, check in receivers if isinstance(link, socket.socket)]
    jobs = [receiving_job_tls(link, check) for link, check in receivers if isinstance(link, secure.Channel)]
    if fds:
        jobs.append(lambda run: load.receive(run, fds, checks))
    return jobs


def receiving_job_tls(channel: secure.Channel, check: Check) -> Job:
    return lambda run: secure.receive(run, channel, check)


def publishing_job(link: Link, data: bytes, laps: int) -> Job:
    if isinstance(link, secure.Channel):
        return lambda run: secure.publish(run, link, data, laps)
    return lambda run: load.publish(run, link.fileno(), data, laps)


def measure_requests(case: Case, connect: Callable[..., Link], each: int) -> Outcome:
    """REQUEST: requesters share a thread, each responder has one."""
    frames = [
        exchange_frames(REQUEST_SUBJECT, size=case.size, requester=number)
        for number in range(case.requesters)
    ]
    first = frames[0]
    count = each * case.requesters
    samples = array("q", bytes(8 * count))
    pairs = [(one.request, one.reply) for one in frames]
    # Several share the work as it comes, so only the requesters know when it is done.
    service = REQUEST_SUBJECT if case.responders == 1 else f"{REQUEST_SUBJECT} workers"
    responders = [plain(connect((service, SID))) for _ in range(case.responders)]
    inboxes = [one.reply.split(b" ")[1].decode().rsplit(".", 1)[0] + ".*" for one in frames]
    requesters = [plain(connect((inbox, SID))) for inbox in inboxes]
    crew = Crew()

    def ask(run: load.Run) -> int:
        end_ns = exchange.request(run, requesters, pairs, first.token_places, each, samples)
        if case.responders > 1:
            run.stop()
        return end_ns

    def answer(run: load.Run, fd: int) -> int:
        try:
            return exchange.respond(run, fd, first.head, first.inbox_size, case.size, count)
        except Stopped:
            return time.monotonic_ns()

    ends = crew.work([ask, *(functools.partial(answer, fd=fd) for fd in responders)])
    used_s = cpu_s() - crew.start_cpu_s
    return Outcome(count, ends[0] - crew.start_ns, used_s, array("q", sorted(samples)))


def plain(link: Link) -> int:
    """The descriptor of a link without TLS, which is all that the loops of `bench.exchange` can do."""
    assert isinstance(link, socket.socket)
    return link.fileno()


def calibrate(case: Case, target: Target, seconds: float) -> int:
    """How many laps, or requests per requester, take about so long."""
    amount = 200 if case.kind is Kind.REQUEST else max(1, 20_000 // case.lap_count())
    while True:
        elapsed_s = measure(case, target, amount).elapsed_ns / 1e9
        if elapsed_s >= min(CALIBRATION_S, seconds):
            return max(1, round(amount * seconds / elapsed_s))
        amount *= CALIBRATION_GROWTH
