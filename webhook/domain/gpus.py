"""What a pod asks for: which cards, how many devices, and which part of each."""

from fractions import Fraction

from msgspec import Struct

from webhook.domain.rules import Gpu


class ContainerGpus(Struct, frozen=True):
    """The GPUs of one running container (or sidecar)."""

    name: str
    devices: int
    """How many devices it gets, whole or in part."""
    part: Fraction = Fraction(1)
    """Which part of each device: 1 is the whole device, 1/7 one MIG compute slice."""
    memory_mib: int | None = None
    """MiB it may use on each device; None: all of the card's."""


class PodGpus(Struct, frozen=True):
    """The GPUs of a pod as claims need them, once its share has become resources."""

    cards: tuple[Gpu, ...] = ()
    """Every card the pod may land on, where the pod or its sharing rule says so; empty: unknown."""
    containers: tuple[ContainerGpus, ...] = ()
    """The containers and sidecars that hold GPUs, in the pod's order."""
    counted: Fraction = Fraction(0)
    """Devices times part, as Kubernetes counts a pod (the default claim is charged on these)."""
    claims_unknown: bool = False
    """The pod also asks for devices by resource claims (DRA), whose number cannot be seen."""
