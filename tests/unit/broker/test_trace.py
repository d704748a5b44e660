"""The trace: what came and what went, on one line each and without secrets (SESS-12)."""

from tidelog.broker.settings import BrokerSettings, Limits
from unit.broker.house import House


def traced(settings: BrokerSettings | None = None, *sent: bytes) -> list[str]:
    house = House(settings, trace=True)
    client = house.arrive()
    for data in sent:
        client.send(data)
    prefix = f"{client.session.label} - "
    assert all(line.startswith(prefix) for line in house.log.of("trace"))
    return [line.removeprefix(prefix) for line in house.log.of("trace")]


def test_operations_and_deliveries() -> None:
    lines = traced(
        None,
        b'CONNECT {"verbose":false,"pedantic":false}\r\n',
        b"SUB foo 1\r\nPUB foo r 2\r\nhi\r\nPING\r\nUNSUB 1\r\n",
    )
    assert lines[1:] == [
        "<<- [SUB foo 1]",
        "<<- [PUB foo r 2]",
        '<<- MSG_PAYLOAD: ["hi"]',
        "->> [MSG foo 1 r 2]",
        '->> MSG_PAYLOAD: ["hi"]',
        "<<- [PING]",
        "<<- [UNSUB 1]",
    ]
    assert lines[0].startswith("<<- [CONNECT {")


def test_secrets_are_left_out() -> None:
    secrets = '"pass":"hunter2","auth_token":"hunter2","sig":"hunter2","jwt":"hunter2"'
    lines = traced(None, b"CONNECT {%s}\r\n" % secrets.encode(), b"CONNECT {hunter2\r\n")
    assert not any("hunter2" in line for line in lines)
    assert "[REDACTED]" in lines[0]


def test_errors() -> None:
    lines = traced(None, b"SUB a..b 1\r\nPUB foo.* 0\r\n\r\n")
    assert "->> [-ERR Invalid Subject]" in lines
    assert "->> [-ERR Invalid Publish Subject]" in lines


def test_payloads_cannot_begin_a_line_of_their_own() -> None:
    lines = traced(None, b'CONNECT {"verbose":false}\r\n', b'PUB foo 9\r\na\nb\r\n\x1b"c\xff\r\n')
    assert lines[-1] == r'<<- MSG_PAYLOAD: ["a\nb\r\n\x1b\"c\xff"]'


def test_long_payloads_are_cut() -> None:
    settings = BrokerSettings(limits=Limits(max_traced_msg_len=3))
    lines = traced(settings, b"PUB foo 3\r\nabc\r\nPUB foo 4\r\nabcd\r\n")
    assert [line for line in lines if "PAYLOAD" in line] == [
        '<<- MSG_PAYLOAD: ["abc"]',
        '<<- MSG_PAYLOAD: ["abc..."]',
    ]


def test_tracing_changes_nothing_for_the_client() -> None:
    stream = b"SUB foo 1\r\nSUB foo q 2\r\nPUB foo 2\r\nhi\r\nPUB $NRG.x 0\r\n\r\nPING\r\nUNSUB 1\r\n"
    answers = []
    for trace in (False, True):
        client = House(trace=trace).client()
        client.send(stream)
        answers.append(client.read())
    assert answers[0] == answers[1]
