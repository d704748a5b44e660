"""Top-level options: from text to Options, as `load` does it without files."""

import pytest

from tidelog.base.errors import ConfigError, ConfigErrors
from tidelog.broker.settings import GLOBAL_ACCOUNT, AccountSettings, Limits, Mapping
from tidelog.log.policy import SyncPolicy
from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_build import build_options
from tidelog.serve.option_table import option_table, read_options
from tidelog.serve.options import Options
from tidelog.stream.storage import read_policy


def options_of(text: str) -> Options:
    findings = Findings()
    found, places = read_options(parse_text(text, {}, "a.conf"), findings)
    return build_options(found, places, findings, "a.conf")


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        options_of(text)
    error = caught.value
    return [str(each) for each in (error.errors if isinstance(error, ConfigErrors) else [error])]


def test_nothing_set_means_the_defaults() -> None:
    assert options_of("") == Options(config_file="a.conf")


def test_listeners() -> None:
    options = options_of(
        "listen: '127.0.0.1:4000'\nhttp: 8000\nclient_advertise: 'example.org:1'\nallow_non_tls: true"
    )
    assert (options.host, options.port) == ("127.0.0.1", 4000)
    assert (options.http_host, options.http_port) == ("", 8000)
    assert options.client_advertise == "example.org:1"
    assert options.allow_non_tls


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("4000", "0.0.0.0", 4000),
        ("-1", "0.0.0.0", -1),
        ("0", "0.0.0.0", 4222),
        ("':4000'", "0.0.0.0", 4000),
        ("'[::1]:4000'", "::1", 4000),
        ("'localhost:-1'", "localhost", -1),
    ],
)
def test_listen_takes_a_port_or_an_address(value: str, host: str, port: int) -> None:
    options = options_of(f"listen: {value}\n")
    assert (options.host, options.port) == (host, port)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listen: 'localhost'", 'a.conf:1:1: could not parse address string "localhost"'),
        ("listen: '::1:4222'", 'a.conf:1:1: could not parse address string "::1:4222"'),
        ("listen: 'localhost:x'", 'a.conf:1:1: could not parse port "x"'),
        ("listen: true", "a.conf:1:1: expected port or host:port, got bool"),
        ("\n port: 70000", "a.conf:2:2: invalid port 70000"),
        ("port: x", "a.conf:1:1: Expected an integer, got string"),
        ("debug: 1", "a.conf:1:1: Expected a boolean, got int64"),
        ("pid_file: 1", "a.conf:1:1: Expected a string, got int64"),
        ('server_name: "a b"', "a.conf:1:1: server name cannot contain spaces"),
        ("max_payload: 3GB", "a.conf:1:1: max_payload value is too big"),
        ("max_sub_tokens: 256", "a.conf:1:1: max_sub_tokens value is too big"),
        ("max_sub_tokens: 0", "a.conf:1:1: max_sub_tokens value can not be negative"),
        (
            "ping_interval: 2x",
            'a.conf:1:1: error parsing ping_interval: time: unknown unit "x" in duration "2x"',
        ),
        ("lame_duck_duration: 10s", "a.conf:1:1: invalid lame_duck_duration of 10s, minimum is 30 seconds"),
        ("lame_duck_grace_period: '-1s'", "a.conf:1:1: invalid lame_duck_grace_period, needs to be positive"),
        ("write_timeout: x", "a.conf:1:1: write_timeout must be 'default', 'close' or 'retry'"),
        ("bogus: 1", 'a.conf:1:1: unknown field "bogus"'),
        ("server_tags: [1 ]", "a.conf:1:15: error parsing tags: unsupported type in array int64"),
        ("server_metadata: x", "a.conf:1:1: error parsing metadata: unsupported type string"),
        ("proxy_protocol: true", "a.conf:1:1: proxy_protocol is not supported"),
        ("operator: x", "a.conf:1:1: operator mode is not supported"),
        ("resolver: MEMORY", "a.conf:1:1: an account resolver is not supported"),
        ("trusted: [x]", "a.conf:1:1: operator mode (trusted keys) is not supported"),
        ("tidelog { x: 1 }", 'a.conf:1:11: unknown field "x"'),
        ("feature_flags { x: 1 }", 'a.conf:1:17: error parsing feature flag "x": expected bool, got int64'),
        ("proxies { trusted: [ { key: x } ] }", 'a.conf:1:24: invalid proxy key "x"'),
        ("system_account: NONE", "a.conf:1:1: error resolving system account: account missing"),
        ("\nhttp: 1\nhttps: 2", "a.conf:3:1: can't specify both HTTP (1) and HTTPs (2) ports"),
        ("https: 2", "a.conf:1:1: TLS cert and key required for HTTPS"),
        ("client_advertise: 'a:b:c'", "a.conf:1:1: address a:b:c: too many colons in address"),
        (
            "\nmax_payload: 2MB\nmax_pending: 1MB",
            "a.conf:2:1: max_payload (2097152) cannot be higher than max_pending (1048576)",
        ),
        (
            "lame_duck_duration: 30s\nlame_duck_grace_period: 40s",
            "a.conf:2:1: lame duck grace period (40s) should be strictly lower than lame duck duration (30s)",
        ),
    ],
)
def test_faults_tell_where_and_what(text: str, message: str) -> None:
    assert faults(text)[0].startswith(message)


