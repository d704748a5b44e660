"""Some messages as one Arrow IPC stream: a block of a bulk read, with the schema of the files of the cold tier.

It needs pyarrow, which a server does without until somebody asks for a block: so it is imported by the call that makes
one, in the worker's thread.
"""

from tidelog.log.columns import batch_columns
from tidelog.log.read import Batch


def encode_block(batch: Batch) -> bytes:
    """The stream, which stands for itself: schema, one record batch, end. Raises ImportError without pyarrow."""
    import pyarrow as pa

    from tidelog.cold.table import SCHEMA, to_arrow

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_table(to_arrow(batch_columns(batch)))
    return bytes(sink.getvalue())
