"""The loops that put messages into logs and get them out again, and look at every one of them.

What it promises: messages go in through `Log.append_raw` and come out of readers' batches, as in a server: no Python object
per message. Each message carries its own number, and its subject follows from it, so that whoever reads can tell whether
it is the right one; a wrong one ends the loop with `WrongDelivery`.

What it does not do: time anything but itself, open logs, or judge figures.
"""

from array import array

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from tidelog.bench.fault import WrongDelivery
from tidelog.bench.workload import FILLER
from tidelog.log.log cimport Log
from tidelog.log.read cimport Batch, Reader
from tidelog.log.record cimport Head, body_of, body_size, subject_of

cdef enum:
    NUMBER_SIZE = 8

# Prime, and so to any number of subjects that is not a multiple of it: neighbours are far apart, and all take turns.
cdef uint64_t SCATTER = 2654435761


cdef int64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef class Mix:
    """Which subject and payload the message of each sequence has.

    Every `every`-th message, the first one included, has the next of the `rare` subjects, all others one of the `common`.
    """

    def __init__(self, common, rare=(), uint64_t every=0, Py_ssize_t size=128) -> None:
        cdef Py_ssize_t i
        self.common = tuple(common)
        self.rare = tuple(rare)
        if not self.common or bool(self.rare) != bool(every) or size < NUMBER_SIZE:
            raise ValueError("common subjects, rare ones with their distance, and room for a number are needed")
        self.every = every
        self.size = size
        everything = self.common + self.rare
        self.texts = <const char**>malloc(len(everything) * sizeof(char*))
        self.sizes = <Py_ssize_t*>malloc(len(everything) * sizeof(Py_ssize_t))
        self.payload = <char*>malloc(size)
        if self.texts == NULL or self.sizes == NULL or self.payload == NULL:
            raise MemoryError
        for i, subject in enumerate(everything):
            self.texts[i] = PyBytes_AS_STRING(subject)
            self.sizes[i] = PyBytes_GET_SIZE(subject)
        filler = (FILLER * (size // len(FILLER) + 1))[:size]
        memcpy(self.payload, PyBytes_AS_STRING(filler), size)

    def __dealloc__(self):
        free(self.texts)
        free(self.sizes)
        free(self.payload)

    cdef Py_ssize_t subject_at(self, uint64_t number) noexcept nogil:
        """The place of the subject of a message, counted from 0."""
        cdef uint64_t common = PyTuple_GET_SIZE(self.common)
        if self.every and number % self.every == 0:
            return <Py_ssize_t>(common + number // self.every % <uint64_t>PyTuple_GET_SIZE(self.rare))
        return <Py_ssize_t>(number * SCATTER % common) if common > 1 else 0

    def subject(self, uint64_t seq) -> bytes:
        cdef Py_ssize_t place = self.subject_at(seq - 1)
        return self.texts[place][:self.sizes[place]]

    def payload_of(self, uint64_t seq) -> bytes:
        return seq.to_bytes(NUMBER_SIZE, "little") + self.payload[NUMBER_SIZE:self.size]


cdef extern from "Python.h":
    Py_ssize_t PyTuple_GET_SIZE(tuple t) nogil


cdef int check(Mix mix, Head* head) except -1:
    cdef Py_ssize_t place = mix.subject_at(head.seq - 1)
    cdef const char* body = body_of(head) + head.header_size
    if (
        head.subject_size != mix.sizes[place] or memcmp(subject_of(head), mix.texts[place], mix.sizes[place]) != 0
        or body_size(head) - head.header_size != mix.size or memcmp(body, &head.seq, NUMBER_SIZE) != 0
        or memcmp(body + NUMBER_SIZE, mix.payload + NUMBER_SIZE, mix.size - NUMBER_SIZE) != 0
    ):
        raise WrongDelivery(f"message {head.seq} is not what was appended")
    return 0


def append(list logs not None, Mix mix not None, uint64_t count, Py_ssize_t batch, uint64_t in_flight=0, worker=None) -> int:
    """Append `count` messages to each log, `batch` at a time with a commit behind them, until all are acknowledged.

    `in_flight`: so many may wait for their acknowledgement, in all logs together; 0: any number. Returns nanoseconds.
    """
    cdef int64_t start_ns, ts_ns
    cdef uint64_t most = max(<uint64_t>batch, in_flight // <uint64_t>len(logs)) if in_flight else <uint64_t>-1
    cdef uint64_t seq, base, upto
    cdef Py_ssize_t place
    cdef Log log
    cdef bint busy = True, moved
    acknowledged = dict.fromkeys(range(len(logs)), 0)
    bases = [log.store.last_seq for log in logs]

    def acknowledge(index: int, upto: int):
        def callback(error) -> None:
            if error is not None or acknowledged[index] >= upto:
                raise WrongDelivery(f"{upto} was acknowledged after {acknowledged[index]}: {error}")
            acknowledged[index] = upto
        return callback

    start_ns = now_ns()
    while busy:
        busy = moved = False
        for index, log in enumerate(logs):
            base = bases[index]
            seq = log.store.last_seq
            if seq - base >= count:
                busy = busy or <uint64_t>acknowledged[index] < seq
                continue
            busy = True
            upto = min(seq + batch, base + count)
            if in_flight and upto - max(base, <uint64_t>acknowledged[index]) > most:
                continue
            moved = True
            ts_ns = log.clock.now_ns()
            while seq < upto:
                place = mix.subject_at(seq)
                seq += 1
                memcpy(mix.payload, &seq, NUMBER_SIZE)
                if log.append_raw(
                    mix.texts[place], mix.sizes[place], NULL, 0, mix.payload, mix.size, ts_ns, 0
                ) != seq:
                    raise WrongDelivery(f"another sequence than {seq}")
            log.commit()
            log.wait(seq, acknowledge(index, seq))
        if worker is not None:
            worker.deliver(0.0 if moved else None)
    return now_ns() - start_ns


def scan(Log log not None, Mix mix not None, filter=None, *, bint backward=False, Py_ssize_t most=256):
    """Read all that a filter means through a fresh reader. Returns nanoseconds and the sequences, as they came."""
    cdef Batch batch
    cdef Reader reader
    cdef Py_ssize_t i
    cdef int64_t start_ns = now_ns(), ns
    cdef uint64_t* place
    found = []
    reader = log.reader(filter, backward=backward)
    while True:
        batch = reader.read(most)
        if batch.facts:
            raise WrongDelivery(f"the reader tells of {batch.facts}")
        if batch.count == 0:
            break
        for i in range(batch.count):
            check(mix, batch.heads[i])
        found.append(batch)
    ns = now_ns() - start_ns
    return ns, array("Q", [seq for batch in found for seq in batch.sequences()])


def walk(Log log not None, Mix mix not None, *, bint backward=False):
    """Read every message there is, in either direction. Returns nanoseconds and how many there were."""
    return drain(log.reader(backward=backward), mix)


def drain(Reader reader not None, Mix mix not None):
    """Read what there is, without a gap. Returns nanoseconds and how many there were."""
    cdef Batch batch
    cdef Py_ssize_t i
    cdef int64_t start_ns = now_ns()
    cdef uint64_t count = 0, expected = reader.next_seq
    while True:
        batch = reader.read(4096)
        if batch.facts:
            raise WrongDelivery(f"the reader tells of {batch.facts}")
        if batch.count == 0:
            break
        for i in range(batch.count):
            if batch.heads[i].seq != expected:
                raise WrongDelivery(f"message {batch.heads[i].seq} came instead of {expected}")
            check(mix, batch.heads[i])
            expected = expected - 1 if reader.backward else expected + 1
        count += batch.count
    return now_ns() - start_ns, count


def forget_windows(Log log not None) -> None:
    """As if nobody had asked for any filter yet."""
    log.selections.clear()
    log.asked = None


def newest(Batch batch not None, bytes subject not None) -> int:
    """The last message of a batch with this subject; 0: there is none."""
    cdef Py_ssize_t i, size = PyBytes_GET_SIZE(subject)
    cdef const char* text = PyBytes_AS_STRING(subject)
    for i in range(batch.count - 1, -1, -1):
        if batch.heads[i].subject_size == size and memcmp(subject_of(batch.heads[i]), text, size) == 0:
            return batch.heads[i].seq
    return 0
