"""Streams out of a server into a directory, and back into one: STREAM.SNAPSHOT and STREAM.RESTORE.

    DIR/backup.json      configuration and state: the request that restores
    DIR/stream.tar.s2    what the server sent

They are the files of the `nats` command. What is in the second is the server's business: it goes back to a server of
the same kind as it came.

What it promises: a backup that ends without an error is whole, for the server's last word says so; its files are
written under other names and moved into place at the end. A restore returns when the server has the stream.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from tidelog.base.errors import ApiError, ClientError
from tidelog.base.limits import KIB
from tidelog.client.jetstream.answer import (
    Document,
    RestoreAnswer,
    SnapshotAnswer,
    StreamInfo,
    convert,
    read_document,
)
from tidelog.client.jetstream.desk import JetStream

CONFIG_NAME = "backup.json"
DATA_NAME = "stream.tar.s2"
CHUNK_SIZE = 128 * KIB
END = 204

# Told the bytes that have gone so far.
Progress = Callable[[int], None]


def back_up(
    js: JetStream,
    stream: str,
    directory: Path,
    *,
    consumers: bool = True,
    check: bool = False,
    chunk_size: int = CHUNK_SIZE,
    progress: Progress = lambda _: None,
) -> SnapshotAnswer:
    """Write the two files. The directory may exist; a backup in it is replaced."""
    connection = js.connection
    inbox = connection.subscribe(connection.new_inbox())
    request = {
        "deliver_subject": inbox.subject,
        "no_consumers": not consumers,
        "chunk_size": chunk_size,
        "jsck": check,
    }
    directory.mkdir(parents=True, exist_ok=True)
    fresh = directory / f"{DATA_NAME}.new"
    try:
        answer = js.ask(f"STREAM.SNAPSHOT.{stream}", SnapshotAnswer, request)
        size = 0
        with fresh.open("wb") as file:
            while True:
                chunk = inbox.next(js.timeout_s)
                if chunk.reply:
                    # What makes room for the next one.
                    connection.publish(chunk.reply)
                if not chunk.payload:
                    if chunk.header_block and chunk.status != END:
                        raise ApiError(chunk.status, 0, f"snapshot: {chunk.description}")
                    break
                file.write(chunk.payload)
                size += len(chunk.payload)
                progress(size)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    finally:
        inbox.unsubscribe()
    described = {"config": answer.document["config"], "state": answer.document["state"]}
    config = directory / f"{CONFIG_NAME}.new"
    config.write_bytes(msgspec.json.format(msgspec.json.encode(described)) + b"\n")
    fresh.replace(directory / DATA_NAME)
    config.replace(directory / CONFIG_NAME)
    return answer


def read_backup(directory: Path) -> Document:
    """Configuration and state of a backup. Raises ClientError when there is none."""
    try:
        document = msgspec.json.decode((directory / CONFIG_NAME).read_bytes(), type=Document)
    except (OSError, msgspec.MsgspecError) as error:
        raise ClientError(f"{directory} holds no backup of a stream: {error}") from error
    if not isinstance(document.get("config"), dict) or not (directory / DATA_NAME).exists():
        raise ClientError(
            f"{directory} holds no backup of a stream: {CONFIG_NAME} and {DATA_NAME} are wanted"
        )
    return document


def restore(
    js: JetStream,
    directory: Path,
    *,
    config: Document | None = None,
    progress: Progress = lambda _: None,
) -> StreamInfo:
    """Make the stream again, with its own configuration or with `config`."""
    described = read_backup(directory)
    wanted = config or described["config"]
    request = {"config": wanted, "state": described.get("state", {})}
    place = js.ask(f"STREAM.RESTORE.{wanted['name']}", RestoreAnswer, request).deliver_subject
    size = 0
    with (directory / DATA_NAME).open("rb") as file:
        while chunk := file.read(CHUNK_SIZE):
            answer = js.connection.request(place, chunk, timeout_s=js.timeout_s)
            if answer.payload:
                # It gives up early, and says why.
                read_document(answer.payload)
            size += len(chunk)
            progress(size)
    # The server reads it all before it answers.
    ending = js.connection.request(place, timeout_s=max(js.timeout_s, 60.0))
    return convert(read_document(ending.payload), StreamInfo)
