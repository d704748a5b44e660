"""Configurations of streams and consumers, good and bad, that both servers are asked for.

A case is a list of steps, each a verb (`create`, `update`, `consumer`), the rest of the subject, and a body. What a
case made is gone before the next one begins.
"""

from collections.abc import Iterator
from typing import Any

Step = tuple[str, str, dict[str, Any] | str]
S = 1_000_000_000

# A value of every kind for fields of a stream that are judged by themselves; each is tried alone, pedantic or not.
STREAM_VALUES: dict[str, list[Any]] = {
    "subjects": [
        ["a"], ["a", "b"], ["a", "a"], ["a.*", "a.b"], ["a.>", "a.*"], [""], ["a b"], ["a..b"], [".a"], [">"], ["*"],
        ["$JS.API.x"], ["$JS.>"], ["$JS.EVENT.>"], ["$JSC.a"], ["$NRG.a"], ["$SYS.a"], ["$SYS.ACCOUNT.>"], ["$SYS.>"],
        ["foo*"], ["a>"], [None], [], None, ["é.ü"], ["$KV.x.>"], ["$*.API.x"],
    ],
    "retention": ["limits", "interest", "workqueue", "other", "", None],
    "discard": ["old", "new", "NEW", "x"],
    "storage": ["file", "memory", "tape"],
    "compression": ["none", "s2", "zip"],
    "max_consumers": [-5, -1, 0, 5],
    "max_msgs": [-5, -1, 0, 5, 1.5, "5"],
    "max_bytes": [-5, -1, 0, 5],
    "max_msgs_per_subject": [-5, -1, 0, 5],
    "max_msg_size": [-5, -1, 0, 5, 2**31],
    "max_age": [-1, 0, 1, S // 10 - 1, S // 10, S, 3600 * S],
    "duplicate_window": [-1, 0, 1, S // 10 - 1, S // 10, S, 3600 * S],
    "num_replicas": [-1, 0, 1, 2, 3, 6],
    "no_ack": [True],
    "description": ["x", "x" * 4096, "x" * 4097, "é" * 2049],
    "metadata": [{"a": "b"}, {}, None, {"_nats.ver": "1", "z": "", "b": "1"}, {"k": "x" * 131072},
                 {"kk": "x" * 131070}],
    "first_seq": [0, 1, 100, -1],
    "allow_direct": [True],
    "mirror_direct": [True],
    "sealed": [True],
    "deny_delete": [True],
    "deny_purge": [True],
    "allow_rollup_hdrs": [True],
    "discard_new_per_subject": [True],
    "allow_msg_ttl": [True],
    "subject_delete_marker_ttl": [-1, 1, S - 1, S, 5 * S],
    "allow_msg_counter": [True],
    "allow_atomic": [True],
    "allow_msg_schedules": [True],
    "allow_batched": [True],
    "persist_mode": ["default", "async", "", "x"],
    "consumer_limits": [{}, {"inactive_threshold": S, "max_ack_pending": 5}, {"x": 1}],
    "placement": [{}, {"cluster": "c"}, {"tags": ["t"]}, {"preferred": "p"}],
    "republish": [
        {"dest": "b"}, {"src": "S", "dest": "b"}, {"src": ">", "dest": "S"}, {"src": ">", "dest": ">"}, {"dest": ""},
        {"src": "a.*", "dest": "b.$1"}, {"src": "a.*", "dest": "b.$2"},
        {"src": ">", "dest": "r.>", "headers_only": True},
        {"src": "a", "dest": "b.>"}, {"src": "a..b", "dest": "c"},
    ],
    "subject_transform": [
        {"src": "S", "dest": "b"}, {"dest": "b.>"}, {"src": "a.*", "dest": "b.$1"}, {"src": "a.*", "dest": "b.$2"},
        {"src": "a..b", "dest": "b"}, {"src": "a.*", "dest": "b.{{wildcard(1)}}"},
        {"src": "a.*", "dest": "b.{{nope(1)}}"},
        {"src": "a.*", "dest": "b.{{left(1,2)}}"}, {"src": "a.*", "dest": "b..c"}, {"src": "a.*", "dest": "b c"},
        {"src": "a.>", "dest": "b.>.c"}, {"src": "a.>", "dest": "b"}, {"src": "a", "dest": ""},
        {"src": "a.*", "dest": "b.{{partition(3,1)}}"}, {"src": "a.*", "dest": "b.{{partition(3,2)}}"},
        {"src": "a.*", "dest": "b.{{split(1)}}"}, {"src": "a", "dest": "b.{{random(3)}}"},
    ],
    "mirror": [
        {"name": "O"}, {"name": ""}, {"name": "a b"}, {"name": "X"}, {"name": "S"},
        {"name": "O", "filter_subject": "o.x"},
        {"name": "O", "filter_subject": "o..x"}, {"name": "O", "opt_start_seq": 5},
        {"name": "O", "opt_start_time": "2024-01-01T00:00:00.500+02:00"}, {"name": "O", "opt_start_time": "x"},
        {"name": "O", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]},
        {"name": "O", "subject_transforms": [{"src": "a", "dest": "b"}, {"src": "a", "dest": "c"}]},
        {"name": "O", "subject_transforms": [{"src": "a..b", "dest": "b"}]},
        {"name": "O", "subject_transforms": [{"src": "a.*", "dest": "b.$3"}]},
        {"name": "X", "external": {"api": "$JS.d.API", "deliver": "p"}}, {"name": "X", "external": {"api": "$JS.API"}},
        {"name": "X", "external": {"api": "$JS.*.API"}}, {"name": "X", "external": {"api": "a", "deliver": "p.*"}},
        {"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}}, {"name": "O", "consumer": {"name": "c d"}},
        {"name": "O", "consumer": {"name": "c", "deliver_subject": "d.*"}},
        {"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}, "opt_start_seq": 1},
    ],
    "sources": [
        [{"name": "O"}], [{"name": ""}], [None], [{"name": "O"}, {"name": "O"}], [{"name": "S"}],
        [{"name": "O", "filter_subject": "a"}, {"name": "O", "filter_subject": "b"}],
        [{"name": "O", "filter_subject": "a"}, {"name": "O", "subject_transforms": [{"src": "a", "dest": ""}]}],
        [{"name": "O", "filter_subject": "o..x"}],
        [{"name": "O", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]}],
        [{"name": "O", "subject_transforms": [{"src": "a.*", "dest": "b.$1"}, {"src": "a.b", "dest": "c"}]}],
        [{"name": "O", "subject_transforms": [{"src": "a b", "dest": "b"}]}],
        [{"name": "O", "subject_transforms": [{"src": "a.*", "dest": "b.$2"}]}],
        [{"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}},
         {"name": "O", "consumer": {"name": "c", "deliver_subject": "e"}}],
        [{"name": "O", "consumer": {"name": "", "deliver_subject": "d"}}],
        [{"name": "X", "external": {"api": "$JS.d.API", "deliver": ""}}, {"name": "X"}],
        [{"name": "X", "external": {"api": "$JS.API", "deliver": ""}}],
    ],
}  # fmt: skip

# Fields that say something about each other.
STREAM_PAIRS: list[dict[str, Any]] = [
    {"subjects": [">"], "no_ack": True},
    {"subjects": [">"], "no_ack": True, "num_replicas": 3},
    {"subjects": ["$JS.>"], "no_ack": True},
    {"max_age": S, "duplicate_window": 2 * S},
    {"max_age": 60 * S},
    {"max_age": 60 * S, "duplicate_window": 60 * S},
    {"deny_purge": True, "allow_rollup_hdrs": True},
    {"allow_msg_counter": True, "discard": "new"},
    {"allow_msg_counter": True, "allow_msg_ttl": True},
    {"allow_msg_counter": True, "allow_msg_schedules": True},
    {"allow_msg_counter": True, "retention": "interest"},
    {"discard_new_per_subject": True, "discard": "new"},
    {"discard_new_per_subject": True, "discard": "new", "max_msgs_per_subject": 1},
    {"subject_delete_marker_ttl": S, "allow_msg_ttl": True, "allow_rollup_hdrs": True},
    {"subject_delete_marker_ttl": S, "deny_purge": True},
    {"allow_msg_schedules": True, "discard": "new"},
    {"allow_msg_schedules": True, "sources": [{"name": "O"}]},
    {"persist_mode": "async", "storage": "memory"},
    {"persist_mode": "async", "num_replicas": 3},
    {"persist_mode": "async", "allow_atomic": True},
    {"mirror": {"name": "O"}, "first_seq": 5},
    {"mirror": {"name": "O"}, "subjects": ["a"]},
    {"mirror": {"name": "O"}, "sources": [{"name": "O"}]},
    {"mirror": {"name": "O"}, "allow_msg_counter": True},
    {"mirror": {"name": "O"}, "allow_atomic": True},
    {"mirror": {"name": "O"}, "allow_batched": True},
    {"mirror": {"name": "O"}, "allow_msg_schedules": True},
    {"mirror": {"name": "O"}, "subject_delete_marker_ttl": S},
    {"mirror": {"name": "O"}, "max_msg_size": 10},
    {"mirror": {"name": "O"}, "mirror_direct": True},
    {"mirror": {"name": "O"}, "duplicate_window": S},
    {"sources": [{"name": "O"}], "max_msg_size": 10},
    {"sources": [{"name": "O"}], "subjects": ["x"]},
    {"subjects": ["o.x"]},
    {"subjects": ["o.>", "b"]},
    {"subjects": ["*.x"]},
    {
        "subjects": ["in.*"],
        "subject_transform": {"src": "in.*", "dest": "out.$1"},
        "republish": {"src": ">", "dest": ">"},
    },
    {"name": ""},
    {"name": "a b"},
    {"name": "a.b"},
    {"unknown": 1},
]

ORIGIN: Step = (
    "create", "O", {"name": "O", "subjects": ["o.>"], "max_msg_size": 100, "allow_direct": True, "storage": "memory"},
)  # fmt: skip

# What an existing stream is asked to become.
CHANGES: list[dict[str, Any]] = [
    {}, {"subjects": ["x", "y"]}, {"subjects": ["o.x"]}, {"storage": "file"}, {"retention": "interest"},
    {"retention": "workqueue"}, {"sealed": True}, {"deny_delete": True}, {"deny_purge": True}, {"max_age": S},
    {"allow_msg_ttl": True}, {"allow_msg_counter": True}, {"allow_msg_schedules": True}, {"persist_mode": "async"},
    {"mirror": {"name": "O"}, "subjects": []}, {"sources": [{"name": "O"}]}, {"num_replicas": 3}, {"max_bytes": 1000},
    {"discard_new_per_subject": True}, {"discard": "new"}, {"compression": "s2"}, {"first_seq": 10}, {"name": "T"},
    {"metadata": {"a": "b"}}, {"consumer_limits": {"max_ack_pending": 5}}, {"max_msgs": 10}, {"duplicate_window": S},
    {"allow_atomic": True}, {"allow_batched": True}, {"republish": {"dest": "r.>"}}, {"mirror_direct": True},
]  # fmt: skip
BEFORE: list[dict[str, Any]] = [
    {"subjects": ["x"]},
    {"subjects": ["x"], "storage": "memory", "retention": "workqueue"},
    {"subjects": ["x"], "storage": "memory", "deny_delete": True, "deny_purge": True, "allow_msg_ttl": True},
    {"subjects": ["x"], "storage": "memory", "allow_msg_schedules": True, "max_bytes": 5000},
]

CONSUMER_VALUES: dict[str, list[Any]] = {
    "durable_name": ["c", "d", "c d", "c.d", "x" * 256],
    "name": ["c", "d", "a.b"],
    "description": ["x" * 4096, "x" * 4097],
    "deliver_policy": [
        "all",
        "last",
        "new",
        "by_start_sequence",
        "by_start_time",
        "last_per_subject",
        "undefined",
        "x",
    ],
    "opt_start_seq": [0, 5],
    "opt_start_time": ["2024-01-01T00:00:00Z", "x"],
    "ack_policy": ["none", "all", "explicit", "flow_control", "x"],
    "ack_wait": [-1, 0, 5],
    "max_deliver": [-5, -1, 0, 5],
    "backoff": [[], [S], [S, 2 * S], [-1]],
    "filter_subject": ["s.a", "other", "s..a", ""],
    "filter_subjects": [["s.a", "s.b"], ["s.a", "s.*"], [""], ["s..a"], ["s.a"]],
    "replay_policy": ["instant", "original", "x"],
    "rate_limit_bps": [0, 1000],
    "sample_freq": ["50%", "50", "x", "-1", "%", "100%%"],
    "max_waiting": [-1, 0, 5],
    "max_ack_pending": [-5, -1, 0, 5, 5000],
    "flow_control": [True],
    "headers_only": [True],
    "max_batch": [-1, 5],
    "max_expires": [-1, 1, 1_000_000],
    "max_bytes": [-1, 5],
    "deliver_subject": ["d", "d.*", "d..e", "s.x", "d e"],
    "deliver_group": ["g"],
    "idle_heartbeat": [-1, 1, S // 10, S],
    "inactive_threshold": [-1, S, 3600 * S],
    "num_replicas": [-1, 1, 2],
    "mem_storage": [True],
    "direct": [True],
    "metadata": [{"a": "b"}, {"k": "x" * 131072}],
    "pause_until": ["2099-01-01T00:00:00Z", "0001-01-01T00:00:00Z"],
    "priority_groups": [["g"]],
    "priority_policy": ["none", "overflow", "pinned_client", "prioritized", "x"],
    "priority_timeout": [-1, S],
}  # fmt: skip
CONSUMER_PAIRS: list[dict[str, Any]] = [
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 5},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 5, "opt_start_time": "2024-01-01T00:00:00Z"},
    {"deliver_policy": "by_start_time", "opt_start_time": "2024-01-01T00:00:00Z"},
    {"deliver_policy": "by_start_time", "opt_start_time": "2024-01-01T00:00:00Z", "opt_start_seq": 5},
    {"deliver_policy": "last", "opt_start_seq": 5},
    {"deliver_policy": "new", "opt_start_time": "2024-01-01T00:00:00Z"},
    {"deliver_policy": "last_per_subject", "filter_subject": "s.a"},
    {"deliver_policy": "last_per_subject", "opt_start_seq": 3},
    {"filter_subject": "s.a", "filter_subjects": ["s.b"]},
    {"backoff": [S, 2 * S], "max_deliver": 1},
    {"backoff": [S, 2 * S], "max_deliver": 2, "ack_wait": 5},
    {"durable_name": "c", "name": "c"},
    {"durable_name": "c", "name": "d"},
    {"deliver_subject": "d", "max_waiting": 5},
    {"deliver_subject": "d", "ack_policy": "none", "max_ack_pending": 5},
    {"deliver_subject": "d", "idle_heartbeat": 1},
    {"deliver_subject": "d", "flow_control": True},
    {"deliver_subject": "d", "flow_control": True, "idle_heartbeat": S},
    {"deliver_subject": "d", "ack_policy": "flow_control"},
    {"deliver_subject": "d", "ack_policy": "flow_control", "ack_wait": S},
    {"deliver_subject": "d", "ack_policy": "flow_control", "max_deliver": 5},
    {"deliver_subject": "d", "ack_policy": "flow_control", "max_ack_pending": -1},
    {"deliver_subject": "d", "rate_limit_bps": 1000},
    {"deliver_subject": "d", "direct": True},
    {"deliver_subject": "d", "direct": True, "durable_name": "c"},
    {"deliver_subject": "d", "priority_policy": "overflow", "priority_groups": ["g"]},
    {"priority_policy": "overflow", "priority_groups": ["g"]},
    {"priority_policy": "overflow", "priority_groups": [""]},
    {"priority_policy": "overflow", "priority_groups": ["a b"]},
    {"priority_policy": "overflow", "priority_groups": ["x" * 17]},
    {"priority_policy": "pinned_client", "priority_groups": ["g"]},
    {"priority_policy": "pinned_client", "priority_groups": ["g"], "priority_timeout": 5 * S},
    {"unknown": 1},
]

CONSUMER_CHANGES: list[dict[str, Any]] = [
    {}, {"description": "y"}, {"deliver_policy": "new"}, {"mem_storage": True}, {"ack_policy": "all"},
    {"replay_policy": "original"}, {"max_waiting": 5}, {"max_ack_pending": 5}, {"filter_subject": "s.a"},
    {"deliver_subject": "d"}, {"backoff": [S, S], "max_deliver": 1}, {"max_deliver": 5}, {"metadata": {"a": "b"}},
    {"pause_until": "2099-01-01T00:00:00Z"}, {"sample_freq": "5%"}, {"headers_only": True},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 4}, {"durable_name": ""}, {"inactive_threshold": S * 99},
]  # fmt: skip

STREAMS_FOR_CONSUMERS: list[dict[str, Any]] = [
    {},
    {"retention": "workqueue"},
    {"retention": "interest", "consumer_limits": {"max_ack_pending": 100, "inactive_threshold": 60 * S}},
]


def stream(fields: dict[str, Any]) -> dict[str, Any]:
    return {"name": "S", "storage": "memory", **fields}


def stream_cases() -> Iterator[list[Step]]:
    for field, values in STREAM_VALUES.items():
        for value in values:
            for pedantic in ({}, {"pedantic": True}):
                yield [ORIGIN, ("create", "S", stream({field: value, **pedantic}))]
    for fields in STREAM_PAIRS:
        for pedantic in ({}, {"pedantic": True}):
            yield [ORIGIN, ("create", "S", stream({**fields, **pedantic}))]
    yield [("create", "S", stream({})), ("create", "S", stream({})), ("create", "S", stream({"max_msgs": 3}))]
    yield [("update", "S", stream({}))]
    yield [
        ("create", "S", stream({"sources": [{"name": "T"}]})),
        ("create", "T", {"name": "T", "sources": [{"name": "S"}]}),
    ]
    yield [
        ("create", "S", stream({"mirror": {"name": "T"}})),
        ("create", "T", {"name": "T", "mirror": {"name": "S"}}),
    ]
    for before in BEFORE:
        for change in CHANGES:
            yield [ORIGIN, ("create", "S", stream(before)), ("update", "S", stream({**before, **change}))]
    mirror = {"mirror": {"name": "O"}}
    for change in (
        {},
        {"mirror": None},
        {"mirror": {"name": "X"}},
        {"mirror": {"name": "O", "filter_subject": "o.a"}},
    ):
        yield [ORIGIN, ("create", "S", stream(mirror)), ("update", "S", stream({**mirror, **change}))]


def consumer(fields: dict[str, Any], **request: Any) -> dict[str, Any]:
    return {"stream_name": "S", "config": {"ack_policy": "explicit", **fields}, **request}


def consumer_cases() -> Iterator[list[Step]]:
    for settings in STREAMS_FOR_CONSUMERS:
        made: Step = ("create", "S", stream({"subjects": ["s.>"], **settings}))
        for field, values in CONSUMER_VALUES.items():
            for value in values:
                for pedantic in ({}, {"pedantic": True}):
                    yield [made, ("consumer", "CREATE.S.c", consumer({field: value}, **pedantic))]
        for fields in CONSUMER_PAIRS:
            yield [made, ("consumer", "CREATE.S.c", consumer(fields))]
        for change in CONSUMER_CHANGES:
            for action in ("", "create", "update"):
                first = {"durable_name": "c"}
                yield [
                    made,
                    ("consumer", "CREATE.S.c", consumer(first)),
                    ("consumer", "CREATE.S.c", consumer({**first, **change}, action=action)),
                ]
        for filters in (
            {},
            {"filter_subject": "s.a"},
            {"filter_subject": "s.*"},
            {"filter_subjects": ["s.b", "s.c"]},
        ):
            yield [
                made,
                ("consumer", "CREATE.S.c", consumer({"filter_subject": "s.a"})),
                ("consumer", "CREATE.S.d", consumer(filters)),
            ]
    yield from subject_cases()


def subject_cases() -> Iterator[list[Step]]:
    """What subject and body of a request say about the same."""
    made: Step = ("create", "S", stream({"subjects": ["s.>"], "max_consumers": 1}))
    for rest in (
        "CREATE.S.c", "CREATE.S.d", "CREATE.T.c", "CREATE.S.c.s.a", "CREATE.S.c.s.b", "DURABLE.CREATE.S.c",
        "DURABLE.CREATE.S.d", "CREATE.S.a/b",
    ):  # fmt: skip
        for fields in (
            {},
            {"durable_name": "c"},
            {"name": "c"},
            {"filter_subject": "s.a"},
            {"filter_subjects": ["s.a"]},
        ):
            yield [made, ("consumer", rest, consumer(fields))]
    yield [made, ("consumer", "CREATE.S", consumer({"durable_name": "c"}))]
    yield [made, ("consumer", "CREATE.S.c", consumer({})), ("consumer", "CREATE.S.d", consumer({}))]
    yield [made, ("consumer", "CREATE.S.c", consumer({}, action="update"))]
    yield [("consumer", "CREATE.S.c", consumer({}))]
    yield [made, ("consumer", "CREATE.S.c", consumer({"max_ack_pending": 50})),
           ("update", "S", stream({"subjects": ["s.>"], "consumer_limits": {"max_ack_pending": 10}}))]  # fmt: skip
