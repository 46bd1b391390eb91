"""Counting the GPUs of a pod's resources as Kubernetes counts: containers and sidecars, or the largest init step.

A unit is a device or a part of one; a part that nothing tells counts as the whole device, with a warning. Quantities
that the API server refuses are told by `domain.validity`; here they count as nothing.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from msgspec import Struct

from webhook.domain import mig
from webhook.domain.gpunames import (
    COUNTED,
    DEVICE_CLASS_PREFIX,
    DRA_MIG,
    KOORDINATOR_GPU,
    MIG_PREFIX,
    NVIDIA_GPU,
    SHARED_SUFFIX,
    SHARER_OF_AMOUNT,
    SLICES,
    Sharer,
    is_gpu_name,
)
from webhook.domain.gpus import ContainerGpus
from webhook.domain.keys import GPU_FRACTION
from webhook.domain.nodes import Devices
from webhook.domain.outcome import Problem, Reason
from webhook.domain.pod import Container, Pod, Quantity
from webhook.domain.quantity import number, parse_json, whole
from webhook.domain.rules import Gpu

_ONE = Fraction(1)
_MEBIBYTE = 1 << 20
_PLAIN_DIGITS = 18


class Held(Struct, frozen=True, gc=False):
    """What one container holds under one resource name."""

    devices: int
    part: Fraction = _ONE
    memory_mib: int | None = None


class Count(Struct, frozen=True, gc=False):
    """The GPUs of a pod's resources."""

    containers: tuple[ContainerGpus, ...] = ()
    counted: Fraction = Fraction(0)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    resources: frozenset[str] = frozenset()
    """The resource names by which it asks for devices."""


class Reading(Struct):
    """What is needed to read one pod's resources, and what was found on the way."""

    cards: tuple[Gpu, ...]
    catalogue: Mapping[str, Gpu]
    devices: Devices
    """What one unit of nvidia.com/gpu and of renamed resources is."""
    extra: frozenset[str]
    problems: list[Problem]
    warnings: dict[str, None]
    """In order, each once; no list, since a tenant can cause as many as a pod has resource names."""

    @property
    def smallest_mib(self) -> int | None:
        """Memory of the smallest card that the pod may get."""
        return min((card.memory_mib for card in self.cards), default=None)

    def warn(self, message: str) -> None:
        """Each warning once."""
        self.warnings[message] = None


def count(pod: Pod, reading: Reading) -> Count:
    """The GPUs that the pod's resources ask for."""
    running: list[dict[str, Held]] = []
    containers: list[ContainerGpus] = []
    init_peaks: dict[str, int | Fraction] = {}
    sidecars: dict[str, int | Fraction] = {}
    for index, container in enumerate(pod.spec.init_containers or ()):
        held = _held(container, f"spec.initContainers[{index}]", reading)
        if container.is_sidecar:
            _add(sidecars, held)
            running.append(held)
            if held:
                containers.append(_together(container.name, held))
        else:
            # What the sidecars before it hold besides is no peak: they hold it, and perhaps more, to the end.
            for name, one in held.items():
                init_peaks[name] = max(init_peaks.get(name, 0), sidecars.get(name, 0) + _amount(one))
    for index, container in enumerate(pod.spec.containers or ()):
        held = _held(container, f"spec.containers[{index}]", reading)
        if held:
            running.append(held)
            containers.append(_together(container.name, held))
    if not running and not init_peaks:
        return Count(problems=tuple(reading.problems), warnings=tuple(reading.warnings))
    return Count(
        containers=tuple(containers),
        counted=Fraction(sum(_effective(running, init_peaks).values())),
        problems=tuple(reading.problems),
        warnings=tuple(reading.warnings),
        resources=frozenset().union(*running, init_peaks),
    )


def _effective(
    running: Iterable[Mapping[str, Held]], init_peaks: Mapping[str, int | Fraction]
) -> dict[str, int | Fraction]:
    """PodRequests of component-helpers/resource: for each name the sum of what runs, or the largest init step."""
    effective: dict[str, int | Fraction] = {}
    for held in running:
        _add(effective, held)
    for name, amount in init_peaks.items():
        effective[name] = max(effective.get(name, 0), amount)
    return effective


def _add(total: dict[str, int | Fraction], held: Mapping[str, Held]) -> None:
    for name, one in held.items():
        total[name] = total.get(name, 0) + _amount(one)


