"""The names in a client's certificate, as far as a user can be found by them.

A user may be called by an e-mail address, DNS name or URI among the alternative names, or by the
distinguished name of the subject. `names` gives the first three, in the peer's order; `dn_equals` compares
distinguished names as RFC 4517 does, whatever the order of the attributes within one part; `subject_texts`
writes the subject as the peer's language does, which loses attributes that it does not know.

Whether a certificate can be trusted was decided by the TLS handshake.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# One part of a distinguished name: usually one (type, value), rarely more.
Part = tuple[tuple[str, str], ...]
# Parts as (upper-case type, value) sets, the most specific first, as they are written.
Dn = tuple[frozenset[tuple[str, str]], ...]

_DOMAIN_COMPONENT = "0.9.2342.19200300.100.1.25"
_TYPE_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.17": "POSTALCODE",
    _DOMAIN_COMPONENT: "DC",
}
# The order in which Go's pkix.Name writes attributes, and those of which it keeps the last one only.
_WRITTEN_ORDER = ("SERIALNUMBER", "CN", "OU", "O", "POSTALCODE", "STREET", "L", "ST", "C")
_SINGLE = ("SERIALNUMBER", "CN")

_ESCAPED = re.compile(r"\\(?:([ \"#+,;<=>\\])|((?:[0-9a-fA-F]{2})(?:\\[0-9a-fA-F]{2})*))")
_ATTRIBUTE = re.compile(r" *([^=,+\\]+?) *= *((?:[^,+\\]|\\.)*)(,|\+|$)")


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """`subject` in the certificate's order, types as dotted numbers."""

    subject: tuple[Part, ...] = ()
    emails: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()

    def names(self) -> Iterator[str]:
        """The alternative names, in the order in which users are looked for."""
        yield from self.emails
        yield from self.dns_names
        yield from self.uris

    @property
    def dn(self) -> Dn | None:
        """The subject, comparable with `parse_dn`; None if it holds a type without a name."""
        if any(kind not in _TYPE_NAMES for part in self.subject for kind, _ in part):
            return None
        return tuple(
            frozenset((_TYPE_NAMES[kind], value) for kind, value in part) for part in reversed(self.subject)
        )

    def subject_texts(self) -> Iterator[str]:
        """The subject as a text: with the domain components behind it if it has any, then without."""
        values: dict[str, list[str]] = {}
        for kind, value in (attribute for part in self.subject for attribute in part):
            values.setdefault(_TYPE_NAMES.get(kind, ""), []).append(value)
        for single in _SINGLE:
            values[single] = values.get(single, [])[-1:]
        text = ",".join(
            "+".join(f"{kind}={_escape(value)}" for value in values[kind])
            for kind in _WRITTEN_ORDER
            if any(values.get(kind, ()))
        )
        if "DC" in values:
            yield ",".join([text, *(f"DC={value}" for value in values["DC"])])
        yield text


def read_certificate(der: bytes) -> PeerCertificate:
    """Take the names out of a certificate that the TLS handshake accepted. Raises ValueError."""
    from cryptography import x509  # only mapped certificates need it, and it is slow to import

    certificate = x509.load_der_x509_certificate(der)
    subject = tuple(
        tuple((attribute.oid.dotted_string, _text(attribute.value)) for attribute in part)
        for part in certificate.subject.rdns
    )
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return PeerCertificate(subject)
    return PeerCertificate(
        subject,
        emails=tuple(alternatives.get_values_for_type(x509.RFC822Name)),
        dns_names=tuple(alternatives.get_values_for_type(x509.DNSName)),
        uris=tuple(alternatives.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def parse_dn(text: str) -> Dn | None:
    """A distinguished name in RFC 4514 notation; None if it is none, or holds a value in BER."""
    parts: list[frozenset[tuple[str, str]]] = []
    part: set[tuple[str, str]] = set()
    pos = 0
    while True:
        match = _ATTRIBUTE.match(text, pos)
        if match is None:
            return None
        kind, value, end = match.groups()
        plain = _unescape(_strip_right(value))
        if plain is None or not plain or value.startswith("#"):
            return None
        part.add((kind.upper(), plain))
        if end != "+":
            parts.append(frozenset(part))
            part = set()
        if not end:
            return tuple(parts)
        pos = match.end()


def same_parts(a: Dn, b: Dn) -> bool:
    """Whether both names have the same parts, in any order."""
    return Counter(a) == Counter(b)


def _strip_right(value: str) -> str:
    stripped = value.rstrip(" ")
    # A blank behind a backslash belongs to the value.
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and len(stripped) < len(value) else stripped


def _unescape(value: str) -> str | None:
    if "\\" not in value:
        return value
    if _ESCAPED.sub("", value).find("\\") >= 0:
        return None
    try:
        return _ESCAPED.sub(
            lambda match: match[1] or bytes.fromhex(match[2].replace("\\", "")).decode(), value
        )
    except UnicodeDecodeError:
        return None


def _escape(value: str) -> str:
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    if value.endswith(" ") and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
