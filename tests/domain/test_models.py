"""A model is found by any of its names and never mistaken for another; its profiles give what was published."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.domain import dtypes
from webhook.domain.dtypes import Dtype
from webhook.domain.models import find, matching_profile, saturated_throughput
from webhook.domain.rules import Mix, Model, Profile
from webhook.policy.catalogue import built_in

CATALOGUE = built_in()
PUBLISHED = yaml.safe_load((Path(__file__).parent / "data" / "throughput.yaml").read_text())
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


@pytest.mark.parametrize(
    ("text", "name", "dtype"),
    [
        (LLAMA_8B, LLAMA_8B, None),
        (LLAMA_8B.upper(), LLAMA_8B, None),
        ("llama-3.1-8b-instruct", LLAMA_8B, None),
        ("llama-3-1-8b-instruct", LLAMA_8B, None),
        ("/mnt/models/Llama-3.1-8B-Instruct/", LLAMA_8B, None),
        ("hf://meta-llama/Llama-3.1-8B-Instruct", LLAMA_8B, None),
        ("s3://bucket/models/Llama-3.1-8B-Instruct", LLAMA_8B, None),
        ("/root/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0e9e39f2", LLAMA_8B, None),
        ("meta/llama-3.1-70b-instruct", LLAMA_70B, None),
        ("meta-llama/Llama-3.3-70B-Instruct", LLAMA_70B, None),
        ("unsloth/Meta-Llama-3.1-8B-Instruct", LLAMA_8B, None),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", LLAMA_70B, Dtype.FP8),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", LLAMA_8B, Dtype.FP8),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", LLAMA_8B, Dtype.INT4),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8", LLAMA_70B, Dtype.INT8),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", LLAMA_70B, Dtype.AWQ),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", LLAMA_8B, Dtype.NF4),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", LLAMA_70B, Dtype.NVFP4),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-72B-Instruct", Dtype.GPTQ),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-72B-Instruct", Dtype.INT8),
        ("Qwen/Qwen3-30B-A3B-FP8", "Qwen/Qwen3-30B-A3B", Dtype.FP8),
        ("TheBloke/Mistral-7B-Instruct-v0.2-AWQ", "mistralai/Mistral-7B-Instruct-v0.3", Dtype.AWQ),
        ("openai/gpt-oss-120b", "openai/gpt-oss-120b", None),
        ("openai/gpt-oss-safeguard-20b", "openai/gpt-oss-20b", None),
        ("google/gemma-3-27b-it", "google/gemma-3-27b-it", None),
        ("RedHatAI/gemma-3-27b-it-quantized.w4a16", "google/gemma-3-27b-it", Dtype.INT4),
        ("hugging-quants/gemma-2-9b-it-AWQ-INT4", "google/gemma-2-9b-it", Dtype.AWQ),
        ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "meta-llama/Llama-4-Scout-17B-16E-Instruct", Dtype.FP8),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1_5-FP8", "nvidia/Llama-3_3-Nemotron-Super-49B-v1", Dtype.FP8),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", Dtype.BF16),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct-FP8", "Qwen/Qwen3-Next-80B-A3B-Instruct", Dtype.FP8),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", "Qwen/Qwen3-Coder-480B-A35B-Instruct", Dtype.FP8),
        ("Qwen/Qwen2.5-VL-7B-Instruct-AWQ", "Qwen/Qwen2.5-VL-7B-Instruct", Dtype.AWQ),
        ("moonshotai/Kimi-K2-Instruct-0905", "moonshotai/Kimi-K2-Instruct", None),
        ("nvidia/Kimi-K2.5-NVFP4", "moonshotai/Kimi-K2.5", Dtype.NVFP4),
        ("zai-org/GLM-4.5-Air-FP8", "zai-org/GLM-4.5-Air", Dtype.FP8),
        ("/models/Mistral-Small-3.1-24B-Instruct-2503", "mistralai/Mistral-Small-3.2-24B-Instruct-2506", None),
        ("microsoft/Phi-4-mini-instruct", "microsoft/Phi-4-mini-instruct", None),
    ],
)
def test_every_name_of_a_model_leads_to_it_and_tells_its_weights(text: str, name: str, dtype: Dtype | None) -> None:
    named = find(CATALOGUE.models, text)

    assert named is not None
    assert (named.model.name, named.dtype, named.unknown_format) == (name, dtype, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "models",
        "/mnt/models",
        "meta-llama/Llama-3.1-9B-Instruct",
        "meta-llama/Llama-3.1",
        "llama",
        "8b",
        "Qwen/Qwen2.5-7B-Instruct-1M",
        "Qwen/Qwen3-32B-Embedding",
        "acme/my-llama-3.1-8b-instruct-finetune",
        "openai/gpt-oss-20b-safeguard-x",
        "google/gemma-3n-E4B-it",
        "google/gemma-27b-it",
        "Qwen/Qwen3-Next-80B-A3B",
        "Qwen/Qwen3-VL-8B",
        "Qwen/Qwen3-Embedding-8B",
        "moonshotai/Kimi-K2",
        "moonshotai/Moonlight-16B-A3B-Instruct",
        "zai-org/GLM-4.5V",
        "zai-org/GLM-4.7-Flash",
        "deepseek-ai/DeepSeek-V4-Flash",
        "microsoft/Phi-4-multimodal-instruct",
        "mistralai/Mistral-Small-Instruct-2409",
        "-fp8",
        "FP8",
    ],
)
def test_a_name_that_differs_in_more_than_its_format_is_another_model(text: str) -> None:
    assert find(CATALOGUE.models, text) is None


@pytest.mark.parametrize(
    ("name", "kv_bytes_per_token"),
    [
        (LLAMA_8B, 2 * 32 * 8 * 128 * 2),
        ("google/gemma-2-27b-it", 2 * 46 * 16 * 128 * 2),  # windows of 4096
        ("google/gemma-3-27b-it", 10 * 8192 + 52 * 8192 // 4),  # windows of 1024
        ("google/gemma-3-1b-it", 4 * 1024 + 22 * 1024 // 8),  # windows of 512
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2 * 12 * 2 * 256 * 2),  # 36 of 48 layers are linear
        ("Qwen/Qwen3.6-27B", 2 * 16 * 4 * 256 * 2),
        ("deepseek-ai/DeepSeek-V3", 61 * (512 + 64) * 2),  # one latent vector for all heads
        ("zai-org/GLM-5", 78 * (512 + 64) * 2),
    ],
)
def test_a_token_of_context_takes_what_its_layers_keep_of_it(name: str, kv_bytes_per_token: int) -> None:
    named = find(CATALOGUE.models, name)

    assert named is not None
    assert named.model.kv_bytes_per_token == kv_bytes_per_token


def test_a_format_without_a_width_is_remembered_as_such() -> None:
    named = find(CATALOGUE.models, "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF")

    assert named is not None
    assert (named.dtype, named.unknown_format) == (None, True)


def test_a_bare_name_that_two_models_share_means_neither() -> None:
    one, other = Model(name="acme/foo-7b"), Model(name="other/foo-7b")
    models = {"acme/foo-7b": one, "other/foo-7b": other}

    assert find(models, "/models/foo-7b") is None
    assert find(models, "third/foo-7b") is None
    named = find(models, "Other/Foo-7B-FP8")
    assert named is not None
    assert named.model is other


@given(st.text(max_size=80))
def test_no_name_raises(text: str) -> None:
    found = find(CATALOGUE.models, text)

    assert found is None or found.model.name


def published() -> Iterator[Any]:
    for row in PUBLISHED["rows"]:
        for mix, output in zip(PUBLISHED["mixes"], row["output"], strict=True):
            yield pytest.param(
                row, mix, output, id=f"{row['model']} {row['devices']}x{row['gpu']} {row['dtype']} {mix}"
            )
    for row in PUBLISHED["more"]:
        yield pytest.param(row, row["mix"], row["output"], id=f"{row['model']} {row['gpu']} {row['mix']}")


@pytest.mark.parametrize(("row", "mix", "output"), list(published()))
def test_built_in_profiles_give_the_published_throughput_within_a_fifth(
    row: dict[str, Any], mix: str, output: int
) -> None:
    named = find(CATALOGUE.models, row["model"])
    assert named is not None
    profile = matching_profile(named.model, row["gpu"], row["devices"], dtypes.parse(row["dtype"]))
    assert profile is not None
    tokens_in, tokens_out = mix.split("/")

    computed = saturated_throughput(profile, Mix(int(tokens_in), int(tokens_out)))

    assert Fraction(8, 10) < computed / output < Fraction(12, 10)


def test_every_published_row_that_has_a_profile_is_the_profiles_own() -> None:
    profiles = {
        (model.name, profile.gpu, profile.devices, profile.dtype)
        for model in CATALOGUE.models.values()
        for profile in model.profiles
    }
    without_table = {("mistralai/Mixtral-8x7B-Instruct-v0.1", "a100-80gb", 4, "fp16")}
    rows = [*PUBLISHED["rows"], *PUBLISHED["more"]]
    covered = {
        (named.model.name, row["gpu"], row["devices"], row["dtype"])
        for row in rows
        if (named := find(CATALOGUE.models, row["model"]))
    }

    assert covered == profiles - without_table


def test_throughput_is_exact() -> None:
    profile = Profile("x", 1, "bf16", Fraction(1000), Fraction(500), Fraction(1, 1000))

    # g = 100/1000 + 10/500 + 10*(100 + 5)/1000 = 0.1 + 0.02 + 1.05
    assert saturated_throughput(profile, Mix(input=100, output=10)) == Fraction(10) / Fraction(117, 100)


def profile_of(source: str, dtype: str = "fp8", devices: int = 1, gpu: str = "x") -> Profile:
    return Profile(gpu, devices, dtype, Fraction(1), Fraction(1), Fraction(0), source=source)


@pytest.mark.parametrize(
    ("sources", "newest"),
    [
        (["engine v0.14", "engine v1.0"], "engine v1.0"),
        (["engine v1.0", "engine v0.14"], "engine v1.0"),
        (["engine v1.2", "engine v1.10"], "engine v1.10"),
        (["measured", "measured again"], "measured again"),
        (["measured", "engine 1.0"], "engine 1.0"),
    ],
)
def test_of_two_rows_that_cover_a_pod_the_newer_counts(sources: list[str], newest: str) -> None:
    model = Model(name="m", profiles=tuple(profile_of(source) for source in sources))

    found = matching_profile(model, "x", 1, Dtype.FP8)

    assert found is not None
    assert found.source == newest


def test_a_profile_fits_only_where_gpu_devices_and_dtype_agree() -> None:
    model = Model(name="m", profiles=(profile_of("p", dtype="fp16", devices=2),))

    assert matching_profile(model, "x", 2, Dtype.BF16) is not None
    assert matching_profile(model, "x", 2, Dtype.FP8) is None
    assert matching_profile(model, "x", 1, Dtype.FP16) is None
    assert matching_profile(model, "y", 2, Dtype.FP16) is None


def test_no_name_of_the_catalogue_is_given_to_two_models() -> None:
    models = {id(model): model for model in CATALOGUE.models.values()}
    names = [name.lower() for model in models.values() for name in (model.name, *model.aliases)]

    assert len(names) == len(set(names))


def test_built_in_models_say_what_fit_and_roofline_need() -> None:
    for model in CATALOGUE.models.values():
        assert model.parameters, model.name
        assert model.kv_bytes_per_token, model.name
        assert model.kv_heads, model.name
        assert model.context_length, model.name
        assert dtypes.find(model.native_dtype or ""), model.name
        assert model.source, model.name
