"""The kinds of collections in a policy: lists, mappings with free keys, and records with known fields.

A record's table of fields is its schema: the parser, `config explain` and `config diff` all read it. Defaults are not
here: a field that is not given is not passed on, so the struct's own default holds.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from webhook.policy.kinds import Kind
from webhook.policy.report import At, Rejected, did_you_mean, wrong

ItemT = TypeVar("ItemT")

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def attribute_of(field_name: str) -> str:
    """`maxBypass` -> `max_bypass`."""
    return _HUMP.sub("_", field_name).lower()


class ListOf(Struct, Generic[ItemT], frozen=True, gc=False):
    """A list of one kind. Wrong items are reported and left out, so that the others are checked too."""

    item: Kind[ItemT]
    what: str
    may_be_empty: bool = False
    unique: bool = False

    @property
    def allowed(self) -> str:
        """The items in words."""
        return f"a list of {self.what}" if self.may_be_empty else f"a list of at least one of {self.what}"

    def parse(self, value: object, at: At) -> tuple[ItemT, ...]:
        """The items that are right."""
        if not isinstance(value, list):
            at.reject(wrong(value, self.allowed))
        if not value and not self.may_be_empty:
            at.reject(f"found an empty list; must be {self.allowed}; leave the key out if it is not meant")
        items: dict[int, ItemT] = {}
        for index, member in enumerate(value):
            try:
                items[index] = self.item.parse(member, at.down(index))
            except Rejected:
                continue
        if value and not items:
            raise Rejected
        if self.unique:
            self._check_unique(items, at)
        return tuple(items.values())

    def _check_unique(self, items: Mapping[int, ItemT], at: At) -> None:
        seen: dict[ItemT, int] = {}
        for index, item in items.items():
            if item in seen:
                at.down(index).error(f"{self.item.render(item)} is in the list twice, first at [{seen[item]}]")
            seen.setdefault(item, index)

    def render(self, value: Any) -> str:
        """The list in flow style; sets in alphabetic order."""
        members = sorted(value) if isinstance(value, (set, frozenset)) else value
        return "[" + ", ".join(self.item.render(member) for member in members) + "]"


class SetOf(Struct, frozen=True, gc=False):
    """A list whose order means nothing, each member once."""

    item: Kind[str]
    what: str
    may_be_empty: bool = False

    @property
    def allowed(self) -> str:
        """The members in words."""
        return self._list.allowed

    @property
    def _list(self) -> ListOf[str]:
        return ListOf(self.item, self.what, may_be_empty=self.may_be_empty, unique=True)

    def parse(self, value: object, at: At) -> frozenset[str]:
        """The members that are right."""
        return frozenset(self._list.parse(value, at))

    def render(self, value: Any) -> str:
        """The members in alphabetic order."""
        return self._list.render(value)


class MappingOf(Struct, frozen=True, gc=False):
    """A mapping with free keys of one kind to values of one kind."""

    key: Kind[str]
    value: Kind[Any]
    what: str

    @property
    def allowed(self) -> str:
        """Keys and values in words."""
        return f"a mapping of {self.what}, not empty"

    def parse(self, value: object, at: At) -> dict[str, Any]:
        """The entries that are right."""
        if not isinstance(value, dict):
            at.reject(wrong(value, self.allowed))
        if not value:
            at.reject(f"found an empty mapping; must be {self.allowed}; leave the key out if it is not meant")
        entries: dict[str, Any] = {}
        for key, member in value.items():
            here = at.down(key)
            try:
                parsed, known = self.key.parse(key, here), len(entries)
                entries[parsed] = self.value.parse(member, here)
            except Rejected:
                continue
            if len(entries) == known:
                here.error(f"means the same as another key here, {parsed}; keep one of them")
        return entries

    def render(self, value: Any) -> str:
        """The mapping in flow style, in alphabetic order."""
        pairs = sorted(value.items() if isinstance(value, Mapping) else value)
        return "{" + ", ".join(f"{self.key.render(key)}: {self.value.render(member)}" for key, member in pairs) + "}"


class Field(Struct, frozen=True, gc=False):
    """One key of a record."""

    name: str
    kind: Kind[Any]
    doc: str
    """What it means, in a sentence or two."""
    attribute: str = ""
    """The attribute of the struct; from the name where empty."""
    required: str = ""
    """Not empty: the key must be there, and this says what to write."""
    absent: str = ""
    """What holds without the key, where the struct's default does not say it."""

    @property
    def target(self) -> str:
        """The attribute that holds the value."""
        return self.attribute or attribute_of(self.name)


class Given(dict[str, Any]):
    """The fields of a record that are given and right, by attribute."""

    __slots__ = ("written",)

    def __init__(self, written: Iterable[str] = ()) -> None:
        super().__init__()
        self.written = frozenset(written)
        """The keys that are there, right or wrong: what is wrong is not missing as well."""


def _nothing_more(given: Given, at: At) -> None:
    """No check across fields."""


class Record(Struct, frozen=True, gc=False):
    """A mapping with known keys that becomes a struct."""

    what: str
    struct: type[Struct]
    fields: tuple[Field, ...]
    make: Callable[..., Any] | None = None
    """What is made of the fields, where it is not the struct."""
    finish: Callable[[Given, At], None] = _nothing_more
    """Checks across the fields; may report, and may change what is given before the struct is made."""
    may_be_empty: bool = True

    @property
    def allowed(self) -> str:
        """The keys in words."""
        return f"{self.what}, a mapping of {', '.join(field.name for field in self.fields)}"

    def parse(self, value: object, at: At) -> Any:
        """The struct; every wrong field is reported before the record is given up."""
        if not isinstance(value, dict):
            at.reject(wrong(value, self.allowed))
        if not value and not self.may_be_empty:
            at.reject(f"found an empty mapping; must be {self.allowed}; leave the key out if it is not meant")
        given = Given(value)
        if not self.parse_into(given, value, at):
            raise Rejected
        return (self.make or self.struct)(**given)

    def parse_into(self, given: Given, value: Mapping[str, object], at: At) -> bool:
        """Fills in the fields that are right; whether all are that must be, and no other is wrong."""
        self._report_unknown(value, at)
        complete = True
        for field in self.fields:
            here = at.down(field.name)
            if value.get(field.name) is None and field.required:
                here.error(f"{'is empty' if field.name in value else 'is missing'}; {field.required}")
                complete = False
                continue
            if field.name not in value:
                continue
            try:
                given[field.target] = field.kind.parse(value[field.name], here)
            except Rejected:
                complete = False
        self.finish(given, at)
        return complete

    def _report_unknown(self, value: Mapping[str, object], at: At) -> None:
        known = [field.name for field in self.fields]
        for key in value:
            if key not in known:
                near = "" if at.report.full else did_you_mean(key, known)
                at.down(key).error(f"unknown key{near or '; known are ' + ', '.join(known)}")

    def default_of(self, field: Field) -> Any:
        """The struct's default of a field; `msgspec.NODEFAULT` where it has none."""
        for member in msgspec.structs.fields(self.struct):
            if member.name == field.target:
                return member.default if member.default_factory is msgspec.NODEFAULT else member.default_factory()
        return msgspec.NODEFAULT

    def render(self, value: Any) -> str:
        """The record in flow style, without what is at its default; a record of defaults in full."""
        members = [(field, getattr(value, field.target, None)) for field in self.fields]
        given = [(field, member) for field, member in members if member is not None]
        own = [(field, member) for field, member in given if member != self.default_of(field)]
        return "{" + ", ".join(f"{field.name}: {field.kind.render(member)}" for field, member in own or given) + "}"
