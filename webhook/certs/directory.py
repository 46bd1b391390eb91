"""A serving certificate that others made, read from the directory of a kubernetes.io/tls Secret."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from msgspec import Struct

from webhook.certs.dev import CA_FILE, CERTIFICATE_FILE, KEY_FILE


class BadDirectory(ValueError):  # noqa: N818 - named for what is wrong
    """A directory whose files cannot be served from; one line with the path."""


class Served(Struct, frozen=True, gc=False):
    """PEM texts as `dev.DevCertificates` has them, and until when each may be used."""

    ca: bytes
    certificate: bytes
    key: bytes
    ca_not_after: datetime
    not_after: datetime


def read(directory: Path, now: datetime) -> Served:
    """`tls.crt` (the certificate, perhaps its chain), `tls.key` and `ca.crt`, which clients trust.

    Raises BadDirectory for what is missing, no PEM, not valid now, or not signed by the authority. Whether the key
    belongs to the certificate is found out by who loads the pair.
    """
    if not directory.is_dir():
        raise BadDirectory(f"{directory} is no directory; it must hold {CERTIFICATE_FILE}, {KEY_FILE} and {CA_FILE}")
    certificate, key, ca = (_content(directory / name) for name in (CERTIFICATE_FILE, KEY_FILE, CA_FILE))
    chain = _certificates(directory / CERTIFICATE_FILE, certificate)
    authorities = _certificates(directory / CA_FILE, ca)
    leaf = chain[0]
    _check_times(directory / CERTIFICATE_FILE, leaf, now)
    signer = next((authority for authority in authorities if _issued(chain[-1], authority)), None)
    if signer is None:
        raise BadDirectory(
            f"{directory / CERTIFICATE_FILE} is not signed by the authority in {CA_FILE}"
            f" ({authorities[0].subject.rfc4514_string()}); write both from the same issue"
        )
    _check_times(directory / CA_FILE, signer, now)
    return Served(
        ca=ca,
        certificate=certificate,
        key=key,
        ca_not_after=signer.not_valid_after_utc,
        not_after=leaf.not_valid_after_utc,
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadDirectory(f"cannot read {path}: {error.strerror}") from None


def _certificates(path: Path, content: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise BadDirectory(f"{path} holds no PEM certificate") from None


def _check_times(path: Path, certificate: x509.Certificate, now: datetime) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        raise BadDirectory(f"{path} is not valid before {begin:%Y-%m-%dT%H:%M:%SZ}; look at the clock of this machine")
    if now > end:
        raise BadDirectory(f"{path} expired at {end:%Y-%m-%dT%H:%M:%SZ}; renew it")


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """A certificate that signed itself is its own authority."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
