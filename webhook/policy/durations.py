"""Durations as Go writes them (`10m`, `1h30m`, `1.5s`), exact. Source: Go's time.ParseDuration."""

import re
from fractions import Fraction
from typing import Final

_UNIT_SECONDS: Final = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1000),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|us|µs|ns|h|m|s)", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_MAX_TEXT_LENGTH: Final = 64

MAX_SECONDS: Final = Fraction(2**63 - 1, 10**9)
"""Go counts nanoseconds in an int64."""


def parse(text: str) -> Fraction:
    """The seconds of a duration of zero or more. Raises ValueError with a one-line reason."""
    if len(text) > _MAX_TEXT_LENGTH or not _WHOLE.fullmatch(text):
        raise ValueError("no duration")
    seconds = sum((Fraction(amount) * _UNIT_SECONDS[unit] for amount, unit in _PART.findall(text)), start=Fraction(0))
    if seconds > MAX_SECONDS:
        raise ValueError("longer than 292 years")
    return seconds


def text_of(seconds: Fraction) -> str:
    """The shortest form: `10m`, `1h30m`, `0s`."""
    parts: list[str] = []
    rest = seconds
    for unit in ("h", "m", "s"):
        whole, rest = divmod(rest, _UNIT_SECONDS[unit])
        if whole:
            parts.append(f"{whole}{unit}")
    if rest:
        parts.append(f"{rest / _UNIT_SECONDS['ns']}ns")
    return "".join(parts) or "0s"