def test_all_faults_are_told_in_the_order_of_the_file() -> None:
    found = faults("port: x\nbogus: 1\nhost: a\nauthorization { users: [ {user: 1}, {} ], extra: 1 }")
    assert [fault.split(": ")[0] for fault in found] == [
        "a.conf:1:1",
        "a.conf:2:1",
        "a.conf:4:27",
        "a.conf:4:37",
        "a.conf:4:43",
    ]


def test_variables_are_no_unknown_fields() -> None:
    assert options_of("SIZE: 1MB\nmax_payload: $SIZE").broker.limits.max_payload == 1024 * 1024
    assert faults("SIZE: 1MB\nmax_payload: 1MB") == ['a.conf:1:1: unknown field "SIZE"']


def test_limits() -> None:
    text = """
    max_control_line: 8KB, max_payload: 2MB, max_pending: 10MB, max_connections: 5, max_subscriptions: 6
    max_sub_tokens: 7, max_traced_msg_len: 8, max_closed_clients: 9, ping_interval: "30s", ping_max: 3
    write_deadline: "2s", no_fast_producer_stall: true
    """
    assert options_of(text).broker.limits == Limits(
        max_control_line=8192,
        max_payload=2 * 1024 * 1024,
        max_pending=10 * 1024 * 1024,
        max_connections=5,
        max_subscriptions=6,
        max_sub_tokens=7,
        max_traced_msg_len=8,
        max_closed_clients=9,
        ping_interval_ns=30_000_000_000,
        ping_max=3,
        write_deadline_ns=2_000_000_000,
        no_fast_producer_stall=True,
    )


def test_zero_means_the_default() -> None:
    text = "max_payload: 0, max_pending: 0, max_control_line: 0, ping_interval: '0s', ping_max: 0, write_deadline: '0s'"
    assert options_of(text).broker.limits == Limits()


def test_no_connections_is_not_no_limit() -> None:
    assert options_of("max_connections: 0").broker.limits.max_connections == -1


def test_the_log() -> None:
    options = options_of("debug: true, trace_verbose: true, logtime: false, log_file: x, log_size_limit: 1KB")
    assert options.log.debug
    assert options.log.trace
    assert options.trace_verbose
    assert not options.log.time
    assert (options.log.file, options.log.size_limit) == ("x", 1024)


def test_names_and_tags() -> None:
    options = options_of("server_name: s, server_tags: [A, ' b ', a], server_metadata { y: 2s, x: 1s }")
    assert options.server_name == "s"
    assert options.broker.tags == ("a", "b")
    assert options.broker.metadata == (("x", "1s"), ("y", "2s"))


