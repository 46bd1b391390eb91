"""The scalars of a policy: YAML 1.2's core schema, exact, and with doubtful ones kept apart instead of guessed.

Numbers stay as written beside their exact value (`70.6e9`, `1.10`, `0x1F`). What YAML 1.1 and 1.2 read differently
(`no`, `on`, `007`) becomes `Unclear`, which nothing in a policy accepts: its reason says what to write instead.
Source: YAML 1.2.2, chapter 10.3 (core schema); YAML 1.1 type repository for bool and int.
"""

import re
from fractions import Fraction
from typing import Final

from msgspec import Struct

from webhook.domain import quantity
from webhook.policy.yamlnodes import Reading, Scalar, YamlError, decode, read_documents

MAX_BYTES: Final = 1024 * 1024
"""A ConfigMap holds at most 1 MiB (apimachinery and etcd agree)."""


class Number(Struct, frozen=True, gc=False):
    """A number as it was written, and what it is worth exactly."""

    text: str
    value: Fraction


class Unclear(Struct, frozen=True, gc=False):
    """A scalar that is refused wherever it stands, with the reason and what to write instead."""

    text: str
    reason: str


class LiteralText(str):
    """The text of a literal block (`|`), which knows the line on which it starts in its file."""

    __slots__ = ("first_line",)

    first_line: int


_STR_TAG: Final = "tag:yaml.org,2002:str"
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# Not the `y` and `n` of the YAML 1.1 page: no common parser reads those as booleans, and they are names of things.
_YAML11_BOOLEANS: Final = frozenset({"yes", "on", "no", "off"})
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_DECIMAL: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9]")


def resolve(scalar: Scalar) -> object:
    """None, bool, Number, str (LiteralText for a literal block) or Unclear; never raises."""
    if scalar.tag is not None and scalar.tag not in (_STR_TAG, "!"):
        name = scalar.tag.replace("tag:yaml.org,2002:", "!!")
        return Unclear(scalar.text, f"tag {name[:60]} is not read here; leave it out")
    if scalar.literal:
        text = LiteralText(scalar.text)
        text.first_line = scalar.line + 1
        return text
    if not scalar.plain or scalar.tag is not None:
        return scalar.text
    return _plain(scalar.text)


def _plain(text: str) -> object:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text.lower() in _YAML11_BOOLEANS:
        return Unclear(text, f'{text} is a boolean to YAML 1.1 and text to YAML 1.2; write "{text}", true or false')
    if _NOT_FINITE.fullmatch(text):
        return Unclear(text, f"{text} is no finite number")
    if _BASED.fullmatch(text) or _DECIMAL.fullmatch(text):
        return _number(text)
    return text


def _number(text: str) -> Number | Unclear:
    if _LEADING_ZERO.match(text):
        bare = text.lstrip("+-0") or "0"
        return Unclear(text, f'{text} has a leading zero, which may mean octal; write {bare}, or "{text}" for text')
    if len(text) > quantity.MAX_TEXT_LENGTH:
        return Unclear(text, f"a number of {len(text)} characters; at most {quantity.MAX_TEXT_LENGTH} are read")
    if _BASED.fullmatch(text):
        return Number(text, Fraction(int(text, 0)))
    try:
        return Number(text, quantity.parse(text))
    except ValueError as error:
        return Unclear(text, str(error))


def key(scalar: Scalar) -> str:
    """A mapping key, which must be text. Raises ValueError."""
    value = resolve(scalar)
    if isinstance(value, str):
        return value
    shown = scalar.text if len(scalar.text) <= 60 else scalar.text[:57] + "..."
    not_text = f'{shown or "null"} is not text; write "{shown}" if it is meant'
    raise ValueError(f"key {value.reason if isinstance(value, Unclear) else not_text}")


def read(data: str | bytes) -> Reading:
    """The documents of a policy file with lines, aliases refused, and everything that is wrong with the YAML."""
    size = len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return Reading([], [YamlError(f"{size} bytes; a ConfigMap holds at most {MAX_BYTES}", 1)])
    try:
        text = data if isinstance(data, str) else decode(data)
    except YamlError as error:
        return Reading([], [error])
    return read_documents(text, scalars=resolve, keys=key, max_alias_nodes=0, with_lines=True)
