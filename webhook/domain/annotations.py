"""The five annotations that tenants write for us, read once into values; what is malformed is a problem of the pod."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final, TypeVar

from msgspec import Struct

from webhook.domain import dtypes, keys, quantity
from webhook.domain.dtypes import Dtype
from webhook.domain.outcome import Problem, Reason, field_of_annotation
from webhook.domain.rules import Mix

T = TypeVar("T")

MAX_TOKENS_PER_SECOND: Final = 2**53
"""JSON numbers stay exact up to here; no hardware comes near it."""
MAX_MODEL_CHARACTERS: Final = 256
MAX_MIX_TOKENS: Final = 10_000_000
"""Ten times the longest context that any published model has."""

_MODEL = re.compile(r"[A-Za-z0-9._:/@~+-]+", re.ASCII)
_MIX = re.compile(r"([0-9]{1,9})/([0-9]{1,9})", re.ASCII)
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,9})?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)
_LEAP_SECOND: Final = 60
_MAX_OFFSET_HOURS: Final = 23
_MAX_MINUTE: Final = 59
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TenantAnnotations(Struct, frozen=True, gc=False):
    """What the tenant declares about a pod; None where nothing (valid) is declared."""

    tokens_per_second: int | None = None
    """Declared claim in output tokens/s; fractions of a token are rounded up."""
    model: str | None = None
    model_dtype: Dtype | None = None
    traffic_mix: Mix | None = None
    """The mix at which `tokens_per_second` is stated."""
    deadline_epoch_seconds: float | None = None


@lru_cache(maxsize=1024)
def tokens_per_second(text: str) -> int:
    """A declared claim: a positive Kubernetes quantity such as `2500` or `3k`. Raises ValueError."""
    value = quantity.parse(text)
    if value <= 0:
        raise ValueError(f"{text!r} is not above 0")
    if value > MAX_TOKENS_PER_SECOND:
        raise ValueError(f"{text!r} is more than {MAX_TOKENS_PER_SECOND}")
    return ceil(value)


def model(text: str) -> str:
    """A model's name or path. Raises ValueError."""
    if len(text) > MAX_MODEL_CHARACTERS:
        raise ValueError(f"{len(text)} characters, at most {MAX_MODEL_CHARACTERS} are read")
    if not _MODEL.fullmatch(text):
        raise ValueError(f"{text!r} is not a model name (letters, digits and . _ : / @ ~ + -)")
    return text


def model_dtype(text: str) -> Dtype | None:
    """A weight dtype; `auto` is the model's native one, as engines read it. Raises ValueError."""
    return None if text == "auto" else dtypes.parse(text)


@lru_cache(maxsize=1024)
def traffic_mix(text: str) -> Mix:
    """`INPUT/OUTPUT` tokens per request, both positive. Raises ValueError."""
    match = _MIX.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not INPUT/OUTPUT in whole tokens")
    mix = Mix(input=int(match[1]), output=int(match[2]))
    if not (0 < mix.input <= MAX_MIX_TOKENS and 0 < mix.output <= MAX_MIX_TOKENS):
        raise ValueError(f"{text!r}: both numbers must be 1 to {MAX_MIX_TOKENS}")
    return mix


@lru_cache(maxsize=1024)
def deadline_epoch_seconds(text: str) -> float:
    """An RFC 3339 time as seconds since 1970. Raises ValueError.

    `datetime.fromisoformat` takes much that RFC 3339 does not (no offset, week dates), so the grammar is checked here.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not an RFC 3339 time")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    leap = second == _LEAP_SECOND
    sign, offset_hours, offset_minutes = match[8] or "+", int(match[9] or 0), int(match[10] or 0)
    if offset_hours > _MAX_OFFSET_HOURS or offset_minutes > _MAX_MINUTE:
        raise ValueError(f"{text!r} has no such offset")
    try:
        moment = datetime(year, month, day, hour, minute, second - leap, tzinfo=UTC)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    offset = timedelta(hours=offset_hours, minutes=offset_minutes)
    since = moment - _EPOCH - (offset if sign == "+" else -offset)
    seconds = since.days * 86400 + since.seconds + int(leap)
    return float(seconds + Fraction("0" + match[7] if match[7] else 0))


_WRITE: Final[Mapping[str, str]] = {
    keys.TOKENS_PER_SECOND: 'write a positive quantity such as "2500" or "3k"',
    keys.MODEL: 'write a name such as "meta-llama/Llama-3.1-8B-Instruct"',
    keys.MODEL_DTYPE: 'write a dtype such as "bf16" or "fp8"',
    keys.TRAFFIC_MIX: 'write tokens per request such as "1000/1000"',
    keys.DEADLINE: 'write a time such as "2026-03-01T18:00:00Z"',
}


def _read_one(
    written: Mapping[str, str], key: str, parse: Callable[[str], T | None], problems: list[Problem]
) -> T | None:
    text = written.get(key)
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        message = f"{key}: {error}; {_WRITE[key]} or remove it"
        problems.append(Problem(Reason.INVALID_ANNOTATION, field_of_annotation(key), message))
        return None


_NOTHING: Final = TenantAnnotations()


def read(written: Mapping[str, str]) -> tuple[TenantAnnotations, tuple[Problem, ...]]:
    """What a pod's annotations declare, and one problem for each of the five that is malformed."""
    if not written or written.keys().isdisjoint(_WRITE):
        return _NOTHING, ()
    problems: list[Problem] = []
    declared = TenantAnnotations(
        tokens_per_second=_read_one(written, keys.TOKENS_PER_SECOND, tokens_per_second, problems),
        model=_read_one(written, keys.MODEL, model, problems),
        model_dtype=_read_one(written, keys.MODEL_DTYPE, model_dtype, problems),
        traffic_mix=_read_one(written, keys.TRAFFIC_MIX, traffic_mix, problems),
        deadline_epoch_seconds=_read_one(written, keys.DEADLINE, deadline_epoch_seconds, problems),
    )
    return declared, tuple(problems)
