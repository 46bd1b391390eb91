"""What one serving container gives on the cards it may land on: the fit of its model, and its throughput.

Of several cards the tightest fit and the smallest throughput count, since nobody knows yet where the pod will land.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from msgspec import Struct

from webhook.domain import keys, memory, roofline
from webhook.domain.dtypes import Dtype, find
from webhook.domain.engines import DEFAULTS, Engine
from webhook.domain.fitting import problem_of, warnings_of
from webhook.domain.memory import Devices, Load, Room
from webhook.domain.models import Named, matching_profile, saturated_throughput
from webhook.domain.outcome import Problem
from webhook.domain.question import Parallel, Question, devices_of, is_checkable, parallel_of, pods_of
from webhook.domain.rules import Gpu, Mix, Policy, Profile

_ONE: Final = Fraction(1)


class Rate(Struct, frozen=True, gc=False):
    """Throughput of one container on one card."""

    profile: Profile
    multiple: Fraction
    """Replicas times the part of each device, over the pods that share one copy of the model."""
    factor: Fraction
    """The engine's, 1 for profiles of the policy."""
    measured: bool
    """From a profile, not from the roofline."""

    def tokens_per_second(self, mix: Mix) -> Fraction:
        """Saturated output tokens/s with this engine."""
        return self.before_factor(mix) * self.factor

    def before_factor(self, mix: Mix) -> Fraction:
        """Saturated output tokens/s as published."""
        return saturated_throughput(self.profile, mix) * self.multiple


class Capacity(Struct, frozen=True, gc=False):
    """The answer for one container."""

    rate: Rate | None = None
    why_not: str = ""
    """What was read and why no throughput follows from it; empty where there is a rate."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


class _OnCard(Struct, frozen=True, gc=False):
    """What holds on one of the cards."""

    card: Gpu
    load: Load | None
    """None where the dtype of the weights is not known."""
    devices: Devices
    room: Room | None
    rate: Rate | None
    from_policy: bool
    why_not: str


def _stated_dtype(question: Question, named: Named) -> tuple[Dtype | None, bool]:
    """The weights' dtype as far as the pod says it, and whether the question is settled by that."""
    serving = question.serving
    for stated in (question.declared_dtype, serving.quantization, named.dtype):
        if stated is not None:
            return stated, True
    if serving.unknown_quantization is not None or named.unknown_format:
        return None, True
    native = find(named.model.native_dtype or "")
    if serving.dtype is not None and not (native is not None and native.is_quantized):
        return serving.dtype, True
    return native, False


def _dtypes(question: Question, named: Named, card: Gpu) -> Iterator[Dtype]:
    """The dtypes that the weights may have on a card, the likeliest first."""
    stated, settled = _stated_dtype(question, named)
    # NIM chooses its own profile and prefers FP8 where the card computes in it (NIM, "Automatic Profile Selection").
    if not settled and question.serving.engine is Engine.NIM and card.fp8_tflops is not None:
        yield Dtype.FP8
    if stated is not None:
        yield stated


def _is_mixture(named: Named) -> bool:
    model = named.model
    return model.active_parameters is not None and model.active_parameters != model.parameters


def _rate(
    question: Question, load: Load, parallel: Parallel, card: Gpu, room: Room | None, *, joint: bool
) -> tuple[Rate | None, bool]:
    """The throughput on a card, and whether it comes from a profile of the policy."""
    factor = DEFAULTS[question.serving.engine].throughput_factor
    part = question.gpus.part / pods_of(question, parallel)
    groups = [(parallel.group, parallel.replicas)]
    if joint:
        groups.append((parallel.group * parallel.replicas, 1))
    for devices, replicas in groups:
        profile = matching_profile(load.model, card.name, devices, load.dtype)
        if profile is not None:
            own_factor = factor if profile.built_in else _ONE
            return Rate(profile, replicas * part, own_factor, measured=True), not profile.built_in
    devices, replicas = groups[-1]
    estimate = None if room is None else roofline.estimate(load, card, devices, room)
    return (None if estimate is None else Rate(estimate, replicas * part, factor, measured=False)), False


