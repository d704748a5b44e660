"""Door to header blocks of deliveries."""

from tidelog.log.record cimport Head

cdef bytes header_of(Head* head)
cdef bytes made_header(Head* head)
cdef bytes with_line(bytes header, bytes line)
