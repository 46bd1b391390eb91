"""Whether a model fits, against the figures that projects publish of real deployments."""

from fractions import Fraction

import pytest

from webhook.domain.dtypes import Dtype, parse
from webhook.domain.memory import MIB, Devices, Fit, Load, Room, room, smallest_sets
from webhook.domain.models import find
from webhook.domain.rules import Model
from webhook.policy.catalogue import built_in

CATALOGUE = built_in()
DEFAULT = Fraction(92, 100)


def load_of(name: str, dtype: str, kv_cache_dtype: Dtype | None = None) -> Load:
    named = find(CATALOGUE.models, name)
    assert named is not None
    return Load(named.model, parse(dtype), kv_cache_dtype)


def room_of(load: Load, gpu: str, devices: int, utilization: Fraction = DEFAULT) -> Room:
    each = Fraction(CATALOGUE.gpus[gpu].memory_mib * MIB)
    found = room(load, Devices(devices, each, utilization, tensor_parallel=devices))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("model", "dtype", "gpu", "devices", "fit"),
    [
        ("Llama-3.1-8B-Instruct", "bf16", "l4", 1, Fit.CAUTION),
        ("Llama-3.1-8B-Instruct", "fp8", "l4", 1, Fit.FITS),
        ("Llama-3.1-8B-Instruct", "bf16", "t4", 1, Fit.TOO_SMALL),
        ("Llama-3.1-8B-Instruct", "awq", "t4", 1, Fit.FITS),
        ("Llama-3.1-8B-Instruct", "bf16", "h100-80gb", 1, Fit.FITS),
        ("Llama-3.1-70B-Instruct", "fp8", "h100-80gb", 1, Fit.STARVED),
        ("Llama-3.1-70B-Instruct", "fp8", "h100-80gb", 2, Fit.FITS),
        ("Llama-3.1-70B-Instruct", "fp8", "h200", 1, Fit.FITS),
        ("Llama-3.1-70B-Instruct", "bf16", "h100-80gb", 1, Fit.TOO_SMALL),
        ("Llama-3.1-70B-Instruct", "bf16", "a100-80gb", 2, Fit.CAUTION),
        ("Llama-3.1-405B-Instruct", "fp8", "h100-80gb", 4, Fit.TOO_SMALL),
        ("gpt-oss-120b", "mxfp4", "h100-80gb", 1, Fit.FITS),
        ("DeepSeek-R1", "fp8", "h100-80gb", 8, Fit.TOO_SMALL),
        ("DeepSeek-R1", "fp8", "h200", 8, Fit.FITS),
    ],
)
def test_known_deployments_fit_as_they_do(model: str, dtype: str, gpu: str, devices: int, fit: Fit) -> None:
    assert room_of(load_of(model, dtype), gpu, devices).fit is fit


@pytest.mark.parametrize(
    ("model", "dtype", "gpu", "devices", "tokens", "tolerance"),
    [
        # llm-d states about 48k tokens at TP1 and 350k at TP2.
        ("Qwen3-32B", "bf16", "h100-80gb", 1, 48_000, Fraction(5, 100)),
        ("Qwen3-32B", "bf16", "h100-80gb", 2, 350_000, Fraction(5, 100)),
        # Weights take 86 % of the card, and yet there is room for about 141k tokens at 0.9 of the memory.
        ("gpt-oss-120b", "mxfp4", "h100-80gb", 1, 141_000, Fraction(25, 100)),
        ("Llama-3.1-8B-Instruct", "bf16", "l4", 1, 40_000, Fraction(5, 100)),
    ],
)
def test_tokens_of_kv_cache_agree_with_published_figures(
    model: str, dtype: str, gpu: str, devices: int, tokens: int, tolerance: Fraction
) -> None:
    found = room_of(load_of(model, dtype), gpu, devices).kv_tokens

    assert found is not None
    assert abs(Fraction(found, tokens) - 1) <= tolerance


@pytest.mark.parametrize(
    ("model", "tensor_parallel", "kv_cache_dtype", "bytes_per_token"),
    [
        ("Qwen3-32B", 1, None, 256 * 1024),
        ("Qwen3-32B", 8, None, 256 * 1024),
        ("Qwen3-32B", 16, None, 2 * 256 * 1024),
        ("Qwen3-32B", 1, Dtype.FP8, 128 * 1024),
        ("Llama-3.1-8B-Instruct", 1, None, 128 * 1024),
        ("Llama-3.1-70B-Instruct", 4, None, 320 * 1024),
        ("DeepSeek-R1", 1, None, 61 * 576 * 2),
        ("DeepSeek-R1", 8, None, 8 * 61 * 576 * 2),
    ],
)
def test_a_token_takes_its_heads_layers_and_copies(
    model: str, tensor_parallel: int, kv_cache_dtype: Dtype | None, bytes_per_token: int
) -> None:
    assert load_of(model, "fp8", kv_cache_dtype).kv_bytes_per_token(tensor_parallel) == bytes_per_token


@pytest.mark.parametrize(
    ("model", "dtype", "weight_bytes"),
    [
        ("Llama-3.1-8B-Instruct", "bf16", 16_060_522_496),
        ("Llama-3.1-8B-Instruct", "fp8", 8_030_261_248),
        ("gpt-oss-20b", "mxfp4", 13_761_264_768),  # stated by the repository
        ("gpt-oss-20b", "bf16", 41_800_000_000),
    ],
)
def test_weights_take_what_a_source_states_or_parameters_times_width(model: str, dtype: str, weight_bytes: int) -> None:
    assert load_of(model, dtype).weight_bytes == weight_bytes


def test_a_model_without_parameters_is_not_judged_and_one_without_kv_figures_only_by_its_weights() -> None:
    devices = Devices(1, Fraction(80 * 2**30), DEFAULT, 1)

    assert room(Load(Model(name="m"), Dtype.BF16), devices) is None
    found = room(Load(Model(name="m", parameters=10**9), Dtype.BF16), devices)
    assert found is not None
    assert (found.fit, found.kv_tokens) == (Fit.FITS, None)


@pytest.mark.parametrize(
    ("model", "dtype", "own", "length", "sets"),
    [
        ("Llama-3.1-70B-Instruct", "fp8", "h100-80gb", None, "2 x h100-80gb, or 1 x h100-nvl"),
        ("Llama-3.1-70B-Instruct", "bf16", "h100-80gb", None, "2 x h100-80gb, or 1 x b200"),
        ("Llama-3.1-70B-Instruct", "bf16", "b200", None, "1 x b200"),
        ("Llama-3.1-8B-Instruct", "bf16", "l4", 131_072, "2 x l4, or 1 x a100-40gb"),
        ("DeepSeek-R1", "fp8", "t4", None, "4 x b200"),
    ],
)
def test_the_smallest_sets_name_the_pods_own_card_first(
    model: str, dtype: str, own: str, length: int | None, sets: str
) -> None:
    found = smallest_sets(load_of(model, dtype), [CATALOGUE.gpus[own]], CATALOGUE.gpus, DEFAULT, length)

    assert found == sets


def test_a_model_beyond_two_nodes_of_every_card_says_so() -> None:
    load = Load(Model(name="m", parameters=10**14), Dtype.BF16)

    assert smallest_sets(load, [], CATALOGUE.gpus, DEFAULT, None) == "more than 16 GPUs of any card known here"
