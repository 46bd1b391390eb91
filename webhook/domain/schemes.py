"""How each sharing scheme expresses a share in resources: one small function per scheme, one row of a table.

A scheme says which integers go into the target container, what its nodes must be, and which part of a device that is.
It does not look at what the pod carries already; `domain.sharing` compares.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil

from webhook.domain import gpunames as names
from webhook.domain import keys, mig
from webhook.domain.answers import (
    ONE,
    Answer,
    Question,
    asked_mib,
    card_needed,
    card_needed_for_fraction,
    one_device,
    part_of_memory,
    part_of_smallest,
    placed_on,
    product_of_rule,
    products_of,
    refused,
    too_large,
    unknown_part,
)
from webhook.domain.outcome import Problem, Reason
from webhook.domain.pod import NodeSelectorRequirement
from webhook.domain.rules import MigStrategy, Scheme
from webhook.domain.shares import decimal

_MIB_PER_GIB = 1024
_KAI_MEMORY_STEP_MIB = 100
"""KAI floors a node's memory to a multiple of this (pkg/scheduler/api/node_info)."""
_MILLI = 1000
VOLCANO_SCHEDULER = "volcano"


def kai(question: Question) -> Answer:
    """Nothing of nvidia.com: KAI reads the annotations. Only a shadow resource, where the rule names one."""
    asked, cards = question.asked, question.cards
    if asked.memory_mib is None:
        part = asked.fraction or ONE
        milli: int | None = ceil(part * _MILLI)
        return Answer(
            quantities=_shadow(question, milli),
            part=part,
            memory_mib=part_of_smallest(cards, part),
            devices=asked.devices,
            affinity=product_of_rule(question),
            scheduler=keys.KAI_SCHEDULER,
        )
    holding = tuple(card for card in cards.known if card.memory_mib >= asked.memory_mib)
    parts = [_kai_part(asked.memory_mib, card.memory_mib) for card in holding]
    candidates = holding or tuple(card for card in question.catalogue.values() if card.memory_mib >= asked.memory_mib)
    milli = max((_kai_milli(asked.memory_mib, card.memory_mib) for card in candidates), default=None)
    return Answer(
        quantities=_shadow(question, milli),
        part=min(parts, default=ONE),
        memory_mib=asked.memory_mib,
        devices=asked.devices,
        cards=holding,
        affinity=(memory_above(asked.memory_mib), *product_of_rule(question)),
        scheduler=keys.KAI_SCHEDULER,
        warnings=() if parts else (unknown_part(question),),
    )


def memory_above(memory_mib: int) -> NodeSelectorRequirement:
    """Nodes whose cards have at least that much memory (`Gt` is strict and compares integers)."""
    return NodeSelectorRequirement(names.MEMORY_LABEL, "Gt", [str(memory_mib - 1)])


def slices(question: Question) -> Answer:
    """TimeSlicing and MPS: exactly one slice, under the device plugin's own name or the one it renames to."""
    rule = question.rule
    resource = rule.resource or names.NVIDIA_GPU
    answer = _one_slice(question, resource)
    if resource != names.NVIDIA_GPU or answer.problems:
        return answer  # the name alone finds the nodes
    strategy = names.MPS if rule.scheme is Scheme.MPS else names.TIME_SLICING
    return placed_on(
        answer,
        node_selector={names.SHARING_STRATEGY_LABEL: strategy},
        affinity=product_of_rule(question, names.PRODUCT_SHARED_SUFFIX),
    )


def gke(question: Question) -> Answer:
    """One slice of nvidia.com/gpu on a node pool that shares its GPUs among so many clients."""
    answer = _one_slice(question, names.NVIDIA_GPU)
    if answer.problems:
        return answer
    selector = {names.GKE_STRATEGY_LABEL: str(question.rule.strategy)}
    if question.rule.replicas is not None:
        selector[names.GKE_CLIENTS_LABEL] = str(question.rule.replicas)
    accelerators: tuple[str, ...] = ()
    if not question.cards.by_pod and question.cards.known:
        accelerators = question.cards.known[0].node_labels.get(names.GKE_ACCELERATOR_LABEL, ())
    if len(accelerators) == 1:
        selector[names.GKE_ACCELERATOR_LABEL] = accelerators[0]
        return placed_on(answer, node_selector=selector)
    affinity = (NodeSelectorRequirement(names.GKE_ACCELERATOR_LABEL, "In", list(accelerators)),) if accelerators else ()
    return placed_on(answer, node_selector=selector, affinity=affinity)


