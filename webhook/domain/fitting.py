"""What people are told of a model's fit: why it is refused and what would hold it, or what to look out for."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from webhook.domain import keys
from webhook.domain.engines import Engine
from webhook.domain.memory import (
    CAUTION_KV_TOKENS,
    STARVED_KV_TOKENS,
    Devices,
    Fit,
    Load,
    Room,
    gigabytes,
    smallest_sets,
)
from webhook.domain.outcome import Problem, Reason
from webhook.domain.question import Parallel, Question, joins_others, parallel_of, utilization_of
from webhook.domain.rules import Gpu, Policy

LENGTH_TOLERANCE: Final = Fraction(5, 4)
"""How far `--max-model-len` may lie over the estimated KV cache before it is refused: the estimate is that good."""


def problem_of(
    question: Question, load: Load, devices: Devices, card: Gpu, room: Room, policy: Policy, *, measured: bool
) -> Problem | None:
    """Why the model cannot run on a card, with the smallest set of GPUs that would do; None where it can.

    `measured`: the policy has a profile of just this, so the model has been seen to run in little memory.
    """
    found = _shortage(question, load, devices, card, room, vouched=question.vouched or measured)
    if found is None:
        return None
    length, utilization = question.serving.max_model_len, utilization_of(question.serving)
    step = f"; needs {smallest_sets(load, question.cards, policy.gpus, utilization, length)}"
    idle = question.gpus.devices - parallel_of(question).world
    if idle > 0:
        step += f" (of its {question.gpus.devices} GPUs {idle} stay idle: raise the tensor parallel size)"
    if room.fit is not Fit.TOO_SMALL:
        step += f", or declare a measured {keys.TOKENS_PER_SECOND}"
    return Problem(
        Reason.MODEL_DOES_NOT_FIT,
        f"{question.field}.resources.limits",
        f"container {question.container}: {found}{step}",
    )


def _shortage(question: Question, load: Load, devices: Devices, card: Gpu, room: Room, *, vouched: bool) -> str | None:
    held = f"{devices.count} x {card.name}"
    if question.gpus.part != 1:
        held += f" ({question.gpus.part} of each)"
    needs = (
        f"{load.model.name} at {load.dtype} needs {gigabytes(room.weight_bytes)} for its weights, {held} leave "
        f"{gigabytes(room.usable_bytes)} for weights and KV cache"
    )
    if room.fit is Fit.TOO_SMALL:
        return needs
    if vouched:
        return None
    if room.fit is Fit.STARVED:
        return (
            f"{needs}: room for {room.kv_tokens} tokens of KV cache, under the {STARVED_KV_TOKENS} below which "
            f"throughput collapses"
        )
    if _is_too_long(question, room):
        return (
            f"--max-model-len {question.serving.max_model_len} is more than the {room.kv_tokens} tokens of KV cache "
            f"that {held} leave beside {load.model.name} at {load.dtype}"
        )
    return None


def _is_too_long(question: Question, room: Room) -> bool:
    """vLLM does not start where the longest request exceeds its KV cache; the other engines refuse the request."""
    length = question.serving.max_model_len
    return (
        question.serving.engine is Engine.VLLM
        and length is not None
        and room.kv_tokens is not None
        and length > room.kv_tokens * LENGTH_TOLERANCE
    )


def _of_fit(card: Gpu | None, room: Room | None) -> Iterator[str]:
    if card is not None and room is not None and room.fit in (Fit.STARVED, Fit.CAUTION):
        yield (
            f"{room.kv_tokens} tokens of KV cache on {card.name} are few, throughput may collapse under load "
            f"(from {CAUTION_KV_TOKENS} on it does not)"
        )


def _of_parallel(question: Question, parallel: Parallel) -> Iterator[str]:
    devices, serving = question.gpus.devices, question.serving
    if not question.model:
        return  # sizes of an engine that is not seen to serve anything are its defaults
    how = f"tensor {parallel.tensor} x pipeline {parallel.pipeline} x data {parallel.local_replicas} parallel"
    if parallel.world > devices and not (serving.spans_pods or question.in_group):
        unless = " unless other pods join it" if joins_others(question, parallel) else ""
        takes = f"{how} takes {parallel.world} GPUs and the container has {devices}"
        yield f"{takes}: {serving.engine} will not start{unless}"
    elif parallel.world < devices:
        yield f"{how} uses {parallel.world} of {devices} GPUs, {devices - parallel.world} stay idle"


def warnings_of(question: Question, card: Gpu | None = None, room: Room | None = None) -> tuple[str, ...]:
    """What to look out for in a container, `card` and `room` being the tightest it may meet."""
    warnings = (
        *question.serving.warnings,
        *_of_parallel(question, parallel_of(question)),
        *_of_fit(card, room),
    )
    return tuple(f"container {question.container}: {warning}" for warning in warnings)
