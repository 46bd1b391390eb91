"""Whether a program says of itself that it is ready."""

import socket
import ssl
import urllib.error
import urllib.request
from functools import cache

from tests.cluster.harness.component import LOOPBACK

ANSWER_SECONDS = 2.0
TEXT_SECONDS = 10.0

_MAX_REASON = 200


def http(port: int, path: str = "/readyz") -> str | None:
    """The reason against it, None when the answer is 200."""
    return _get(f"http://{LOOPBACK}:{port}{path}", None)


def https(port: int, path: str = "/healthz") -> str | None:
    """The same over TLS, whoever signed the certificate: the program made it itself."""
    return _get(f"https://{LOOPBACK}:{port}{path}", _trusting())


@cache
def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def text(port: int, path: str) -> str:
    """What is there, over plain HTTP. Raises OSError."""
    with _opener(None).open(f"http://{LOOPBACK}:{port}{path}", timeout=TEXT_SECONDS) as answer:
        content: bytes = answer.read()
        return content.decode()


def _opener(context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    """Past any proxy of this machine."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))


def _get(url: str, context: ssl.SSLContext | None) -> str | None:
    try:
        with _opener(context).open(url, timeout=ANSWER_SECONDS):
            return None
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode(errors="replace").strip()
        failed = [line for line in said.splitlines() if line.startswith("[-]")]
        return f"HTTP {error.code}: {(failed[0] if failed else said)[:_MAX_REASON]}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))


def listens(port: int) -> str | None:
    """The reason why no connection to the port can be made, None when it can."""
    try:
        with socket.create_connection((LOOPBACK, port), ANSWER_SECONDS):
            return None
    except OSError as error:
        return f"port {port}: {error}"
