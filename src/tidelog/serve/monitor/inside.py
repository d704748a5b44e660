"""/stacksz, /ipqueuesz, /raftz, /debug/vars: for whoever looks inside the process."""

import gc
import sys
import threading
import traceback

from tidelog.serve.monitor.document import Document
from tidelog.serve.monitor.process import resident_size
from tidelog.serve.monitor.query import Query, read_bool


class Memory(Document, frozen=True, kw_only=True):
    Alloc: int
    Sys: int
    HeapObjects: int
    NumGC: int


class Expvar(Document, frozen=True, kw_only=True):
    """Go's expvar page. Of the command line only the program's name: the rest may hold passwords."""

    cmdline: list[str]
    memstats: Memory


def stacksz() -> bytes:
    """What every thread is doing, as text."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    return "\n".join(parts).encode()


def ipqueuesz(query: Query) -> dict[str, None]:
    """No queues between threads."""
    read_bool(query, "all")
    return {}


def expvar() -> Expvar:
    collections = sum(generation["collections"] for generation in gc.get_stats())
    size = resident_size()
    memory = Memory(Alloc=size, Sys=size, HeapObjects=gc.get_count()[0], NumGC=collections)
    return Expvar(cmdline=sys.argv[:1], memstats=memory)
