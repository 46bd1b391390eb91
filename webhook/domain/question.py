"""One serving container as its throughput depends on it, and how its engine spreads over GPUs."""

from fractions import Fraction
from math import ceil
from typing import Final

from msgspec import Struct

from webhook.domain.dtypes import Dtype
from webhook.domain.engines import DEFAULTS, Engine
from webhook.domain.gpus import ContainerGpus
from webhook.domain.memory import MIB, Devices
from webhook.domain.models import Named
from webhook.domain.rules import Gpu
from webhook.domain.serving import Serving

_WHOLE: Final = Fraction(1)


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


def utilization_of(serving: Serving) -> Fraction:
    """Share of a GPU's memory that the engine takes."""
    return serving.memory_utilization or DEFAULTS[serving.engine].memory_utilization


def parallel_of(question: Question) -> Parallel:
    """The parallel sizes with defaults filled in: without a size, one tensor parallel group over all GPUs."""
    serving = question.serving
    local = serving.data_parallel_local or serving.data_parallel
    tensor = serving.tensor_parallel or max(1, question.gpus.devices // (serving.pipeline_parallel * local))
    replicas = serving.data_parallel if question.in_group else local
    return Parallel(tensor, serving.pipeline_parallel, replicas, local)


def devices_of(question: Question, parallel: Parallel, card: Gpu, *, shares_experts: bool) -> Devices:
    """The devices that carry one copy of the weights."""
    gpus = question.gpus
    whole = Fraction(card.memory_mib * MIB)
    each = whole * gpus.part if gpus.memory_mib is None else min(whole, Fraction(gpus.memory_mib * MIB))
    utilization = utilization_of(question.serving)
    if each < whole and whole * utilization <= each:
        # Where a share is not fenced (KAI, time slicing) the engine sees the whole card and is told its part of that.
        each, utilization = whole * utilization, _WHOLE
    count = parallel.group * parallel.local_replicas if shares_experts else parallel.group
    return Devices(min(count, max(1, gpus.devices)), each, utilization, parallel.tensor)


def pods_of(question: Question, parallel: Parallel) -> int:
    """How many pods share one copy of the model and claim a part of it each, as far as their options say."""
    if question.in_group:
        return 1  # the leader claims for all
    if question.serving.nodes is not None:
        return question.serving.nodes
    return ceil(Fraction(parallel.group, max(1, question.gpus.devices)))


def joins_others(question: Question, parallel: Parallel) -> bool:
    """Whether the engine runs over the GPUs of other pods too.

    Where a group takes more GPUs than it sees, vLLM takes a Ray cluster by itself (vllm/config/parallel.py), and a
    pipeline is what models are spread over nodes with; else an option has to say so.
    """
    if question.serving.spans_pods or question.in_group:
        return True
    may_join = question.serving.engine is Engine.VLLM or parallel.pipeline > 1
    return may_join and parallel.group > question.gpus.devices


def is_checkable(question: Question, parallel: Parallel, *, shares_experts: bool) -> bool:
    """Whether one pod shows all the memory there is for the model."""
    if question.serving.offloads:
        return False
    carriers, elsewhere = parallel.group, joins_others(question, parallel)
    if shares_experts and parallel.local_replicas < question.serving.data_parallel:
        carriers, elsewhere = parallel.group * question.serving.data_parallel, True
    return not (elsewhere and carriers > question.gpus.devices)
