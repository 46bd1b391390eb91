"""Which pods a rule of the policy takes: the four selector fields, and first match over many rules.

All given parts of a selector must match. Label selectors follow apimachinery/pkg/apis/meta/v1 LabelSelector.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from msgspec import Struct


class Operator(StrEnum):
    """LabelSelectorRequirement operators."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Expression(Struct, frozen=True, gc=False):
    """One matchExpressions entry."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Kubernetes' reading: NotIn and DoesNotExist also match where the key is absent."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None


class LabelSelector(Struct, frozen=True, gc=False):
    """matchLabels and matchExpressions, all of which must hold."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Expression, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The labels that are looked at."""
        return frozenset((*(key for key, _ in self.match_labels), *(one.key for one in self.match_expressions)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy every requirement; an empty selector matches everything."""
        for key, value in self.match_labels:
            if labels.get(key) != value:
                return False
        return all(expression.matches(labels) for expression in self.match_expressions)


class Subject(Struct, frozen=True, gc=False):
    """What selectors look at in one pod."""

    namespace: str
    namespace_labels: Mapping[str, str]
    pod_labels: Mapping[str, str]
    priority_class_name: str | None


class Selector(Struct, frozen=True, gc=False):
    """A rule's `selector`. Without any part it matches every pod (`{}`)."""

    namespaces: frozenset[str] | None = None
    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None
    priority_class_names: frozenset[str] | None = None

    @property
    def matches_everything(self) -> bool:
        """Whether no part is given."""
        return (
            self.namespaces is None
            and self.namespace_selector is None
            and self.pod_selector is None
            and self.priority_class_names is None
        )

    def matches(self, subject: Subject) -> bool:
        """Whether every given part matches."""
        if self.namespaces is not None and subject.namespace not in self.namespaces:
            return False
        if self.namespace_selector is not None and not self.namespace_selector.matches(subject.namespace_labels):
            return False
        if self.pod_selector is not None and not self.pod_selector.matches(subject.pod_labels):
            return False
        return self.priority_class_names is None or subject.priority_class_name in self.priority_class_names


class _Rule(Protocol):
    @property
    def selector(self) -> Selector: ...


RuleT = TypeVar("RuleT", bound=_Rule)


class FirstMatch(Generic[RuleT]):
    """An ordered list of rules of which the first that matches a pod counts.

    Each rule stands in the bucket of one thing that it requires, so that a look-up costs the labels of the pod and its
    namespace, not the number of rules. Immutable after construction.
    """

    __slots__ = ("_always", "_by_namespace", "_by_namespace_label", "_by_pod_label", "_by_priority_class", "rules")

    rules: tuple[RuleT, ...]

    def __init__(self, rules: Iterable[RuleT]) -> None:
        self.rules = tuple(rules)
        self._always: list[int] = []
        self._by_namespace: dict[str, list[int]] = {}
        self._by_namespace_label: dict[tuple[str, str], list[int]] = {}
        self._by_pod_label: dict[tuple[str, str], list[int]] = {}
        self._by_priority_class: dict[str, list[int]] = {}
        for position, rule in enumerate(self.rules):
            self._place(position, rule.selector)

    def _place(self, position: int, selector: Selector) -> None:
        if selector.namespaces is not None:
            for namespace in selector.namespaces:
                self._by_namespace.setdefault(namespace, []).append(position)
        elif selector.namespace_selector is not None and selector.namespace_selector.match_labels:
            self._by_namespace_label.setdefault(selector.namespace_selector.match_labels[0], []).append(position)
        elif selector.pod_selector is not None and selector.pod_selector.match_labels:
            self._by_pod_label.setdefault(selector.pod_selector.match_labels[0], []).append(position)
        elif selector.priority_class_names is not None:
            for name in selector.priority_class_names:
                self._by_priority_class.setdefault(name, []).append(position)
        else:
            self._always.append(position)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FirstMatch) and self.rules == other.rules

    def __hash__(self) -> int:
        return hash(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def find(self, subject: Subject) -> RuleT | None:
        """The first rule whose selector matches, or None."""
        if not self.rules:
            return None
        candidates = list(self._always)
        candidates += self._by_namespace.get(subject.namespace, ())
        if self._by_namespace_label:
            for label in subject.namespace_labels.items():
                candidates += self._by_namespace_label.get(label, ())
        if self._by_pod_label:
            for label in subject.pod_labels.items():
                candidates += self._by_pod_label.get(label, ())
        if self._by_priority_class and subject.priority_class_name is not None:
            candidates += self._by_priority_class.get(subject.priority_class_name, ())
        candidates.sort()
        for position in candidates:
            rule = self.rules[position]
            if rule.selector.matches(subject):
                return rule
        return None
