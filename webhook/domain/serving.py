"""What one container serves: engine, model, parallel sizes, dtypes and memory limits, read from how it is started.

Flags are those of vLLM (vllm/engine/arg_utils.py), SGLang (server_args.py), text-generation-inference (launcher),
trtllm-serve and NIM (its environment variables). What cannot be read is left at the engine's default with a warning.
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from webhook.domain import commandline, dtypes, engines, flags
from webhook.domain.dtypes import Dtype
from webhook.domain.engines import Engine
from webhook.domain.flags import Field
from webhook.domain.pod import Container


class Serving(Struct, frozen=True, gc=False):
    """How one container serves. Sizes are what the engine is told, not what the pod has."""

    engine: Engine = Engine.UNKNOWN
    model_names: tuple[str, ...] = ()
    """What the model is called, best first: its name or path, then the names it is served under."""
    tensor_parallel: int | None = None
    """None: all GPUs of the container."""
    pipeline_parallel: int = 1
    data_parallel: int = 1
    data_parallel_local: int | None = None
    """How many of the data parallel replicas run in this pod; None: all."""
    quantization: Dtype | None = None
    unknown_quantization: str | None = None
    """A quantization method whose width its name does not tell."""
    dtype: Dtype | None = None
    """What `--dtype` says, which concerns weights that are not quantized."""
    kv_cache_dtype: Dtype | None = None
    max_model_len: int | None = None
    memory_utilization: Fraction | None = None
    nodes: int | None = 1
    """Pods over which one copy of the model is spread, where an option says so; None: only the container knows."""
    spans_pods: bool = False
    """The engine's ranks are spread over several pods, so that one pod cannot be checked alone."""
    offloads: bool = False
    """Part of the weights stay in the host's memory."""
    generates: bool = True
    """False: embeddings, scores or classes, and no output tokens."""
    warnings: tuple[str, ...] = ()


_NIM_ARGUMENTS: Final = "NIM_PASSTHROUGH_ARGS"
_NIM_PROFILE: Final = "NIM_MODEL_PROFILE"
_READ_VARIABLES: Final = frozenset({_NIM_ARGUMENTS, _NIM_PROFILE}.union(*flags.ENVIRONMENT.values()))

# Programs that train, measure or fetch a model: their `--model` serves nobody. The last are NIM's own, which Jobs run
# to fill a cache (NIM for LLMs, "Utilities").
_NOT_SERVING: Final = (
    *("train", "finetune", "torchrun", "accelerate", "deepspeed", "axolotl", "benchmark", "bench_", "lm_eval"),
    *("download-to-cache", "create-model-store", "list-model-profiles"),
)