def mig_device(question: Question) -> Answer:
    """The smallest profile that really holds the share, on every card that the pod may get."""
    asked, cards = question.asked, question.cards
    if wrong := (one_device(question) or card_needed(question)):
        return refused(wrong)
    choice = mig.choose(cards.known, lambda card: asked_mib(asked, card))
    if choice is None:
        wanted = ", ".join(f"{ceil(asked_mib(asked, card))} MiB on {card.name}" for card in cards.known)
        return refused(
            Problem(
                Reason.NO_MATCHING_PROFILE,
                asked.field,
                f"{asked} is {wanted}: no MIG profile holds that on every card (largest: {mig.largest(cards.known)}); "
                "ask for less, or for a whole GPU",
            )
        )
    if question.rule.mig_strategy is MigStrategy.SINGLE:
        resource = names.NVIDIA_GPU
        affinity: tuple[NodeSelectorRequirement, ...] = (
            products_of(cards.known, names.PRODUCT_MIG_INFIX + choice.profile.name),
        )
    else:
        resource = names.MIG_PREFIX + choice.profile.name
        affinity = product_of_rule(question)
    return Answer(((resource, 1),), choice.part, choice.memory_mib, affinity=affinity)


def hami(question: Question) -> Answer:
    """Devices and memory of each; in percent where a fraction is asked of cards that are unknown or differ."""
    asked, cards = question.asked, question.cards
    count = (names.HAMI.count, asked.devices)
    if asked.memory_mib is not None:
        part, warnings = part_of_memory(question)
        quantities = (count, (names.HAMI.memory, asked.memory_mib))
        return Answer(quantities, part, asked.memory_mib, asked.devices, warnings=warnings)
    part = asked.fraction or ONE
    memory_mib = part_of_smallest(cards, part)
    if memory_mib is not None and cards.smallest_mib == cards.largest_mib:
        quantities = (count, (names.HAMI.memory, memory_mib))
    else:
        quantities = (count, (names.HAMI.percentage or "", ceil(part * 100)))
    return Answer(quantities, part, memory_mib, asked.devices)


def volcano(question: Question) -> Answer:
    """Volcano's vGPUs: a number, MiB and percent of cores of each, for its own scheduler."""
    asked = question.asked
    if wrong := card_needed_for_fraction(question):
        return refused(wrong)
    memory_mib = asked.memory_mib or max(int(asked_mib(asked, card)) for card in question.cards.known)
    part, warnings = part_of_memory(question)
    quantities = [(names.VOLCANO.count, asked.devices), (names.VOLCANO.memory, memory_mib)]
    if question.cards.known:
        largest_part = asked.fraction or Fraction(memory_mib, question.cards.smallest_mib or memory_mib)
        quantities.append((names.VOLCANO.cores or "", min(100, ceil(largest_part * 100))))
    return Answer(tuple(quantities), part, memory_mib, asked.devices, scheduler=VOLCANO_SCHEDULER, warnings=warnings)


def aliyun(question: Question) -> Answer:
    """Whole GiB on one device."""
    asked = question.asked
    if wrong := (one_device(question) or card_needed_for_fraction(question)):
        return refused(wrong)
    memory = asked.memory_mib or max(asked_mib(asked, card) for card in question.cards.known)
    part, warnings = part_of_memory(question)
    return Answer(((names.ALIYUN.memory, ceil(Fraction(memory) / _MIB_PER_GIB)),), part, int(memory), warnings=warnings)


