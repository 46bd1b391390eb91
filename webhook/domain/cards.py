"""Which cards a pod may land on, as far as what it requires of nodes says.

Requirements inside a term are ANDed, terms are ORed. NotIn, Exists and preferences say nothing. A value that no card of
the catalogue has means a card that we do not know, which is not an error.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from webhook.domain.gpunames import MEMORY_LABEL, PRODUCT_LABEL, PRODUCT_MIG_INFIX, PRODUCT_SHARED_SUFFIX
from webhook.domain.pod import NodeSelectorRequirement, NodeSelectorTerm, Pod
from webhook.domain.rules import Gpu, SharingRule

MEMORY_SLACK_DIVISOR = 50
"""gpu.memory varies by about 2 % with driver and ECC, so it is never compared exactly."""

_UNKNOWN = ""
"""Stands among the names of cards for one that the catalogue does not have."""
_UNKNOWN_ONLY = frozenset({_UNKNOWN})
_NO_CARD: frozenset[str] = frozenset()
"""Of requirements that no node can meet."""

_DRIVER_PREFIX = "NVIDIA-"
"""Old drivers report products without it."""


class Cards(Struct, frozen=True, gc=False):
    """The cards that a pod may land on."""

    known: tuple[Gpu, ...] = ()
    """In the catalogue's order; empty: unknown."""
    by_pod: bool = False
    """The pod itself says it, so that nothing more needs to be required of nodes."""

    @property
    def smallest_mib(self) -> int | None:
        """The memory of the smallest card, which is where the tightest fit is."""
        return min((card.memory_mib for card in self.known), default=None)

    @property
    def largest_mib(self) -> int | None:
        """The memory of the largest card."""
        return max((card.memory_mib for card in self.known), default=None)

    @property
    def names(self) -> str:
        """For messages."""
        return ", ".join(card.name for card in self.known)


NO_CARDS = Cards()


def cards_of(
    pod: Pod, rule: SharingRule | None, catalogue: Mapping[str, Gpu], *, ignoring: NodeSelectorRequirement | None = None
) -> Cards:
    """The cards that the pod requires, else the one that its sharing rule names, else unknown.

    `ignoring` is a requirement that we add ourselves and that tells nothing about which card was meant.
    """
    named = _named_by_pod(pod, catalogue, ignoring)
    if named is None:
        card = catalogue.get(rule.gpu) if rule is not None and rule.gpu is not None else None
        return NO_CARDS if card is None else Cards(known=(card,))
    if not named or _UNKNOWN in named:
        return Cards(by_pod=True)
    return Cards(known=tuple(card for name, card in catalogue.items() if name in named), by_pod=True)


def required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """The terms of the required node affinity that can match a node (an empty term matches none)."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return ()
    terms = affinity.node_affinity.required.node_selector_terms
    return tuple(term for term in terms or () if term.match_expressions or term.match_fields)


def has_terms(pod: Pod) -> bool:
    """Whether there are any required terms, those that match no node too."""
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity is not None else None
    return bool(node_affinity and node_affinity.required and node_affinity.required.node_selector_terms)


def required_values(pod: Pod, key: str) -> tuple[str, ...]:
    """The values that a node label must have one of; empty where the pod does not require it everywhere."""
    selector = pod.spec.node_selector
    if selector is not None and key in selector:
        return (selector[key],)
    found: list[str] = []
    for term in required_terms(pod):
        values = next(
            (_in_values(one) for one in term.match_expressions or () if one.key == key and _in_values(one)), ()
        )
        if not values:
            return ()
        found += values
    return tuple(found)


def base_product(product: str) -> str:
    """The card's product of a node's label: without what sharing or MIG adds, without the driver's prefix."""
    base = product.partition(PRODUCT_MIG_INFIX)[0].removesuffix(PRODUCT_SHARED_SUFFIX)
    return base.removeprefix(_DRIVER_PREFIX)


