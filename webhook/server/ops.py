"""The ops port, plain HTTP: probes and metrics, away from the TLS port so that probes leave no handshake errors."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import hdrs, web
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.observe.metrics import CONTENT_TYPE, Metrics
from webhook.server.app import SERVER
from webhook.server.tls import Certificates

PROBE_SECONDS = 2.0
"""For a handshake with ourselves; a server that needs longer is not ready (kubelet waits 1 s by default)."""

Check = Callable[[], Awaitable[str | None]]
"""A readiness check: None where all is well, else what is wrong, in one line."""


class Ops:
    """`/livez`, `/readyz` and `/metrics`. Ready is who passes every check, in their order."""

    def __init__(self, checks: Mapping[str, Check], metrics: Metrics) -> None:
        self._checks = checks
        self._metrics = metrics

    def application(self) -> web.Application:
        """The application to run on the ops port."""
        application = web.Application()
        application.on_response_prepare.append(_name_the_server)
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._exposition)
        return application

    async def failures(self) -> dict[str, str]:
        """The checks that fail now, with their reasons; empty where the server is ready."""
        outcomes = {name: await check() for name, check in self._checks.items()}
        return {name: reason for name, reason in outcomes.items() if reason is not None}

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        failures = await self.failures()
        status = 503 if failures else 200
        if not failures and "verbose" not in request.query:
            return web.Response(text="ok\n")
        lines = [f"[-]{name} {failures[name]}" if name in failures else f"[+]{name} ok" for name in self._checks]
        lines.append("readyz check failed" if failures else "readyz check passed")
        return web.Response(status=status, text="\n".join(lines) + "\n")

    async def _exposition(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})


async def _name_the_server(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers[hdrs.SERVER] = SERVER


class HandshakeCheck:
    """Shakes hands with our own TLS port and compares the certificate shown with the one that should be."""

    def __init__(self, host: str, port: int, certificates: Certificates) -> None:
        self._host = host
        self._port = port
        self._certificates = certificates
        self._client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client.check_hostname = False
        self._client.verify_mode = ssl.CERT_NONE  # compared byte for byte below, which is more than a chain would say

    async def __call__(self) -> str | None:
        """See `Check`."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                _, writer = await asyncio.open_connection(self._host, self._port, ssl=self._client)
        except (OSError, TimeoutError) as error:
            return f"no TLS handshake with {self._host}:{self._port}: {error or 'timed out'}"
        try:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()
        if shown != self._certificates.leaf.public_bytes(Encoding.DER):
            return "the TLS port shows another certificate than the one stored"
        return None