_INTEGER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_DECIMAL: Final = re.compile(r"[0-9]{0,9}(?:\.[0-9]{0,9})?", re.ASCII)
# vLLM human_readable_int: a small letter is decimal (and may follow a fraction), a capital one binary.
_LENGTH: Final = re.compile(r"([0-9]{1,9})(\.[0-9]{1,6})?([kmgKMG])?", re.ASCII)
_LENGTH_FACTORS: Final = MappingProxyType(
    {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
)
_MAX_PARALLEL: Final = 4096
_NO_VALUE: Final = frozenset({"", "none", "null", "auto"})
_POOLING_TASKS: Final = frozenset({"embed", "embedding", "classify", "score", "reward", "pooling"})
_TGI_QUANTIZATION: Final = MappingProxyType({"bitsandbytes": Dtype.INT8})
_NIM_PROFILE_SIZE: Final = re.compile(r"^(tp|pp)([0-9]{1,3})$", re.ASCII)


def _is_unknown(text: str) -> bool:
    return commandline.UNKNOWN in text or "$(" in text


class _Reading:
    """The values found so far; the first source that gives a field wins, so sources come best first."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.warnings: list[str] = []
        self.model_names: list[str] = []
        self.served_names: list[str] = []
        self.texts: dict[Field, str] = {}
        self.all_gpus = False

    def take(self, field: Field, text: str) -> None:
        """Notes one value; an argument given twice counts the last time, as with the engines' own parsers."""
        if field is Field.MODEL:
            self.model_names = [text]
        elif field is Field.SERVED_NAME:
            self.served_names.append(text)
        else:
            self.texts[field] = text

    def take_missing(self, field: Field, text: str) -> None:
        """Notes one value that arguments override."""
        if field is Field.MODEL and self.model_names:
            return
        if field not in self.texts:
            self.take(field, text)

    def ignored(self, field: Field, text: str, why: str) -> None:
        self.warnings.append(f"the {field} {text[:40]!r} {why}")

    def integer(self, field: Field) -> int | None:
        text = self.texts.get(field)
        if text is None or text.lower() in _NO_VALUE:
            return None
        if _is_unknown(text):
            if field is Field.TENSOR:
                self.all_gpus = True
                self.warnings.append(
                    "the tensor parallel size is only known in the container; all its GPUs are assumed"
                )
            else:
                self.warnings.append(f"the {field} is only known in the container and is ignored")
            return None
        value = int(text) if _INTEGER.fullmatch(text) else 0
        if not 0 < value <= _MAX_PARALLEL:
            self.ignored(field, text, f"is not a number from 1 to {_MAX_PARALLEL} and is ignored")
            return None
        return value

    def length(self) -> int | None:
        text = self.texts.get(Field.MAX_LENGTH)
        if text is None or text.lower() in _NO_VALUE or text == "-1" or _is_unknown(text):
            return None
        match = _LENGTH.fullmatch(text)
        value = int(Fraction(match[1] + (match[2] or "")) * _LENGTH_FACTORS[match[3] or ""]) if match else 0
        if value <= 0:
            self.ignored(Field.MAX_LENGTH, text, "is not a number of tokens and is ignored")
            return None
        return value

    def utilization(self) -> Fraction | None:
        text = self.texts.get(Field.UTILIZATION)
        if text is None or text.lower() in _NO_VALUE or _is_unknown(text):
            return None
        value = Fraction(text) if _DECIMAL.fullmatch(text) and text.strip(".") else Fraction(0)
        if not 0 < value <= 1:
            self.ignored(Field.UTILIZATION, text, "is not above 0 and at most 1 and is ignored")
            return None
        return value

    def dtype(self, field: Field) -> Dtype | None:
        text = self.texts.get(field)
        if text is None or text.lower() in _NO_VALUE or _is_unknown(text):
            return None
        found = dtypes.find(text)
        if found is None and field is Field.KV_DTYPE and text.lower().startswith("fp8"):
            found = Dtype.FP8
        if found is None:
            self.ignored(field, text, "is not known and is ignored")
        return found

    def quantization(self) -> tuple[Dtype | None, str | None]:
        text = self.texts.get(Field.QUANTIZATION)
        if text is None or text.lower() in _NO_VALUE:
            return None, None
        found = _TGI_QUANTIZATION.get(text.lower()) if self.engine is Engine.TGI else None
        found = found or dtypes.find(text)
        return (found, None) if found is not None else (None, text[:40])

    def offloads(self) -> bool:
        text = self.texts.get(Field.OFFLOAD)
        return text is not None and text.strip("0.") != ""


def _take_nim_profile(reading: _Reading, profile: str) -> None:
    """A profile given by name, `tensorrt_llm-h100-fp8-tp2-pp1-throughput`; given by its hash it says nothing."""
    for part in profile.lower().split("-"):
        size = _NIM_PROFILE_SIZE.fullmatch(part)
        if size:
            reading.take_missing(Field.TENSOR if size[1] == "tp" else Field.PIPELINE, size[2])
        elif dtypes.find(part) is not None:
            reading.take_missing(Field.QUANTIZATION, part)


def _take_environment(reading: _Reading, environment: Mapping[str, str]) -> None:
    for name, field in flags.ENVIRONMENT.get(reading.engine, {}).items():
        if environment.get(name):
            reading.take_missing(field, environment[name])
    if reading.engine is Engine.NIM:
        for field, text in flags.options(Engine.NIM, environment.get(_NIM_ARGUMENTS, "").split()):
            reading.take_missing(field, text)
        _take_nim_profile(reading, environment.get(_NIM_PROFILE, ""))


def _model_of_nim_image(image: str | None) -> str | None:
    """`nvcr.io/nim/meta/llama-3.1-70b-instruct:1.8` is the image of one model."""
    _, mark, name = engines.repository(image).rpartition("/nim/")
    return name or None if mark else None


def _serves(program: Sequence[str]) -> bool:
    """Whether a program may be a server, by its words before the first long option (`--model /data/pretrained/…`)."""
    named = list(takewhile(lambda word: not word.startswith("--"), program))
    return "bench" not in named and not any(mark in word for mark in _NOT_SERVING for word in named)


def _launch(
    image: str | None, command: Sequence[str], words: Sequence[str], environment: Mapping[str, str]
) -> engines.Launch:
    """Which engine the container starts, and with which arguments."""
    started = commandline.programs(words, environment)
    for program in started:
        found = engines.launch(program)
        if found is not None:
            engine = Engine.NIM if engines.of_image(image) is Engine.NIM else found.engine
            return engines.Launch(engine, found.arguments, found.takes_positional_model)
    engine = engines.of_image(image)
    serving = [program for program in started if _serves(program)]
    if started and not serving and (command or engine is Engine.NIM):
        return engines.Launch(Engine.UNKNOWN, (), takes_positional_model=False)
    if command or engine is Engine.UNKNOWN:
        arguments = tuple(word for program in serving for word in program)
        return engines.Launch(engine, arguments, takes_positional_model=False)
    arguments = tuple(words[1:] if words[:1] == ["serve"] else words)
    return engines.Launch(engine, arguments, takes_positional_model=engine in (Engine.VLLM, Engine.TENSORRT_LLM))


def _nodes(reading: _Reading) -> int | None:
    """`--nnodes $(LWS_GROUP_SIZE)` says that there are several, not how many."""
    return None if _is_unknown(reading.texts.get(Field.NODES, "")) else reading.integer(Field.NODES) or 1


def _spans_pods(reading: _Reading, nodes: int | None) -> bool:
    return Field.ONE_OF_MANY in reading.texts or nodes != 1 or reading.texts.get(Field.EXECUTOR) == "ray"


def _replicas(reading: _Reading) -> tuple[int, int | None]:
    """Data parallel replicas in all and in this pod."""
    replicas, local = reading.integer(Field.DATA) or 1, reading.integer(Field.DATA_LOCAL)
    if Field.ATTENTION_DATA_PARALLEL in reading.texts:
        return 1, None  # SGLang: the replicas share the GPUs of one tensor parallel group
    if local is None and Field.DATA_RANK in reading.texts:
        local = 1
    return replicas, local


@lru_cache(maxsize=1024)
def _read(
    image: str | None, command: tuple[str, ...], args: tuple[str, ...], variables: tuple[tuple[str, str | None], ...]
) -> Serving:
    environment = commandline.kubernetes_environment(variables)
    words = [commandline.kubernetes_expand(word, environment) for word in (*command, *args)]
    launch = _launch(image, command, words, environment)
    reading = _Reading(launch.engine)
    for field, text in flags.options(launch.engine, launch.arguments):
        reading.take(field, text)
    if launch.takes_positional_model and not reading.model_names:
        positional = flags.positional_model(launch.arguments)
        if positional is not None:
            reading.take(Field.MODEL, positional)
    _take_environment(reading, environment)
    of_image = _model_of_nim_image(image) if launch.engine is Engine.NIM else None
    names = [*reading.model_names, *reading.served_names, *([of_image] if of_image else [])]

    quantization, unknown_quantization = reading.quantization()
    tensor_parallel = reading.integer(Field.TENSOR)
    if tensor_parallel is None and not reading.all_gpus:
        unsharded = reading.texts.get(Field.SHARDED, "").lower() == "false"
        tensor_parallel = 1 if unsharded else engines.DEFAULTS[launch.engine].tensor_parallel
    data_parallel, data_parallel_local = _replicas(reading)
    nodes = _nodes(reading)
    return Serving(
        engine=launch.engine,
        model_names=tuple(dict.fromkeys(name for name in names if name and not _is_unknown(name))),
        tensor_parallel=tensor_parallel,
        pipeline_parallel=reading.integer(Field.PIPELINE) or 1,
        data_parallel=data_parallel,
        data_parallel_local=data_parallel_local,
        quantization=quantization,
        unknown_quantization=unknown_quantization,
        dtype=reading.dtype(Field.DTYPE),
        kv_cache_dtype=reading.dtype(Field.KV_DTYPE),
        max_model_len=reading.length(),
        memory_utilization=reading.utilization(),
        nodes=nodes,
        spans_pods=_spans_pods(reading, nodes),
        offloads=reading.offloads(),
        generates=Field.EMBEDS not in reading.texts
        and _POOLING_TASKS.isdisjoint(reading.texts.get(field, "") for field in (Field.TASK, Field.CONVERT)),
        warnings=tuple(reading.warnings),
    )


_TOO_LONG: Final = Serving(
    warnings=(f"its command line has more than {commandline.MAX_CHARACTERS} characters and is not read",)
)

CommandKey = tuple[str | None, tuple[str, ...], tuple[str, ...], tuple[tuple[str, str | None], ...]]
"""All of a container that says how it serves: image, command, args and the variables that matter."""


def command_key(container: Container) -> CommandKey:
    """What `read_key` needs to know of a container, by value."""
    command, args = tuple(container.command or ()), tuple(container.args or ())
    variables: tuple[tuple[str, str | None], ...] = ()
    if container.env:
        uses_variables = any("$" in word for word in command) or any("$" in word for word in args)
        variables = tuple(
            (variable.name, variable.value)
            for variable in container.env
            if uses_variables or variable.name in _READ_VARIABLES
        )
    return container.image, command, args, variables


def read_key(key: CommandKey) -> Serving:
    """What a container serves; never raises."""
    _, command, args, variables = key
    characters = sum(map(len, command)) + sum(map(len, args)) + sum(len(value or "") for _, value in variables)
    return _TOO_LONG if characters > commandline.MAX_CHARACTERS else _read(*key)


def read(container: Container) -> Serving:
    """What a container serves; never raises."""
    return read_key(command_key(container))
