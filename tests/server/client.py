"""An HTTP/1.1 client that can be as rude as a test needs."""

import asyncio
import ssl
from typing import Any

import msgspec


class Response:
    """One answer."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def response(self) -> dict[str, Any]:
        """The `response` of the AdmissionReview."""
        assert self.status == 200, self.text
        assert self.headers["content-type"] == "application/json"
        inner: dict[str, Any] = msgspec.json.decode(self.body)["response"]
        return inner


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, context: ssl.SSLContext | None, server_hostname: str = "localhost") -> "Client":
        return cls(
            *await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=server_hostname if context else None
            )
        )

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def response(self) -> Response:
        """The next answer; an empty one at the end of the connection raises IncompleteReadError."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Response(int(head[0].split(" ")[1]), headers, body)

    async def post(self, path: str, body: bytes, **headers: str) -> Response:
        await self.send(request(path, body, **headers))
        return await self.response()

    async def ended(self) -> bool:
        """Whether the server closes the connection without another word."""
        return await self.reader.read(1) == b""

    def close(self) -> None:
        self.writer.transport.abort()


def request(path: str, body: bytes, method: str = "POST", **headers: str | None) -> bytes:
    """A request as an API server writes it; `headers` adds or replaces (names with underscores), None leaves out."""
    fields: dict[str, str | None] = {
        "host": "gpu-tollgate.tollgate-system.svc:443",
        "user-agent": "kube-apiserver-admission",
        "content-length": str(len(body)),
        "accept": "application/json, */*",
        "content-type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body
