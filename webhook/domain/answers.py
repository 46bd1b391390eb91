"""A share to be expressed, the answer of a scheme, and the checks and figures that several schemes have in common."""

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct

from webhook.domain import gpunames as names
from webhook.domain import keys
from webhook.domain.cards import Cards
from webhook.domain.outcome import Problem, Reason, field_of_annotation
from webhook.domain.pod import NodeSelectorRequirement
from webhook.domain.rules import Gpu, SharingRule
from webhook.domain.shares import Asked

ONE = Fraction(1)


class Question(Struct, frozen=True, gc=False):
    """A share and where it may land."""

    asked: Asked
    rule: SharingRule
    cards: Cards
    catalogue: Mapping[str, Gpu]

    @property
    def largest_mib(self) -> int | None:
        """Memory of the largest card that the pod may get, of any card of the catalogue where that is unknown."""
        return max((card.memory_mib for card in self.cards.known or self.catalogue.values()), default=None)


class Answer(Struct, frozen=True, gc=False):
    """A share in resources."""

    quantities: tuple[tuple[str, int], ...] = ()
    part: Fraction = ONE
    """Of each device."""
    memory_mib: int | None = None
    """MiB on each device."""
    devices: int = 1
    cards: tuple[Gpu, ...] | None = None
    """The cards that remain possible, where the scheme itself rules some out."""
    node_selector: Mapping[str, str] = {}
    affinity: tuple[NodeSelectorRequirement, ...] = ()
    scheduler: str | None = None
    """The scheduler without which the resources mean nothing."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def placed_on(
    answer: Answer, *, node_selector: Mapping[str, str], affinity: tuple[NodeSelectorRequirement, ...] = ()
) -> Answer:
    """The answer, with what its nodes must be."""
    return Answer(
        quantities=answer.quantities,
        part=answer.part,
        memory_mib=answer.memory_mib,
        node_selector=node_selector,
        affinity=affinity,
        warnings=answer.warnings,
    )


def refused(problem: Problem) -> Answer:
    """No answer, but why."""
    return Answer(problems=(problem,))


def too_large(asked: Asked, room: str, advice: str) -> Problem:
    """A share that has no room: what there is, and what to do."""
    return Problem(Reason.SHARE_TOO_LARGE, asked.field, f"{asked} does not fit: {room}; {advice}")


def one_device(question: Question) -> Problem | None:
    """Schemes without num-devices."""
    devices = question.asked.devices
    if devices == 1:
        return None
    scheme = question.rule.scheme
    return Problem(
        Reason.SHARE_TOO_LARGE,
        field_of_annotation(keys.GPU_FRACTION_NUM_DEVICES),
        f"{devices} devices asked, scheme {scheme} gives 1 to a container; remove {keys.GPU_FRACTION_NUM_DEVICES}, or "
        "ask for whole GPUs",
    )


def card_needed(question: Question) -> Problem | None:
    """Where the share cannot be expressed without the card's memory."""
    if question.cards.known:
        return None
    which = (
        "the card that this pod requires is not in the catalogue" if question.cards.by_pod else "the card is unknown"
    )
    return Problem(
        Reason.UNKNOWN_GPU,
        question.asked.field,
        f"{question.asked} under scheme {question.rule.scheme}: {which}; require {names.PRODUCT_LABEL} of a card "
        "in the catalogue, or name it in the policy's sharing rule (gpu) or its gpus",
    )


def card_needed_for_fraction(question: Question) -> Problem | None:
    """MiB are told as they are; a fraction must become MiB."""
    return None if question.asked.memory_mib is not None else card_needed(question)


def asked_mib(asked: Asked, card: Gpu) -> Fraction:
    """What the share is on that card, exactly."""
    if asked.memory_mib is not None:
        return Fraction(asked.memory_mib)
    return (asked.fraction or ONE) * card.memory_mib


def part_of_smallest(cards: Cards, part: Fraction) -> int | None:
    """Rounded down, so that two halves fit on one card."""
    smallest = cards.smallest_mib
    return None if smallest is None else int(part * smallest)


def part_of_memory(question: Question) -> tuple[Fraction, tuple[str, ...]]:
    """Fraction, or MiB of the card: the smallest part, hence claim, where it may land on several."""
    asked = question.asked
    if asked.memory_mib is None:
        return asked.fraction or ONE, ()
    largest = question.cards.largest_mib
    if largest is None:
        return ONE, (unknown_part(question),)
    return Fraction(asked.memory_mib, largest), ()


def unknown_part(question: Question) -> str:
    """The warning where a part counts as the whole device because nothing tells how large it is."""
    if question.cards.known or question.asked.memory_mib is None:
        why, advice = "the sharing rule has no replicas", "set them in the policy"
    else:
        why = "the card is unknown"
        advice = f"require {names.PRODUCT_LABEL} of a card in the catalogue, or name it in the sharing rule (gpu)"
    return f"{question.asked} counts as the whole device: {why}, so its part of a GPU cannot be told; {advice}"


def products_of(cards: tuple[Gpu, ...], suffix: str = "") -> NodeSelectorRequirement:
    """Nodes with one of the cards, `suffix` being what sharing or MIG adds to the product."""
    return NodeSelectorRequirement(
        names.PRODUCT_LABEL, "In", [product + suffix for card in cards for product in card.products]
    )


def product_of_rule(question: Question, suffix: str = "") -> tuple[NodeSelectorRequirement, ...]:
    """The card that the rule names, where the pod does not say which it wants."""
    if question.cards.by_pod or not question.cards.known:
        return ()
    return (products_of(question.cards.known, suffix),)
