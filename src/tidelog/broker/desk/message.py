"""`STREAM.MSG.`: one message is read, or deleted."""

import base64

import msgspec

from tidelog.base.errors import StorageError
from tidelog.base.instant import instant_ns, timestamp
from tidelog.broker.desk.request import DONE, LATER, Entry, Later, Request
from tidelog.log.fact import Awaited
from tidelog.log.filter import Filter
from tidelog.log.read import Message
from tidelog.stream import failure
from tidelog.stream.direct_request import GetRequest
from tidelog.stream.failure import ApiFailure
from tidelog.stream.patience import Patience
from tidelog.stream.stream import Stream
from tidelog.stream.stream_config import FILE
from tidelog.stream.strict import Uint64


class DeleteRequest(msgspec.Struct):
    PEER_NAME = "JSApiMsgDeleteRequest"

    seq: Uint64 = 0
    no_erase: bool = False


class StoredMessage(msgspec.Struct, omit_defaults=True):
    subject: str
    seq: int
    hdrs: str = ""
    data: str = ""
    time: str = ""


class Got(msgspec.Struct, omit_defaults=True):
    message: StoredMessage | None = None


def get(request: Request) -> Got | Later:
    request.streams  # noqa: B018  whether there may be any comes first
    asked = request.decode_required(GetRequest)
    if asked.batch > 0 or asked.max_bytes > 0 or contradicts(asked):
        raise failure.BAD_REQUEST()
    stream = request.stream(3)
    try:
        return got(stream, asked)
    except Awaited:
        wait(request, stream, asked, 0)
        return LATER


def wait(request: Request, stream: Stream, asked: GetRequest, due_ns: int) -> None:
    """The message is in the cold tier: answer when it has come, or say that it has not."""

    def resume() -> None:
        if stream.stopped:
            request.refuse(failure.STREAM_NOT_FOUND())
            return
        try:
            request.answer(got(stream, asked))
        except Awaited:
            wait(request, stream, asked, waiting.due_ns)
        except ApiFailure as refused:
            request.refuse(refused)

    def give_up(why: str) -> None:
        request.refuse(failure.STREAM_GENERAL(err=why))

    waiting = Patience(request.desk.engine, stream.log, resume, give_up, due_ns)


def got(stream: Stream, asked: GetRequest) -> Got:
    message = find(stream, asked)
    if message is None:
        raise failure.NO_MESSAGE_FOUND()
    return Got(
        StoredMessage(
            subject=message.subject.decode("utf-8", "replace"),
            seq=message.seq,
            hdrs="" if asked.no_hdr else base64.b64encode(message.header).decode(),
            data=base64.b64encode(message.payload).decode(),
            time=timestamp(message.ts_ns),
        )
    )


def contradicts(asked: GetRequest) -> bool:
    """Whether it asks for two messages, or for none."""
    seq, last, after, time = asked.seq, asked.last_by_subj, asked.next_by_subj, asked.start_time
    return bool(
        (seq and (last or time is not None))
        or not (seq or last or after or time is not None)
        or (last and (after or time is not None))
    )


def find(stream: Stream, asked: GetRequest) -> Message | None:
    seq = asked.seq
    if asked.start_time is not None:
        seq = stream.log.seq_at_time(instant_ns(asked.start_time))
    try:
        if asked.next_by_subj:
            return stream.next_for(Filter(asked.next_by_subj.encode()), seq)
        return stream.get(seq) if seq else stream.last_for(asked.last_by_subj.encode())
    except ValueError:
        # That is no subject, and nothing has it.
        return None


def delete(request: Request) -> Later:
    request.streams  # noqa: B018  whether there may be any comes first
    asked = request.decode_required(DeleteRequest)
    stream = request.stream(3)
    if not stream.delete(asked.seq, erase=not asked.no_erase):
        if asked.seq > stream.log.store.last_seq and stream.config.storage == FILE:
            raise failure.STREAM_MSG_DELETE_FAILED(err="stream store EOF")
        raise failure.SEQUENCE_NOT_FOUND(seq=asked.seq)

    def told(error: StorageError | None) -> None:
        if error is None:
            request.answer(DONE)
        else:
            request.refuse(failure.STREAM_MSG_DELETE_FAILED(err=str(error)))

    stream.log.wait_deleted(told)
    return LATER


ENTRIES = (
    Entry("STREAM.MSG.GET.*", "stream_msg_get_response", get, noted=False),
    Entry("STREAM.MSG.DELETE.*", "stream_msg_delete_response", delete),
)
