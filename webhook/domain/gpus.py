"""What a pod asks for: which cards, how many devices, and which part of each. And whether it asks at all."""

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct

from webhook.domain import keys
from webhook.domain.gpunames import MIG_PREFIX, NAMES
from webhook.domain.pod import Pod, Quantity
from webhook.domain.quantity import parse_json
from webhook.domain.rules import Gpu


class ContainerGpus(Struct, frozen=True, gc=False):
    """The GPUs of one running container (or sidecar)."""

    name: str
    devices: int
    """How many devices it gets, whole or in part."""
    part: Fraction = Fraction(1)
    """Which part of each device: 1 is the whole device, 1/7 one MIG compute slice."""
    memory_mib: int | None = None
    """MiB it may use on each device; None: all of the card's."""


class PodGpus(Struct, frozen=True, gc=False):
    """The GPUs of a pod as claims need them, once its share has become resources."""

    cards: tuple[Gpu, ...] = ()
    """Every card the pod may land on, where the pod or its sharing rule says so; empty: unknown."""
    containers: tuple[ContainerGpus, ...] = ()
    """The containers and sidecars that hold GPUs, in the pod's order."""
    counted: Fraction = Fraction(0)
    """Devices times part, as Kubernetes counts a pod (the default claim is charged on these)."""
    claims_unknown: bool = False
    """The pod also asks for devices by resource claims (DRA), whose number cannot be seen."""


_NO_NAMES: frozenset[str] = frozenset()


def asks_for_gpus(pod: Pod, extra_resources: frozenset[str] = _NO_NAMES) -> bool:
    """Whether the pod asks for a GPU in any form: resources, KAI's share annotations, resource claims.

    `extra_resources` are further resource names, those that the policy's sharing rules give. A quantity of 0 asks for
    nothing; one that is no quantity asks, so that it is refused by name.
    """
    spec = pod.spec
    if spec.resource_claims:
        return True
    annotations = pod.metadata.annotations
    if annotations and (keys.GPU_FRACTION in annotations or keys.GPU_MEMORY in annotations):
        return True
    for containers in (spec.containers, spec.init_containers):
        for container in containers or ():
            resources = container.resources
            if resources is not None and (
                (resources.limits and _any_gpu(resources.limits, extra_resources))
                or (resources.requests and _any_gpu(resources.requests, extra_resources))
            ):
                return True
    return False


def is_gpu_pod(pod: Pod, extra_resources: frozenset[str] = _NO_NAMES) -> bool:
    """Whether the pod asks for a GPU or carries a key of KAI's shares or of ours; all others are never touched."""
    if asks_for_gpus(pod, extra_resources):
        return True
    metadata = pod.metadata
    if metadata.annotations:
        for key in metadata.annotations:
            if key.startswith(keys.PREFIX) or key in keys.KAI_SHARE_ANNOTATIONS:
                return True
    return bool(metadata.labels) and any(key.startswith(keys.PREFIX) for key in metadata.labels or ())


def _any_gpu(quantities: Mapping[str, Quantity], extra_resources: frozenset[str]) -> bool:
    for name, quantity in quantities.items():
        if name in NAMES or name.startswith(MIG_PREFIX) or name in extra_resources:
            if quantity == "1":
                return True
            try:
                if parse_json(quantity) != 0:
                    return True
            except ValueError:
                return True
    return False
