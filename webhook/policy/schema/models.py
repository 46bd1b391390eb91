"""`models`: models that the policy adds to the built-in catalogue, or replaces there whole."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from webhook.domain.rules import Model, Profile
from webhook.policy import names
from webhook.policy.kinds import Exact, Named, Reference, Text, WeightDtype, Whole
from webhook.policy.records import Field, Given, ListOf, MappingOf, Record
from webhook.policy.report import At

_KV_BYTES_EACH: Final = 2
"""kvBytesPerToken is stated at a 2-byte KV dtype; engines with FP8 KV halve it."""

_SHAPE: Final = ("layers", "kvHeads", "headDim")


PROFILE: Final = Record(
    "a throughput profile",
    Profile,
    (
        Field(
            "gpu",
            Reference("gpu", "the name of a GPU of the catalogue or of gpus"),
            "The card it was measured on.",
            required="name the card",
        ),
        Field("devices", Whole(), "Cards that serve one copy: tensor times pipeline parallel.", required="write it"),
        Field("dtype", WeightDtype(), "The weights' dtype.", required="write it, such as bf16 or fp8"),
        Field(
            "prefillTokensPerSecond",
            Exact(),
            "P: input tokens/s of all these cards together, saturated.",
            required="write the measured figure",
        ),
        Field(
            "decodeTokensPerSecond",
            Exact(),
            "D: output tokens/s of all these cards together, saturated, at short context.",
            required="write the measured figure",
        ),
        Field(
            "contextSecondsPerToken2",
            Exact(above=None, at_least=Fraction(0)),
            "c: GPU-seconds per output token and token of context; the price of long contexts.",
            attribute="context_seconds_per_token2",
            required="write the measured figure, 0 if the context's length makes no difference",
        ),
        Field("source", Text(names.PROSE), "Where the figures come from, for people.", absent="none"),
    ),
)


def _check_model(given: Given, at: At) -> None:
    parameters, active = given.get("parameters"), given.get("active_parameters")
    if parameters is not None and active is not None and active > parameters:
        at.down("activeParameters").error(f"found {active}; must be at most parameters, which is {parameters}")
    _check_kv(given, at)
    _check_profiles(given.get("profiles", ()), at)


def _check_kv(given: Given, at: At) -> None:
    """kvBytesPerToken, or what it is computed from: keys and values of every layer, 2 bytes each."""
    layers, head_dim = given.pop("layers", None), given.pop("head_dim", None)
    if "kvBytesPerToken" in given.written:
        for key in given.written & {"layers", "headDim"}:
            at.down(key).error("kvBytesPerToken is given too; leave one of the two out")
        return
    missing = [key for key in _SHAPE if key not in given.written]
    if missing and len(missing) < len(_SHAPE):
        present = ", ".join(key for key in _SHAPE if key in given.written)
        for key in missing:
            at.down(key).error(f"is missing beside {present}; give all of {', '.join(_SHAPE)}, or kvBytesPerToken")
    if layers is not None and head_dim is not None and "kv_heads" in given:
        given["kv_bytes_per_token"] = Fraction(2 * layers * given["kv_heads"] * head_dim * _KV_BYTES_EACH)


def _check_profiles(profiles: Iterable[Profile], at: At) -> None:
    seen: dict[tuple[str, int, str], int] = {}
    for index, profile in enumerate(profiles):
        first = seen.setdefault((profile.gpu, profile.devices, profile.dtype), index)
        if first != index:
            at.down("profiles").error(
                f"two profiles for {profile.devices} x {profile.gpu} at {profile.dtype}; keep the one measured last"
            )


MODEL: Final = Record(
    "a model",
    Model,
    (
        Field(
            "name",
            Named("model", names.MODEL_NAME),
            "The model as engines name it. A built-in model that answers to it is replaced whole.",
            required="name the model",
        ),
        Field("aliases", ListOf(Named("model", names.MODEL_NAME), "model names"), "Other names of it.", absent="none"),
        Field("parameters", Whole(), "Parameters in all.", absent="unknown: no memory fit, no roofline"),
        Field(
            "activeParameters",
            Whole(),
            "Parameters that one token passes through (mixture of experts).",
            absent="all of parameters",
        ),
        Field("nativeDtype", WeightDtype(), "The dtype of the published weights.", absent="unknown"),
        Field(
            "kvBytesPerToken",
            Exact(),
            "Bytes of KV cache per token over all layers, at a 2-byte dtype.",
            absent="from layers, kvHeads, headDim; unknown: no starvation check, no roofline",
        ),
        Field("layers", Whole(maximum=10_000), "Layers with a KV cache.", absent="unknown"),
        Field("kvHeads", Whole(maximum=10_000), "KV heads of each layer.", absent="unknown"),
        Field("headDim", Whole(maximum=100_000), "Dimension of one head.", absent="unknown"),
        Field("contextLength", Whole(), "Longest context in tokens.", absent="unknown"),
        Field(
            "weightBytes",
            MappingOf(WeightDtype(), Whole(), "dtypes to bytes"),
            "Bytes of the weights at a dtype, where a source states them.",
            absent="parameters times the dtype's width",
        ),
        Field(
            "profiles",
            ListOf(PROFILE, "throughput profiles"),
            "Measured throughput, one row per set of cards.",
            absent="none",
        ),
        Field("source", Text(names.PROSE), "Where the figures come from, for people.", absent="none"),
    ),
    finish=_check_model,
)

MODELS: Final = ListOf(MODEL, "models", may_be_empty=True)


def by_name(models: Iterable[Model]) -> dict[str, Model]:
    """Models by lower-case name and alias."""
    return {name.lower(): model for model in models for name in (model.name, *model.aliases)}


def lay_over(base: Mapping[str, Model], models: tuple[Model, ...]) -> dict[str, Model]:
    """The catalogue with the policy's models in it.

    A built-in model is replaced whole by the policy's model whose name it answers to: all its other names lead to the
    policy's model too, since they are names of the same model. An alias of the policy takes that one name only.
    """
    by_replaced = {id(base[key]): model for model in models if (key := model.name.lower()) in base}
    merged = {name: by_replaced.get(id(model), model) for name, model in base.items()}
    return {**merged, **by_name(models)}
