"""The webhook port: HTTP around `questions.answer`, with the limits and the one barrier against bugs.

aiohttp's low-level server is used without its router: there are three paths, and every microsecond counts twice per
pod. The families of errors become status codes here: a bad call 4xx, `CannotDecide` 503, a bug 500. An API server
treats all of them as a failed call, so failurePolicy decides.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from webhook.ledger import CannotDecide
from webhook.policy import durations
from webhook.review.wire import BadCall
from webhook.server.questions import Office, Question, answer

MAX_BODY_BYTES = 7 * 1024 * 1024
"""An API server takes objects of up to 3 MiB (DefaultMaxRequestSizeBytes); a review of an UPDATE carries two, and 1 MiB
is left for the rest of the review (controller-runtime derives the same number)."""

KEEP_ALIVE_SECONDS = 180.0
"""Above the 90 s after which Go's client drops an idle connection: the side that closes first must not be us, since a
POST that meets a closed connection is not repeated."""

READ_SECONDS = 34.0
"""A body that is not there by then belongs to nobody: the API server ends every request after 34 s
(requestTimeoutUpperBound)."""

DEFAULT_TIMEOUT_SECONDS = 10.0
"""What the API server waits where timeoutSeconds is not set (admissionregistration v1 defaults)."""

MAX_TIMEOUT_SECONDS = 30.0
"""The largest timeoutSeconds."""

ANSWER_MARGIN_SECONDS = 0.2
"""Kept for the way back: an answer that comes too late has charged a pod that is refused."""

RETRY_AFTER_SECONDS = 1
"""An API server repeats a 503 that has a Retry-After within its own deadline, perhaps at another replica
(client-go rest/with_retry.go)."""

SERVER = "tollgate"
"""In place of the versions of Python and aiohttp, which are nobody's business."""

_JSON_HEADERS: Mapping[str, str] = {hdrs.CONTENT_TYPE: "application/json", hdrs.SERVER: SERVER}
_PATHS = {f"/{question}": question for question in Question}
_QUOTES_A_CLIENT = re.compile(r"(?::\s| line ['\"]).*", re.DOTALL)


class Target(NamedTuple):
    """What a request line asks for."""

    question: Question
    seconds_left: float


class Refused(Exception):  # noqa: N818 - an answer, not a failure
    """A call that is answered with a status code and one line of text."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers or {}


class Webhook:
    """Answers HTTP requests. While `draining`, every answer asks the client to leave the connection."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.draining = False

    def server(self) -> web.Server:
        """The protocol factory to listen with. To be called in the running loop."""
        loop = asyncio.get_running_loop()

        def request_of(
            message: Any, payload: Any, protocol: Any, writer: Any, task: "asyncio.Task[None]"
        ) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES)

        return web.Server(
            self.handle,
            request_factory=request_of,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            access_log=None,
            logger=_logger(),
            auto_decompress=False,
        )

    async def handle(self, http: web.BaseRequest) -> web.Response:
        """One call. Nothing but cancellation leaves here as an exception."""
        try:
            target = _target(http)
            body = await _read(http)
            answered = await answer(target.question, body, self._office, target.seconds_left)
            response = web.Response(body=answered, headers=_JSON_HEADERS)
        except Refused as refused:
            self._office.metrics.unanswered(_operation(http), "Refused")
            self._office.log.debug("call refused", status=refused.status, error=str(refused))
            response = _plain(refused.status, str(refused), refused.headers)
        except BadCall as error:
            response = self._unanswered(http, 400, "BadCall", str(error))
        except CannotDecide as error:
            response = self._unanswered(http, 503, "CannotDecide", str(error))
            response.headers[hdrs.RETRY_AFTER] = str(RETRY_AFTER_SECONDS)
            response.force_close()
        except Exception as error:  # the one barrier: whatever it is, the server goes on
            response = self._bug(http, error)
        if self.draining:
            response.force_close()
        return response

    def _unanswered(self, http: web.BaseRequest, status: int, reason: str, text: str) -> web.Response:
        operation = _operation(http)
        self._office.metrics.unanswered(operation, reason)
        self._office.log.warning("call not answered", operation=operation, reason=reason, status=status, error=text)
        return _plain(status, text)

    def _bug(self, http: web.BaseRequest, error: Exception) -> web.Response:
        bug = secrets.token_hex(8)
        self._office.metrics.panicked()
        self._office.metrics.unanswered(_operation(http), "Bug")
        self._office.log.exception("bug", error, id=bug, operation=_operation(http))
        return _plain(500, f"internal error {bug}; the log of this server has it by this id")


