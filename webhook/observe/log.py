"""The structured log: one line per decision and per event of the server, on standard error.

Lines gather in memory and leave together, since a write per decision would cost more than the decision. What strangers
wrote (names, users) is cut and made printable; objects are never logged.
"""

import asyncio
import atexit
import contextlib
import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from webhook.observe.text import one_line

FLUSH_INTERVAL_SECONDS = 0.2
"""How long a line may wait for others: short for a person who follows the log."""

FLUSH_LINES = 128
"""Some 40 KiB, less than a pipe takes at once on Linux."""

MAX_NAME_LENGTH = 253
"""Names, namespaces and users are cut to the length of the longest Kubernetes name."""

MAX_MESSAGE_LENGTH = 1024
"""As much as an Event holds."""

MAX_TRACEBACK_LENGTH = 8 * 1024
"""The end is what counts."""


class Level(StrEnum):
    """How grave a line is; what is below the level of the log is left out."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """How a line is written."""

    JSON = "json"
    TEXT = "text"


_RANK = {level: rank for rank, level in enumerate(Level)}


class DecisionLine(Struct, omit_defaults=True):
    """One decision. `uid` is that of the call, which the audit log does not have; `claim` is in tokens/s."""

    time: datetime
    level: Level
    msg: str
    operation: str
    uid: str
    verdict: str
    reason: str
    namespace: str = ""
    name: str = ""
    user: str = ""
    budget: str | None = None
    claim: int | None = None
    message: str = ""
    policy: str = ""
    dry_run: bool = False
    duration_seconds: float = 0.0


def _now() -> datetime:
    return datetime.now(UTC)


class Log:
    """Writes lines to a stream. Nothing that goes wrong with the stream ever reaches the caller."""

    def __init__(
        self,
        stream: BinaryIO,
        level: Level = Level.INFO,
        format: Format = Format.JSON,  # noqa: A002 - the field's own word
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._stream = stream
        self._rank = _RANK[level]
        self._json = format is Format.JSON
        self._clock = clock
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[bytes | DecisionLine] = []
        self._timer: asyncio.TimerHandle | None = None
        atexit.register(self.flush)

    def decided(
        self,
        *,
        operation: str,
        uid: str,
        verdict: str,
        reason: str,
        namespace: str,
        name: str,
        user: str,
        budget: str | None,
        claim: int | None,
        message: str,
        policy: str,
        dry_run: bool,
        duration_seconds: float,
    ) -> None:
        """One decision, at level info."""
        if self._rank > _RANK[Level.INFO]:
            return
        together = f"{uid}{namespace}{name}{user}"
        if len(together) > MAX_NAME_LENGTH or not together.isprintable():
            # One look at all of them together: nearly always there is nothing to mend.
            uid, namespace, name, user = (one_line(text, MAX_NAME_LENGTH) for text in (uid, namespace, name, user))
        self._add(
            DecisionLine(
                self._clock(),
                Level.INFO,
                "reviewed",
                operation,
                uid,
                verdict,
                reason,
                namespace,
                name,
                user,
                budget,
                claim,
                one_line(message, MAX_MESSAGE_LENGTH),
                policy,
                dry_run,
                round(duration_seconds, 6),
            )
        )

    def debug(self, msg: str, **fields: object) -> None:
        """Something that is of interest when looking for a fault."""
        self._event(Level.DEBUG, msg, fields)

    def info(self, msg: str, **fields: object) -> None:
        """Something that happens in the life of a healthy server."""
        self._event(Level.INFO, msg, fields)

    def warning(self, msg: str, **fields: object) -> None:
        """Something that a person should look at."""
        self._event(Level.WARNING, msg, fields)

    def error(self, msg: str, **fields: object) -> None:
        """Something that failed; written at once."""
        self._event(Level.ERROR, msg, fields)
        self.flush()

    def exception(self, msg: str, error: BaseException, **fields: object) -> None:
        """A bug, with the way to it; written at once."""
        where = "".join(traceback.format_tb(error.__traceback__))[-MAX_TRACEBACK_LENGTH:].splitlines()
        self.error(msg, error=f"{type(error).__name__}: {error}", traceback=where, **fields)

    def flush(self) -> None:
        """Write out what has gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            written = b"".join(line if isinstance(line, bytes) else self._written(line) for line in lines)
            with contextlib.suppress(OSError, ValueError):  # nobody reads, or the stream is closed
                self._stream.write(written)
                self._stream.flush()

    def close(self) -> None:
        """Write out the rest and forget the stream."""
        self.flush()
        atexit.unregister(self.flush)

    def _event(self, level: Level, msg: str, fields: dict[str, object]) -> None:
        if self._rank > _RANK[level]:
            return
        shown = {
            name: one_line(value, MAX_MESSAGE_LENGTH) if isinstance(value, str) else value
            for name, value in fields.items()
            if value is not None
        }
        line = {"time": self._clock(), "level": level, "msg": one_line(msg, MAX_MESSAGE_LENGTH), **shown}
        self._add(self._written(line))

    def _written(self, line: DecisionLine | dict[str, Any]) -> bytes:
        return self._encode(line) + b"\n" if self._json else _as_text(line)

    def _add(self, line: bytes | DecisionLine) -> None:
        """Decisions are written out together: a hundred in a row cost half of what they cost one by one."""
        self._lines.append(line)
        if len(self._lines) >= FLUSH_LINES:
            self.flush()
        elif self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self.flush()
            else:
                self._timer = loop.call_later(FLUSH_INTERVAL_SECONDS, self.flush)


class FromLogging(logging.Handler):
    """Takes the records of the standard library's logging (aiohttp and asyncio complain there) into our log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._log.exception(record.getMessage(), error, logger=record.name)
        elif record.levelno >= logging.ERROR:
            self._log.error(record.getMessage(), logger=record.name)
        elif record.levelno >= logging.WARNING:
            self._log.warning(record.getMessage(), logger=record.name)
        else:
            self._log.debug(record.getMessage(), logger=record.name)


def _as_text(line: DecisionLine | dict[str, Any]) -> bytes:
    """`time LEVEL msg key=value …`, values with blanks in quotes as JSON writes them."""
    fields: dict[str, Any] = msgspec.to_builtins(line)
    head = f"{fields.pop('time')} {fields.pop('level').upper()} {fields.pop('msg')}"
    rest = (f"{key}={_text_value(value)}" for key, value in fields.items())
    return " ".join([head, *rest]).encode() + b"\n"


def _text_value(value: Any) -> str:
    if isinstance(value, str) and value and not any(char in value for char in ' "='):
        return value
    return msgspec.json.encode(value).decode()
