"""One name for each weight dtype, whatever engines, repositories and policies call it."""

import pytest

from webhook.domain.dtypes import Dtype, find, parse


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("bfloat16", Dtype.BF16),
        ("BF16", Dtype.BF16),
        ("half", Dtype.FP16),
        ("float", Dtype.FP32),
        ("fp8_e4m3", Dtype.FP8),
        ("modelopt", Dtype.FP8),
        ("w8a8", Dtype.INT8),
        ("awq_marlin", Dtype.AWQ),
        ("gptq-marlin", Dtype.GPTQ),
        ("marlin", Dtype.INT4),
        ("modelopt_fp4", Dtype.NVFP4),
        ("bitsandbytes", Dtype.NF4),
        (" mxfp4 ", Dtype.MXFP4),
    ],
)
def test_every_spelling_leads_to_one_dtype(text: str, dtype: Dtype) -> None:
    assert parse(text) is dtype


@pytest.mark.parametrize("text", ["", "auto", "compressed-tensors", "gguf", "bf 16", "fp8;"])
def test_what_names_no_width_is_no_dtype(text: str) -> None:
    assert find(text) is None
    with pytest.raises(ValueError, match="bf16, fp16, fp8"):
        parse(text)


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("bf16", "fp16", True),
        ("awq", "gptq", True),
        ("awq", "int4", True),
        ("nvfp4", "mxfp4", True),
        ("nvfp4", "fp4", True),
        ("fp8", "int8", False),
        ("fp8", "bf16", False),
        ("fp4", "int4", False),
        ("fp32", "fp16", False),
        ("nf4", "awq", False),
    ],
)
def test_dtypes_of_one_width_and_kernel_share_profiles(one: str, other: str, *, agree: bool) -> None:
    assert parse(one).agrees_with(parse(other)) is agree
    assert parse(other).agrees_with(parse(one)) is agree


def test_quantized_means_narrower_than_sixteen_bits() -> None:
    assert {dtype for dtype in Dtype if not dtype.is_quantized} == {Dtype.FP32, Dtype.BF16, Dtype.FP16}