def _why_not(named: Named, parallel: Parallel, card: Gpu, dtype: Dtype, room: Room | None, *, checkable: bool) -> str:
    wanted = f"no profile of {named.model.name} for {parallel.group} x {card.name} at {dtype}"
    if not checkable:
        return f"{wanted}, and weights outside this pod's GPUs are nothing to estimate from"
    if room is None or room.kv_tokens is None:
        return f"{wanted}, and no parameters or KV figures to estimate from"
    if room.kv_tokens < memory.CAUTION_KV_TOKENS:
        return (
            f"{wanted}, and {max(0, room.kv_tokens)} tokens of KV cache are too few to estimate from "
            f"(at least {memory.CAUTION_KV_TOKENS})"
        )
    return f"{wanted}, and no bandwidth or compute figures of the card to estimate from"


def _on_card(question: Question, named: Named, parallel: Parallel, card: Gpu) -> _OnCard:
    joint = _is_mixture(named) and parallel.replicas > 1
    checkable = is_checkable(question, parallel, shares_experts=_is_mixture(named))
    devices = devices_of(question, parallel, card, shares_experts=joint)
    first: _OnCard | None = None
    for dtype in _dtypes(question, named, card):
        load = Load(named.model, dtype, question.serving.kv_cache_dtype)
        room = memory.room(load, devices)
        checked = room if checkable else None
        rate, from_policy = _rate(question, load, parallel, card, checked, joint=joint)
        why_not = "" if rate is not None else _why_not(named, parallel, card, dtype, checked, checkable=checkable)
        found = _OnCard(card, load, devices, checked, rate, from_policy, why_not)
        if rate is not None:
            return found
        first = first or found
    if first is not None:
        return first
    what = question.serving.unknown_quantization or "its dtype"
    return _OnCard(
        card=card,
        load=None,
        devices=devices,
        room=None,
        rate=None,
        from_policy=False,
        why_not=(
            f"{question.model} runs on {question.gpus.devices} x {card.name}, but nothing tells how wide its weights "
            f"are ({what}); {keys.MODEL_DTYPE} would"
        ),
    )


def _tightness(on_card: _OnCard) -> Fraction:
    """Orders cards by how little is left on them."""
    room = on_card.room
    if room is None:
        return Fraction(2**63)
    return room.kv_bytes if room.kv_tokens is None or room.kv_tokens < 0 else Fraction(room.kv_tokens)


def _problem(question: Question, on_card: _OnCard, policy: Policy) -> Problem | None:
    if on_card.room is None or on_card.load is None:
        return None
    return problem_of(
        question,
        on_card.load,
        on_card.devices,
        on_card.card,
        on_card.room,
        policy,
        measured=on_card.from_policy,
    )


def assess(question: Question, policy: Policy, mix: Mix) -> Capacity:
    """The fit and the throughput of one container at a mix."""
    why_not = _unreadable(question)
    named = question.named
    if why_not or named is None:
        return Capacity(why_not=why_not, warnings=warnings_of(question))
    parallel = parallel_of(question)
    on_cards = [_on_card(question, named, parallel, card) for card in question.cards]
    tightest = min(on_cards, key=_tightness)
    problem = _problem(question, tightest, policy)
    if problem is not None:
        return Capacity(problems=(problem,), warnings=warnings_of(question))
    rates = [on_card.rate for on_card in on_cards if on_card.rate is not None]
    return Capacity(
        rate=min(rates, key=lambda rate: rate.tokens_per_second(mix), default=None),
        why_not="" if rates else on_cards[0].why_not,
        warnings=warnings_of(question, tightest.card, tightest.room),
    )


def _unreadable(question: Question) -> str:
    """Why nothing can be computed at all; empty where something can."""
    if not question.serving.generates:
        return f"{question.serving.engine} serves embeddings or scores here, which have no output tokens"
    if not question.model:
        return f"no model can be read from how {question.serving.engine} is started"
    devices = f"{question.gpus.devices} GPU{'' if question.gpus.devices == 1 else 's'}"
    if question.named is None:
        on = " or ".join(card.name for card in question.cards) or "a card that is not known"
        return f"model {question.model} on {devices} ({on}) is not in the catalogue"
    if not question.cards:
        return f"model {question.named.model.name} runs on {devices} of which neither pod nor policy says which card"
    return ""
