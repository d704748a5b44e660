"""Door to the gate: where what clients send to consumers comes in."""

from tidelog.base.bytemap cimport ByteMap
from tidelog.stream.consumer cimport Consumer
from tidelog.subject.route cimport Subscriber
from tidelog.wire.parser cimport Message


cdef class Gate(Subscriber):
    cdef ByteMap consumers               # `<stream>.<consumer>` -> Consumer
    cdef public object desk              # carries out what is asked of consumers beside messages

    cdef Consumer find(self, const char* key, Py_ssize_t size)
    cdef bint take_request(self, Message* message) except -1
    cdef bint pass_on(self, Message* message, Subscriber publisher) except -1
    cdef bint take_answer(self, Message* message) except -1
