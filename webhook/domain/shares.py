"""The grammar of KAI's share annotations, stricter than KAI's own so that all of its components read the same.

KAI itself takes `NaN`, hexadecimal floats and exponents, rounds to two decimals (0.004 becomes 0), and its parts
disagree on some of these (KAI-Scheduler pull request 1798). What is refused is told with what to write instead.
"""

import re
from fractions import Fraction

from msgspec import Struct

from webhook.domain import keys
from webhook.domain.outcome import Problem, Reason, field_of_annotation
from webhook.domain.pod import Pod
from webhook.domain.quantity import parse

MEBIBYTE = 1 << 20

_FRACTION = re.compile(r"0?\.[0-9]{1,2}", re.ASCII)
_MEMORY = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_DEVICES = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_DECIMAL = re.compile(r"\+?[0-9]+(?:\.[0-9]*)?|\+?\.[0-9]+", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3})\s*%", re.ASCII)
_COMMA = re.compile(r"0?,([0-9]{1,2})", re.ASCII)

_FRACTION_RANGE = "write a number from 0.01 to 0.99 with at most two decimals, such as 0.5"
_MEMORY_RANGE = "write whole MiB without a unit, such as 8192"
_DEVICES_RANGE = "write a whole number from 1 to 999"


class Asked(Struct, frozen=True, gc=False):
    """A share as the pod asks for it. Exactly one of `fraction` and `memory_mib` is given."""

    fraction: Fraction | None
    """Of each device; at least 0.01, at most 0.99, two decimals."""
    memory_mib: int | None
    """MiB on each device."""
    devices: int
    container: str
    """The container that gets the share."""
    index: int
    """Where that container stands in spec.containers, or in spec.initContainers."""
    init: bool
    """The container is an init container (or sidecar)."""

    @property
    def key(self) -> str:
        """The annotation that says how large the share is."""
        return keys.GPU_FRACTION if self.memory_mib is None else keys.GPU_MEMORY

    @property
    def field(self) -> str:
        """Its field path."""
        return field_of_annotation(self.key)

    def __str__(self) -> str:
        if self.memory_mib is not None:
            return f"{keys.GPU_MEMORY} {self.memory_mib} MiB"
        return f"{keys.GPU_FRACTION} {decimal(self.fraction or Fraction(0))}"


def has_share(pod: Pod) -> bool:
    """Whether any of KAI's share annotations is there, empty ones too."""
    annotations = pod.metadata.annotations
    return annotations is not None and any(key in annotations for key in keys.KAI_SHARE_ANNOTATIONS)


def read(pod: Pod) -> tuple[Asked | None, tuple[Problem, ...]]:
    """The share that the pod asks for, or why there is none to read; neither where it has no containers."""
    annotations = pod.annotations
    problems: list[Problem] = []
    fraction = _read_fraction(annotations.get(keys.GPU_FRACTION), problems)
    memory_mib = _read_memory(annotations.get(keys.GPU_MEMORY), problems)
    devices = _read_devices(annotations.get(keys.GPU_FRACTION_NUM_DEVICES), problems)
    container, index, init = _read_container(pod, annotations.get(keys.GPU_FRACTION_CONTAINER_NAME), problems)
    has_fraction, has_memory = keys.GPU_FRACTION in annotations, keys.GPU_MEMORY in annotations
    if has_fraction and has_memory:
        problems.append(
            Problem(
                Reason.CONTRADICTORY_SHARE,
                field_of_annotation(keys.GPU_MEMORY),
                f"{keys.GPU_MEMORY} {shown(annotations[keys.GPU_MEMORY])} beside {keys.GPU_FRACTION} "
                f"{shown(annotations[keys.GPU_FRACTION])}: a share is one or the other; remove one of them",
            )
        )
    elif not has_fraction and not has_memory:
        problems += [
            _invalid(
                key,
                annotations[key],
                f"means nothing alone; add {keys.GPU_FRACTION} or {keys.GPU_MEMORY}, or remove it",
            )
            for key in (keys.GPU_FRACTION_NUM_DEVICES, keys.GPU_FRACTION_CONTAINER_NAME)
            if key in annotations
        ]
    if problems or container is None:
        return None, tuple(problems)
    return Asked(fraction, memory_mib, devices, container, index, init), ()


def decimal(fraction: Fraction) -> str:
    """A fraction as people write it in the annotation, rounded down to two decimals: `0.25`, `0.33`."""
    hundredths = fraction.numerator * 100 // fraction.denominator
    whole, rest = divmod(hundredths, 100)
    return f"{whole}.{rest:02d}".rstrip("0").rstrip(".")


