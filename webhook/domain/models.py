"""Which model of the catalogue a name means, and what its published throughput gives at a budget's mix."""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from webhook.domain import dtypes
from webhook.domain.dtypes import Dtype
from webhook.domain.identity import Same
from webhook.domain.rules import Mix, Model, Profile


class Named(Struct, frozen=True, gc=False):
    """A model found by a name, and what the name says of its weights beyond that (`…-FP8`, `…-AWQ`)."""

    model: Model
    dtype: Dtype | None = None
    unknown_format: bool = False
    """The name says that the weights are in a format whose width it does not tell (GGUF, EXL2)."""


# Parts of a repository's name that tell how its weights are stored, and what they mean. First match over all parts.
_FORMATS: Final[Mapping[str, Dtype]] = MappingProxyType(
    {
        "nvfp4": Dtype.NVFP4,
        "mxfp4": Dtype.MXFP4,
        "fp4": Dtype.FP4,
        "fp8": Dtype.FP8,
        "w8a8": Dtype.INT8,
        "w8a16": Dtype.INT8,
        "int8": Dtype.INT8,
        "8bit": Dtype.INT8,
        "bnb": Dtype.NF4,
        "nf4": Dtype.NF4,
        "awq": Dtype.AWQ,
        "gptq": Dtype.GPTQ,
        "w4a16": Dtype.INT4,
        "w4afp8": Dtype.INT4,
        "int4": Dtype.INT4,
        "4bit": Dtype.INT4,
        "bf16": Dtype.BF16,
        "fp16": Dtype.FP16,
    }
)
_UNKNOWN_FORMATS: Final = frozenset({"gguf", "exl2", "exl3", "hqq", "aqlm", "mlx"})
# Parts that may stand among those of the format and say nothing about size or kind.
_FORMAT_WORDS: Final = frozenset(
    (
        *("quantized", "quant", "dynamic", "block", "static", "kv", "g128", "g32", "sym", "asym"),
        *("autoround", "unsloth", "marlin", "hf", "turbo", "modelopt"),
    )
)
_HUGGING_FACE_CACHE: Final = re.compile(r"models--([^/]+?)--([^/]+)")
_SCHEME: Final = re.compile(r"^[a-z0-9]+://")
_SEPARATORS: Final = re.compile(r"[-_.]")
_TRAILING_PART: Final = re.compile(r"^(.+)[-_.]([a-z0-9]+)$")


def _spelling(name: str) -> str:
    """One spelling for names that differ only in separators: served names may not hold dots (`llama-3-1-8b`)."""
    return _SEPARATORS.sub("-", name)


def _without_organisation(name: str) -> str:
    return name.rpartition("/")[2]


def _names_in(text: str) -> Iterator[str]:
    """The names that a reference may mean, longest first: with its organisation, then alone."""
    reference = _SCHEME.sub("", text.strip().lower().rstrip("/"))
    cached = _HUGGING_FACE_CACHE.search(reference)
    if cached:
        reference = f"{cached[1]}/{cached[2]}"
    yield reference
    parts = reference.split("/")
    if len(parts) > 2:  # a path, whose last two parts may be organisation and name
        yield "/".join(parts[-2:])
    if len(parts) > 1:
        yield parts[-1]


def _format_of(words: list[str]) -> tuple[Dtype | None, bool]:
    if not _UNKNOWN_FORMATS.isdisjoint(words):
        return None, True
    return next((dtype for mark, dtype in _FORMATS.items() if mark in words), None), False


def _stripped(name: str) -> tuple[str, list[str]]:
    """A name without the parts at its end that tell a weight format, and those parts."""
    words: list[str] = []
    while match := _TRAILING_PART.match(name):
        word = match[2]
        if word not in _FORMATS and word not in _FORMAT_WORDS and word not in _UNKNOWN_FORMATS:
            break
        name = match[1]
        words.append(word)
    return name, words


@lru_cache(maxsize=8)
def _index(models: Same[Mapping[str, Model]]) -> Mapping[str, Model]:
    """The catalogue by every spelling of its names; a spelling that two models share means none of them."""
    in_full = {_spelling(key): model for key, model in models.value.items()}
    alone: dict[str, list[Model]] = {}
    for key, model in models.value.items():
        meant = alone.setdefault(_spelling(_without_organisation(key)), [])
        if not any(model is other for other in meant):
            meant.append(model)
    unambiguous = {spelling: meant[0] for spelling, meant in alone.items() if len(meant) == 1}
    return MappingProxyType({**unambiguous, **in_full})


@lru_cache(maxsize=4096)
def _find(models: Same[Mapping[str, Model]], text: str) -> Named | None:
    index = _index(models)
    for name in _names_in(text):
        model = models.value.get(name) or index.get(_spelling(name))
        if model is not None:
            dtype, unknown = _format_of(_stripped(name)[1])
            return Named(model, dtype, unknown)
        base, words = _stripped(name)
        if not words:
            continue
        model = models.value.get(base) or index.get(_spelling(base))
        if model is not None:
            dtype, unknown = _format_of(words)
            return Named(model, dtype, unknown)
    return None


def find(models: Mapping[str, Model], text: str) -> Named | None:
    """The model that a repository id, a path or a served name means; None where the catalogue has none of that name.

    Names have to agree in full, but for the organisation, separators, and what is said of the weight format at the
    end: a model of another size or generation is never taken for it.
    """
    return _find(Same(models), text)


@lru_cache(maxsize=4096)
def saturated_throughput(profile: Profile, mix: Mix) -> Fraction:
    """Output tokens/s of all the profile's devices together when they are full.

    GPU-seconds per request are g(u, i, o) = u/P + o/D + c*o*(i + o/2) with u = i = input: prefill, decode, and decode's
    growth with the context. The result is o/g, exact.
    """
    seconds = (
        mix.input / profile.prefill_tokens_per_second
        + mix.output / profile.decode_tokens_per_second
        + profile.context_seconds_per_token2 * mix.output * (mix.input + Fraction(mix.output, 2))
    )
    return mix.output / seconds


_VERSION: Final = re.compile(r"\bv?([0-9]+(?:\.[0-9]+)+)")


def _age(profile: Profile) -> tuple[int, ...]:
    version = _VERSION.search(profile.source)
    return tuple(int(part) for part in version[1].split(".")) if version else ()


def matching_profile(model: Model, gpu: str, devices: int, dtype: Dtype) -> Profile | None:
    """The profile whose GPU, devices and dtype agree; of several the newest: by version in its source, then place."""
    newest: Profile | None = None
    for profile in model.profiles:
        if profile.gpu != gpu or profile.devices != devices:
            continue
        stated = dtypes.find(profile.dtype)
        if stated is None or not stated.agrees_with(dtype):
            continue
        if newest is None or _age(profile) >= _age(newest):
            newest = profile
    return newest
