"""Throughput where nobody measured it: a roofline over compute, memory bandwidth and KV cache, as a profile.

  seconds per prompt token   a = 2*N_active / (F*eta_c*s)
  seconds per output token   b = a + W / (BW*eta_m*s) / 512
  growth with the context    c = kv_bytes * (1 + W/KV) / (BW*eta_m*s)

N_active parameters that one token touches, F dense FLOP/s, W weight bytes, BW bytes/s of one card, KV bytes of cache,
s how many cards' worth of work the group does. The constants are fitted to the published TensorRT-LLM tables (v0.14,
162 points: median 1.01, 99 % within 1.5x; held-out v1.0, 90 points: 96 % within 1.5x), so a result has the pod's
engine factor still to come. Floats serve here: an estimate good to tens of per cent, deterministic on IEEE 754.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Final

from webhook.domain.dtypes import Dtype
from webhook.domain.memory import CAUTION_KV_TOKENS, Load, Room
from webhook.domain.rules import Gpu, Profile

COMPUTE_EFFICIENCY_FP8: Final = 0.60
COMPUTE_EFFICIENCY_16_BIT: Final = 0.90
MEMORY_EFFICIENCY: Final = 0.75
SATURATED_BATCH: Final = 512
"""Requests over which one reading of the weights is shared."""

NVLINK_EFFICIENCY_PER_DOUBLING: Final = 0.85
PCIE_USEFUL_DEVICES: Final = 4
"""Beyond four cards tensor parallelism over PCIe adds nothing: 70B gives 1161 on 4 L40S, 1188 on 8."""
PCIE_COMPUTE_PER_DEVICE: Final = 0.25
PCIE_MEMORY_PER_DEVICE: Final = 0.7

_FP8_OF_16_BIT: Final = 0.5
_TERA: Final = 1e12
_GIGA: Final = 1e9


@lru_cache(maxsize=64)
def _nvlink_cards(devices: int) -> float:
    """n*0.85^log2(n): for whole doublings exact, between two of them in proportion."""
    doublings = devices.bit_length() - 1
    lower = 1 << doublings
    at_lower = lower * NVLINK_EFFICIENCY_PER_DOUBLING**doublings
    at_upper = 2 * lower * NVLINK_EFFICIENCY_PER_DOUBLING ** (doublings + 1)
    return at_lower + (at_upper - at_lower) * (devices - lower) / lower


def _scaling(card: Gpu, devices: int) -> tuple[float, float]:
    """Cards' worth of compute and of memory bandwidth that a tensor parallel group of so many devices gives."""
    if devices == 1:
        return 1.0, 1.0
    if card.nvlink:
        return _nvlink_cards(devices), _nvlink_cards(devices)
    useful = min(devices, PCIE_USEFUL_DEVICES)
    return PCIE_COMPUTE_PER_DEVICE * useful, PCIE_MEMORY_PER_DEVICE * useful


# 8-bit and 4-bit integers, and MXFP4 before Blackwell, are widened to 16 bits for the tensor cores (Marlin kernels).
_FP8_ARITHMETIC: Final = frozenset({Dtype.FP8, Dtype.NVFP4, Dtype.FP4})


def _flops(card: Gpu, dtype: Dtype) -> float | None:
    """FLOP/s that the card reaches on weights of that dtype; None where no source gives its peak."""
    if dtype in _FP8_ARITHMETIC and card.fp8_tflops is not None:
        return float(card.fp8_tflops) * _TERA * COMPUTE_EFFICIENCY_FP8
    if card.fp16_tflops is None:
        return None
    return float(card.fp16_tflops) * _TERA * COMPUTE_EFFICIENCY_16_BIT


def _context_bytes(load: Load, room: Room) -> float | None:
    """Bytes of KV cache that are read for each token of context.

    The published figures of FP8 and FP4 weights, to which the constants are fitted, were taken with an FP8 KV cache; so
    are the built-in profiles, beside which an estimate has to stand.
    """
    if room.kv_bytes_per_token is None:
        return None
    narrow = load.kv_cache_dtype is None and load.dtype in _FP8_ARITHMETIC
    return float(room.kv_bytes_per_token) * (_FP8_OF_16_BIT if narrow else 1.0)


def estimate(load: Load, card: Gpu, devices: int, room: Room) -> Profile | None:
    """A profile of `devices` cards, before any engine factor; None where it would not hold or a figure is missing.

    It holds only with 50 000 or more tokens of KV cache: below that it is wrong by 3x and more either way.
    """
    context_bytes = _context_bytes(load, room)
    if room.kv_tokens is None or context_bytes is None or room.kv_tokens < CAUTION_KV_TOKENS:
        return None
    active = load.model.active_parameters or load.model.parameters
    flops = _flops(card, load.dtype)
    if active is None or flops is None or card.bandwidth_gbs is None:
        return None
    compute_cards, memory_cards = _scaling(card, devices)
    bytes_per_second = float(card.bandwidth_gbs) * _GIGA * MEMORY_EFFICIENCY * memory_cards
    prompt_seconds = 2.0 * active / (flops * compute_cards)
    output_seconds = prompt_seconds + room.weight_bytes / bytes_per_second / SATURATED_BATCH
    context_seconds = context_bytes * (1.0 + room.weight_bytes / float(room.kv_bytes)) / bytes_per_second
    return Profile(
        gpu=card.name,
        devices=devices,
        dtype=load.dtype.value,
        prefill_tokens_per_second=1 / Fraction(prompt_seconds),
        decode_tokens_per_second=1 / Fraction(output_seconds),
        context_seconds_per_token2=Fraction(context_seconds),
        source="roofline",
        built_in=True,
    )
