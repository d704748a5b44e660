"""The two sides of the wire, written out once by hand."""

from tidelog.bench.workload import delivered, exchange, lap, matches, payload, published


def test_payload_tells_publisher_and_number() -> None:
    assert payload(2, 41, 16)[:8] == b"C000041:"
    assert len(payload(0, 0, 16 * 1024)) == 16 * 1024
    assert payload(0, 1, 16) != payload(0, 2, 16)


def test_plain_frames() -> None:
    messages = lap(("a", "b.c"), size=8, count=3, publisher=1)
    assert published(messages) == b"PUB a 8\r\nB000000:\r\nPUB b.c 8\r\nB000001:\r\nPUB a 8\r\nB000002:\r\n"
    stream = delivered(messages)
    assert stream.data == b"MSG a 1 8\r\nB000000:\r\nMSG b.c 1 8\r\nB000001:\r\nMSG a 1 8\r\nB000002:\r\n"
    assert stream.starts == (0, 21, 44)
    assert stream.mark_at == -1


def test_frames_with_headers() -> None:
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    messages = lap(("a",), size=8, count=1, headers=block)
    assert published(messages) == b"HPUB a 18 26\r\n" + block + b"A000000:\r\n"
    stream = delivered(messages)
    assert stream.data == b"HMSG a 1 18 26\r\n" + block + b"A000000:\r\n"
    assert stream.data[stream.mark_at : stream.mark_at + 1] == b"A"


def test_only_matching_subjects_are_delivered() -> None:
    messages = lap(("a", "b"), size=8, count=4)
    stream = delivered(messages, {"b": "77"}.get)
    assert stream.data == b"MSG b 77 8\r\nA000001:\r\nMSG b 77 8\r\nA000003:\r\n"


def test_wildcards() -> None:
    assert matches("a.*.c", "a.b.c")
    assert not matches("a.*.c", "a.b.c.d")
    assert not matches("a.*", "a")
    assert matches("a.>", "a.b.c")
    assert not matches("a.>", "a")
    assert matches(">", "a")
    assert matches("a.b", "a.b")
    assert not matches("a.b.c", "a.b")


def test_exchange_places_point_at_the_digits() -> None:
    frames = exchange("svc", size=128, requester=3)
    inbox_at, body_at, reply_inbox_at, reply_body_at = frames.token_places
    for data, places in (
        (frames.request, (inbox_at, body_at)),
        (frames.reply, (reply_inbox_at, reply_body_at)),
    ):
        for place in places:
            assert data[place : place + 8] == b"0" * 8
    assert frames.request.startswith(b"PUB svc _INBOX.Bench003")
    assert frames.request[inbox_at + 8 :].startswith(b" 128\r\n")
    assert frames.reply[reply_inbox_at + 8 :].startswith(b" 1 128\r\n")
    assert frames.head == b"MSG svc 1 "
    assert frames.inbox_size == len("_INBOX.") + 22 + 1 + 8
