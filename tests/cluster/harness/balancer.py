"""Plays the Service: one address in front of several servers, since a webhook `url` is one host and port.

New connections go in turn to servers whose `/readyz` answers 200, and to none that is dead; where there is none they
are reset, as kube-proxy does without endpoints. What is connected stays with its server, ready or not, until one of
them closes: so does conntrack.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

from tests.cluster.harness.component import LOOPBACK

PROBE_SECONDS = 0.2
"""Between two looks at a server's readiness; kubelet's shortest is 1 s, and a test has no time for it."""

ANSWER_SECONDS = 1.0
"""kubelet's default timeoutSeconds of a probe."""

_CHUNK = 64 * 1024
_RESET = struct.pack("ii", 1, 0)  # linger for 0 s: close sends RST

T = TypeVar("T")


class Backend(NamedTuple):
    """The ports of one server: where connections go, and where it says that it is ready."""

    port: int
    ops_port: int


class Balancer:
    """Runs in a thread of its own from the start on; `port` is where it listens."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True)
        self._thread.start()
        self._ready: dict[Backend, bool] = {}
        self._turn = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = self._call(self._start())

    def add(self, backend: Backend) -> None:
        """Send it connections, at once if it is ready."""
        self._call(self._look_at(backend))

    def remove(self, backend: Backend) -> None:
        """No new connections."""
        self._call(self._forget(backend))

    def ready(self) -> list[Backend]:
        """Those that get new connections now."""
        return [backend for backend, ready in self._ready.items() if ready]

    def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._loop.is_closed():
            return
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> int:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self._probing = self._loop.create_task(self._probe())
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _stop(self) -> None:
        self._server.close()
        self._probing.cancel()
        await asyncio.gather(self._probing, return_exceptions=True)
        while self._writers:  # what is connected ends by itself once its ends are gone
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0)

    async def _look_at(self, backend: Backend) -> None:
        self._ready[backend] = await _is_ready(backend.ops_port)

    async def _forget(self, backend: Backend) -> None:
        self._ready.pop(backend, None)

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            backends = list(self._ready)
            found = await asyncio.gather(*(_is_ready(backend.ops_port) for backend in backends))
            for backend, ready in zip(backends, found, strict=True):
                if backend in self._ready:
                    self._ready[backend] = ready

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await self._connect()
        if server is None:
            _reset(writer)
            return
        server_reader, server_writer = server
        ends = {writer, server_writer}
        self._writers |= ends
        try:
            await asyncio.gather(_pump(reader, server_writer), _pump(server_reader, writer))
        finally:
            self._writers -= ends
            for end in ends:
                end.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in range(len(self._ready)):
            ready = self.ready()
            if not ready:
                return None
            self._turn += 1
            backend = ready[self._turn % len(ready)]
            try:
                return await asyncio.open_connection(LOOPBACK, backend.port)
            except OSError:
                self._ready[backend] = False  # it died between two looks
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What one end closes or breaks, the other end sees closed."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def _is_ready(ops_port: int) -> bool:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(LOOPBACK, ops_port)
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                status = await reader.readline()
                return status.split(b" ")[1:2] == [b"200"]
            finally:
                writer.close()
    return False
