"""Which rules of a first-match list no pod can ever reach, because rules before them take all that they select.

A selector is narrowed to one namespace and one priority class at a time, so that several earlier rules may take it
together. A part of an earlier selector must follow from the same part of the later one; what cannot be shown is not
claimed. A selector that contradicts itself is taken by any earlier rule and is not looked for otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from webhook.domain.keys import NAMESPACE_NAME_LABEL
from webhook.domain.selectors import LabelSelector, Operator, Selector


class HasSelector(Protocol):
    """A rule, as far as this module looks at it."""

    @property
    def selector(self) -> Selector:
        """Which pods it takes."""
        ...


Rule = TypeVar("Rule", bound=HasSelector)


class _Demand(Struct, frozen=True, gc=False):
    """What a label selector demands of one label. `allowed` None: any value."""

    present: bool = False
    absent: bool = False
    allowed: frozenset[str] | None = None
    refused: frozenset[str] = frozenset()

    def implies(self, other: "_Demand") -> bool:
        """Whether every label that meets this demand meets the other."""
        if self.absent:
            return not other.present and other.allowed is None
        if other.absent:
            return False
        if other.allowed is not None and (self.allowed is None or not self.allowed <= other.allowed):
            return False
        if self.allowed is not None:
            return not self.allowed & other.refused
        return (self.present or not other.present) and other.refused <= self.refused


_Demands = Mapping[str, _Demand]


class _Narrowed(Struct, frozen=True, gc=False):
    """A selector as demands, with at most one namespace and one priority class for a later rule."""

    namespaces: frozenset[str] | None
    namespace_labels: _Demands
    pod_labels: _Demands
    priority_class_names: frozenset[str] | None

    def takes(self, later: "_Narrowed") -> bool:
        """Whether every pod of the later selector is one of this selector."""
        return (
            _within(later.namespaces, self.namespaces)
            and _within(later.priority_class_names, self.priority_class_names)
            and _implied(self.namespace_labels, later.namespace_labels)
            and _implied(self.pod_labels, later.pod_labels)
        )


def _within(later: frozenset[str] | None, earlier: frozenset[str] | None) -> bool:
    return earlier is None or (later is not None and later <= earlier)


def _implied(earlier: _Demands, later: _Demands) -> bool:
    return all(key in later and later[key].implies(demand) for key, demand in earlier.items())


def _demands(selector: LabelSelector | None) -> dict[str, _Demand]:
    demands: dict[str, _Demand] = {}
    if selector is None:
        return demands
    for key, value in selector.match_labels:
        demands[key] = _both(demands.get(key), _Demand(present=True, allowed=frozenset({value})))
    for expression in selector.match_expressions:
        match expression.operator:
            case Operator.IN:
                demand = _Demand(present=True, allowed=expression.values)
            case Operator.NOT_IN:
                demand = _Demand(refused=expression.values)
            case Operator.EXISTS:
                demand = _Demand(present=True)
            case Operator.DOES_NOT_EXIST:
                demand = _Demand(absent=True)
        demands[expression.key] = _both(demands.get(expression.key), demand)
    return demands


def _both(one: _Demand | None, other: _Demand) -> _Demand:
    if one is None:
        return other
    allowed = one.allowed if other.allowed is None else other.allowed
    if one.allowed is not None and other.allowed is not None:
        allowed = one.allowed & other.allowed
    return _Demand(one.present or other.present, one.absent or other.absent, allowed, one.refused | other.refused)


def _narrow(selector: Selector) -> _Narrowed:
    """Namespaces by name and by the label that repeats their name are one thing."""
    labels = _demands(selector.namespace_selector)
    namespaces = selector.namespaces
    by_label = labels.get(NAMESPACE_NAME_LABEL)
    if by_label is not None and by_label.allowed is not None and not by_label.refused:
        labels.pop(NAMESPACE_NAME_LABEL)
        namespaces = by_label.allowed if namespaces is None else namespaces & by_label.allowed
    return _Narrowed(namespaces, labels, _demands(selector.pod_selector), selector.priority_class_names)


class _Taken(Struct, frozen=True, gc=False):
    """An earlier rule, in the bucket of one thing that it demands."""

    index: int
    narrowed: _Narrowed


_Bucket = tuple[str, str, str | None]
_ANY: Final[_Bucket] = ("any", "", None)


class _Earlier:
    """The rules before the one at hand, found by one thing that they demand, so that long lists stay quick."""

    def __init__(self) -> None:
        self._buckets: dict[_Bucket, list[_Taken]] = {}

    def add(self, index: int, narrowed: _Narrowed) -> None:
        """Puts a rule where every later selector that it takes looks for it, and where the fewest others stand."""
        taken = _Taken(index, narrowed)
        for bucket in min(_choices(narrowed), key=self._crowd):
            self._buckets.setdefault(bucket, []).append(taken)

    def _crowd(self, buckets: Sequence[_Bucket]) -> int:
        return max(len(self._buckets.get(bucket, ())) for bucket in buckets)

    def taker(self, later: _Narrowed) -> int | None:
        """The first rule that takes all of the later selector."""
        firsts = (self._first(bucket, later) for bucket in _looks_in(later))
        return min((first for first in firsts if first is not None), default=None)

    def _first(self, bucket: _Bucket, later: _Narrowed) -> int | None:
        takers = (taken.index for taken in self._buckets.get(bucket, ()) if taken.narrowed.takes(later))
        return next(takers, None)


def _choices(narrowed: _Narrowed) -> list[list[_Bucket]]:
    """For each thing that is demanded, the buckets of all values that it may have."""
    choices = [
        [(kind, label, value) for value in demand.allowed or (None,)]
        for kind, labels in _label_parts(narrowed)
        for label, demand in labels.items()
    ]
    for kind, names in _name_parts(narrowed):
        if names:
            choices.append([(kind, "", name) for name in names])
    return choices or [[_ANY]]


def _looks_in(later: _Narrowed) -> Iterator[_Bucket]:
    """What takes a set of values takes each of them: one member of every set is enough to find it."""
    yield _ANY
    for kind, names in _name_parts(later):
        if names:
            yield kind, "", min(names)
    for kind, labels in _label_parts(later):
        for label, demand in labels.items():
            yield kind, label, None
            if demand.allowed:
                yield kind, label, min(demand.allowed)


def _name_parts(narrowed: _Narrowed) -> tuple[tuple[str, frozenset[str] | None], ...]:
    return ("namespace", narrowed.namespaces), ("priority class", narrowed.priority_class_names)


def _label_parts(narrowed: _Narrowed) -> tuple[tuple[str, _Demands], ...]:
    return ("namespace label", narrowed.namespace_labels), ("pod label", narrowed.pod_labels)


_MOST_PIECES: Final = 1000
"""Beyond that only single earlier rules are looked for."""


def _pieces(narrowed: _Narrowed) -> Iterator[_Narrowed]:
    """The selector itself where it has no names to split by."""
    namespaces = [None] if narrowed.namespaces is None else sorted(narrowed.namespaces)
    classes = [None] if narrowed.priority_class_names is None else sorted(narrowed.priority_class_names)
    if len(namespaces) * len(classes) > _MOST_PIECES:
        yield narrowed
        return
    for namespace in namespaces:
        for priority_class in classes:
            yield _Narrowed(
                None if namespace is None else frozenset({namespace}),
                narrowed.namespace_labels,
                narrowed.pod_labels,
                None if priority_class is None else frozenset({priority_class}),
            )


def _takers(narrowed: _Narrowed, earlier: _Earlier) -> tuple[int, ...]:
    """The rules that take the whole selector between them; empty where a pod is left for it."""
    takers: set[int] = set()
    for piece in _pieces(narrowed):
        taker = earlier.taker(piece)
        if taker is None:
            return ()
        takers.add(taker)
    return tuple(sorted(takers))


def shadowed(selectors: Sequence[Selector]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The index of each rule that nothing can reach, with the indexes of the rules that take its pods."""
    earlier = _Earlier()
    for index, selector in enumerate(selectors):
        narrowed = _narrow(selector)
        takers = _takers(narrowed, earlier)
        if takers:
            yield index, takers
        earlier.add(index, narrowed)
