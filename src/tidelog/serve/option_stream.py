"""The `jetstream` block.

Encryption at rest is refused: what was asked to be encrypted must not be written in the clear.
"""

import json
from typing import Any

from tidelog.serve.conf import Node
from tidelog.serve.field import (
    SECOND_NS,
    UNKEPT,
    Findings,
    Table,
    aliases,
    boolean,
    duration_ns,
    fault,
    integer,
    interval_ns,
    quoted,
    read_section,
    storage_size,
    table_of,
    text,
)
from tidelog.serve.option_account import enabled_word

CONCURRENT_IO_MIN, CONCURRENT_IO_MAX = 4, 8192


def read_jetstream(node: Node, findings: Findings) -> dict[str, Any]:
    """The block as fields of `JetStreamSettings`: a switch, a word, or a map, which switches on."""
    if isinstance(node.value, bool):
        found: dict[str, Any] = {"enabled": node.value}
    elif isinstance(node.value, str):
        found = {"enabled": enabled_word(node)}
    else:
        tree = table_of(node, "Expected map, bool or string to define JetStream")
        found = {"enabled": True, **read_section(tree, jetstream_table(findings), findings)}
        found.update(found.pop("sync", {}))
        found.update(found.pop("limits", {}))
    return found


def jetstream_table(findings: Findings) -> Table:
    def sync(node: Node) -> dict[str, Any]:
        if isinstance(node.value, str) and node.value.lower() == "always":
            return {"sync_always": True}
        return {"sync_interval_s": interval_ns(findings, "sync_interval")(node) / SECOND_NS}

    return {
        "strict": ("strict", boolean),
        **aliases("store store_dir storedir", "store_dir", text),
        **aliases("sync sync_interval", "sync", sync),
        **aliases("max_memory_store max_mem_store max_mem", "max_memory_size", storage_size("max_mem_store")),
        **aliases("max_file_store max_file", "max_file_size", storage_size("max_file_store")),
        "domain": ("domain", text),
        **aliases("enable enabled", "enabled", boolean),
        **aliases("key ek encryption_key prev_key prev_ek prev_encryption_key", UNKEPT, refuse_encryption),
        "tpm": (UNKEPT, refuse_encryption),
        "cipher": (UNKEPT, cipher),
        "extension_hint": (UNKEPT, text),
        "limits": ("limits", lambda node: read_limits(node, findings)),
        "unique_tag": (UNKEPT, text),
        "max_outstanding_catchup": (UNKEPT, storage_size("max_outstanding_catchup")),
        "max_buffered_size": (UNKEPT, storage_size("max_buffered_size")),
        "request_queue_limit": ("request_queue_limit", integer),
        **aliases("max_buffered_msgs info_queue_limit", UNKEPT, integer),
        "meta_compact": (UNKEPT, absolute),
        "meta_compact_size": (UNKEPT, storage_size("meta_compact_size")),
        "meta_compact_sync": (UNKEPT, boolean),
        "max_concurrent_io": (UNKEPT, concurrent_io),
    }


def read_sync(node: Node, findings: Findings) -> str:
    """When streams are synced: the name of a preset, or a map of knobs, which is kept as JSON."""
    from tidelog.log.policy import PRESETS  # only configurations that say so pay for it

    if isinstance(node.value, str):
        if node.value not in PRESETS:
            raise fault(
                node, f"sync policy {quoted(node.value)} is not known; use one of {', '.join(PRESETS)}"
            )
        return node.value
    knobs: Table = {
        "on_commit": ("on_commit", boolean),
        "messages": ("messages", integer),
        "interval": ("interval", lambda item: duration_ns(item, "interval")),
    }
    found = read_section(table_of(node, "Expected the name of a sync policy or a map"), knobs, findings)
    if any(value < 0 for value in found.values()):
        raise fault(node, "sync policy: messages and interval may not be negative")
    return json.dumps(found)


def refuse_encryption(node: Node) -> None:
    if text(node):
        raise fault(node, "encryption of stored data is not supported: it would be written in the clear")


def cipher(node: Node) -> None:
    if text(node).lower() not in ("chacha", "chachapoly", "aes"):
        raise fault(node, f"Unknown cipher type: {quoted(text(node))}")


def absolute(node: Node) -> None:
    if integer(node) < 0:
        raise fault(node, f'Expected an absolute size for "meta_compact", got {node.value}')


def concurrent_io(node: Node) -> None:
    if not CONCURRENT_IO_MIN <= integer(node) <= CONCURRENT_IO_MAX:
        about = 'Expected an absolute size for "max_concurrent_io" between 4 and 8192'
        raise fault(node, f"{about}, got {node.value}")


def read_limits(node: Node, findings: Findings) -> dict[str, Any]:
    def batch(value: Node) -> dict[str, Any]:
        parts: Table = {
            "max_inflight_per_stream": ("max_batches_per_stream", integer),
            "max_inflight_total": ("max_batches", integer),
            "max_msgs": ("max_batch_messages", integer),
            "timeout": ("max_batch_idle_ns", lambda item: duration_ns(item, "timeout")),
        }
        return read_section(table_of(value, "Expected a map to define batch limits"), parts, findings)

    table: Table = {
        "max_ack_pending": ("max_ack_pending", integer),
        "max_request_batch": ("max_request_batch", integer),
        "max_ha_assets": (UNKEPT, integer),
        "duplicate_window": ("duplicate_window_ns", lambda item: duration_ns(item, "duplicate_window")),
        "batch": ("batch", batch),
    }
    found = read_section(table_of(node, "Expected a map to define JetStreamLimits"), table, findings)
    found.update(found.pop("batch", {}))
    return found