def _amount(one: Held) -> int | Fraction:
    return one.devices if one.part is _ONE else one.devices * one.part


def _together(name: str, held: Mapping[str, Held]) -> ContainerGpus:
    """Several resources of one container as one: devices add up, the part is their mean, the least memory counts."""
    if len(held) == 1:
        (one,) = held.values()
        return ContainerGpus(name, one.devices, one.part, one.memory_mib)
    devices = sum(one.devices for one in held.values())
    amounts = sum((one.devices * one.part for one in held.values()), Fraction(0))
    memory = min((one.memory_mib for one in held.values() if one.memory_mib is not None), default=None)
    return ContainerGpus(name, devices, amounts / devices, memory)


def _held(container: Container, field: str, reading: Reading) -> dict[str, Held]:
    """The container's devices by the name of the resource that counts them."""
    resources = container.resources
    if resources is None:
        return {}
    amounts: dict[str, int | Fraction] = {}
    for side in (resources.limits, resources.requests):
        if side:
            for name, quantity in side.items():
                if "/" in name and is_gpu_name(name, reading.extra):
                    amounts[name] = max(amounts.get(name, 0), amount_of(quantity))
    held: dict[str, Held] = {}
    for name, amount in amounts.items():
        sharer = SHARER_OF_AMOUNT.get(name)
        if sharer is not None and amount and sharer.count not in held:
            held[sharer.count] = _shared(sharer, amounts, field, reading)
    for name, amount in amounts.items():
        if amount.denominator != 1 and name.startswith(DEVICE_CLASS_PREFIX):
            reading.problems.append(_not_whole(name, amount, field))
        elif amount and amount.denominator == 1 and name not in held:
            one = _by_name(name, amount.numerator, field, reading)
            if one is not None:
                held[name] = one
    return held


def _not_whole(name: str, amount: int | Fraction, field: str) -> Problem:
    return Problem(
        Reason.INVALID_SHARE,
        f"{field}.resources.limits[{name}]",
        f"{number(amount)} must be an integer: devices are whole; a part of a GPU is asked for with the annotation "
        f"{GPU_FRACTION}",
    )


