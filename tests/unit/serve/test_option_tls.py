import pytest

from tidelog.base.errors import ConfigError
from tidelog.serve.conf import parse_text
from tidelog.serve.field import Findings
from tidelog.serve.option_tls import read_tls, tls_from_flags
from tidelog.serve.options import CertificatePair, TlsSettings

PIN = "0123456789abcdef" * 4


def tls(text: str) -> TlsSettings:
    findings = Findings()
    settings = read_tls(parse_text(f"\n tls {{ {text} }}", {}, "f")["tls"], findings)
    findings.finish()
    return settings


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        tls(text)
    return caught.value.message


def test_nothing_set_means_the_defaults() -> None:
    assert tls("") == TlsSettings()
    assert tls("").position == ("f", 2, 2)


def test_a_certificate_and_an_authority() -> None:
    assert tls(
        "cert_file: c, key_file: k, ca_file: a, verify: true, timeout: '3s', min_version: '1.3'"
    ) == TlsSettings(
        certificates=(CertificatePair("c", "k"),), ca_file="a", verify=True, timeout_s=3.0, min_version="1.3"
    )


def test_several_certificates() -> None:
    pairs = tls("certs: [ {cert_file: a, key_file: b}, {cert_file: c, key_file: d} ]").certificates
    assert pairs == (CertificatePair("a", "b"), CertificatePair("c", "d"))


def test_to_map_is_to_verify() -> None:
    settings = tls("verify_and_map: true")
    assert settings.verify
    assert settings.verify_and_map


@pytest.mark.parametrize(
    ("value", "first", "delay_s"),
    [
        ("true", True, 0.0),
        ("false", False, 0.0),
        ('"on"', True, 0.0),
        ('"off"', False, 0.0),
        ("auto", True, 0.05),
        ('"300ms"', True, 0.3),
    ],
)
@pytest.mark.parametrize("key", ["handshake_first", "first", "immediate"])
def test_the_handshake_may_come_first(key: str, value: str, first: bool, delay_s: float) -> None:
    settings = tls(f"{key}: {value}")
    assert (settings.handshake_first, settings.fallback_delay_s) == (first, delay_s)


def test_lists() -> None:
    settings = tls(
        f"pinned_certs: ['{PIN.upper()}'], curve_preferences: [CurveP256], connection_rate_limit: 5 "
    )
    assert settings.pinned_certs == {PIN}
    assert settings.curve_preferences == ("CurveP256",)
    assert settings.connection_rate_limit == 5


def test_unsafe_ciphers_must_be_allowed() -> None:
    name = "TLS_RSA_WITH_RC4_128_SHA"
    assert fault(f"cipher_suites: [{name}]").endswith(f"'allow_insecure_cipher_suites' option set: {name}")
    assert tls(f"cipher_suites: [{name}], allow_insecure_cipher_suites: true").cipher_suites == (name,)


def test_peer_ocsp_may_only_be_off() -> None:
    assert tls("ocsp_peer: false") == tls("ocsp_peer { verify: false }") == TlsSettings()
    assert fault("ocsp_peer: true").startswith("'ocsp_peer' is not supported")
    assert fault("ocsp_peer { verify: true }").startswith("'ocsp_peer' is not supported")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bogus: 1", 'error parsing tls config, unknown field "bogus"'),
        ("cert_file: 1", "error parsing tls config, expected 'cert_file' to be filename"),
        ("verify: 1", "error parsing tls config, expected 'verify' to be a boolean"),
        ("cert_file: c", "missing 'key_file' in TLS configuration"),
        ("key_file: k", "missing 'cert_file' in TLS configuration"),
        (
            "cert_file: c, key_file: k, certs: [ {cert_file: a, key_file: b} ]",
            "error parsing tls config, cannot combine",
        ),
        ("certs: x", "error parsing certificates config: unsupported type string"),
        ("certs: [x]", "error parsing certificates config: unsupported type string"),
        ("certs: [ {cert_file: a} ]", "error parsing certificates config: both 'cert_file' and 'cert_key'"),
        ("certs: [ {x: a} ]", 'error parsing tls certs config, unknown field "x"'),
        ("cipher_suites: []", "error parsing tls config, 'cipher_suites' cannot be empty"),
        ("cipher_suites: [x]", "unrecognized cipher x"),
        ("curve_preferences: [x]", "unrecognized curve preference x"),
        ("timeout: x", "error parsing tls config, 'timeout' time: invalid duration"),
        ("timeout: true", "error parsing tls config, 'timeout' wrong type"),
        ("connection_rate_limit: x", "error parsing tls config, 'connection_rate_limit' wrong type"),
        ("pinned_certs: x", "error parsing tls config, expected 'pinned_certs' to be a list"),
        ("pinned_certs: [ab]", "error parsing tls config, 'pinned_certs' key ab does not look like"),
        ("first: 1", 'field "first" should be a boolean or a string, got int64'),
        ("first: x", 'field "first"\'s value "x" is invalid'),
        ("min_version: '1.1'", "error parsing tls config: unsupported TLS version: TLS 1.1"),
        ("min_version: x", "error parsing tls config: unknown version: x"),
        ("min_version: 1.2 ", "error parsing tls config: 'min_version' wrong type: 1.2"),
        ("verify_cert_and_check_known_urls: true", "verify_cert_and_check_known_urls not supported"),
        ("cert_store: x", "certificate stores are not supported"),
    ],
)
def test_faults(text: str, message: str) -> None:
    assert fault(text).startswith(message)


def test_flags_need_certificate_and_key() -> None:
    assert tls_from_flags("c", "k", "a", verify=True) == TlsSettings(
        (CertificatePair("c", "k"),), "a", verify=True
    )
    with pytest.raises(ConfigError, match="certificate must be present"):
        tls_from_flags("", "k", "", verify=False)
    with pytest.raises(ConfigError, match="key must be present"):
        tls_from_flags("c", "", "", verify=False)
