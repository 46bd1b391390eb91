"""What one field of a policy means: type, bounds, default, from the same tables that parse it."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from webhook.policy.kinds import Custom, Kind
from webhook.policy.records import Field, ListOf, MappingOf, Record
from webhook.policy.report import did_you_mean
from webhook.policy.schema.policy import POLICY
from webhook.policy.sources import CONFIG_MAP_KEY

_STEP: Final = re.compile(r"\[(?P<key>[^\]]*)\]|(?P<name>[^.\[\]]+)")
_IN_CONFIG_MAP: Final = f"data[{CONFIG_MAP_KEY}]"


class Explanation(Struct, frozen=True, gc=False):
    """One field, for people."""

    path: str
    """With `[]` where a list or a mapping with free keys stands; empty for the whole policy."""
    allowed: str
    meaning: str
    default: str = ""
    """What holds where the field is not written; empty where it stands in a list or is the policy itself."""
    fields: tuple[tuple[str, str], ...] = ()
    """The fields below it, each with its meaning."""

    def lines(self) -> Iterator[str]:
        """As `tollgate config explain` prints it."""
        yield self.path or "the policy"
        yield f"  meaning: {self.meaning}"
        yield f"  allowed: {self.allowed}"
        if self.default:
            yield f"  default: {self.default}"
        if self.fields:
            width = max(len(name) for name, _ in self.fields)
            yield "  fields:"
            yield from (f"    {name:<{width}}  {meaning}" for name, meaning in self.fields)


class UnknownFieldError(ValueError):
    """A path that leads to no field; the text is one line that names the nearest."""


def explain(path: str) -> Explanation:
    """The field at a path such as `budgets[1].mix.input`, `budgets[interactive].mix` or `budgets.mix`.

    Raises UnknownFieldError.
    """
    kind: Kind[Any] = POLICY
    here = Explanation("", kind.allowed, "The policy: one document, or the key config.yaml of a ConfigMap.")
    for step in _STEP.finditer(path.strip().removeprefix(_IN_CONFIG_MAP)):
        if step["name"] is None:
            kind = _item(kind, here.path)
            here = Explanation(f"{here.path}[]", kind.allowed, here.meaning)
            continue
        kind, parent = _record(kind, here.path, step["name"])
        field = _field(kind, parent, step["name"])
        here = Explanation(f"{parent}.{field.name}".lstrip("."), field.kind.allowed, field.doc, _default(kind, field))
        kind = field.kind
    return msgspec.structs.replace(here, fields=_fields(kind))


def _opened(kind: Kind[Any]) -> Kind[Any]:
    return kind.members if isinstance(kind, Custom) and kind.members is not None else kind


def _item(kind: Kind[Any], path: str) -> Kind[Any]:
    """The kind of what stands in brackets: an item of a list, a value of a mapping."""
    match _opened(kind):
        case ListOf(item=item):
            return item
        case MappingOf(value=value):
            return value
    raise UnknownFieldError(f"{path or 'the policy'} is no list and no mapping with free keys; leave [...] out")


def _record(kind: Kind[Any], path: str, name: str) -> tuple[Record, str]:
    """The record that a field name refers to: `budgets.mix` means `budgets[].mix`."""
    kind = _opened(kind)
    while isinstance(kind, ListOf):
        kind, path = kind.item, f"{path}[]"
    if not isinstance(kind, Record):
        raise UnknownFieldError(f"{path}.{name}: unknown field; {path} has no fields, it is {kind.allowed}")
    return kind, path


def _field(record: Record, path: str, name: str) -> Field:
    for field in record.fields:
        if field.name == name:
            return field
    known = [field.name for field in record.fields]
    near = did_you_mean(name, known) or "; known are " + ", ".join(known)
    raise UnknownFieldError(f"{path}.{name}".lstrip(".") + f": unknown field{near}")


def _fields(kind: Kind[Any]) -> tuple[tuple[str, str], ...]:
    kind = _opened(kind)
    while isinstance(kind, ListOf):
        kind = kind.item
    return tuple((field.name, field.doc) for field in kind.fields) if isinstance(kind, Record) else ()


def _default(record: Record, field: Field) -> str:
    if field.required:
        return f"none, it must be written: {field.required}"
    if field.absent:
        return field.absent
    default = record.default_of(field)
    return "" if default is msgspec.NODEFAULT else field.kind.render(default)
