"""Waiting for what comes soon."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.cluster.harness.errors import HarnessError

POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 60.0
"""For everything that takes seconds: two busy cores make it slow, not wrong."""

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], *, timeout_seconds: float = TIMEOUT_SECONDS) -> T:
    """The first answer of `look` that is true. An AssertionError of it is the reason why not yet.

    Raises AssertionError with `what` and the last reason.
    """
    end = time.monotonic() + timeout_seconds
    reason = ""
    while True:
        try:
            found = look()
        except AssertionError as error:
            found, reason = None, f": {error}"
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_seconds:g} s: {what}{reason}")
        time.sleep(POLL_SECONDS)


def stays(what: str, holds: Callable[[], bool], *, seconds: float = 1.5) -> None:
    """Look again and again for so long. Raises AssertionError the first time that it does not hold."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not holds():
            raise AssertionError(f"did not stay: {what}")
        time.sleep(POLL_SECONDS)


def until_ready(
    name: str, ready: Callable[[], str | None], alive: Callable[[], str | None], timeout_seconds: float, log: str
) -> None:
    """Return when `ready` has no reason against it. Raises HarnessError when `alive` tells of an end, or at the end."""
    end = time.monotonic() + timeout_seconds
    while reason := ready():
        if ended := alive():
            raise HarnessError(ended)
        if time.monotonic() > end:
            raise HarnessError(f"{name} was not ready within {timeout_seconds:g} s: {reason}; log: {log}")
        time.sleep(POLL_SECONDS)
