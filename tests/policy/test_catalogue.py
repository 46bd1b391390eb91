"""The built-in catalogue, and what a policy lays over it."""

from fractions import Fraction

import pytest

from tests.policy.policies import with_head
from webhook.domain.rules import Policy
from webhook.policy import PolicyErrors, load
from webhook.policy.catalogue import Catalogue, built_in, parse

GPUS = b"""
gpus:
- {name: small, products: [NVIDIA-S], memoryMiB: 1000, migProfiles: {1g.5gb: 400, 2g.10gb: null}, bandwidthGBs: 300.5,
   fp16TFLOPS: 65, nvlink: false, nodeLabels: {cloud/x: [s]}, source: a table}
- {name: large, products: [NVIDIA-L, NVIDIA-L2], memoryMiB: 2000}
"""
MODELS = b"""
models:
- name: Org/Model-A
  aliases: [model-a, a]
  parameters: 8e9
  layers: 32
  kvHeads: 8
  headDim: 128
  weightBytes: {bfloat16: 16e9}
  profiles:
  - {gpu: large, devices: 1, dtype: float8, prefillTokensPerSecond: 1000, decodeTokensPerSecond: 900,
     contextSecondsPerToken2: 1e-8}
- {name: Org/Model-B, aliases: [b], kvBytesPerToken: 1.5, kvHeads: 4}
"""


@pytest.fixture(name="base")
def _base() -> Catalogue:
    return parse(GPUS, MODELS)


def over(base: Catalogue, body: str) -> Policy:
    return load(with_head(body), base).policy


def test_the_built_in_catalogue_is_sound() -> None:
    catalogue = built_in()
    assert {"a100-80gb", "h100-80gb"} <= set(catalogue.gpus)
    for name, card in catalogue.gpus.items():
        assert name == card.name
        assert card.source
    for name, model in catalogue.models.items():
        assert name in {known.lower() for known in (model.name, *model.aliases)}
        assert all(profile.built_in and profile.gpu in catalogue.gpus for profile in model.profiles)


def test_the_built_in_catalogue_is_read_once() -> None:
    assert built_in() is built_in()


def test_the_files_become_values(base: Catalogue) -> None:
    small, model = base.gpus["small"], base.models["model-a"]
    assert small.mig_profiles == {"1g.5gb": 400, "2g.10gb": None}
    assert [small.bandwidth_gbs, small.fp16_tflops, small.fp8_tflops, small.nvlink] == [
        Fraction("300.5"),
        Fraction(65),
        None,
        False,
    ]
    assert small.node_labels == {"cloud/x": ("s",)}
    assert model is base.models["org/model-a"] is base.models["a"]
    assert model.kv_bytes_per_token == 2 * 32 * 8 * 128 * 2
    assert (model.kv_heads, model.weight_bytes) == (8, {"bf16": 16 * 10**9})
    assert (model.profiles[0].dtype, model.profiles[0].built_in) == ("fp8", True)
    assert (base.models["b"].kv_bytes_per_token, base.models["b"].kv_heads) == (Fraction(3, 2), 4)


def test_a_gpu_overrides_field_by_field_and_mig_profiles_by_profile(base: Catalogue) -> None:
    body = "gpus:\n- {name: small, memoryMiB: 999, migProfiles: {2g.10gb: 800, 3g.20gb: 900}, nodeLabels: {c/y: [t]}}\n"
    small = over(base, body).gpus["small"]
    assert small.memory_mib == 999
    assert small.mig_profiles == {"1g.5gb": 400, "2g.10gb": 800, "3g.20gb": 900}
    assert small.node_labels == {"cloud/x": ("s",), "c/y": ("t",)}
    assert small.products == ("NVIDIA-S",)
    assert small.nvlink is False
    assert base.gpus["small"].memory_mib == 1000


def test_a_new_gpu_stands_beside_the_built_in_ones_and_can_be_referred_to(base: Catalogue) -> None:
    body = "gpus:\n- {name: mine, products: [M], memoryMiB: 5}\nsharing:\n- {selector: {}, scheme: MIG, gpu: mine}\n"
    assert list(over(base, body).gpus) == ["small", "large", "mine"]


def test_a_product_may_move_from_one_card_to_another(base: Catalogue) -> None:
    body = "gpus:\n- {name: large, products: [NVIDIA-L]}\n- {name: mine, products: [NVIDIA-L2], memoryMiB: 5}\n"
    assert over(base, body).gpus["mine"].products == ("NVIDIA-L2",)


def test_a_model_replaces_the_built_in_one_whole(base: Catalogue) -> None:
    policy = over(base, "models:\n- {name: org/model-a, contextLength: 5}\n")
    model = policy.models["org/model-a"]
    assert (model.name, model.parameters, model.profiles, model.context_length) == ("org/model-a", None, (), 5)
    assert policy.models["model-a"] is model
    assert policy.models["a"] is model
    assert policy.models["b"] is base.models["b"]


def test_a_model_by_an_alias_of_a_built_in_one_replaces_it_too(base: Catalogue) -> None:
    policy = over(base, "models:\n- {name: Model-A, contextLength: 5}\n")
    assert {policy.models[name].name for name in ("org/model-a", "model-a", "a")} == {"Model-A"}


def test_an_alias_takes_one_name_only(base: Catalogue) -> None:
    policy = over(base, "models:\n- {name: tuned, aliases: [A]}\n")
    assert policy.models["a"] is policy.models["tuned"]
    assert policy.models["model-a"] is base.models["model-a"]


def test_profiles_of_the_policy_are_not_built_in(base: Catalogue) -> None:
    profile = "{gpu: small, devices: 2, dtype: W4A16, prefillTokensPerSecond: 1, decodeTokensPerSecond: 1k, "
    policy = over(base, f"models:\n- {{name: x, profiles: [{profile}contextSecondsPerToken2: 0}}]}}\n")
    (only,) = policy.models["x"].profiles
    assert (only.dtype, only.built_in) == ("int4", False)
    assert only.decode_tokens_per_second == 1000


@pytest.mark.parametrize(
    ("gpus", "models", "words"),
    [
        (b"", MODELS, "gpus: the file must be one document with the one key gpus"),
        (b"gpus: []\nmore: 1\n", MODELS, "gpus: the file must be one document"),
        (GPUS, b"models:\n- {name: x, profile: []}\n", "models[0].profile: unknown key"),
        (GPUS, MODELS.replace(b"gpu: large", b"gpu: larg"), "'larg' is no gpu of the catalogue; did you mean large?"),
        (GPUS + b"- {name: third, products: [NVIDIA-S], memoryMiB: 1}\n", MODELS, "already a product of small"),
        (b"gpus: {}\n", MODELS, "gpus: found a mapping"),
        (b"gpus: [\n", MODELS, "line 2: gpus: not YAML"),
    ],
)
def test_a_catalogue_is_read_as_strictly_as_a_policy(gpus: bytes, models: bytes, words: str) -> None:
    with pytest.raises(PolicyErrors) as raised:
        parse(gpus, models)
    assert words in str(raised.value)
