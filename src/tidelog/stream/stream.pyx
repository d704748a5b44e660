# cython: wraparound=True
"""A stream: a subscriber that puts what it is given into a log, and answers when that is committed.

    stream = Stream(account, config, log, created_ns)
    stream.start()                            listens to its subjects
    stream.commit()                           by the engine, once per tick in which it took something
    stream.get(seq), stream.last_for(subject), stream.next_for(filter, seq)
    stream.delete(seq), stream.purge(...), stream.update(config), stream.stop()
    stream.add_consumer(consumer), stream.remove_consumer(name), stream.acked(consumer, seq)

Promises, beside those of `intake`, which is how it takes messages
  * STREAM-4: with retention by interest, a message is kept while a consumer that wants it is not done with it.

What it does not do: know requests of the API, sessions or files. What it may not do (deny_delete and the like) it says
with an `ApiFailure`.
"""

from functools import partial

import msgspec

from tidelog.base.errors import StorageError
from tidelog.log.filter cimport Filter
from tidelog.log.log cimport Log
from tidelog.stream import failure, marker
from tidelog.stream.batch import mend
from tidelog.stream.dedupe cimport Dedupe
from tidelog.stream.feed import Feeds
from tidelog.stream.receipt cimport Receipts
from tidelog.stream.taker cimport Takers
from tidelog.stream.schedule import Schedules
from tidelog.subject.route import Subscription


