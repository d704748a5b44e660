"""Names in certificates: read, written, compared."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from tidelog.broker.certificate import PeerCertificate, parse_dn, read_certificate, same_parts

CN, ORG, UNIT = "2.5.4.3", "2.5.4.10", "2.5.4.11"
DC, EMAIL = "0.9.2342.19200300.100.1.25", "1.2.840.113549.1.9.1"


def der(subject: x509.Name, *alternatives: x509.GeneralName) -> bytes:
    key = Ed25519PrivateKey.generate()
    day = datetime.datetime(2026, 1, 1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day)
        .not_valid_after(day)
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, None).public_bytes(Encoding.DER)


def test_a_certificate_is_read() -> None:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme"),
            x509.NameAttribute(NameOID.COMMON_NAME, "joe"),
        ]
    )
    assert read_certificate(
        der(
            subject,
            x509.DNSName("a.b"),
            x509.RFC822Name("joe@a.b"),
            x509.UniformResourceIdentifier("spiffe://a/b"),
            x509.DNSName("c.d"),
        )
    ) == PeerCertificate(
        subject=(((ORG, "Acme"),), ((CN, "joe"),)),
        emails=("joe@a.b",),
        dns_names=("a.b", "c.d"),
        uris=("spiffe://a/b",),
    )
    assert read_certificate(der(subject)).emails == ()


def test_what_is_no_certificate() -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_certificate(b"garbage")


def subject(*parts: tuple[tuple[str, str], ...]) -> PeerCertificate:
    return PeerCertificate(subject=parts)


@pytest.mark.parametrize(
    "text",
    [
        "CN=joe,OU=b+OU=a,O=Acme",
        "cn=joe, ou=a + ou=b, o=Acme",
        "CN=j\\6fe,OU=a+OU=b,O=\\41cme",
        "CN=joe ,OU=a+OU=b,O=Acme ",
    ],
)
def test_a_dn_equals_however_it_is_written(text: str) -> None:
    dn = subject(((ORG, "Acme"),), ((UNIT, "a"), (UNIT, "b")), ((CN, "joe"),)).dn
    assert dn is not None
    assert parse_dn(text) == dn


def test_a_dn_in_another_order_has_the_same_parts() -> None:
    dn = subject(((ORG, "Acme"),), ((CN, "joe"),)).dn
    turned, other = parse_dn("O=Acme,CN=joe"), parse_dn("O=Acme,CN=jim")
    longer = parse_dn("O=Acme,CN=joe,C=x")
    assert dn is not None
    assert turned is not None
    assert other is not None
    assert longer is not None
    assert turned != dn
    assert same_parts(turned, dn)
    assert not same_parts(other, dn)
    assert not same_parts(longer, dn)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CN=a\\,b", "a,b"),
        ("CN=a\\+b", "a+b"),
        ("CN=\\ a\\ ", " a "),
        ("CN=a\\ \\ ", "a  "),
        ("CN=\\C3\\A9", "é"),
        ("CN=a=b", "a=b"),
        ("CN=\\#a", "#a"),
        ("CN=a\\\\", "a\\"),
        ("CN=a\\\\ ", "a\\"),
    ],
)
def test_escapes(text: str, value: str) -> None:
    assert parse_dn(text) == (frozenset({("CN", value)}),)


@pytest.mark.parametrize(
    "text",
    ["", "joe", "joe@acme.com", "CN=", "CN", "=a", "CN=a,", "CN=#0401", "CN=a\\", "CN=\\zz", "CN=\\ff"],
)
def test_what_is_no_dn(text: str) -> None:
    assert parse_dn(text) is None


@pytest.mark.parametrize(
    ("certificate", "texts"),
    [
        (subject(((ORG, "Acme"),), ((CN, "joe"),)), ["CN=joe,O=Acme"]),
        (subject(((CN, "joe"),), ((ORG, "Acme"),)), ["CN=joe,O=Acme"]),
        (subject(((ORG, "A"),), ((ORG, "B"),)), ["O=A+O=B"]),
        (subject(((CN, "a"),), ((CN, "b"),)), ["CN=b"]),
        (subject(((DC, "com"),), ((DC, "acme"),), ((CN, "joe"),)), ["CN=joe,DC=com,DC=acme", "CN=joe"]),
        (subject(((CN, "a,b "),)), ["CN=a\\,b\\ "]),
        (subject(((CN, " #"),)), ["CN=\\ #"]),
        (subject(((CN, "#"),)), ["CN=\\#"]),
        (subject(((EMAIL, "x"),), ((CN, "joe"),)), ["CN=joe"]),
        (subject(), [""]),
    ],
)
def test_the_subject_as_go_writes_it(certificate: PeerCertificate, texts: list[str]) -> None:
    assert list(certificate.subject_texts()) == texts


def test_the_subject_is_written_in_gos_order_whatever_the_certificates() -> None:
    numbers = {
        "CN": 3,
        "SERIALNUMBER": 5,
        "C": 6,
        "L": 7,
        "ST": 8,
        "STREET": 9,
        "O": 10,
        "OU": 11,
        "POSTALCODE": 17,
    }
    # As nats-server logged it.
    text = "SERIALNUMBER=s,CN=s,OU=s,O=s,POSTALCODE=s,STREET=s,L=s,ST=s,C=s"
    parts = [((f"2.5.4.{number}", "s"),) for number in numbers.values()]
    assert list(subject(*parts).subject_texts()) == [text]
    assert list(subject(*reversed(parts)).subject_texts()) == [text]


def test_an_unknown_attribute_makes_a_dn_incomparable() -> None:
    assert subject(((EMAIL, "x"),), ((CN, "joe"),)).dn is None


def test_names_in_the_peers_order() -> None:
    certificate = PeerCertificate(emails=("e",), dns_names=("d",), uris=("u",))
    assert list(certificate.names()) == ["e", "d", "u"]
