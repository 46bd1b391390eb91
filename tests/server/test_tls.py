"""What is negotiated on the webhook port, and how certificates are replaced under way."""

import asyncio
import socket
import ssl
import warnings

import pytest
import trustme
from cryptography import x509

from tests.review.reviews import body
from tests.server.client import Client
from tests.server.conftest import Serve, Serving, issue, trusting
from webhook.server.tls import BadCertificate, Certificates


async def shown(port: int, context: ssl.SSLContext, server_hostname: str = "localhost") -> x509.Certificate:
    client = await Client.connect(port, context, server_hostname)
    der = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    client.close()
    return x509.load_der_x509_certificate(der)


def blind() -> ssl.SSLContext:
    """Believes any certificate: what is shown is looked at by the test."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_1_2_and_1_3_are_spoken_with_authenticated_ciphers(
    serve: Serve, authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    async with serve() as serving:
        context = trusting(authority)
        context.minimum_version = context.maximum_version = version
        client = await Client.connect(serving.port, context)
        cipher, _, _ = client.writer.get_extra_info("ssl_object").cipher()
        assert "GCM" in cipher or "CHACHA20" in cipher
        assert (await client.post("/mutate", body())).response["allowed"]
        client.close()


async def test_tls_1_1_is_refused_to_a_client_that_gets_1_2(serve: Serve) -> None:
    async with serve() as serving:
        context = blind()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await Client.connect(serving.port, context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        client = await Client.connect(serving.port, context)
        assert client.writer.get_extra_info("ssl_object").version() == "TLSv1.2"
        client.close()


@pytest.mark.parametrize("ciphers", ["AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "AES128-GCM-SHA256"])
async def test_old_ciphers_are_refused(serve: Serve, ciphers: str) -> None:
    async with serve() as serving:
        context = blind()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers + ":@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await Client.connect(serving.port, context)


async def test_http_1_1_is_agreed_on(serve: Serve, authority: trustme.CA) -> None:
    async with serve() as serving:
        context = trusting(authority)
        context.set_alpn_protocols(["h2", "http/1.1"])
        client = await Client.connect(serving.port, context)
        assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        client.close()


async def test_a_replaced_certificate_is_shown_from_the_next_handshake_on_and_old_connections_live(
    serve: Serve, authority: trustme.CA
) -> None:
    async with serve() as serving:
        old = await serving.connect()
        before = await shown(serving.port, trusting(authority))
        serving.certificates.replace(*issue(authority))
        after = await shown(serving.port, trusting(authority))
        assert before.serial_number != after.serial_number
        assert after == serving.certificates.leaf
        assert (await old.post("/mutate", body())).response["allowed"]
        old.close()


async def test_a_replaced_certificate_is_shown_to_clients_without_sni(serve: Serve, authority: trustme.CA) -> None:
    async with serve() as serving:
        serving.certificates.replace(*issue(authority))
        assert await shown(serving.port, blind(), server_hostname="") == serving.certificates.leaf


async def test_a_key_of_another_certificate_is_refused_and_nothing_breaks(serve: Serve, authority: trustme.CA) -> None:
    async with serve() as serving:
        before = serving.certificates.leaf
        certificate, key = issue(authority)[0], issue(authority)[1]
        with pytest.raises(BadCertificate, match="the key does not belong to the certificate"):
            serving.certificates.replace(certificate, key)
        assert serving.certificates.leaf == before
        assert await shown(serving.port, trusting(authority)) == before


@pytest.mark.parametrize(("certificate", "key"), [(b"", b""), (b"half a file", b"x"), (None, b""), (b"", None)])
async def test_half_written_files_are_refused_and_nothing_breaks(
    serve: Serve, authority: trustme.CA, certificate: bytes | None, key: bytes | None
) -> None:
    async with serve() as serving:
        whole = issue(authority)
        with pytest.raises(BadCertificate, match="no PEM certificate with an unencrypted PEM key found"):
            serving.certificates.replace(
                whole[0] if certificate is None else certificate, whole[1] if key is None else key
            )
        assert await shown(serving.port, trusting(authority)) == serving.certificates.leaf


async def test_the_type_of_key_may_change_both_ways(serve: Serve, authority: trustme.CA) -> None:
    async with serve() as serving:
        for key_type in (trustme.KeyType.RSA, trustme.KeyType.ECDSA, trustme.KeyType.RSA):
            serving.certificates.replace(*issue(authority, key_type))
            assert await shown(serving.port, trusting(authority)) == serving.certificates.leaf


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        writer.write(await reader.readline())
        await writer.drain()
    except OSError:
        pass
    writer.close()


async def is_served(port: int, client_authority: trustme.CA | None) -> bool:
    context = blind()
    if client_authority is not None:
        client_authority.issue_cert("kube-apiserver").configure_cert(context)
    try:
        client = await Client.connect(port, context)
        await client.send(b"hello\n")
        served = await client.reader.readline() == b"hello\n"
    except OSError:
        return False
    client.close()
    return served


async def test_client_certificates_are_demanded_and_their_authority_can_be_replaced(authority: trustme.CA) -> None:
    first, second = trustme.CA(), trustme.CA()
    certificate, key = issue(authority)
    certificates = Certificates(certificate, key, first.cert_pem.bytes())
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=certificates.listener)
    port = server.sockets[0].getsockname()[1]
    assert [await is_served(port, one) for one in (None, first, second)] == [False, True, False]
    certificates.replace(certificate, key, second.cert_pem.bytes())
    assert [await is_served(port, one) for one in (None, first, second)] == [False, False, True]
    both = first.cert_pem.bytes() + second.cert_pem.bytes()
    certificates.replace(certificate, key, both)
    assert [await is_served(port, one) for one in (None, first, second)] == [False, True, True]
    server.close()


async def test_client_certificates_do_not_lower_the_minimum_and_resume_no_session(authority: trustme.CA) -> None:
    certificates = Certificates(*issue(authority), trustme.CA().cert_pem.bytes())
    for context in (certificates.listener, certificates.current):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.num_tickets == 0


async def test_demanding_client_certificates_cannot_be_switched_under_way(authority: trustme.CA) -> None:
    pair = issue(authority)
    with pytest.raises(BadCertificate, match="restart to change it"):
        Certificates(*pair).replace(*pair, authority.cert_pem.bytes())
    with pytest.raises(BadCertificate, match="restart to change it"):
        Certificates(*pair, authority.cert_pem.bytes()).replace(*pair)


async def test_a_client_bundle_that_is_none_is_refused(authority: trustme.CA) -> None:
    with pytest.raises(BadCertificate, match="the client CA bundle cannot be used"):
        Certificates(*issue(authority), b"not PEM")


async def test_sessions_are_resumed_across_connections(serve: Serve, authority: trustme.CA) -> None:
    async with serve() as serving:
        assert isinstance(serving, Serving)
        context = trusting(authority)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        reused = await asyncio.to_thread(_second_session_is_reused, serving.port, context)
        assert reused


def _second_session_is_reused(port: int, context: ssl.SSLContext) -> bool:
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as first,
    ):
        session = first.session
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as second,
    ):
        return bool(second.session_reused)
