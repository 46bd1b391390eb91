"""Inference engines: how a container's image or program tells which one it runs, and what each does by default."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from webhook.domain.commandline import basename


class Engine(StrEnum):
    """An inference server."""

    VLLM = "vLLM"
    SGLANG = "SGLang"
    TGI = "TGI"
    TENSORRT_LLM = "TensorRT-LLM"
    NIM = "NIM"
    UNKNOWN = "unknown engine"


class EngineDefaults(Struct, frozen=True, gc=False):
    """What an engine does where no flag says otherwise."""

    tensor_parallel: int | None
    """None: all GPUs that it sees."""
    memory_utilization: Fraction
    """Share of a GPU's memory that it takes for weights and KV cache."""
    throughput_factor: Fraction
    """Its throughput against the published TensorRT-LLM figures."""


# vLLM 0.12 and later take 0.92 of the memory, earlier ones 0.9: the larger counts, as a refusal has to be sure.
# TGI launcher: `--cuda-memory-fraction` 1.0, `--num-shard` all GPUs. SGLang and trtllm-serve: 0.9 or less, one GPU.
# Throughput: vLLM reached about 0.7 of TensorRT-LLM in published calibrations (llm-d configuration matrix), and no
# source puts the others higher for certain.
_SEVEN_TENTHS: Final = Fraction(7, 10)
DEFAULTS: Final[Mapping[Engine, EngineDefaults]] = MappingProxyType(
    {
        Engine.VLLM: EngineDefaults(1, Fraction(92, 100), _SEVEN_TENTHS),
        Engine.SGLANG: EngineDefaults(1, Fraction(90, 100), _SEVEN_TENTHS),
        Engine.TGI: EngineDefaults(None, Fraction(1), _SEVEN_TENTHS),
        Engine.TENSORRT_LLM: EngineDefaults(1, Fraction(92, 100), Fraction(1)),
        Engine.NIM: EngineDefaults(None, Fraction(92, 100), Fraction(1)),
        Engine.UNKNOWN: EngineDefaults(None, Fraction(92, 100), _SEVEN_TENTHS),
    }
)

# First match counts, in the image's repository without tag and digest.
_IMAGE_MARKS: Final = (
    ("/nim/", Engine.NIM),
    ("huggingfaceserver", Engine.VLLM),
    ("text-generation-inference", Engine.TGI),
    ("sglang", Engine.SGLANG),
    ("vllm", Engine.VLLM),
    ("rhaiis", Engine.VLLM),
    ("llm-d/llm-d", Engine.VLLM),
    ("tensorrt-llm", Engine.TENSORRT_LLM),
    ("tensorrtllm", Engine.TENSORRT_LLM),
    ("trtllm", Engine.TENSORRT_LLM),
)

# Programs whose first argument must be `serve`, and programs that serve at once.
_SERVE_COMMANDS: Final = MappingProxyType({"vllm": Engine.VLLM, "sglang": Engine.SGLANG})
_COMMANDS: Final = MappingProxyType(
    {"text-generation-launcher": Engine.TGI, "trtllm-serve": Engine.TENSORRT_LLM, "huggingfaceserver": Engine.VLLM}
)
# `python -m MODULE`: the longest prefix counts.
_MODULES: Final = (
    ("vllm.entrypoints", Engine.VLLM),
    ("sglang.launch_server", Engine.SGLANG),
    ("sglang_router.launch_server", Engine.SGLANG),
    ("huggingfaceserver", Engine.VLLM),
    ("dynamo.vllm", Engine.VLLM),
    ("dynamo.sglang", Engine.SGLANG),
    ("dynamo.trtllm", Engine.TENSORRT_LLM),
    ("tensorrt_llm.commands.serve", Engine.TENSORRT_LLM),
)


class Launch(Struct, frozen=True, gc=False):
    """An engine started by a program, and the arguments it gets."""

    engine: Engine
    arguments: tuple[str, ...]
    takes_positional_model: bool


def repository(image: str | None) -> str:
    """An image's name in lower case, without its tag and digest."""
    name = (image or "").partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return (head + slash + tail.partition(":")[0]).lower()


def of_image(image: str | None) -> Engine:
    """The engine that an image's name tells."""
    name = repository(image)
    for mark, engine in _IMAGE_MARKS:
        if mark in name:
            return engine
    return Engine.UNKNOWN


def _engine_of_module(module: str) -> Engine | None:
    return next((engine for prefix, engine in _MODULES if module.startswith(prefix)), None)


def launch(words: Sequence[str]) -> Launch | None:
    """The engine that a program starts, also behind a launcher such as mpirun; None where it starts none we know."""
    for position, word in enumerate(words):
        rest = tuple(words[position + 1 :])
        name = basename(word)
        if name in _SERVE_COMMANDS and rest[:1] == ("serve",):
            return Launch(_SERVE_COMMANDS[name], rest[1:], takes_positional_model=True)
        if name in _COMMANDS:
            engine = _COMMANDS[name]
            arguments = rest[1:] if rest[:1] == ("serve",) else rest
            return Launch(engine, arguments, takes_positional_model=engine is Engine.TENSORRT_LLM)
        if word == "-m" and rest:
            engine_of_module = _engine_of_module(rest[0])
            if engine_of_module is not None:
                serves = rest[1:2] == ("serve",)
                return Launch(
                    engine_of_module,
                    rest[2:] if serves else rest[1:],
                    takes_positional_model=serves or engine_of_module is Engine.TENSORRT_LLM,
                )
    return None
