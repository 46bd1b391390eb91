"""The log: what a line holds, when it leaves, and that nothing that goes wrong with it is felt."""

import asyncio
import io
import logging
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from webhook.observe import log as module
from webhook.observe.log import Format, FromLogging, Level, Log

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)

DECISION: dict[str, Any] = {
    "operation": "validate",
    "uid": "u",
    "verdict": "Deny",
    "reason": "TokenBudgetExceeded",
    "namespace": "prod",
    "name": "chat-",
    "user": "alice",
    "budget": "interactive",
    "claim": 2500,
    "message": 'no room: "used" 23000 of 24000',
    "policy": "abc",
    "dry_run": False,
    "duration_seconds": 0.00012345678,
}


def made(level: Level = Level.INFO, written: Format = Format.JSON) -> tuple[Log, io.BytesIO]:
    stream = io.BytesIO()
    return Log(stream, level, written, lambda: NOW), stream


def test_a_decision_is_one_json_object() -> None:
    log, stream = made()
    log.decided(**DECISION)
    assert msgspec.json.decode(stream.getvalue()) == {
        "time": "2030-01-02T03:04:05Z",
        "level": "info",
        "msg": "reviewed",
        **{name: value for name, value in DECISION.items() if name != "dry_run"},
        "duration_seconds": 0.000123,
    }
    log.close()


def test_what_is_empty_is_left_out() -> None:
    log, stream = made()
    log.decided(**{**DECISION, "budget": None, "claim": None, "message": "", "user": "", "namespace": ""})
    assert not {"budget", "claim", "message", "user", "namespace"} & set(msgspec.json.decode(stream.getvalue()))
    log.close()


def test_text_is_for_eyes_and_still_one_line() -> None:
    log, stream = made(written=Format.TEXT)
    log.decided(**DECISION)
    log.info("ready", url="https://x", ca=None, budgets=2, note="two\nlines")
    first, second = stream.getvalue().decode().splitlines()
    assert first.startswith("2030-01-02T03:04:05Z INFO reviewed operation=validate uid=u verdict=Deny ")
    assert 'message="no room: \\"used\\" 23000 of 24000"' in first
    assert second == '2030-01-02T03:04:05Z INFO ready url=https://x budgets=2 note="two lines"'
    log.close()


@pytest.mark.parametrize("field", ["uid", "namespace", "name", "user", "message"])
def test_strangers_cannot_break_a_line_or_fill_the_disk(field: str) -> None:
    log, stream = made()
    log.decided(**{**DECISION, field: "\n{\x9b" + "x" * 100_000})
    (line,) = stream.getvalue().splitlines()
    shown = msgspec.json.decode(line)[field]
    assert shown.isprintable()
    assert len(line) < 2000
    log.close()


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        (Level.DEBUG, ["d", "i", "reviewed", "w", "e"]),
        (Level.INFO, ["i", "reviewed", "w", "e"]),
        (Level.WARNING, ["w", "e"]),
        (Level.ERROR, ["e"]),
    ],
)
def test_what_is_below_the_level_is_left_out(level: Level, kept: list[str]) -> None:
    log, stream = made(level)
    log.debug("d")
    log.info("i")
    log.decided(**DECISION)
    log.warning("w")
    log.error("e")
    assert [msgspec.json.decode(line)["msg"] for line in stream.getvalue().splitlines()] == kept
    log.close()


async def test_lines_leave_together_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_INTERVAL_SECONDS", 0.01)
    log, stream = made()
    log.info("one")
    log.info("two")
    assert stream.getvalue() == b""
    while not stream.getvalue():  # noqa: ASYNC110 - a stream has no event
        await asyncio.sleep(0.01)
    assert stream.getvalue().count(b"\n") == 2
    log.close()


async def test_errors_leave_at_once_with_what_came_before() -> None:
    log, stream = made()
    log.info("one")
    log.error("two")
    assert stream.getvalue().count(b"\n") == 2
    log.close()


async def test_much_leaves_at_once() -> None:
    log, stream = made()
    for _ in range(module.FLUSH_LINES):
        log.info("x", text="y" * 1000)
    assert stream.getvalue().count(b"\n") == module.FLUSH_LINES
    log.close()


async def test_closing_writes_the_rest() -> None:
    log, stream = made()
    log.info("last")
    log.close()
    assert b"last" in stream.getvalue()


class Broken(io.BytesIO):
    def write(self, _data: Any) -> int:
        raise BrokenPipeError


def test_a_reader_that_went_away_is_not_felt() -> None:
    log = Log(Broken(), clock=lambda: NOW)
    log.error("into the void")
    log.close()


def test_a_bug_is_one_line_with_the_way_to_it() -> None:
    log, stream = made()
    try:
        int("secret" * 1000)
    except ValueError as error:
        log.exception("bug", error, id="abc")
    line = msgspec.json.decode(stream.getvalue())
    assert (line["level"], line["msg"], line["id"]) == ("error", "bug", "abc")
    assert line["error"].startswith("ValueError: invalid literal")
    assert len(line["error"]) <= 1024
    assert any("test_a_bug_is_one_line" in where for where in line["traceback"])
    log.close()


def test_records_of_the_standard_library_come_along() -> None:
    log, stream = made()
    logger = logging.Logger("aiohttp.server")
    logger.addHandler(FromLogging(log))
    logger.debug("left out")
    logger.warning("odd %s", "thing")
    logger.error("failed")
    try:
        raise KeyError("x")
    except KeyError:
        logger.exception("with a cause")
    lines = [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]
    assert [(line["level"], line["msg"]) for line in lines] == [
        ("warning", "odd thing"),
        ("error", "failed"),
        ("error", "with a cause"),
    ]
    assert lines[2]["error"] == "KeyError: 'x'"
    assert all(line["logger"] == "aiohttp.server" for line in lines)
    log.close()
