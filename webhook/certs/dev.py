"""Self-signed certificates for laptops, tests and `tollgate serve --standalone`.

An authority is made, signs one serving certificate, and its key is thrown away: nothing can be signed with it later.
Times come in as arguments; the same functions serve any clock.
"""

import ipaddress
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from webhook.certs.files import PRIVATE_MODE, PUBLIC_MODE, write_atomically

LIFETIME = timedelta(days=365)
"""Of the authority and the certificate alike, since neither is of use without the other. Nobody renews these."""

BACKDATING = timedelta(minutes=5)
"""Clocks of clients may be behind ours by this much."""

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
"""How a server on this machine is reached."""

CA_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.crt", "tls.crt", "tls.key"
"""The keys of a kubernetes.io/tls Secret, as cert-manager fills it."""

_DNS_NAME = re.compile(
    r"(?=.{1,253}$)(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    re.ASCII | re.IGNORECASE,
)


class DevCertificates(Struct, frozen=True, gc=False):
    """PEM texts: what clients trust, and what the server shows and signs with."""

    ca: bytes
    certificate: bytes
    key: bytes
    not_after: datetime


def make(names: Iterable[str], now: datetime) -> DevCertificates:
    """An authority and one serving certificate for the names (DNS names and IP addresses), valid from `now`.

    Raises ValueError where a name is neither.
    """
    alternatives = _alternative_names(names)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = _name("Tollgate development CA")
    begin, end = now - BACKDATING, now + LIFETIME
    ca_identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    authority = (
        _builder(ca_name, ca_name, ca_key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(ca_identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name("Tollgate"), ca_name, key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_identifier), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return DevCertificates(
        ca=authority.public_bytes(serialization.Encoding.PEM),
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        not_after=certificate.not_valid_after_utc,
    )


def write(directory: Path, certificates: DevCertificates) -> tuple[Path, ...]:
    """Write `ca.crt`, `tls.crt` and `tls.key` (readable by the owner alone) and return their paths. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    files = (
        (directory / KEY_FILE, certificates.key, PRIVATE_MODE),
        (directory / CERTIFICATE_FILE, certificates.certificate, PUBLIC_MODE),
        (directory / CA_FILE, certificates.ca, PUBLIC_MODE),
    )
    for path, content, mode in files:
        write_atomically(path, content, mode)
    return tuple(path for path, _, _ in files)


def _alternative_names(names: Iterable[str]) -> list[x509.GeneralName]:
    alternatives: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            if not _DNS_NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is neither a DNS name nor an IP address; give a host alone, without scheme or port"
                ) from None
            alternatives.append(x509.DNSName(name))
    if not alternatives:
        raise ValueError("a serving certificate needs at least one DNS name or IP address")
    return alternatives


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