def shown(text: str) -> str:
    """A tenant's text in a message: quoted, on one line, cut where it is long."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}… ({len(text)} characters)"


def _invalid(key: str, text: str, fault: str) -> Problem:
    return Problem(Reason.INVALID_SHARE, field_of_annotation(key), f"{key} {shown(text)} {fault}")


def _read_fraction(text: str | None, problems: list[Problem]) -> Fraction | None:
    if text is None:
        return None
    if _FRACTION.fullmatch(text):
        fraction = Fraction(int(text.partition(".")[2].ljust(2, "0")), 100)
        if fraction > 0:
            return fraction
    problems.append(_invalid(keys.GPU_FRACTION, text, _fault_of_fraction(text)))
    return None


def _fault_of_fraction(text: str) -> str:
    """What is wrong, and what to write instead."""
    if len(text) <= 20 and _DECIMAL.fullmatch(text):
        value = Fraction(text.removesuffix("."))
        if value.denominator == 1 and value >= 1:
            whole = value.numerator
            return (
                f"is {whole} whole GPU{'s' if whole > 1 else ''}, not a part of one: remove the annotation and ask for "
                f"limits nvidia.com/gpu: {whole}"
            )
        if value > 1:
            return (
                f"is more than one GPU: {_FRACTION_RANGE}, with {keys.GPU_FRACTION_NUM_DEVICES} for the same part of "
                "several devices"
            )
        if value == 0:
            return f"is nothing: {_FRACTION_RANGE}"
        if (value * 100).denominator == 1:
            return f"is not in the plain form: write {decimal(value)}"
        return f"has more than two decimals, and KAI rounds to two: {_FRACTION_RANGE}"
    for pattern in (_PERCENT, _COMMA):
        match = pattern.fullmatch(text)
        if match:
            digits = match.group(1)
            value = Fraction(int(digits), 100 if pattern is _PERCENT else 10 ** len(digits))
            if 0 < value < 1:
                return f"is not a fraction: write {decimal(value)}"
    return f"is not a fraction of a GPU: {_FRACTION_RANGE}"


def _read_memory(text: str | None, problems: list[Problem]) -> int | None:
    if text is None:
        return None
    if _MEMORY.fullmatch(text):
        return int(text)
    problems.append(_invalid(keys.GPU_MEMORY, text, _fault_of_memory(text)))
    return None


def _fault_of_memory(text: str) -> str:
    if text.isascii() and text.isdigit():
        plain = text.lstrip("0")
        if not plain:
            return f"is nothing: {_MEMORY_RANGE}"
        if len(plain) <= 9:
            return f"is not in the plain form: write {plain}"
        return f"is more MiB than any GPU has ({len(plain)} digits, at most 9 are read): {_MEMORY_RANGE}"
    try:
        value = parse(text)
    except ValueError:
        return f"is not an amount of memory: {_MEMORY_RANGE}"
    if text[-1].isalpha():
        mib = -(-value // MEBIBYTE)
        if value >= MEBIBYTE and mib < 10**9:
            return f"has a unit, but {keys.GPU_MEMORY} is read as plain MiB: write {mib}"
    elif value.denominator == 1 and 0 < value < 10**9:
        return f"is not in the plain form: write {value.numerator}"
    return f"is not an amount of memory: {_MEMORY_RANGE}"


def _read_devices(text: str | None, problems: list[Problem]) -> int:
    if text is None:
        return 1
    if _DEVICES.fullmatch(text):
        return int(text)
    problems.append(_invalid(keys.GPU_FRACTION_NUM_DEVICES, text, f"is not a number of devices: {_DEVICES_RANGE}"))
    return 1


def _read_container(pod: Pod, name: str | None, problems: list[Problem]) -> tuple[str | None, int, bool]:
    """KAI looks among the init containers first; without a name the first container is meant."""
    if name is None:
        containers = pod.containers
        return (containers[0].name, 0, False) if containers else (None, 0, False)
    for init, candidates in ((True, pod.init_containers), (False, pod.containers)):
        for index, container in enumerate(candidates):
            if container.name == name and name:
                return name, index, init
    there = ", ".join(container.name for container in (*pod.containers, *pod.init_containers)[:10])
    problems.append(
        _invalid(
            keys.GPU_FRACTION_CONTAINER_NAME,
            name,
            f"is no container of this pod (there are: {there}); name one of them",
        )
    )
    return None, 0, False