def test_the_sync_policy_of_streams() -> None:
    assert options_of("tidelog { sync: balanced }").jetstream.sync == "balanced"
    knobs = options_of("tidelog { sync { messages: 5, interval: '250ms' } }").jetstream.sync
    assert read_policy(knobs) == SyncPolicy(messages=5, interval_ns=250_000_000)
    for text, message in (
        ("tidelog { sync: often }", 'sync policy "often" is not known'),
        ("tidelog { sync { messages: -1 } }", "may not be negative"),
    ):
        with pytest.raises(ConfigError, match=message):
            options_of(text)


def test_compat_metrics_have_a_prefix() -> None:
    assert options_of("tidelog { compat_metrics: true }").compat_metrics == "gnatsd"
    assert options_of("tidelog { compat_metrics: nats }").compat_metrics == "nats"
    assert options_of("tidelog { compat_metrics: false }").compat_metrics == ""


def test_the_base_path_has_one_spelling() -> None:
    for written in ("mon", "/mon/", "//mon"):
        assert options_of(f"http_base_path: '{written}'").http_base_path == "/mon"


def test_the_system_account() -> None:
    assert options_of("").broker.system_account == "$SYS"
    assert options_of("accounts { S {} }, system_account: S").broker.system_account == "S"
    assert options_of("no_system_account: true").broker.system_account == ""


def test_mappings_outside_of_accounts_are_of_the_global_one() -> None:
    options = options_of("mappings { foo: bar }")
    assert options.broker.accounts == (AccountSettings(GLOBAL_ACCOUNT, mappings=(Mapping("foo", "bar"),)),)


def test_numbers_for_durations_raise_a_doubt() -> None:
    options = options_of("ping_interval: 5")
    assert options.broker.limits.ping_interval_ns == 5_000_000_000
    text = 'a.conf:1:1: invalid use of field "ping_interval": ping_interval should be converted to a duration'
    assert options.doubts == (text,)
    assert text in options.warnings


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("cluster { port: 1 }", "a.conf:1:1: 'cluster' is accepted but not yet built"),
        ("gateway { name: x }", "a.conf:1:1: 'gateway' is accepted but not yet built"),
        ("mqtt { port: 1 }", "a.conf:1:1: 'mqtt' is accepted but not yet built"),
        ("leafnodes { remotes: [ {url: 'nats://a:1'} ] }", "a.conf:1:13: 'remotes' of leafnodes is accepted"),
        ("prof_port: 1", "'prof_port' is accepted but not yet built"),
        ("ocsp: true", "a.conf:1:1: 'ocsp' is accepted but not yet built"),
        ("max_payload: 9MB", "Maximum payloads over 8.00 MB are generally discouraged"),
        ("authorization { token: s3cret }", "Plaintext passwords detected, use nkeys or bcrypt"),
    ],
)
def test_what_has_no_effect_is_warned_about(text: str, warning: str) -> None:
    options = options_of(text)
    assert any(each.startswith(warning) for each in options.warnings), options.warnings
    assert not options.doubts


def test_every_key_of_the_table_is_lower_case_and_refuses_nonsense() -> None:
    table = option_table(Findings())
    assert all(key == key.lower() for key in table)
    for key in table:
        if key not in ("accounts", "ocsp", "ocsp_cache"):  # nats-server overlooks other kinds there, too
            assert faults(f"{key}: 2026-01-02T03:04:05Z"), key


def test_keys_are_known_in_any_case() -> None:
    assert options_of("Port: 1\nMAX_PAYLOAD: 5").port == 1


def test_secrets_are_not_shown() -> None:
    text = """
    authorization { user: u, password: s3cret-1 }
    websocket { port: -1, no_tls: true, password: x, token: s3cret-2 }
    """.replace("password: x, token: s3cret-2", "authorization { password: s3cret-3, token: s3cret-2 }")
    options = options_of(
        text
        + "cluster { port: 1, authorization { user: a, password: s3cret-4 }, routes: ['nats://a:s3cret@b:1'] }"
    )
    assert options.cluster.password == "s3cret-4"
    assert "s3cret" not in repr(options)
    assert "s3cret" not in "".join(options.warnings)
