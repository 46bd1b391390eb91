"""Kubernetes quantities, exact: the grammar is checked here, the arithmetic is the official client's.

Grammar: apimachinery/pkg/api/resource/quantity.go. The client's parser also accepts what the API server refuses
(`NaN`, `24K`, full-width digits, `1_000`), so a text reaches it only after the grammar has agreed.
"""

import re
from fractions import Fraction
from functools import lru_cache

from kubernetes.utils.quantity import parse_quantity

_GRAMMAR = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII)

MAX_TEXT_LENGTH = 64
"""Longer than any number that means something; keeps a hostile exponent or digit string from costing time."""

MAX_EXPONENT_DIGITS = 2
"""`1e99` is far beyond what Kubernetes can hold (it caps at 2^63); a longer exponent is an attack, not a quantity."""

_EXPONENT = re.compile(r"[eE][+-]?0*([0-9]+)$", re.ASCII)


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """The exact value of a Kubernetes quantity such as `24k`, `500m`, `8Gi`, `70.6e9`.

    Raises ValueError with a one-line reason where the API server would refuse the text.
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"a quantity of {len(text)} characters; at most {MAX_TEXT_LENGTH} are read")
    if not _GRAMMAR.fullmatch(text):
        raise ValueError(f"{text!r} is not a Kubernetes quantity (digits, then one of m k M G T P E Ki Mi Gi Ti Pi Ei)")
    exponent = _EXPONENT.search(text)
    if exponent and len(exponent.group(1)) > MAX_EXPONENT_DIGITS:
        raise ValueError(f"{text!r} is out of range")
    return Fraction(parse_quantity(text))


def parse_json(value: str | int | float) -> Fraction:
    """The value of a quantity as JSON or YAML carries it: a string, or a bare number. Raises ValueError."""
    if isinstance(value, str):
        return parse(value)
    return parse(repr(value))


def whole(value: Fraction) -> int | None:
    """The value as an integer, or None if it has a fractional part."""
    return value.numerator if value.denominator == 1 else None


def number(value: Fraction | int) -> str:
    """A value for people: integers bare, others as a decimal with at most four digits after the point."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    return f"{float(exact):.4f}".rstrip("0").rstrip(".")