class _ClientFaults(logging.Filter):
    """What is no HTTP is the fault of who sent it: a warning of one line, not an error of ours with a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.msg, record.args, record.exc_info = f"a client sent no HTTP: {_without_quotes(error)}", (), None
        return True


def _without_quotes(error: Exception) -> str:
    """What aiohttp says is wrong, without the bytes it quotes: they may be a pod or a header with a password."""
    message = error.message if isinstance(error, HttpProcessingError) else str(error)
    return _QUOTES_A_CLIENT.sub("", message)


def _logger() -> logging.Logger:
    """Where aiohttp complains: a logger of this server alone, since filters on a shared one would pile up."""
    logger = logging.Logger("aiohttp.server")
    logger.parent = logging.getLogger()
    logger.addFilter(_ClientFaults())
    return logger


def _operation(http: web.BaseRequest) -> str:
    return _PATHS.get(http.path, "other")


def _plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={hdrs.SERVER: SERVER, **(headers or {})})


def _target(http: web.BaseRequest) -> Target:
    target = parse_target(http.path, http.rel_url.raw_query_string)
    if http.method != hdrs.METH_POST:
        raise Refused(405, f"{http.method} is not answered here; POST an AdmissionReview", {hdrs.ALLOW: "POST"})
    content_type = http.headers.get(hdrs.CONTENT_TYPE, "")
    if content_type != "application/json" and content_type.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, f"Content-Type must be application/json, found {content_type[:100]!r}")
    return target


@lru_cache(maxsize=256)
def parse_target(path: str, query: str) -> Target:
    """The question of a path, and how long its caller waits (`?timeout=10s`, a Go duration). Raises Refused."""
    question = _PATHS.get(path)
    if question is None:
        raise Refused(404, f"nothing at this path; the questions are {', '.join(_PATHS)}")
    seconds: float | Fraction = DEFAULT_TIMEOUT_SECONDS
    for name, _, value in (part.partition("=") for part in query.split("&")):
        if name == "timeout":
            try:
                seconds = durations.parse(value)
            except ValueError:
                raise Refused(400, f"timeout must be a Go duration such as 10s, found {value[:40]!r}") from None
    return Target(question, max(0.0, float(min(seconds, MAX_TIMEOUT_SECONDS)) - ANSWER_MARGIN_SECONDS))


async def _read(http: web.BaseRequest) -> bytes:
    if http.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        http.writer.output_size = 0
    if (http.content_length or 0) > MAX_BODY_BYTES:
        raise _too_large(http.content_length)
    try:
        if http.content.is_eof():
            return await http.read()
        async with asyncio.timeout(READ_SECONDS):
            return await http.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(None) from None
    except (web.RequestPayloadError, ConnectionError) as error:
        raise Refused(400, f"the body broke off: {_without_quotes(error)}", {hdrs.CONNECTION: "close"}) from None
    except TimeoutError:
        raise Refused(408, f"the body did not come within {READ_SECONDS:g} s", {hdrs.CONNECTION: "close"}) from None


def _too_large(length: int | None) -> Refused:
    found = f"{length} bytes" if length else "more"
    return Refused(413, f"the body has {found}, at most {MAX_BODY_BYTES} are read")
