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
from webhook.domain.gpus import ContainerGpus
from webhook.domain.memory import MIB, Devices, Fit, Load, Room, gigabytes
from webhook.domain.models import Named, matching_profile, saturated_throughput
from webhook.domain.outcome import Problem, Reason
from webhook.domain.rules import Gpu, Mix, Policy, Profile
from webhook.domain.serving import Serving

LENGTH_TOLERANCE: Final = Fraction(5, 4)
"""How far `--max-model-len` may lie over the estimated KV cache before it is refused: the estimate is that good."""

_ONE: Final = Fraction(1)


class Question(Struct, frozen=True, gc=False):
    """One serving container, as far as its throughput depends on it."""

    container: str
    field: str
    """Field path of the container."""
    serving: Serving
    gpus: ContainerGpus
    cards: tuple[Gpu, ...]
    model: str
    """The name that was read or declared; empty where there is none."""
    named: Named | None
    declared_dtype: Dtype | None
    vouched: bool
    """The tenant declares a throughput, so the model has been seen to run in what memory there is."""
    in_group: bool
    """The pod belongs to a LeaderWorkerSet, whose leader stands for all its pods."""


class Parallel(Struct, frozen=True, gc=False):
    """How the engine spreads over GPUs."""

    tensor: int
    pipeline: int
    replicas: int
    """Data parallel replicas that this pod answers for."""
    local_replicas: int
    """Those of them that run in this pod."""

    @property
    def group(self) -> int:
        """Devices of one replica."""
        return self.tensor * self.pipeline

    @property
    def world(self) -> int:
        """Devices that the engine wants in this pod."""
        return self.group * self.local_replicas


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
    dtype: Dtype | None
    room: Room | None
    rate: Rate | None
    from_policy: bool
    why_not: str


