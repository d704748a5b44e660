"""The post: messages that the server itself sends into an account's subject space.

    post.publish(subject, payload, header, reply)    to whoever listens; how many took it
    post.deliver(to, subject, payload, ...)          to whoever listens on `to`, who is shown `subject`
    post.wanted(subject)                             whether anybody listens

`send` and `forward` are the same for hot rooms: no object is made. A message is put together once, in a buffer that is
used again and again, and copied from there into each recipient's outbox.

What it does not do: wait, retry, or know what a message means.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.string cimport memcpy

from tidelog.base import limits
from tidelog.base.digits cimport NUMBER_SIZE_MOST, put_decimal
from tidelog.wire.parser cimport Message

cdef Py_ssize_t KEPT = limits.POST_BUFFER_KEPT
cdef enum:
    EXTRA_ROOM = 2 * NUMBER_SIZE_MOST + 8


cdef class Post:
    def __init__(self, Interest interest not None, Chance chance not None) -> None:
        self.interest = interest
        self.chance = chance

    def __dealloc__(self):
        PyMem_Free(self.text)

    cdef char* take(self, Py_ssize_t size) except NULL:
        """Room for a message: the post's own, unless one that is under way is in it."""
        cdef char* grown
        self.depth += 1
        if self.depth > 1 or size > KEPT:
            grown = <char*>PyMem_Malloc(size)
        elif size <= self.room:
            return self.text
        else:
            grown = <char*>PyMem_Realloc(self.text, size)
            if grown != NULL:
                self.text = grown
                self.room = size
        if grown == NULL:
            self.depth -= 1
            raise MemoryError
        return grown

    cdef void give(self, char* text) noexcept:
        self.depth -= 1
        if text != self.text:
            PyMem_Free(text)

    cdef Py_ssize_t send(
        self, const char* subject, Py_ssize_t subject_size, const char* reply, Py_ssize_t reply_size,
        const char* header, Py_ssize_t header_size, const char* payload, Py_ssize_t payload_size,
    ) except -1:
        """Publish; `reply` may be NULL, and so may `header` with its size 0. Returns how many took it."""
        cdef Route route = self.interest.route(subject, subject_size)
        if route.target_count == 0:
            return 0
        return self.forward(
            route, subject, subject_size, reply, reply_size, header, header_size, payload, payload_size
        )

    cdef Py_ssize_t forward(
        self, Route route, const char* subject, Py_ssize_t subject_size, const char* reply, Py_ssize_t reply_size,
        const char* header, Py_ssize_t header_size, const char* payload, Py_ssize_t payload_size,
    ) except -1:
        """Deliver to the targets of `route`, who are shown `subject`. Returns how many took it."""
        cdef Message message
        cdef char* text
        cdef char* out
        cdef Py_ssize_t delivered
        text = self.take(reply_size + header_size + payload_size + EXTRA_ROOM)
        try:
            out = text
            if reply != NULL:
                memcpy(out, reply, reply_size)
                out[reply_size] = 32
                out += reply_size + 1
            if header_size:
                out = put_decimal(out, header_size)
                out[0] = 32
                out += 1
            out = put_decimal(out, header_size + payload_size)
            memcpy(out, b"\r\n", 2)
            out += 2
            message.body = out
            memcpy(out, header, header_size)
            memcpy(out + header_size, payload, payload_size)
            out += header_size + payload_size
            memcpy(out, b"\r\n", 2)
            message.tail = text
            message.tail_size = out + 2 - text
            message.subject = subject
            message.subject_size = subject_size
            message.sid = NULL
            message.sid_size = 0
            message.reply = text if reply != NULL else NULL
            message.reply_size = reply_size
            message.header_size = header_size
            message.body_size = header_size + payload_size
            message.has_header = header_size > 0
            message.is_hinted = False
            delivered = route.deliver_as(subject, subject_size, &message, None, self.chance)
        finally:
            self.give(text)
        if delivered:
            self.sent += 1
            self.sent_size += header_size + payload_size
        return delivered

    def publish(self, bytes subject not None, bytes payload not None, bytes header not None=b"", bytes reply=None) -> int:
        return self.send(
            PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject),
            PyBytes_AS_STRING(reply) if reply is not None else NULL, PyBytes_GET_SIZE(reply) if reply is not None else 0,
            PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header), PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload),
        )

    def deliver(
        self, bytes to not None, bytes subject not None, bytes payload not None, bytes header not None=b"", bytes reply=None
    ) -> int:
        cdef Route route = self.interest.route(PyBytes_AS_STRING(to), PyBytes_GET_SIZE(to))
        return self.forward(
            route, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject),
            PyBytes_AS_STRING(reply) if reply is not None else NULL, PyBytes_GET_SIZE(reply) if reply is not None else 0,
            PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header), PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload),
        )

    def wanted(self, bytes subject not None) -> bool:
        """Whether somebody listens on `subject`."""
        return self.interest.route(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)).target_count > 0
