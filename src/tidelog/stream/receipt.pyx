"""Answers to publishers, kept until the log has committed what they tell.

Promises
  * An answer leaves when everything that was stored before it is committed: an acknowledgement of `seq` with `seq`, and
    an error or a duplicate with what they speak of.
  * Answers of one stream leave in the order of the messages that they answer, each once.
  * No object is made per message: an entry is a few numbers and the reply subject, in one block of memory, and the
    acknowledgement is written out when it is sent.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from tidelog.base import limits
from tidelog.base.digits cimport NUMBER_SIZE_MOST, put_decimal

cdef Py_ssize_t ROOM_FIRST = limits.RECEIPTS_ROOM_FIRST
cdef Py_ssize_t ROOM_KEPT = limits.RECEIPTS_ROOM_KEPT
cdef enum:
    FRONT_MOST = 1024

cdef packed struct Entry:
    uint64_t seq
    uint32_t reply_size
    uint32_t answer_size       # 0: an acknowledgement


cdef class Receipts:
    def __init__(self, bytes front not None) -> None:
        if len(front) > FRONT_MOST:
            raise ValueError(f"the front of an acknowledgement has {len(front)} bytes, at most {FRONT_MOST} are expected")
        self.front = front

    def __dealloc__(self):
        if self.lent != self.data:
            free(self.lent)
        free(self.data)

    cdef int add(self, uint64_t seq, const char* reply, Py_ssize_t reply_size) except -1:
        """Acknowledge `seq` to `reply` when it is committed."""
        return self.add_answer(seq, reply, reply_size, NULL, 0)

    cdef int add_answer(
        self, uint64_t seq, const char* reply, Py_ssize_t reply_size, const char* answer, Py_ssize_t answer_size
    ) except -1:
        """Send `answer` to `reply` when everything up to `seq` is committed."""
        cdef Py_ssize_t size = sizeof(Entry) + reply_size + answer_size
        cdef char* place = self.reserve(size)
        cdef Entry entry
        entry.seq = seq
        entry.reply_size = <uint32_t>reply_size
        entry.answer_size = <uint32_t>answer_size
        memcpy(place, &entry, sizeof(Entry))
        memcpy(place + sizeof(Entry), reply, reply_size)
        if answer_size:
            memcpy(place + sizeof(Entry) + reply_size, answer, answer_size)
        self.end += size
        self.count += 1
        return 0

    cdef char* reserve(self, Py_ssize_t size) except NULL:
        """Room for an entry at the end."""
        cdef Py_ssize_t used = self.end - self.start, room
        cdef char* block
        if self.end + size <= self.room:
            return self.data + self.end
        if self.start >= used + size and self.lent == NULL:
            memmove(self.data, self.data + self.start, used)
        else:
            room = max(self.room * 2, ROOM_FIRST)
            while room < used + size:
                room *= 2
            block = <char*>malloc(room)
            if block == NULL:
                raise MemoryError
            memcpy(block, self.data + self.start, used)
            if self.lent == NULL or self.lent != self.data:
                free(self.data)
            self.data = block
            self.room = room
        self.start = 0
        self.end = used
        return self.data + self.end

    cdef int release(self, Post post, uint64_t committed_seq) except -1:
        """Send what waits for nothing beyond `committed_seq`. What comes meanwhile is not sent here."""
        cdef char digits[FRONT_MOST + NUMBER_SIZE_MOST + 2]
        cdef Py_ssize_t front_size = PyBytes_GET_SIZE(self.front), size, left = self.count
        cdef char* place
        cdef Entry entry
        if self.releasing or left == 0:
            return 0
        memcpy(digits, PyBytes_AS_STRING(self.front), front_size)
        self.releasing = True
        try:
            while left and self.count:
                place = self.data + self.start
                memcpy(&entry, place, sizeof(Entry))
                if entry.seq > committed_seq:
                    break
                left -= 1
                self.count -= 1
                self.start += sizeof(Entry) + entry.reply_size + entry.answer_size
                # While it is sent, the entry must stay where it is.
                self.lent = self.data
                if entry.answer_size:
                    size = entry.answer_size
                    post.send(place + sizeof(Entry), entry.reply_size, NULL, 0, NULL, 0, place + sizeof(Entry) + entry.reply_size, size)
                else:
                    size = put_decimal(digits + front_size, entry.seq) - digits
                    digits[size] = c"}"
                    post.send(place + sizeof(Entry), entry.reply_size, NULL, 0, NULL, 0, digits, size + 1)
                if self.lent != self.data:
                    free(self.lent)
                self.lent = NULL
        finally:
            self.releasing = False
            if self.lent != NULL and self.lent != self.data:
                free(self.lent)
            self.lent = NULL
        if self.count == 0:
            self.start = self.end = 0
            if self.room > ROOM_KEPT:
                free(self.data)
                self.data = NULL
                self.room = 0
        return 0

    cdef int settle(self, Post post, bytes answer) except -1:
        """Nothing more will be committed: send `answer` to all whose acknowledgements wait."""
        cdef Py_ssize_t left = self.count, pos = self.start
        cdef Entry entry
        cdef list replies = []
        while left:
            memcpy(&entry, self.data + pos, sizeof(Entry))
            replies.append(self.data[pos + <Py_ssize_t>sizeof(Entry):pos + <Py_ssize_t>sizeof(Entry) + entry.reply_size])
            pos += sizeof(Entry) + entry.reply_size + entry.answer_size
            left -= 1
        self.start = self.end = self.count = 0
        for reply in replies:
            post.send(
                PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), NULL, 0, NULL, 0,
                PyBytes_AS_STRING(answer), PyBytes_GET_SIZE(answer),
            )
        return 0

    # ---- for tests ----

    def put(self, uint64_t seq, bytes reply not None, bytes answer not None=b"") -> None:
        self.add_answer(
            seq, PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), PyBytes_AS_STRING(answer), PyBytes_GET_SIZE(answer)
        )

    def send_up_to(self, Post post not None, uint64_t committed_seq) -> None:
        self.release(post, committed_seq)

    def send_instead(self, Post post not None, bytes answer not None) -> None:
        self.settle(post, answer)
