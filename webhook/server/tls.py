"""TLS of the webhook port: what is negotiated, and how a new certificate comes into use.

Measured with Python's ssl on OpenSSL 3: `load_cert_chain` on a context in use breaks every later handshake if key and
certificate do not match, and keeps serving the old certificate when the type of key changes. So a certificate is loaded
into a fresh context, which replaces the current one by a single assignment; `sni_callback` hands it to each handshake
(also to clients that send no SNI). The trust store for client certificates comes along with the new context; whether
they are demanded is decided by the context that listens, and so for good at the start.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""TLS 1.2 with forward secrecy and authenticated encryption only; TLS 1.3 has nothing else."""

ALPN_PROTOCOLS = ("http/1.1",)
"""The API server speaks HTTP/1.1 to webhooks (apiserver pkg/util/webhook/client.go)."""


class BadCertificate(ValueError):  # noqa: N818 - named for what is wrong
    """A certificate, key or CA bundle that cannot be used; one line."""


class Certificates:
    """What the server shows: `listener` is the context to listen with, `replace` brings a new certificate into use.

    `certificate` and `key` are PEM (the certificate may be followed by its chain). With `client_ca`, a bundle in PEM,
    clients must show a certificate that it signed. Raises BadCertificate.
    """

    def __init__(self, certificate: bytes, key: bytes, client_ca: bytes | None = None) -> None:
        self._demands_client = client_ca is not None
        self.listener = _context(certificate, key, client_ca)
        self.listener.sni_callback = self._use_current
        self.current = _context(certificate, key, client_ca)
        self.leaf = _leaf(certificate)

    def replace(self, certificate: bytes, key: bytes, client_ca: bytes | None = None) -> None:
        """Show this certificate from the next handshake on. Raises BadCertificate and changes nothing."""
        if (client_ca is not None) is not self._demands_client:
            raise BadCertificate("client certificates are demanded or not from the start on; restart to change it")
        current, leaf = _context(certificate, key, client_ca), _leaf(certificate)
        self.current, self.leaf = current, leaf

    def _use_current(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self.current


_LOADING_ERRORS = {"KEY_VALUES_MISMATCH": "the key does not belong to the certificate"}


def _context(certificate: bytes, key: bytes, client_ca: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(list(ALPN_PROTOCOLS))
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        with _as_file(certificate + b"\n" + key) as path:
            context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or error)
        found = _LOADING_ERRORS.get(reason, f"no PEM certificate with an unencrypted PEM key found ({reason})")
        raise BadCertificate(f"the serving certificate cannot be used: {found}") from None
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        # A resumed session is not checked against the trust store again, so none is resumed.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise BadCertificate(f"the client CA bundle cannot be used: no PEM certificates found ({error})") from None
    return context


def _leaf(certificate: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificates(certificate)[0]


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path under which OpenSSL reads the content: it takes keys from files only.

    On Linux the file is in memory, so that a key never touches a disk and a read-only root file system is enough.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tollgate-certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory(prefix="tollgate-") as directory:
            path = Path(directory) / "tls.pem"
            path.write_bytes(content)
            yield str(path)