def _by_name(name: str, devices: int, field: str, reading: Reading) -> Held | None:
    """What so many units of one resource are; None for a name that only says how large a share is."""
    if name == NVIDIA_GPU:
        return _nvidia(devices, f"{field}.resources.limits[{name}]", reading)
    if name.startswith(MIG_PREFIX):
        return _mig(name, devices, reading)
    if name == KOORDINATOR_GPU:
        cards = -(-devices // 100)
        return Held(cards, Fraction(devices, 100 * cards))
    if name in SLICES or name in reading.extra:
        return _slices(name, devices, f"{field}.resources.limits[{name}]", reading)
    if name == DRA_MIG:
        reading.warn(f"{name} is a MIG device, of which profile is not told; it counts as the whole device")
    return Held(devices) if name in COUNTED else None


def amount_of(quantity: Quantity) -> int | Fraction:
    """The value of a quantity; nothing where it is none. Plain digits, nearly all there are, need no grammar."""
    if isinstance(quantity, str) and len(quantity) <= _PLAIN_DIGITS and quantity.isascii() and quantity.isdigit():
        return int(quantity)
    try:
        value = parse_json(quantity)
    except ValueError:
        return 0
    return value if value > 0 else 0


def _mig(name: str, devices: int, reading: Reading) -> Held:
    profile = mig.profile_of_resource(name)
    if profile is None:
        reading.warn(f"{name} is no MIG profile we know; it counts as whole devices")
        return Held(devices)
    part = mig.part_of_card(profile, reading.cards)
    memory = mig.memory_mib(profile, reading.cards or reading.catalogue.values())
    if name.endswith(SHARED_SUFFIX):
        replicas = reading.devices.replicas_of(name)
        if replicas is None:
            reading.warn(f"{name} is a part of a MIG device, how large a part is not told; it counts as all of it")
        else:
            return Held(devices, part / replicas, memory // replicas)
    return Held(devices, part, memory)


def _slices(name: str, devices: int, field: str, reading: Reading) -> Held:
    """A renamed resource: each unit is one slice of a device that time-slicing or MPS shares."""
    replicas = reading.devices.replicas_of(name)
    if devices > 1:
        _more_than_one(name, devices, field, reading)
    if replicas is None:
        reading.warn(
            f"{name} is a part of a GPU, but no sharing rule with resource {name} and replicas covers this pod, so how "
            "large a part is not known; it counts as the whole device"
        )
        return Held(devices)
    return _sliced(devices, replicas, reading)


def _nvidia(devices: int, field: str, reading: Reading) -> Held:
    """nvidia.com/gpu itself: a whole device, unless the nodes that the pod requires divide their devices."""
    profile = reading.devices.profile
    if profile is not None:
        part = mig.part_of_card(profile, reading.cards)
        memory = mig.memory_mib(profile, reading.cards or reading.catalogue.values())
        replicas = reading.devices.replicas if reading.devices.sliced else None
        return Held(devices, part / replicas, memory // replicas) if replicas else Held(devices, part, memory)
    if not reading.devices.sliced:
        return Held(devices)
    if devices > 1:
        _more_than_one(NVIDIA_GPU, devices, field, reading)
    if reading.devices.replicas is None:
        reading.warn(
            f"the nodes that this pod requires share each GPU among several pods, how many is not known; {NVIDIA_GPU} "
            "counts as the whole device"
        )
        return Held(devices)
    return _sliced(devices, reading.devices.replicas, reading)


def _sliced(devices: int, replicas: int, reading: Reading) -> Held:
    smallest = reading.smallest_mib
    return Held(devices, Fraction(1, replicas), None if smallest is None else smallest // replicas)


def _more_than_one(name: str, devices: int, field: str, reading: Reading) -> None:
    """Two slices are no larger part: MPS and GKE refuse them on the node, where the pod fails and is made again."""
    message = f"{name}: {devices}, but a container gets exactly 1 slice of a shared GPU; ask for 1, or for a whole GPU"
    if reading.devices.one_slice_only:
        reading.problems.append(Problem(Reason.SHARE_TOO_LARGE, field, message))
    else:
        reading.warn(message)


def _shared(sharer: Sharer, amounts: Mapping[str, int | Fraction], field: str, reading: Reading) -> Held:
    """A share that a scheduler of shares reads itself: so much memory, or so many percent, on each of the devices."""
    devices = whole(Fraction(amounts.get(sharer.count, 1))) or 1
    per_device = devices if sharer.totals else 1
    smallest = reading.smallest_mib
    parts: list[Fraction] = []
    memory_mib: int | None = None
    asked = amounts.get(sharer.memory)
    if asked:
        memory_mib = int(asked * sharer.unit.value // (_MEBIBYTE * per_device))
        _check_memory(sharer.memory, asked, memory_mib, field, reading)
        if smallest is not None:
            parts.append(min(_ONE, Fraction(memory_mib, smallest)))
    for name in (sharer.percentage, sharer.cores):
        percent = amounts.get(name) if name is not None else None
        if name is None or not percent:
            continue
        percent = Fraction(percent) / per_device
        if percent > 100:
            reading.problems.append(
                Problem(
                    Reason.INVALID_SHARE,
                    f"{field}.resources.limits[{name}]",
                    f"{name}: {number(amounts[name])} is more than 100 percent of each of {devices} device(s); "
                    f"write at most {100 * per_device}",
                )
            )
        parts.append(min(_ONE, percent / 100))
        if name == sharer.percentage and smallest is not None and memory_mib is None:
            memory_mib = int(smallest * parts[-1])
    if not parts and not reading.problems:
        reading.warn(f"{sharer.memory} {number(asked or 0)} of an unknown card; it counts as the whole device")
    return Held(devices, max(parts, default=_ONE), memory_mib)


def _check_memory(name: str, asked: int | Fraction, memory_mib: int, field: str, reading: Reading) -> None:
    """A byte count where MiB are meant overflows to 0 in some schedulers (HAMi issue 2284), so it is refused here."""
    cards = reading.cards or tuple(reading.catalogue.values())
    largest = max((card.memory_mib for card in cards), default=None)
    if largest is not None and memory_mib > largest:
        hint = f" (in bytes that would be {asked // _MEBIBYTE} MiB)" if asked >= _MEBIBYTE else ""
        reading.problems.append(
            Problem(
                Reason.SHARE_TOO_LARGE,
                f"{field}.resources.limits[{name}]",
                f"{name}: {number(asked)} is {memory_mib} MiB on each device, the largest card here has {largest} MiB; "
                f"write a plain number in the unit of {name}{hint}",
            )
        )
