"""Development certificates: what clients check, and how the files come to be."""

import ipaddress
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID

from webhook.certs import dev
from webhook.certs.files import write_atomically

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
NAMES = ("localhost", "127.0.0.1", "::1", "gpu-tollgate.tollgate-system.svc")


def parsed(made: dev.DevCertificates) -> tuple[x509.Certificate, x509.Certificate]:
    return x509.load_pem_x509_certificate(made.ca), x509.load_pem_x509_certificate(made.certificate)


@pytest.mark.parametrize("name", NAMES)
def test_the_chain_holds_for_every_name(name: str) -> None:
    authority, certificate = parsed(dev.make(NAMES, NOW))
    try:
        subject: x509.DNSName | x509.IPAddress = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    builder = verification.PolicyBuilder().store(verification.Store([authority])).time(NOW)
    assert builder.build_server_verifier(subject).verify(certificate, []) == [certificate, authority]


def test_another_name_or_another_authority_is_not_believed() -> None:
    authority, certificate = parsed(dev.make(NAMES, NOW))
    other, _ = parsed(dev.make(NAMES, NOW))
    for store, name in ((authority, "example.com"), (other, "localhost")):
        builder = verification.PolicyBuilder().store(verification.Store([store])).time(NOW)
        with pytest.raises(verification.VerificationError):
            builder.build_server_verifier(x509.DNSName(name)).verify(certificate, [])


def shake_hands(client: ssl.SSLObject, server: ssl.SSLObject, *pipes: tuple[ssl.MemoryBIO, ssl.MemoryBIO]) -> None:
    """A TLS handshake in memory: each side speaks until it waits for the other."""
    waiting = {client, server}
    while waiting:
        for side in (client, server):
            try:
                side.do_handshake()
                waiting.discard(side)
            except ssl.SSLWantReadError:
                pass
            for source, target in pipes:
                target.write(source.read())


def test_openssl_believes_the_chain_under_its_strict_rules(tmp_path: Path) -> None:
    made = dev.make(NAMES, datetime.now(UTC))
    dev.write(tmp_path, made)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    trusting.load_verify_locations(tmp_path / "ca.crt")
    to_client, from_client, to_server, from_server = (ssl.MemoryBIO() for _ in range(4))
    client = trusting.wrap_bio(to_client, from_client, server_hostname="localhost")
    server = serving.wrap_bio(to_server, from_server, server_side=True)
    shake_hands(client, server, (from_client, to_server), (from_server, to_client))
    assert client.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(made.certificate.decode())


def test_times_are_those_of_the_argument() -> None:
    made = dev.make(NAMES, NOW)
    for certificate in parsed(made):
        assert certificate.not_valid_before_utc == NOW - timedelta(minutes=5)
        assert certificate.not_valid_after_utc == NOW + timedelta(days=365) == made.not_after


def test_keys_are_p256_and_belong_to_the_certificate() -> None:
    made = dev.make(NAMES, NOW)
    key = load_pem_private_key(made.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert key.public_key() == parsed(made)[1].public_key()


def test_the_authority_signs_and_the_certificate_serves() -> None:
    authority, certificate = parsed(dev.make(NAMES, NOW))
    signs = authority.extensions.get_extension_for_class(x509.KeyUsage).value
    serves = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (signs.key_cert_sign, signs.digital_signature) == (True, False)
    assert (serves.key_cert_sign, serves.digital_signature) == (False, True)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(
        ca=True, path_length=0
    )
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_the_certificate_points_to_its_authority_by_key() -> None:
    authority, certificate = parsed(dev.make(NAMES, NOW))
    signer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    points_to = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert points_to.key_identifier == signer.digest


def test_serial_numbers_never_repeat() -> None:
    serials = {certificate.serial_number for _ in range(3) for certificate in parsed(dev.make(NAMES, NOW))}
    assert len(serials) == 6


def test_a_name_given_twice_stands_once() -> None:
    _, certificate = parsed(dev.make(["localhost", "localhost"], NOW))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]


@pytest.mark.parametrize(
    "name",
    ["", "https://x", "host:443", "[::1]", "under_score", "bücher.de", "-a", "a..b", "a" * 64, "1.2.3.4/8", "a b"],
)
def test_what_is_neither_name_nor_address_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is neither a DNS name nor an IP address") as caught:
        dev.make(["localhost", name], NOW)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", ["*.example.com", "a.b.c", "10.0.0.1", "fe80::1", "x1", "A.example"])
def test_names_as_people_write_them_are_accepted(name: str) -> None:
    _, certificate = parsed(dev.make([name], NOW))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(list(names)) == 1


def test_no_name_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one DNS name or IP address"):
        dev.make([], NOW)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_written_with_a_key_for_its_owner_alone(tmp_path: Path) -> None:
    made = dev.make(NAMES, NOW)
    directory = tmp_path / "new" / "certs"
    paths = dev.write(directory, made)
    assert sorted(path.name for path in paths) == ["ca.crt", "tls.crt", "tls.key"]
    assert sorted(path.name for path in directory.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    assert (directory / "tls.key").read_bytes() == made.key
    assert (directory / "tls.crt").read_bytes() == made.certificate
    assert (directory / "ca.crt").read_bytes() == made.ca
    assert mode(directory / "tls.key") == 0o600
    assert mode(directory / "tls.crt") == 0o644


def test_an_open_key_file_is_replaced_by_a_closed_one(tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_bytes(b"old")
    (tmp_path / "tls.key").chmod(0o666)
    dev.write(tmp_path, dev.make(NAMES, NOW))
    assert mode(tmp_path / "tls.key") == 0o600


def test_a_reader_sees_the_old_file_or_the_new_one_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new", 0o644)
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new", 0o644)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "ca.crt", b"x", 0o644)
