"""Where an object is not shaped like a Pod: every wrong field by its path, for people.

The decoder stops at the first wrong type and names map keys only as `[...]`; this walk runs after it has refused and
finds them all. It follows the types of `domain.pod`, so a field added there is checked here.
"""

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import Any

import msgspec
from msgspec import inspect

from webhook.domain.outcome import Problem, Reason
from webhook.domain.pod import Pod
from webhook.observe.text import one_line

MAX_PROBLEMS = 20
"""More do not help a person, and a hostile object may have a million."""

MAX_KEY_LENGTH = 128
"""A label or annotation key has at most 253 + 1 + 63 characters; what is longer is cut in a path."""

MAX_VALUE_LENGTH = 40
"""How much of a wrong value is shown."""


class WrongShape(ValueError):  # noqa: N818 - names what is wrong, as its neighbours do
    """The object is no Pod; `problems` holds at least one field."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.message}" for problem in problems))
        self.problems = problems


def pod_of(raw: object) -> Pod:
    """The Pod in an object decoded without types (from YAML, say). Raises WrongShape."""
    try:
        return msgspec.convert(raw, Pod)
    except (msgspec.ValidationError, RecursionError) as error:
        raise WrongShape(problems_of(raw) or (unlocated(str(error)),)) from None


def problems_of(raw: object) -> tuple[Problem, ...]:
    """What is wrong with the shape of an object decoded without types; empty where it is a Pod."""
    found = (Problem(Reason.INVALID_POD, path or "object", message) for path, message in _walk(raw, _pod_type(), ""))
    return tuple(islice(found, MAX_PROBLEMS))


def unlocated(decoder_message: str) -> Problem:
    """A decoder's complaint as a problem, with the path as far as the decoder gives it."""
    text, _, path = decoder_message.partition(" - at `$")
    field = path.rstrip("`").removeprefix(".request.object").lstrip(".")
    return Problem(Reason.INVALID_POD, one_line(field, MAX_KEY_LENGTH) or "object", one_line(text, MAX_KEY_LENGTH))


@cache
def _pod_type() -> inspect.Type:
    return inspect.type_info(Pod)


_Found = Iterator[tuple[str, str]]


def _walk(value: Any, expected: inspect.Type, path: str) -> _Found:
    if isinstance(expected, inspect.UnionType):
        yield from _walk_union(value, expected, path)
    elif isinstance(expected, inspect.StructType):
        yield from _walk_struct(value, expected, path)
    elif isinstance(expected, inspect.DictType):
        if not isinstance(value, dict):
            yield path, _complaint(value, expected)
            return
        for key, item in value.items():
            yield from _walk(item, expected.value_type, f"{path}[{one_line(str(key), MAX_KEY_LENGTH)}]")
    elif isinstance(expected, inspect.ListType):
        if not isinstance(value, list):
            yield path, _complaint(value, expected)
            return
        for index, item in enumerate(value):
            yield from _walk(item, expected.item_type, f"{path}[{index}]")
    elif not _is_scalar(value, expected):
        yield path, _complaint(value, expected)


def _walk_struct(value: Any, expected: inspect.StructType, path: str) -> _Found:
    if not isinstance(value, dict):
        yield path, _complaint(value, expected)
        return
    for field in expected.fields:
        if field.encode_name in value:
            inner = f"{path}.{field.encode_name}" if path else field.encode_name
            yield from _walk(value[field.encode_name], field.type, inner)


def _walk_union(value: Any, expected: inspect.UnionType, path: str) -> _Found:
    """A type or null, or one of several scalars (a quantity)."""
    if any(_is_scalar(value, member) for member in expected.types):
        return
    nested = [member for member in expected.types if isinstance(member, _CONTAINERS)]
    if nested:
        yield from _walk(value, nested[0], path)
    else:
        yield path, _complaint(value, expected)


_CONTAINERS = (inspect.StructType, inspect.DictType, inspect.ListType)


def _is_scalar(value: Any, expected: inspect.Type) -> bool:
    match expected:
        case inspect.NoneType():
            return value is None
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, (float, Decimal)) and abs(Decimal(value)) <= _LARGEST_NUMBER
    return False


_LARGEST_NUMBER = Decimal("1.7e308")
"""About the largest double; beyond it the decoder says out of range."""


def _complaint(value: Any, expected: inspect.Type) -> str:
    hint = "; put it in quotes" if _wants_string(expected) and isinstance(value, (bool, int, float, Decimal)) else ""
    return f"must be {_name(expected)}, found {_shown(value)}{hint}"


def _wants_string(expected: inspect.Type) -> bool:
    if isinstance(expected, inspect.UnionType):
        return any(_wants_string(member) for member in expected.types)
    return isinstance(expected, inspect.StrType)


_NAMES: dict[type[inspect.Type], str] = {
    inspect.StructType: "an object",
    inspect.DictType: "an object",
    inspect.ListType: "a list",
    inspect.StrType: "a string",
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
}


def _name(expected: inspect.Type) -> str:
    if isinstance(expected, inspect.UnionType):
        names = [_NAMES[type(member)] for member in expected.types if type(member) in _NAMES]
        return "a quantity" if len(names) > 1 else names[0]
    return _NAMES[type(expected)]


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Decimal() if abs(value) <= _LARGEST_NUMBER:
            return _shown(float(value))
        case int() | float() | Decimal():
            return f"the number {one_line(str(value), MAX_VALUE_LENGTH)}"
        case str():
            return f"the string {one_line(repr(value), MAX_VALUE_LENGTH)}"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {len(value)} keys"
    return f"a {type(value).__name__}"
