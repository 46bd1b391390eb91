"""YAML scalars as kubectl reads them: sigs.k8s.io/yaml, goyaml.v2/resolve.go and decode.go, then Go's JSON.

YAML 1.1 booleans (`yes`, `on`, `y`), octal `0777`, underscores in numbers; timestamps and `1:30` stay text.
"""

import math
import re
from typing import Final

from webhook.policy.yamlnodes import Scalar

_CORE: Final = "tag:yaml.org,2002:"
_STR: Final = _CORE + "str"

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_NOT_FINITE = (
    *(".nan", ".NaN", ".NAN"),
    *(sign + text for sign in ("", "+", "-") for text in (".inf", ".Inf", ".INF")),
)
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
}

_NUMBER_STARTS: Final = frozenset("+-0123456789.")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_BASED = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)

_LONGEST_NUMBER = 400
"""Characters; longer digits have no value in Go's float64 either and are text."""

_INT64_MIN = -(2**63)
_UINT64_MAX = 2**64 - 1
_JSON_EXPONENT_FROM = 10**21
"""From here Go's JSON encoder writes a float64 with an exponent, which no integer field takes."""


def resolve(scalar: Scalar) -> object:
    """The value of one scalar: str, bool, int, float or None. Raises ValueError where kubectl cannot read it."""
    tag, text = scalar.tag, scalar.text
    if tag in (_STR, "!") or (tag is None and not scalar.plain):
        return text
    if tag is None:
        return _plain(text)
    if tag == _CORE + "binary":
        raise ValueError("tag !!binary is not read here; write base64 text where the field takes bytes")
    if not tag.startswith(_CORE):
        return text
    return _tagged(tag.removeprefix(_CORE), text)


def resolve_key(scalar: Scalar) -> str:
    """A mapping key as JSON has it: numbers and booleans become their text. Raises ValueError for null."""
    value = resolve(scalar)
    if isinstance(value, str):
        return value
    if value is None:
        raise ValueError(f"key {scalar.text or 'null'!r} is null; a key must be text")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _tagged(tag: str, text: str) -> object:
    """An explicit core tag must agree with the value, as goyaml's resolve has it."""
    value = _plain(text)
    wanted: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
    if tag == "timestamp":
        return text
    types = wanted.get(tag)
    if types is None or not isinstance(value, types) or (isinstance(value, bool) and tag != "bool"):
        raise ValueError(f"cannot read {text!r} as !!{tag}")
    return value


def _plain(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if text in _NOT_FINITE:
        raise ValueError(f"{text} has no form in JSON; put it in quotes if it is meant as text")
    if text[0] == ".":
        return _float(text)
    digits = text.replace("_", "")
    if len(digits) > _LONGEST_NUMBER:
        return text
    whole = _integer(digits)
    if whole is not None:
        return whole
    value = _float(digits)
    return text if value == digits else value


def _integer(digits: str) -> int | None:
    """strconv.ParseInt and ParseUint with base 0; None where they refuse."""
    if _DECIMAL.fullmatch(digits):
        value = int(digits)
    elif based := _BASED.fullmatch(digits):
        sign, hexadecimal, binary, octal = based.groups()
        value = int(hexadecimal, 16) if hexadecimal else int(binary, 2) if binary else int(octal, 8)
        value = -value if sign == "-" else value
    else:
        return None
    return value if _INT64_MIN <= value <= _UINT64_MAX else None


def _float(digits: str) -> object:
    """A float64, as JSON carries it: whole ones are integers again (Go writes 1e3 as 1000). Text stays as it is."""
    if not _FLOAT.fullmatch(digits):
        return digits
    value = float(digits)
    if math.isinf(value):
        return digits
    if value.is_integer() and abs(value) < _JSON_EXPONENT_FROM:
        return int(value)
    return value
