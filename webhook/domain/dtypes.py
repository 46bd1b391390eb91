"""Weight dtypes: one canonical name for each, how many bytes a parameter takes, and which agree on a profile.

Names come from engines' `--dtype` and `--quantization` flags, from Hugging Face repository names and from policies.
"""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Final


class Dtype(StrEnum):
    """A dtype of weights, or of a KV cache."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    AWQ = "awq"
    GPTQ = "gptq"
    NF4 = "nf4"
    FP4 = "fp4"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"

    @property
    def bytes_per_parameter(self) -> Fraction:
        """Bytes that one parameter takes in memory, scales and zero points included."""
        return _BYTES[self]

    def agrees_with(self, other: "Dtype") -> bool:
        """Whether throughput measured at one holds for the other: same width, same kind of kernel."""
        return self is other or _KIND[self] == _KIND[other]

    @property
    def is_quantized(self) -> bool:
        """Whether weights are stored narrower than 16 bits."""
        return _BYTES[self] < _SIXTEEN_BIT


_SIXTEEN_BIT: Final = Fraction(2)
# 4-bit weights with a scale (and zero point) per group of 128 take about 0.55 bytes a parameter once the layers that
# stay at 16 bits are counted; block formats (scale per 16 or 32) about 0.56. Published checkpoints agree: the AWQ
# repository of Llama-3.1-70B is 39.8 GB for 70.6e9 parameters, gpt-oss-120b 65.2 GB for 116.8e9.
_INTEGER_4_BIT: Final = Fraction(55, 100)
_FLOAT_4_BIT: Final = Fraction(56, 100)

_BYTES: Final[Mapping[Dtype, Fraction]] = MappingProxyType(
    {
        Dtype.FP32: Fraction(4),
        Dtype.BF16: _SIXTEEN_BIT,
        Dtype.FP16: _SIXTEEN_BIT,
        Dtype.FP8: Fraction(1),
        Dtype.INT8: Fraction(1),
        Dtype.INT4: _INTEGER_4_BIT,
        Dtype.AWQ: _INTEGER_4_BIT,
        Dtype.GPTQ: _INTEGER_4_BIT,
        Dtype.NF4: _INTEGER_4_BIT,
        Dtype.FP4: _FLOAT_4_BIT,
        Dtype.MXFP4: _FLOAT_4_BIT,
        Dtype.NVFP4: _FLOAT_4_BIT,
    }
)

_KIND: Final[Mapping[Dtype, str]] = MappingProxyType(
    {
        Dtype.FP32: "fp32",
        Dtype.BF16: "16-bit",
        Dtype.FP16: "16-bit",
        Dtype.FP8: "fp8",
        Dtype.INT8: "int8",
        Dtype.INT4: "4-bit integer",
        Dtype.AWQ: "4-bit integer",
        Dtype.GPTQ: "4-bit integer",
        # bitsandbytes dequantizes at every step and is far slower than the Marlin kernels.
        Dtype.NF4: "nf4",
        Dtype.FP4: "4-bit float",
        Dtype.MXFP4: "4-bit float",
        Dtype.NVFP4: "4-bit float",
    }
)

# Other spellings, lower case, with `_` for `-`. Sources: vLLM vllm/config (ModelDType, CacheDType) and
# model_executor/layers/quantization/__init__.py (QuantizationMethods); SGLang server_args.py QUANTIZATION_CHOICES;
# text-generation-inference launcher Quantization; NVIDIA TensorRT Model Optimizer recipe names.
ALIASES: Final[Mapping[str, Dtype]] = MappingProxyType(
    {
        "float32": Dtype.FP32,
        "float": Dtype.FP32,
        "f32": Dtype.FP32,
        "bfloat16": Dtype.BF16,
        "float16": Dtype.FP16,
        "half": Dtype.FP16,
        "f16": Dtype.FP16,
        "float8": Dtype.FP8,
        "float8_e4m3fn": Dtype.FP8,
        "fp8_e4m3": Dtype.FP8,
        "fp8_e5m2": Dtype.FP8,
        "fp8_inc": Dtype.FP8,
        "fp8_dynamic": Dtype.FP8,
        "fbgemm_fp8": Dtype.FP8,
        "ptpc_fp8": Dtype.FP8,
        "w8a8_fp8": Dtype.FP8,
        "modelopt": Dtype.FP8,
        "modelopt_fp8": Dtype.FP8,
        "w8a8": Dtype.INT8,
        "w8a8_int8": Dtype.INT8,
        "w8a16": Dtype.INT8,
        "blockwise_int8": Dtype.INT8,
        "experts_int8": Dtype.INT8,
        "eetq": Dtype.INT8,
        "8bit": Dtype.INT8,
        "w4a16": Dtype.INT4,
        "w4a8": Dtype.INT4,
        "w4afp8": Dtype.INT4,
        "qqq": Dtype.INT4,
        "marlin": Dtype.INT4,
        "hqq": Dtype.INT4,
        "moe_wna16": Dtype.INT4,
        "4bit": Dtype.INT4,
        "awq_marlin": Dtype.AWQ,
        "int4_awq": Dtype.AWQ,
        "gptq_marlin": Dtype.GPTQ,
        "gptq_marlin_24": Dtype.GPTQ,
        "gptq_bitblas": Dtype.GPTQ,
        "gptq_int4": Dtype.GPTQ,
        "bitsandbytes": Dtype.NF4,
        "bitsandbytes_nf4": Dtype.NF4,
        "bitsandbytes_fp4": Dtype.NF4,
        "bnb": Dtype.NF4,
        "bnb_4bit": Dtype.NF4,
        "modelopt_fp4": Dtype.NVFP4,
        "modelopt_mxfp8": Dtype.FP8,
        "petit_nvfp4": Dtype.NVFP4,
        "w4a4": Dtype.NVFP4,
    }
)

_NAMES: Final[Mapping[str, Dtype]] = MappingProxyType({**{dtype.value: dtype for dtype in Dtype}, **ALIASES})


def find(text: str) -> Dtype | None:
    """The dtype that a text names, whatever its case and `-` or `_`; None where it names none."""
    return _NAMES.get(text.strip().lower().replace("-", "_"))


def parse(text: str) -> Dtype:
    """The dtype that a text names. Raises ValueError with the canonical names."""
    dtype = find(text)
    if dtype is None:
        raise ValueError(f"{text[:40]!r} is no weight dtype; use one of {', '.join(Dtype)}")
    return dtype