cdef class Stream(Intake):
    def __init__(self, account, config, Log log not None, int64_t created_ns) -> None:
        self.internal = True
        self.account = account
        self.name = config.name
        self.log = log
        self.created_ns = created_ns
        self.tick = account.tick
        self.post = account.post
        self.budget = account.budget(config.storage)
        self.staged = account.engine.staged
        self.consumers = {}
        self.subscriptions = []
        self.last_id = b""
        self.cold_trouble = ""
        self.dedupe = Dedupe(0)
        domain = account.events.domain
        where = b'"domain":%s,' % msgspec.json.encode(domain) if domain else b""
        self.receipts = Receipts(b'{"stream":%s,%s"seq":' % (msgspec.json.encode(config.name), where))
        self.stopped = True
        log.on_commit = self.committed
        log.on_failure = self.failed
        log.on_idle = self.idle
        self.take_config(config)
        self.settle()

    # ---- life ----

    def take_config(self, config) -> None:
        super().take_config(config)
        self.log.on_expiry = partial(marker.leave, self) if config.subject_delete_marker_ttl > 0 else None
        self.work_queue = config.retention == "workqueue"
        if config.allow_msg_schedules and self.schedules is None:
            self.schedules = Schedules(self)
        if self.feeds is not None or config.mirror is not None or config.sources:
            self.feeds = self.feeds or Feeds(self)
            self.feeds.take_config(config)

    def start(self) -> None:
        """Mend what a crash has left, and listen."""
        if self.batches is not None:
            gone = mend(self)
            if gone:
                self.account.engine.log.warn(f"Stream {self.name}: {gone} messages of a batch that a crash cut are gone")
        if self.schedules is not None:
            self.schedules.find()
        self.stopped = False
        self.listen(self.config.subjects or [])
        if self.feeds is not None:
            self.feeds.start(afresh=False)

    def listen(self, subjects) -> None:
        """Listen to these, and to nothing else."""
        wanted = {subject.encode() for subject in subjects}
        for subscription in [one for one in self.subscriptions if one.subject not in wanted]:
            self.account.interest.remove(subscription)
            self.subscriptions.remove(subscription)
        for subject in sorted(wanted - {one.subject for one in self.subscriptions}):
            subscription = Subscription(subject, b"", b"", self)
            self.account.interest.insert(subscription)
            self.subscriptions.append(subscription)

    def update(self, config, settings) -> None:
        """Go on with another configuration, which was checked, and the settings of the log that follow from it."""
        begins_to_ask = config.retention == "interest" and not self.by_interest
        self.take_config(config)
        if begins_to_ask:
            self.drop_all_done(Filter())
        if not self.stopped:
            self.listen(config.subjects or [])
            if self.feeds is not None:
                self.feeds.start(afresh=True)
        self.log.configure(settings)
        self.mark()

    def stop(self) -> None:
        """Take nothing more, and leave everything as it will be found again."""
        if self.stopped:
            return
        self.end()
        if self.schedules is not None:
            self.schedules.save()
        if self.keeper is not None:
            self.keeper.stop()
        self.log.close()
        if self.feeds is not None and self.log.failure is None:
            self.feeds.places.save(self.log.store.last_seq)
        self.flush()

    def end(self) -> None:
        """Nothing comes any more, from nowhere."""
        self.listen([])
        self.stopped = True
        if self.batches is not None:
            self.batches.clear()
        if self.fast is not None:
            self.fast.clear()
        if self.schedules is not None:
            self.schedules.close()
        if self.feeds is not None:
            self.feeds.stop()

    def abandon(self) -> None:
        """Take nothing more; what there is will be removed."""
        self.end()
        if self.keeper is not None:
            self.keeper.abandon()
        self.settle()
        self.budget.add(-self.counted)
        self.counted = 0
        self.log.on_commit = self.log.on_failure = self.log.on_expiry = self.log.on_idle = None
        self.log.committer.fail(StorageError(f"the stream {self.name} was deleted"))
        self.log.close()

    # ---- the end of a tick ----

    def commit(self) -> None:
        """Write what came, and answer what can be answered."""
        if self.feeds is not None and not self.stopped:
            # What that brings is committed here, and need not be touched again.
            self.touched = True
            self.feeds.pull()
        self.touched = False
        self.log.commit()
        self.settle()
        self.flush()
        if (self.log.refusal is not None) != self.refusing:
            self.tell_refusing()

    cdef int tell_refusing(self) except -1:
        """The log takes nothing for a while, or takes messages again."""
        self.refusing = self.log.refusal is not None
        if self.log.failure is None:
            self.account.stream_refuses(self, self.log.refusal)
        return 0

    def touch(self) -> None:
        """There is something to do at the end of this tick."""
        if not self.stopped:
            self.mark()

    def pass_time(self) -> None:
        """Something may be due."""
        self.log.tick()
        self.settle()
        self.flush()
        if (self.log.refusal is not None) != self.refusing:
            self.tell_refusing()

    def committed(self) -> None:
        """Readers see more than before."""
        self.flush()

    def idle(self) -> None:
        """Work of the log in the background has come to an end, and there may be more."""
        self.settle()
        self.account.engine.schedule(self)
        trouble = self.log.keeper.ferry.trouble_now()
        if bool(trouble) != bool(self.cold_trouble):
            self.account.cold_tier_fails(self, trouble)
        self.cold_trouble = trouble

    def flush(self) -> None:
        self.receipts.release(self.post, self.log.horizon.committed_seq)

    def failed(self, error) -> None:
        """Nothing more will be committed."""
        self.receipts.settle(self.post, self.refusal(failure.STREAM_STORE_FAILED(err=str(error))))
        self.account.stream_failed(self, error)

    # ---- finding ----

    def get(self, uint64_t seq):
        """The message, or None."""
        return self.log.get(seq)

    def last_for(self, bytes subject not None):
        """The newest message of a subject, which may have wildcards; None: there is none."""
        seq = self.log.previous(Filter(subject), self.log.store.last_seq)
        return self.log.get(seq) if seq else None

    def next_for(self, Filter filter not None, uint64_t seq):
        """The oldest message from `seq` on that matches; None: there is none."""
        found = self.log.next(filter, seq)
        return self.log.get(found) if found else None

    # ---- deleting ----

    def delete(self, uint64_t seq, bint erase=True) -> bool:
        """Delete a message; tells whether there was one. `log.wait_deleted` says when that is certain."""
        if self.sealed:
            raise failure.STREAM_SEALED()
        if self.config.deny_delete:
            raise failure.STREAM_MSG_DELETE_FAILED(err="message delete not permitted")
        self.mark()
        return self.log.remove(seq, erase)

    def purge(self, Filter filter=None, *, before_seq=None, int keep=0) -> int:
        """Delete what matches: all, those before a sequence, or all but the newest `keep`. Returns how many.

        After everything before a sequence that is still to come, the next message gets that one.
        """
        if self.sealed:
            raise failure.STREAM_SEALED()
        if self.config.deny_purge:
            raise failure.STREAM_PURGE_FAILED(err="stream purge not permitted")
        self.mark()
        purged = self.log.purge(filter, before_seq=before_seq, keep=keep)
        if before_seq is not None and before_seq > self.log.store.last_seq and (filter is None or filter.everything):
            self.log.skip_to(before_seq)
        for consumer in self.consumers.values():
            consumer.purged(self.log.store.first_seq)
        return purged

    # ---- consumers ----

    def add_consumer(self, consumer) -> None:
        self.consumers[consumer.name] = consumer
        if self.takers is not None:
            self.takers.add(consumer)

    cdef int filter_changed(self, consumer) except -1:
        """A consumer wants other messages than before."""
        if self.takers is not None and consumer.name in self.consumers:
            self.takers.remove(consumer)
            self.takers.add(consumer)
        return 0

    def remove_consumer(self, str name not None) -> None:
        """The consumer is gone; what only it wanted goes too."""
        consumer = self.consumers.pop(name, None)
        if consumer is not None and self.takers is not None:
            self.takers.remove(consumer)
        if consumer is None or not self.by_interest or self.stopped:
            return
        self.drop_all_done(consumer.filter)

    def drop_all_done(self, Filter filter not None) -> None:
        """Remove what matches and no consumer needs any more."""
        cdef uint64_t seq = self.log.store.first_seq
        while seq and (seq := self.log.next(filter, seq)):
            self.drop_if_done(seq)
            seq += 1

    def drop_if_done(self, uint64_t seq) -> bool:
        """Remove a message that no consumer needs any more."""
        if self.takers is None:
            self.takers = Takers(self.consumers.values())
        return self.takers.is_free(seq, self.log) and self.log.remove(seq)

    cpdef bint acked(self, consumer, uint64_t seq) except -1:
        """A consumer is done with a message. Tells whether that removed it."""
        cdef bint removed
        if self.work_queue or (self.by_interest and len(self.consumers) == 1):
            removed = self.log.remove(seq)
        elif self.by_interest:
            removed = self.drop_if_done(seq)
        else:
            return False
        if removed and not self.touched:
            self.mark()
        return removed
