"""The `tls` block, wherever it stands. Files are named here and opened by `serve.tls`."""

from tidelog.base.duration import parse_duration_ns
from tidelog.base.errors import ConfigError
from tidelog.serve.conf import Node
from tidelog.serve.field import (
    SECOND_NS,
    UNKEPT,
    Findings,
    Reader,
    Table,
    aliases,
    fault,
    kind,
    list_of,
    quoted,
    read_section,
    strings,
    table_of,
    text,
    timeout_s,
)
from tidelog.serve.options import CertificatePair, TlsSettings

HANDSHAKE_FALLBACK_S = 0.05
PIN_SIZE = 64  # hex digits of a sha256

SAFE_CIPHERS = frozenset(
    (
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    )
)
# Only with `allow_insecure_cipher_suites`.
UNSAFE_CIPHERS = frozenset(
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_RC4_128_SHA",
    )
)
CURVES = frozenset(
    (
        "CurveP256",
        "CurveP384",
        "CurveP521",
        "SecP256r1MLKEM768",
        "SecP384r1MLKEM1024",
        "X25519",
        "X25519MLKEM768",
    )
)


def tls_reader(findings: Findings) -> Reader:
    def read(node: Node) -> TlsSettings:
        return read_tls(node, findings)

    return read


def read_tls(node: Node, findings: Findings) -> TlsSettings:
    """The settings of a block. ConfigError: something in it cannot be used."""
    local = Findings()
    tree = table_of(node, "Expected tls to be a map/struct")
    found = read_section(tree, TLS_TABLE, local, "error parsing tls config, unknown field {}")
    findings.errors.extend(local.errors)
    if local.errors:
        return TlsSettings()
    cert_file, key_file = found.pop("cert_file", ""), found.pop("key_file", "")
    if found.get("certificates") and cert_file:
        raise fault(node, "error parsing tls config, cannot combine 'cert_file' option with 'certs' option")
    if cert_file and not key_file:
        raise fault(node, "missing 'key_file' in TLS configuration")
    if key_file and not cert_file:
        raise fault(node, "missing 'cert_file' in TLS configuration")
    if cert_file:
        found["certificates"] = (CertificatePair(cert_file, key_file),)
    unsafe = [name for name in found.get("cipher_suites", ()) if name in UNSAFE_CIPHERS]
    if unsafe and not found.pop("allow_insecure", False):
        about = "insecure cipher suites configured without 'allow_insecure_cipher_suites' option set"
        raise fault(node, f"{about}: {', '.join(unsafe)}")
    found.pop("allow_insecure", None)
    handshake_first, fallback_delay_s = found.pop("handshake_first", (False, 0.0))
    if found.pop("map", False):
        found["verify_and_map"] = found["verify"] = True
    if not found.get("timeout_s", 1):  # 0 is the default
        del found["timeout_s"]
    return TlsSettings(
        **found,
        handshake_first=handshake_first,
        fallback_delay_s=fallback_delay_s,
        position=(node.path, node.line, node.column),
    )


def file_name(key: str) -> Reader:
    def read(node: Node) -> str:
        if not isinstance(node.value, str):
            raise fault(node, f"error parsing tls config, expected '{key}' to be filename")
        return node.value

    return read


def switch(key: str) -> Reader:
    def read(node: Node) -> bool:
        if not isinstance(node.value, bool):
            raise fault(node, f"error parsing tls config, expected '{key}' to be a boolean")
        return node.value

    return read


def refused(key: str, why: str) -> Reader:
    """Of what must not be overlooked: it may be there as long as it is off."""

    def read(node: Node) -> None:
        is_off = node.value is False or (
            isinstance(node.value, dict) and all(entry.value is False for entry in node.value.values())
        )
        if not is_off:
            raise fault(node, f"'{key}' is not supported: {why}")

    return read


def check_known_urls(node: Node) -> None:
    if switch("verify_cert_and_check_known_urls")(node):
        raise fault(node, "verify_cert_and_check_known_urls not supported in this context")


def names_of(key: str, what: str, known: frozenset[str]) -> Reader:
    def read(node: Node) -> tuple[str, ...]:
        items = list_of(node, f"error parsing tls config, '{key}' should be an array")
        if not items:
            raise fault(node, f"error parsing tls config, '{key}' cannot be empty")
        for item in items:
            if text(item) not in known:
                raise fault(item, f"unrecognized {what} {text(item)}")
        return tuple(text(item) for item in items)

    return read