def _in_values(requirement: NodeSelectorRequirement) -> Sequence[str]:
    return requirement.values or () if requirement.operator == "In" else ()


def _named_by_pod(
    pod: Pod, catalogue: Mapping[str, Gpu], ignoring: NodeSelectorRequirement | None
) -> frozenset[str] | None:
    named: frozenset[str] | None = None
    if pod.spec.node_selector:
        for key, value in pod.spec.node_selector.items():
            named = _both(named, _with_label(key, (value,), catalogue))
    if pod.spec.affinity is not None:
        named = _both(named, _any_term(required_terms(pod), catalogue, ignoring))
    return named


def _any_term(
    terms: Sequence[NodeSelectorTerm], catalogue: Mapping[str, Gpu], ignoring: NodeSelectorRequirement | None
) -> frozenset[str] | None:
    if not terms:
        return None
    together = _NO_CARD
    for term in terms:
        named: frozenset[str] | None = None
        for requirement in term.match_expressions or ():
            if requirement != ignoring:
                named = _both(named, _required(requirement, catalogue))
        if named is None:
            return None  # this term lets the pod land on any card
        together |= named
    return together


def _required(requirement: NodeSelectorRequirement, catalogue: Mapping[str, Gpu]) -> frozenset[str] | None:
    values = requirement.values or []
    if requirement.operator == "In":
        return _with_label(requirement.key, values, catalogue)
    if requirement.key == MEMORY_LABEL and requirement.operator in ("Gt", "Lt") and len(values) == 1:
        bound = _mib(values[0])
        if bound is None:
            return _UNKNOWN_ONLY
        above = requirement.operator == "Gt"
        return _or_unknown(
            card.name for card in catalogue.values() if (card.memory_mib > bound if above else card.memory_mib < bound)
        )
    return None


def _with_label(key: str, values: Sequence[str], catalogue: Mapping[str, Gpu]) -> frozenset[str] | None:
    """The cards whose nodes carry one of the values under that label; None where the label says nothing of cards."""
    if key == PRODUCT_LABEL:
        if len(values) == 1:
            return _with_product(values[0], catalogue)
        return frozenset(name for value in values for name in _with_product(value, catalogue))
    if key == MEMORY_LABEL:
        return frozenset(name for value in values for name in _with_memory(value, catalogue))
    for card in catalogue.values():
        if key in card.node_labels:
            break
    else:
        return None
    return frozenset(
        name
        for value in values
        for name in _or_unknown(card.name for card in catalogue.values() if value in card.node_labels.get(key, ()))
    )


def _with_product(product: str, catalogue: Mapping[str, Gpu]) -> frozenset[str]:
    for card in catalogue.values():
        if product in card.products:
            return frozenset((card.name,))
    wanted = base_product(product)
    return _or_unknown(
        card.name
        for card in catalogue.values()
        if any(wanted == one.removeprefix(_DRIVER_PREFIX) for one in card.products)
    )


def _with_memory(text: str, catalogue: Mapping[str, Gpu]) -> frozenset[str]:
    mib = _mib(text)
    if mib is None:
        return _UNKNOWN_ONLY
    return _or_unknown(
        card.name for card in catalogue.values() if abs(card.memory_mib - mib) * MEMORY_SLACK_DIVISOR <= card.memory_mib
    )


def _mib(text: str) -> int | None:
    """Label values compared by Gt and Lt are plain integers (labels.Requirement parses them so)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _or_unknown(names: Iterator[str]) -> frozenset[str]:
    return frozenset(names) or _UNKNOWN_ONLY


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """What two requirements say together: nothing at all where they name different cards.

    An unrecognised value adds nothing to a requirement that names cards.
    """
    if one is None or other is None:
        return other if one is None else one
    common = one & other
    if common:
        return common
    if one == _UNKNOWN_ONLY:
        return other
    if other == _UNKNOWN_ONLY:
        return one
    return _UNKNOWN_ONLY if _UNKNOWN in one or _UNKNOWN in other else _NO_CARD
