"""Whether a model fits its GPUs: memory for weights, and how many tokens of KV cache are left beside them."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Final

from msgspec import Struct

from webhook.domain.dtypes import Dtype
from webhook.domain.rules import Gpu, Model

MIB: Final = 2**20
BYTES_PER_GB: Final = 10**9

RUNTIME_BYTES_PER_DEVICE: Final = 1 * BYTES_PER_GB
"""CUDA context, graphs and activations take 1 to 2 GB on each device; the least counts, as a refusal has to be sure."""

STARVED_KV_TOKENS: Final = 25_000
"""Below this measured throughput falls off a cliff: Llama 70B FP8 gives 410 tokens/s on 1 H100, 4116 on 2."""
CAUTION_KV_TOKENS: Final = 50_000
"""Below this the roofline is wrong by 3x and more, so nothing is derived from it."""

_TWO_BYTES: Final = 2
_DEVICE_COUNTS: Final = (1, 2, 4, 8, 16)
"""Sizes of tensor parallel groups that attention heads divide into, up to two nodes of eight."""


class Fit(StrEnum):
    """How well a model fits."""

    TOO_SMALL = "does not fit"
    STARVED = "starved"
    CAUTION = "caution"
    FITS = "fits"


class Load(Struct, frozen=True, gc=False):
    """What a model needs, however many GPUs carry it."""

    model: Model
    dtype: Dtype
    kv_cache_dtype: Dtype | None = None
    """None: two bytes, as the engines' `auto` has it for every 16-bit model."""

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of the weights; None where neither a source nor a parameter count tells."""
        stated = self.model.weight_bytes.get(self.dtype.value)
        if stated is not None:
            return stated
        if self.model.parameters is None:
            return None
        return int(self.model.parameters * self.dtype.bytes_per_parameter)

    def kv_bytes_per_token(self, tensor_parallel: int) -> Fraction | None:
        """Bytes that one token of context takes over all devices; heads are copied when there are more devices."""
        if self.model.kv_bytes_per_token is None:
            return None
        width = Fraction(1) if self.kv_cache_dtype is None else self.kv_cache_dtype.bytes_per_parameter / _TWO_BYTES
        copies = Fraction(1)
        if self.model.kv_heads is not None and tensor_parallel > self.model.kv_heads:
            copies = Fraction(tensor_parallel, self.model.kv_heads)
        return self.model.kv_bytes_per_token * width * copies


class Devices(Struct, frozen=True, gc=False):
    """The GPUs that carry one copy of a model."""

    count: int
    bytes_each: Fraction
    """Memory of each that the pod may use, of which `utilization` goes to the engine."""
    utilization: Fraction
    tensor_parallel: int

    @property
    def usable_bytes(self) -> Fraction:
        """What is left for weights and KV cache on all of them."""
        return self.count * (self.bytes_each * self.utilization - RUNTIME_BYTES_PER_DEVICE)


class Room(Struct, frozen=True, gc=False):
    """How a model fits, with the numbers that say so."""

    fit: Fit
    weight_bytes: int
    usable_bytes: Fraction
    kv_bytes_per_token: Fraction | None
    kv_tokens: int | None
    """Tokens of KV cache beside the weights; None where the model has no KV figures. Below 0: weights do not fit."""

    @property
    def kv_bytes(self) -> Fraction:
        """Memory beside the weights."""
        return self.usable_bytes - self.weight_bytes


def _fit(kv_tokens: int | None, free_bytes: Fraction) -> Fit:
    if free_bytes <= 0:
        return Fit.TOO_SMALL
    if kv_tokens is None:
        return Fit.FITS
    if kv_tokens < STARVED_KV_TOKENS:
        return Fit.STARVED
    return Fit.CAUTION if kv_tokens < CAUTION_KV_TOKENS else Fit.FITS


def room(load: Load, devices: Devices) -> Room | None:
    """How a model fits; None where its size is not known."""
    weight_bytes = load.weight_bytes
    if weight_bytes is None:
        return None
    free_bytes = devices.usable_bytes - weight_bytes
    per_token = load.kv_bytes_per_token(devices.tensor_parallel)
    kv_tokens = None if per_token is None else int(free_bytes // per_token)
    return Room(_fit(kv_tokens, free_bytes), weight_bytes, devices.usable_bytes, per_token, kv_tokens)


def _fewest(load: Load, card: Gpu, utilization: Fraction, kv_tokens: int) -> int | None:
    for count in _DEVICE_COUNTS:
        held = room(load, Devices(count, Fraction(card.memory_mib * MIB), utilization, tensor_parallel=count))
        if held is None:
            return None
        if held.fit is Fit.TOO_SMALL:
            continue
        if held.kv_tokens is None or held.kv_tokens >= kv_tokens:
            return count
    return None


def smallest_sets(
    load: Load, own: Iterable[Gpu], catalogue: Mapping[str, Gpu], utilization: Fraction, max_model_len: int | None
) -> str:
    """The smallest sets of whole GPUs that would hold the model, for people: `2 x h100-80gb, or 1 x h200`.

    First those of the cards that the pod may land on; then, if fewer of another card would do, the least such card.
    """
    kv_tokens = max(STARVED_KV_TOKENS, max_model_len or 0)
    needs: dict[str, int] = {}
    for card in own:
        count = _fewest(load, card, utilization, kv_tokens)
        if count is not None:
            needs[card.name] = count
    others = []
    for card in catalogue.values():
        count = None if card.name in needs else _fewest(load, card, utilization, kv_tokens)
        if count is not None:
            others.append((count, card.memory_mib, card.name))
    if others:
        count, _, name = min(others)
        if not needs or count < min(needs.values()):
            needs[name] = count
    if not needs:
        return f"more than {_DEVICE_COUNTS[-1]} GPUs of any card known here"
    return ", or ".join(f"{count} x {name}" for name, count in needs.items())


def gigabytes(amount: Fraction | int) -> str:
    """Bytes for people: `141.1 GB`."""
    return f"{max(0.0, float(amount) / BYTES_PER_GB):.1f} GB"