def pins(node: Node) -> frozenset[str]:
    about = "hex-encoded sha256 of DER encoded SubjectPublicKeyInfo"
    if not isinstance(node.value, list):
        raise fault(node, f"error parsing tls config, expected 'pinned_certs' to be a list of {about}")
    found = [pin.lower() for pin in strings("pinned_certs")(node)]
    for pin in found:
        if len(pin) != PIN_SIZE or pin.strip("0123456789abcdef"):
            raise fault(
                node, f"error parsing tls config, 'pinned_certs' key {pin} does not look like {about}"
            )
    return frozenset(found)


def rate(node: Node) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        raise fault(node, "error parsing tls config, 'connection_rate_limit' wrong type")
    return max(0, node.value)


def handshake_first(key: str) -> Reader:
    """Of whether the handshake comes before INFO, and after how many seconds without one INFO goes first."""

    def read(node: Node) -> tuple[bool, float]:
        if isinstance(node.value, bool):
            return node.value, 0.0
        if not isinstance(node.value, str):
            raise fault(node, f"field {quoted(key)} should be a boolean or a string, got {kind(node)}")
        match node.value.lower():
            case "true" | "on":
                return True, 0.0
            case "false" | "off":
                return False, 0.0
            case "auto" | "auto_fallback":
                return True, HANDSHAKE_FALLBACK_S
        try:
            return True, parse_duration_ns(node.value) / SECOND_NS
        except ValueError:
            about = f"field {quoted(key)}'s value {quoted(node.value)} is invalid"
            raise fault(node, about) from None

    return read


def certificates(node: Node) -> tuple[CertificatePair, ...]:
    about = "error parsing certificates config"
    if not isinstance(node.value, list):
        raise fault(node, f"{about}: unsupported type {kind(node)}")
    pairs = []
    for item in node.value:
        if not isinstance(item.value, dict):
            raise fault(item, f"{about}: unsupported type {kind(item)}")
        files: dict[str, str] = {}
        for name, value in item.value.items():
            if not isinstance(value.value, str):
                raise fault(value, f"{about}: unsupported type {kind(value)}")
            if name not in ("cert_file", "key_file"):
                raise fault(value, f"error parsing tls certs config, unknown field {quoted(name)}")
            files[name] = value.value
        if not files.get("cert_file") or not files.get("key_file"):
            raise fault(item, f"{about}: both 'cert_file' and 'cert_key' options are required")
        pairs.append(CertificatePair(**files))
    return tuple(pairs)


def min_version(node: Node) -> str:
    if not isinstance(node.value, str):
        raise fault(node, f"error parsing tls config: 'min_version' wrong type: {node.value}")
    if node.value in ("1.0", "1.1"):
        raise fault(node, f"error parsing tls config: unsupported TLS version: TLS {node.value}")
    if node.value not in ("1.2", "1.3"):
        raise fault(node, f"error parsing tls config: unknown version: {node.value}")
    return node.value


def no_store(node: Node) -> None:
    raise fault(node, "certificate stores are not supported on this platform")


TLS_TABLE: Table = {
    "cert_file": ("cert_file", file_name("cert_file")),
    "key_file": ("key_file", file_name("key_file")),
    "ca_file": ("ca_file", file_name("ca_file")),
    "insecure": (UNKEPT, switch("insecure")),
    "verify": ("verify", switch("verify")),
    "verify_and_map": ("map", switch("verify_and_map")),
    "verify_cert_and_check_known_urls": (UNKEPT, check_known_urls),
    "allow_insecure_cipher_suites": ("allow_insecure", switch("allow_insecure_cipher_suites")),
    "cipher_suites": ("cipher_suites", names_of("cipher_suites", "cipher", SAFE_CIPHERS | UNSAFE_CIPHERS)),
    "curve_preferences": ("curve_preferences", names_of("curve_preferences", "curve preference", CURVES)),
    "timeout": ("timeout_s", timeout_s("tls config")),
    "connection_rate_limit": ("connection_rate_limit", rate),
    "pinned_certs": ("pinned_certs", pins),
    "handshake_first": ("handshake_first", handshake_first("handshake_first")),
    "first": ("handshake_first", handshake_first("first")),
    "immediate": ("handshake_first", handshake_first("immediate")),
    "ocsp_peer": (UNKEPT, refused("ocsp_peer", "clients with revoked certificates would come in")),
    **aliases("certs certificates", "certificates", certificates),
    "min_version": ("min_version", min_version),
    **aliases("cert_store cert_match_by cert_match ca_certs_match cert_match_skip_invalid", UNKEPT, no_store),
}


def tls_from_flags(cert_file: str, key_file: str, ca_file: str, *, verify: bool) -> TlsSettings:
    """The settings of the `--tls...` flags."""
    if not cert_file:
        raise ConfigError("TLS Server certificate must be present and valid")
    if not key_file:
        raise ConfigError("TLS Server private key must be present and valid")
    return TlsSettings(certificates=(CertificatePair(cert_file, key_file),), ca_file=ca_file, verify=verify)
