"""Are the fields of an object of the types that the API server decodes? The types are those of the official client.

What Go's decoder reads as absent or as an empty value is made so: null members go, null values of labels and the like
become `""`. Names of fields that no type has are told apart from wrong types: kubectl refuses them, other clients do
not.
"""

import re
from functools import cache
from typing import Any, Final

from kubernetes.client import models
from msgspec import Struct

POD: Final = "V1Pod"

_QUANTITY_FIELDS: Final = frozenset(
    {
        ("V1EmptyDirVolumeSource", "sizeLimit"),
        ("V1PodSpec", "overhead"),
        ("V1ResourceFieldSelector", "divisor"),
        ("V1ResourceRequirements", "limits"),
        ("V1ResourceRequirements", "requests"),
        ("V1VolumeResourceRequirements", "limits"),
        ("V1VolumeResourceRequirements", "requests"),
    }
)
"""Where the client says text and Kubernetes decodes a quantity, which may also be a number."""

_QUANTITY: Final = "quantity"
_LIST = re.compile(r"[Ll]ist\[(.+)\]")
_MAP = re.compile(r"[Dd]ict[\[(]str, (.+)[\])]")

_SCALARS: Final[dict[str, tuple[tuple[type, ...], str, object]]] = {
    "str": ((str,), "a string", ""),
    "datetime": ((str,), "a time as a string", ""),
    "bytes": ((str,), "base64 text", ""),
    "int": ((int,), "an integer", 0),
    "float": ((int, float), "a number", 0),
    "bool": ((bool,), "a boolean", False),
    _QUANTITY: ((str, int, float), "a quantity", "0"),
}
"""Type -> accepted JSON types, its name for people, what null is inside a list or a map."""

_WHAT: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a mapping",
}


class WrongType(Struct, frozen=True, gc=False):
    """A value that the API server cannot decode."""

    field: str
    message: str


class Checked(Struct):
    """An object as the API server would have decoded it, and what was wrong with it."""

    value: Any = None
    wrong: list[WrongType] = []
    unknown: list[str] = []
    """Paths of fields that the type does not have."""


def check(value: object, model: str) -> Checked:
    """Reads `value` as the client's `model`, such as `V1Pod`. Never raises."""
    checked = Checked(None, [], [])
    checked.value = _walk("", value, model, checked)
    return checked


@cache
def _fields(model: str) -> dict[str, str]:
    """JSON field name -> type, for one class of the client."""
    known = getattr(models, model)
    fields: dict[str, str] = {}
    for attribute, kind in known.openapi_types.items():
        name = known.attribute_map[attribute]
        if (model, name) in _QUANTITY_FIELDS:
            kind = kind.replace("str, str", f"str, {_QUANTITY}") if "," in kind else _QUANTITY
        fields[name] = kind
    return fields


def _walk(path: str, value: object, kind: str, checked: Checked) -> object:
    if kind == "object":
        return value
    if kind in _SCALARS:
        return _scalar(path, value, kind, checked)
    if inner := _LIST.fullmatch(kind):
        return _list(path, value, inner.group(1), checked)
    if inner := _MAP.fullmatch(kind):
        return _map(path, value, inner.group(1), checked)
    return _struct(path, value, kind, checked)


def _scalar(path: str, value: object, kind: str, checked: Checked) -> object:
    types, name, _ = _SCALARS[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        hint = "; put it in quotes" if kind == "str" and not isinstance(value, (list, dict)) else ""
        _wrong(path, value, f"{name} is wanted{hint}", checked)
    return value


def _list(path: str, value: object, kind: str, checked: Checked) -> object:
    if not isinstance(value, list):
        _wrong(path, value, "a list is wanted", checked)
        return value
    return [_walk(f"{path}[{index}]", _or_zero(item, kind), kind, checked) for index, item in enumerate(value)]


def _map(path: str, value: object, kind: str, checked: Checked) -> object:
    if not isinstance(value, dict):
        _wrong(path, value, "a mapping is wanted", checked)
        return value
    return {key: _walk(f"{path}[{key}]", _or_zero(item, kind), kind, checked) for key, item in value.items()}


def _or_zero(item: object, kind: str) -> object:
    """Null inside a list or a map is the type's empty value, as Go decodes it."""
    if item is not None:
        return item
    return _SCALARS[kind][2] if kind in _SCALARS else {}


def _struct(path: str, value: object, kind: str, checked: Checked) -> object:
    if not isinstance(value, dict):
        _wrong(path, value, "a mapping is wanted", checked)
        return value
    fields = _fields(kind)
    clean: dict[str, object] = {}
    for name, member in value.items():
        if member is None:
            continue
        here = f"{path}.{name}" if path else str(name)
        known = fields.get(name)
        if known is None:
            checked.unknown.append(here)
            clean[name] = member
        elif here == "status":
            clean[name] = member  # ignored at creation, as long as it is a mapping
        else:
            clean[name] = _walk(here, member, known, checked)
    return clean


def _wrong(path: str, value: object, wanted: str, checked: Checked) -> None:
    shown = f"{_shown(value)} is " if isinstance(value, (str, int, float)) else "is "
    checked.wrong.append(WrongType(path, f"{shown}{_WHAT.get(type(value), 'null')}, {wanted}"))


def _shown(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
