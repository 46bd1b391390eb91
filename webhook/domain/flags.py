"""The options and variables by which engines are told what to serve, as one table, and how they stand in arguments."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from webhook.domain.engines import Engine


class Field(StrEnum):
    """One thing that an engine is told; the value is its name for people."""

    MODEL = "model"
    SERVED_NAME = "served name"
    TENSOR = "tensor parallel size"
    PIPELINE = "pipeline parallel size"
    DATA = "data parallel size"
    DATA_LOCAL = "local data parallel size"
    DATA_RANK = "data parallel rank"
    NODES = "number of nodes"
    QUANTIZATION = "quantization"
    DTYPE = "dtype"
    KV_DTYPE = "KV cache dtype"
    MAX_LENGTH = "maximum length"
    UTILIZATION = "share of GPU memory"
    OFFLOAD = "CPU offload"
    EXECUTOR = "executor"
    TASK = "task"
    CONVERT = "conversion"
    SHARDED = "sharded"
    # Without a value.
    ONE_OF_MANY = "one of many"
    ATTENTION_DATA_PARALLEL = "data parallel attention"
    EMBEDS = "embeds"


_FLAGS: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "--model": Field.MODEL,
        "--model-path": Field.MODEL,
        "--model-id": Field.MODEL,
        "--model-dir": Field.MODEL,
        "--model-tag": Field.MODEL,
        "--served-model-name": Field.SERVED_NAME,
        "--model-name": Field.SERVED_NAME,
        "-tp": Field.TENSOR,
        "--tp": Field.TENSOR,
        "--tp-size": Field.TENSOR,
        "--tensor-parallel": Field.TENSOR,
        "--tensor-parallel-size": Field.TENSOR,
        "--num-shard": Field.TENSOR,
        "-pp": Field.PIPELINE,
        "--pp": Field.PIPELINE,
        "--pp-size": Field.PIPELINE,
        "--pipeline-parallel": Field.PIPELINE,
        "--pipeline-parallel-size": Field.PIPELINE,
        "-dp": Field.DATA,
        "--dp": Field.DATA,
        "--dp-size": Field.DATA,
        "--data-parallel-size": Field.DATA,
        "-dpl": Field.DATA_LOCAL,
        "--data-parallel-size-local": Field.DATA_LOCAL,
        "-dpn": Field.DATA_RANK,
        "--data-parallel-rank": Field.DATA_RANK,
        "--nnodes": Field.NODES,
        "-q": Field.QUANTIZATION,
        "--quantization": Field.QUANTIZATION,
        "--quantize": Field.QUANTIZATION,
        "--dtype": Field.DTYPE,
        "--kv-cache-dtype": Field.KV_DTYPE,
        "--max-model-len": Field.MAX_LENGTH,
        "--context-length": Field.MAX_LENGTH,
        "--max-seq-len": Field.MAX_LENGTH,
        "--gpu-memory-utilization": Field.UTILIZATION,
        "--mem-fraction-static": Field.UTILIZATION,
        "--cuda-memory-fraction": Field.UTILIZATION,
        "--cpu-offload-gb": Field.OFFLOAD,
        "--distributed-executor-backend": Field.EXECUTOR,
        "--task": Field.TASK,
        "--runner": Field.TASK,
        "--convert": Field.CONVERT,
        "--sharded": Field.SHARDED,
        "--headless": Field.ONE_OF_MANY,
        "--data-parallel-external-lb": Field.DATA_RANK,
        "--enable-dp-attention": Field.ATTENTION_DATA_PARALLEL,
        "--is-embedding": Field.EMBEDS,
    }
)
# `--max-total-tokens` is a request's length in TGI, the whole KV cache in SGLang.
_ENGINE_FLAGS: Final[Mapping[Engine, Mapping[str, Field]]] = MappingProxyType(
    {Engine.TGI: MappingProxyType({"--max-total-tokens": Field.MAX_LENGTH})}
)
_WITHOUT_VALUE: Final = frozenset(
    {"--headless", "--data-parallel-external-lb", "--enable-dp-attention", "--is-embedding"}
)
# Options of vLLM and trtllm-serve after which a word is not their value but the model.
_SWITCHES: Final = (
    "--enable-",
    "--disable-",
    "--no-",
    "--trust-",
    "--enforce-",
    "--skip-",
    "--use-",
    "--async-scheduling",
    "--headless",
    "--return-",
    "--allow-credentials",
)

# Environment variables that an engine reads itself. TGI: launcher arguments, each with `env`, and its SageMaker
# entrypoint (HF_MODEL_ID, SM_NUM_GPUS, HF_MODEL_QUANTIZE). NIM: "Environment Variables" of NIM for LLMs 1.x and 2.x.
ENVIRONMENT: Final[Mapping[Engine, Mapping[str, Field]]] = MappingProxyType(
    {
        Engine.TGI: MappingProxyType(
            {
                "MODEL_ID": Field.MODEL,
                "HF_MODEL_ID": Field.MODEL,
                "NUM_SHARD": Field.TENSOR,
                "SM_NUM_GPUS": Field.TENSOR,
                "SHARDED": Field.SHARDED,
                "QUANTIZE": Field.QUANTIZATION,
                "HF_MODEL_QUANTIZE": Field.QUANTIZATION,
                "DTYPE": Field.DTYPE,
                "KV_CACHE_DTYPE": Field.KV_DTYPE,
                "MAX_TOTAL_TOKENS": Field.MAX_LENGTH,
                "CUDA_MEMORY_FRACTION": Field.UTILIZATION,
            }
        ),
        Engine.NIM: MappingProxyType(
            {
                "NIM_MODEL_NAME": Field.MODEL,
                "NIM_MODEL_PATH": Field.MODEL,
                "NIM_SERVED_MODEL_NAME": Field.SERVED_NAME,
                "NIM_TENSOR_PARALLEL_SIZE": Field.TENSOR,
                "NIM_PIPELINE_PARALLEL_SIZE": Field.PIPELINE,
                "NIM_PRECISION": Field.QUANTIZATION,
                "NIM_MAX_MODEL_LEN": Field.MAX_LENGTH,
                "NIM_GPU_MEMORY_UTILIZATION": Field.UTILIZATION,
                "NIM_KVCACHE_PERCENT": Field.UTILIZATION,
            }
        ),
    }
)


def options(engine: Engine, arguments: Sequence[str]) -> Iterator[tuple[Field, str]]:
    """The fields that arguments give, `--flag value`, `--flag=value` and `--flag_name` alike, in their order."""
    special = _ENGINE_FLAGS.get(engine, {})
    position = 0
    while position < len(arguments):
        word = arguments[position]
        position += 1
        if not word.startswith("-"):
            continue
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")
        field = special.get(flag) or _FLAGS.get(flag)
        if field is None:
            continue
        if flag not in _WITHOUT_VALUE and not equals:
            if position == len(arguments) or arguments[position].startswith("--"):
                continue
            value = arguments[position]
            position += 1
        yield field, value.strip()
        if field is Field.SERVED_NAME and not equals:
            while position < len(arguments) and not arguments[position].startswith("-"):
                yield field, arguments[position]
                position += 1


def positional_model(arguments: Sequence[str]) -> str | None:
    """The model of `vllm serve MODEL`: the first word that is no option and, as far as one sees, no option's value."""
    previous = ""
    for word in arguments:
        if word.startswith("-"):
            previous = word
            continue
        flag = previous.replace("_", "-")
        if not flag or "=" in flag or flag.startswith(_SWITCHES):
            return word
        previous = flag if _FLAGS.get(flag) is Field.SERVED_NAME else ""
    return None
