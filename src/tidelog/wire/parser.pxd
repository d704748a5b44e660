"""Door to the parser: what an operation looks like, and who is told of it."""

cdef enum Verb:
    VERB_NONE
    VERB_CONNECT
    VERB_SUB
    VERB_UNSUB
    VERB_PING
    VERB_PONG
    VERB_INFO
    VERB_OK
    VERB_ERR


cdef struct Message:
    # Every pointer borrows from the buffer being parsed and is good only during the call.
    const char* subject
    Py_ssize_t subject_size
    const char* sid              # client role only, else NULL
    Py_ssize_t sid_size
    const char* reply            # NULL when there is none
    Py_ssize_t reply_size
    # The rest of the operation exactly as it must stand in a delivery: `[reply ][header size ]size CRLF payload CRLF`.
    const char* tail
    Py_ssize_t tail_size
    const char* body             # header block and payload together
    Py_ssize_t header_size       # 0: no header block
    Py_ssize_t body_size
    bint has_header              # HPUB or HMSG with a header block that is not empty
    bint is_hinted               # the subject is the hint


cdef class Operations:
    """Receives what the parser finds. Raise ProtocolError to end the connection."""

    cdef public Py_ssize_t max_control_line
    cdef public Py_ssize_t max_payload      # < 0: no bound
    cdef public bint client_role            # parse what servers send instead of what clients send
    cdef public bint headers                # HPUB is allowed
    cdef bint stopped                       # set by the receiver: read no further operation
    cdef Py_ssize_t need                    # bytes of the unfinished operation, when known
    # The subject of the last message, so that the next one on the same subject need not be cut out again.
    cdef const char* hint
    cdef Py_ssize_t hint_size
    cdef bint shy                           # `on_first_byte` wants to be asked
    cdef char* scratch
    cdef Py_ssize_t scratch_size

    cdef int on_first_byte(self, char byte) except -1
    cdef int on_publish(self, Message* message) except -1
    cdef int on_line(self, Verb verb, const char* argument, Py_ssize_t size) except -1
    cdef int on_oversize(self, Py_ssize_t size) except -1


cdef Py_ssize_t parse(Operations operations, const char* data, Py_ssize_t size) except -1


cdef class Collector(Operations):
    """Operations as tuples; a subclass may keep some of the messages for itself."""

    cdef readonly list found     # of the last `feed`: also what came before an error
    cdef bytearray rest
