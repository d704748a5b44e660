from pathlib import Path

import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve import flag
from tidelog.serve.flag import FlagError, Invocation, load, parse_arguments
from tidelog.serve.options import CertificatePair, ClusterSettings, Options, TlsSettings


def options_of(*argv: str, **environ: str) -> Options:
    return load(parse_arguments(argv), environ)


def test_no_flags_mean_the_defaults() -> None:
    assert parse_arguments([]) == Invocation()
    assert options_of() == Options()


@pytest.mark.parametrize(
    "argv", [["-p", "1"], ["--port", "1"], ["-p=1"], ["--p=1"], ["-port=0x1"], ["-p", "2", "-p", "1"]]
)
def test_spellings_of_a_flag(argv: list[str]) -> None:
    assert options_of(*argv).port == 1


def test_ports() -> None:
    assert options_of("-p", "-1").port == -1
    assert options_of("-p", "0").port == 4222
    assert options_of("-m", "8222").http_port == 8222


@pytest.mark.parametrize(
    ("argv", "debug", "trace", "verbose"),
    [
        (["-D"], True, False, False),
        (["-V"], False, True, False),
        (["-DV"], True, True, False),
        (["-VV"], False, True, True),
        (["-DVV"], True, True, True),
        (["-DV", "-D=false"], False, True, False),
        (["--debug=1", "--trace=f"], True, False, False),
    ],
)
def test_switches_of_the_log(argv: list[str], debug: bool, trace: bool, verbose: bool) -> None:
    options = options_of(*argv)
    assert (options.log.debug, options.log.trace, options.trace_verbose) == (debug, trace, verbose)


def test_many_flags() -> None:
    options = options_of(
        *("-a", "h", "-n", "s", "-P", "pid", "--ports_file_dir", "d", "-l", "f", "-T=false", "--logtime_utc"),
        *("--log_size_limit", "5", "--max_traced_msg_len", "6", "--client_advertise", "c", "-sd", "e", "-js"),
        *("--user", "u", "--pass", "w"),
    )
    assert (options.host, options.server_name, options.pid_file, options.ports_file_dir) == (
        "h",
        "s",
        "pid",
        "d",
    )
    assert (options.log.file, options.log.time, options.log.utc, options.log.size_limit) == (
        "f",
        False,
        True,
        5,
    )
    assert (options.broker.limits.max_traced_msg_len, options.client_advertise) == (6, "c")
    assert (options.jetstream.enabled, options.jetstream.store_dir) == (True, "e")
    assert (options.broker.authorization.user, options.broker.authorization.password) == ("u", "w")
    assert options_of("--auth", "t").broker.authorization.token == "t"


def test_tls_flags() -> None:
    expected = TlsSettings((CertificatePair("c", "k"),), "a", verify=True)
    assert options_of("--tlscert=c", "--tlskey=k", "--tlscacert=a", "--tlsverify").tls == expected
    with pytest.raises(ConfigError, match="TLS Server certificate must be present and valid"):
        options_of("--tls")


def test_cluster_flags() -> None:
    options = options_of(
        "--cluster", "nats://u:p@h:-1", "--routes", "nats://a:1, nats://b:2", "--cluster_name", "c"
    )
    assert options.cluster == ClusterSettings(
        name="c", host="h", port=-1, user="u", password="p", routes=("nats://a:1", "nats://b:2")
    )
    with pytest.raises(ConfigError, match="solicited routes require cluster capabilities"):
        options_of("--routes", "nats://a:1")
    with pytest.raises(ConfigError, match="expected cluster password to be set"):
        options_of("--cluster", "nats://u@h:1")
    with pytest.raises(ConfigError, match="must read nats://host:port"):
        options_of("--cluster", "h:1")


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text(
        "port: 1\nhost: h\ndebug: true\ntls { cert_file: c, key_file: k }\nstore_dir: d\n"
        "authorization { user: u, password: w }\n"
    )
    options = options_of("-c", str(file), "-p", "2", "-D=false", "--tls=false", "-sd", "e", "--user", "v")
    assert (options.port, options.host, options.log.debug, options.tls) == (2, "h", False, None)
    assert options.jetstream.store_dir == "e"
    assert (options.broker.authorization.user, options.broker.authorization.password) == ("v", "w")
    assert options.config_file == str(file)
    assert options.config_digest.startswith("sha256:")


def test_the_environment_reaches_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("port: $PORT\n")
    assert options_of("-c", str(file), PORT="77").port == 77


@pytest.mark.parametrize(
    ("argv", "action"),
    [
        (["-v"], "version"),
        (["--version", "-h"], "version"),
        (["version"], "version"),
        (["-D", "VERSION"], "version"),
        (["-h"], "help"),
        (["help"], "help"),
        (["--", "help"], "help"),
        (["--help_tls"], "help_tls"),
        (["-t", "-c", "x"], "test_config"),
        (["-sl", "ldm"], "signal"),
        (["--signal=reload=123"], "signal"),
        (["-v=false"], "serve"),
    ],
)
def test_actions(argv: list[str], action: str) -> None:
    assert parse_arguments(argv).action == action


def test_signals_are_handed_on() -> None:
    assert parse_arguments(["--signal", "ldm=123"]).signal == "ldm=123"
    with pytest.raises(ConfigError, match="invalid signal parameters"):
        parse_arguments(["--signal", "a=b=c"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--bogus"], "flag provided but not defined: -bogus"),
        (["-p"], "flag needs an argument: -p"),
        (["-p", "x"], 'invalid value "x" for flag -p: parse error'),
        (["-D=x"], 'invalid boolean value "x" for -D: parse error'),
        (["---p"], "bad flag syntax: ---p"),
        (["-=1"], "bad flag syntax: -=1"),
    ],
)
def test_flags_that_are_none(argv: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_arguments(argv)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["serve"], 'unrecognized command: "serve"'),
        (["-t"], "must specify [-c, --config] option to check configuration file syntax"),
        (["-p", "70000"], "invalid port 70000"),
        (["-n", "a b"], "server name cannot contain spaces"),
    ],
)
def test_values_that_cannot_be(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_arguments(argv)
    assert str(caught.value) == message
    assert not isinstance(caught.value, FlagError)


def test_testing_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("port: 1\n")
    options = options_of("-t", "-c", str(file))
    assert flag.tested(options) == f"configuration file {file} is valid ({options.config_digest})"
    file.write_text("ping_interval: 5\n")
    with pytest.raises(ConfigError, match="ping_interval should be converted to a duration"):
        flag.tested(options_of("-t", "-c", str(file)))
    file.write_text("# nothing\n")
    with pytest.raises(ConfigError, match="config has no values or is empty"):
        flag.tested(options_of("-t", "-c", str(file)))


def test_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(parse_arguments(["--pass", "s3cret", "--user", "u"]))