def whole_gpu(question: Question) -> Answer:
    """A whole GPU for each device, and a word on what that wastes."""
    asked, cards = question.asked, question.cards
    smallest = cards.smallest_mib
    if asked.memory_mib is not None and smallest is not None and asked.memory_mib > smallest:
        return refused(too_large(asked, f"{cards.names} has {smallest} MiB", "ask for less, or require larger cards"))
    if asked.memory_mib is None:
        unused = f"{decimal(ONE - (asked.fraction or ONE))} of each goes unused"
    elif smallest is not None:
        unused = f"{smallest - asked.memory_mib} of {smallest} MiB of each go unused"
    else:
        unused = "the rest of each goes unused"
    plural = "s" if asked.devices > 1 else ""
    return Answer(
        ((names.NVIDIA_GPU, asked.devices),),
        devices=asked.devices,
        warnings=(f"{asked} becomes {asked.devices} whole GPU{plural} here (scheme WholeGPU): {unused}",),
    )


SCHEMES: Mapping[Scheme, Callable[[Question], Answer]] = {
    Scheme.KAI: kai,
    Scheme.TIME_SLICING: slices,
    Scheme.MPS: slices,
    Scheme.MIG: mig_device,
    Scheme.HAMI: hami,
    Scheme.VOLCANO: volcano,
    Scheme.ALIYUN: aliyun,
    Scheme.GKE: gke,
    Scheme.WHOLE_GPU: whole_gpu,
}


def answer_to(question: Question) -> Answer:
    """The share under the rule's scheme, or what is wrong with it."""
    asked, largest = question.asked, question.largest_mib
    if asked.memory_mib is not None and largest is not None and asked.memory_mib > largest:
        cards = question.cards.names or "the largest card known"
        return refused(
            too_large(asked, f"{cards} has {largest} MiB", f"ask for at most {largest}, in MiB without a unit")
        )
    return SCHEMES[question.rule.scheme](question)


def _one_slice(question: Question, resource: str) -> Answer:
    """One unit of a device shared among `replicas` pods, if the share is no larger than that."""
    asked, rule, cards = question.asked, question.rule, question.cards
    if wrong := one_device(question):
        return refused(wrong)
    replicas = rule.replicas
    if asked.memory_mib is not None:
        if wrong := card_needed(question):
            return refused(wrong)
        card_mib = cards.smallest_mib or 0
        slice_mib = card_mib // (replicas or 1)
        if asked.memory_mib > slice_mib:
            room = f"a slice of {cards.names} ({card_mib} MiB, replicas: {replicas or 1}) has {slice_mib} MiB"
            return refused(too_large(asked, room, f"ask for at most {slice_mib}, or for a whole GPU"))
    elif replicas is not None and (asked.fraction or ONE) * replicas > 1:
        largest = Fraction(1, replicas)
        advice = f"ask for at most {decimal(largest)}, or for a whole GPU" if replicas <= 100 else "ask for a whole GPU"
        return refused(too_large(asked, f"a slice is {largest} of a GPU (replicas: {replicas})", advice))
    if replicas is None:
        return Answer(((resource, 1),), memory_mib=asked.memory_mib, warnings=(unknown_part(question),))
    memory_mib = None if cards.smallest_mib is None else cards.smallest_mib // replicas
    return Answer(((resource, 1),), Fraction(1, replicas), memory_mib)


def _kai_floor(card_mib: int) -> int:
    return card_mib // _KAI_MEMORY_STEP_MIB * _KAI_MEMORY_STEP_MIB or card_mib


def _kai_part(memory_mib: int, card_mib: int) -> Fraction:
    return min(ONE, Fraction(ceil(Fraction(100 * memory_mib, _kai_floor(card_mib))), 100))


def _kai_milli(memory_mib: int, card_mib: int) -> int:
    return min(_MILLI, ceil(Fraction(_MILLI * memory_mib, _kai_floor(card_mib))))


def _shadow(question: Question, milli_per_device: int | None) -> tuple[tuple[str, int], ...]:
    """Thousandths of a GPU for autoscalers; a whole GPU for each device where the share cannot be told."""
    resource = question.rule.shadow_resource
    if resource is None:
        return ()
    return ((resource, (_MILLI if milli_per_device is None else milli_per_device) * question.asked.devices),)