def parallel_of(question: Question) -> Parallel:
    """The parallel sizes with defaults filled in: without a size, one tensor parallel group over all GPUs."""
    serving = question.serving
    local = serving.data_parallel_local or serving.data_parallel
    tensor = serving.tensor_parallel or max(1, question.gpus.devices // (serving.pipeline_parallel * local))
    replicas = serving.data_parallel if question.in_group else local
    return Parallel(tensor, serving.pipeline_parallel, replicas, local)


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


def _devices(question: Question, parallel: Parallel, card: Gpu, *, shares_experts: bool) -> Devices:
    """The devices that carry one copy of the weights."""
    gpus = question.gpus
    whole = Fraction(card.memory_mib * MIB)
    each = whole * gpus.part if gpus.memory_mib is None else min(whole, Fraction(gpus.memory_mib * MIB))
    utilization = question.serving.memory_utilization or DEFAULTS[question.serving.engine].memory_utilization
    if each < whole and whole * utilization <= each:
        # Where a share is not fenced (KAI, time slicing) the engine sees the whole card and is told its part of that.
        each, utilization = whole * utilization, _ONE
    count = parallel.group * parallel.local_replicas if shares_experts else parallel.group
    return Devices(min(count, max(1, gpus.devices)), each, utilization, parallel.tensor)


def _rate(
    question: Question, load: Load, parallel: Parallel, card: Gpu, room: Room | None, *, joint: bool
) -> tuple[Rate | None, bool]:
    """The throughput on a card, and whether it comes from a profile of the policy."""
    factor = DEFAULTS[question.serving.engine].throughput_factor
    # The leader of a LeaderWorkerSet claims for its workers; other pods of one engine claim a part of it each.
    part = question.gpus.part / (1 if question.in_group else question.serving.nodes)
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


def _why_not(question: Question, named: Named, parallel: Parallel, card: Gpu, dtype: Dtype, room: Room | None) -> str:
    wanted = f"no profile of {named.model.name} for {parallel.group} x {card.name} at {dtype}"
    if not _is_checkable(question, parallel):
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
    devices = _devices(question, parallel, card, shares_experts=joint)
    first: _OnCard | None = None
    for dtype in _dtypes(question, named, card):
        load = Load(named.model, dtype, question.serving.kv_cache_dtype)
        room = memory.room(load, devices)
        checked = room if _is_checkable(question, parallel) else None
        rate, from_policy = _rate(question, load, parallel, card, checked, joint=joint)
        why_not = "" if rate is not None else _why_not(question, named, parallel, card, dtype, checked)
        found = _OnCard(card, dtype, checked, rate, from_policy, why_not)
        if rate is not None:
            return found
        first = first or found
    if first is not None:
        return first
    what = question.serving.unknown_quantization or "its dtype"
    return _OnCard(
        card=card,
        dtype=None,
        room=None,
        rate=None,
        from_policy=False,
        why_not=(
            f"{question.model} runs on {question.gpus.devices} x {card.name}, but nothing tells how wide its weights "
            f"are ({what}); {keys.MODEL_DTYPE} would"
        ),
    )


def _is_checkable(question: Question, parallel: Parallel) -> bool:
    """Whether one pod shows all the memory there is for the model."""
    if question.serving.offloads:
        return False
    spread = question.serving.spans_pods or question.in_group
    return not (spread and parallel.group > question.gpus.devices)


def _fit_problem(question: Question, named: Named, on_card: _OnCard, policy: Policy) -> Problem | None:
    """Why the model cannot run on a card, with the smallest set of GPUs that would do; None where it can."""
    room, dtype, serving = on_card.room, on_card.dtype, question.serving
    if room is None or dtype is None:
        return None
    vouched = question.vouched or on_card.from_policy
    length = serving.max_model_len
    parallel = parallel_of(question)
    held = f"{max(1, min(parallel.world, question.gpus.devices))} x {on_card.card.name}"
    if question.gpus.part != _ONE:
        held += f" ({question.gpus.part} of each)"
    has = f"{held} leave {gigabytes(room.usable_bytes)} for weights and KV cache"
    needs = f"{named.model.name} at {dtype} needs {gigabytes(room.weight_bytes)} for its weights"
    if room.fit is Fit.TOO_SMALL:
        found = f"{needs}, {has}"
    elif room.fit is Fit.STARVED and not vouched:
        found = (
            f"{needs}, {has}: room for {room.kv_tokens} tokens of KV cache, under the {memory.STARVED_KV_TOKENS} below "
            f"which throughput collapses"
        )
    elif _is_too_long(question, room) and not vouched:
        found = f"--max-model-len {length} is more than the {room.kv_tokens} tokens of KV cache that {held} leave"
    else:
        return None
    utilization = serving.memory_utilization or DEFAULTS[serving.engine].memory_utilization
    load = Load(named.model, dtype, serving.kv_cache_dtype)
    sets = memory.smallest_sets(load, question.cards, policy.gpus, utilization, length)
    step = f"; needs {sets}"
    idle = question.gpus.devices - parallel.world
    if idle > 0:
        step += f" (of its {question.gpus.devices} GPUs {idle} stay idle: raise the tensor parallel size)"
    if room.fit is not Fit.TOO_SMALL:
        step += f", or declare a measured {keys.TOKENS_PER_SECOND}"
    return Problem(
        Reason.MODEL_DOES_NOT_FIT,
        f"{question.field}.resources.limits",
        f"container {question.container}: {found}{step}",
    )


def _is_too_long(question: Question, room: Room) -> bool:
    """vLLM does not start where the longest request exceeds its KV cache; the other engines refuse the request."""
    length = question.serving.max_model_len
    return (
        question.serving.engine is Engine.VLLM
        and length is not None
        and room.kv_tokens is not None
        and length > room.kv_tokens * LENGTH_TOLERANCE
    )


def _fit_warning(on_card: _OnCard) -> Iterator[str]:
    room = on_card.room
    if room is not None and room.fit in (Fit.STARVED, Fit.CAUTION):
        yield (
            f"{room.kv_tokens} tokens of KV cache on {on_card.card.name} are few, throughput may collapse under load "
            f"(from {memory.CAUTION_KV_TOKENS} on it does not)"
        )


def _parallel_warnings(question: Question, parallel: Parallel) -> Iterator[str]:
    devices, serving = question.gpus.devices, question.serving
    how = f"tensor {parallel.tensor} x pipeline {parallel.pipeline} x data {parallel.local_replicas} parallel"
    if parallel.world > devices and not (serving.spans_pods or question.in_group):
        yield f"{how} takes {parallel.world} GPUs and the container has {devices}: {serving.engine} will not start"
    elif parallel.world < devices:
        yield f"{how} uses {parallel.world} of {devices} GPUs, {devices - parallel.world} stay idle"


def _prefixed(question: Question, warnings: Iterator[str]) -> tuple[str, ...]:
    return tuple(f"container {question.container}: {warning}" for warning in warnings)


def _all_warnings(question: Question, tightest: _OnCard | None) -> Iterator[str]:
    yield from question.serving.warnings
    yield from _parallel_warnings(question, parallel_of(question))
    if tightest is not None:
        yield from _fit_warning(tightest)


def _tightness(on_card: _OnCard) -> Fraction:
    """Orders cards by how little is left on them."""
    room = on_card.room
    if room is None:
        return Fraction(2**63)
    return room.kv_bytes if room.kv_tokens is None or room.kv_tokens < 0 else Fraction(room.kv_tokens)


def assess(question: Question, policy: Policy, mix: Mix) -> Capacity:
    """The fit and the throughput of one container at a mix."""
    why_not = _unreadable(question)
    named = question.named
    if why_not or named is None:
        return Capacity(why_not=why_not, warnings=_prefixed(question, _all_warnings(question, None)))
    parallel = parallel_of(question)
    on_cards = [_on_card(question, named, parallel, card) for card in question.cards]
    tightest = min(on_cards, key=_tightness)
    problem = _fit_problem(question, named, tightest, policy)
    if problem is not None:
        return Capacity(problems=(problem,), warnings=_prefixed(question, _all_warnings(question, None)))
    rates = [on_card.rate for on_card in on_cards if on_card.rate is not None]
    return Capacity(
        rate=min(rates, key=lambda rate: rate.tokens_per_second(mix), default=None),
        why_not="" if rates else on_cards[0].why_not,
        warnings=_prefixed(question, _all_warnings(question, tightest)),
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
