"""What a new policy changes in the meaning of an old one: defaults and the catalogue count, layout and comments do not.

Things with names are matched by name, rules without one by their selector, so that moving a rule is one line that says
so and not a rule gone and another come.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from webhook.domain.rules import Policy
from webhook.domain.selectors import FirstMatch
from webhook.policy.kinds import Custom, Kind
from webhook.policy.records import Field, ListOf, MappingOf, Record
from webhook.policy.schema.budgets import BUDGET
from webhook.policy.schema.gpus import GPU
from webhook.policy.schema.models import MODEL, PROFILE
from webhook.policy.schema.policy import POLICY
from webhook.policy.schema.queues import QUEUE_RULE
from webhook.policy.schema.selectors import SELECTOR
from webhook.policy.schema.sharing import SHARING_RULE


class Change(StrEnum):
    """What happened to a thing."""

    ADDED = "+"
    REMOVED = "-"
    CHANGED = "~"


class Difference(Struct, frozen=True, gc=False):
    """One thing that the new policy has otherwise. `str()` is one line."""

    change: Change
    path: str
    """As in `budgets[interactive].mix.input`: by name, not by index."""
    old: str | None = None
    """None where it was not there, or where it stood for its absence."""
    new: str | None = None

    def __str__(self) -> str:
        match self.change:
            case Change.ADDED:
                return f"+ {self.path}: {self.new}"
            case Change.REMOVED:
                return f"- {self.path}: {self.old}"
            case Change.CHANGED:
                return f"~ {self.path}: {self.old} -> {self.new}"


_Key = Callable[[Any], str]

# How the items of each list are told apart.
_KEYS: Final[Mapping[int, _Key]] = {
    id(BUDGET): lambda budget: budget.name,
    id(GPU): lambda gpu: gpu.name,
    id(MODEL): lambda model: model.name,
    id(PROFILE): lambda profile: f"{profile.devices} x {profile.gpu} at {profile.dtype}",
    id(QUEUE_RULE): lambda rule: SELECTOR.render(rule.selector),
    id(SHARING_RULE): lambda rule: SELECTOR.render(rule.selector),
}

_ORDERED: Final = frozenset({id(BUDGET), id(QUEUE_RULE), id(SHARING_RULE)})
"""Lists in which the first match counts."""

_HEAD: Final = ("apiVersion", "kind")


def diff(old: Policy, new: Policy) -> tuple[Difference, ...]:
    """Every difference in meaning, in the order of the policy's fields."""
    fields = (field for field in POLICY.fields if field.name not in _HEAD)
    return tuple(one for field in fields for one in _field(field, old, new, ""))


def _field(field: Field, old: Any, new: Any, path: str) -> Iterator[Difference]:
    # Some fields only serve to compute another one and have no attribute of their own.
    before, after = getattr(old, field.target, None), getattr(new, field.target, None)
    here = f"{path}.{field.name}".lstrip(".")
    if before is None and after is None:
        return
    if before is None or after is None:
        absent = field.absent or "none"
        yield Difference(
            Change.CHANGED,
            here,
            absent if before is None else field.kind.render(before),
            absent if after is None else field.kind.render(after),
        )
        return
    yield from _value(field.kind, before, after, here)


def _value(kind: Kind[Any], old: Any, new: Any, path: str) -> Iterator[Difference]:
    if old == new:
        return
    match kind:
        case Record():
            for field in kind.fields:
                yield from _field(field, old, new, path)
        case ListOf(item=item) if id(item) in _KEYS:
            yield from _keyed(item, _by_key(item, old), _by_key(item, new), path)
        case MappingOf(value=value):
            yield from _keyed(value, dict(old), dict(new), path)
        case Custom(members=MappingOf(value=value)):
            yield from _keyed(value, dict(old), dict(new), path)
        case _:
            yield Difference(Change.CHANGED, path, kind.render(old), kind.render(new))


def _by_key(item: Kind[Any], values: Any) -> dict[str, Any]:
    """The items by what tells them apart; a second one with the same selector gets a number."""
    keyed: dict[str, Any] = {}
    for value in _items(values):
        key = name = _KEYS[id(item)](value)
        count = 1
        while key in keyed:
            count += 1
            key = f"{name} #{count}"
        keyed[key] = value
    return keyed


def _items(values: Any) -> Sequence[Any]:
    if isinstance(values, FirstMatch):
        return values.rules
    if isinstance(values, Mapping):
        # Models stand under each of their names.
        return list({id(value): value for value in values.values()}.values())
    return list(values)


def _keyed(kind: Kind[Any], old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Difference]:
    for key in old:
        if key not in new:
            yield Difference(Change.REMOVED, f"{path}[{key}]", old=kind.render(old[key]))
    for key in new:
        if key not in old:
            yield Difference(Change.ADDED, f"{path}[{key}]", new=kind.render(new[key]))
        else:
            yield from _value(kind, old[key], new[key], f"{path}[{key}]")
    if id(kind) in _ORDERED:
        yield from _order([key for key in old if key in new], [key for key in new if key in old], path)


def _order(old: Iterable[str], new: Iterable[str], path: str) -> Iterator[Difference]:
    before, after = list(old), list(new)
    if before != after:
        yield Difference(Change.CHANGED, f"order of {path}", ", ".join(before), ", ".join(after))
