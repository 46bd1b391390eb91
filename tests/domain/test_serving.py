"""How a container is started tells what it serves; what cannot be read is said, and nothing ever raises."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.domain import commandline
from webhook.domain.pod import Container, EnvVar
from webhook.domain.serving import Serving, read

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "serving.yaml").read_text())["cases"]


def comparable(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_is_served_is_read_from_how_it_is_started(case: dict[str, Any]) -> None:
    serving = read(msgspec.convert(case["container"], Container))

    assert {field: comparable(getattr(serving, field)) for field in case["expect"]} == case["expect"]
    if "warns" in case:
        assert case["warns"] in " ".join(serving.warnings)


def test_a_command_line_beyond_the_limit_is_not_read_and_says_so() -> None:
    serving = read(Container(image="vllm/vllm-openai", args=["--model", "m/m", "x" * commandline.MAX_CHARACTERS]))

    assert serving.model_names == ()
    assert str(commandline.MAX_CHARACTERS) in serving.warnings[0]


def test_variables_made_of_variables_do_not_grow_without_bound() -> None:
    doubling = [EnvVar("V0", "x" * 100)] + [EnvVar(f"V{n}", f"$(V{n - 1})$(V{n - 1})") for n in range(1, 60)]
    script = "A0=xxxxxxxx\n" + "\n".join(f"A{n}=$A{n - 1}$A{n - 1}" for n in range(1, 60))

    assert len(commandline.kubernetes_environment((one.name, one.value) for one in doubling)["V59"]) == (
        commandline.MAX_VALUE_CHARACTERS
    )
    words = [word for program in commandline.programs(["sh", "-c", f"{script}\necho $A59"], {}) for word in program]
    assert sum(map(len, words)) <= commandline.MAX_CHARACTERS


def test_only_variables_that_matter_are_part_of_what_is_remembered() -> None:
    one, other = (Container(image="vllm/vllm-openai", args=["m/m"], env=[EnvVar("POD_UID", uid)]) for uid in "ab")

    assert read(one) is read(other)


WORDS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        (
            *(
                "vllm",
                "serve",
                "sh",
                "bash",
                "-c",
                "-lc",
                "--model",
                "--tp=",
                "-tp",
                "--max-model-len",
                "--dtype",
                "-q",
            ),
            *("-m", "vllm.entrypoints.openai.api_server", "$(A)", "$A", "${A:-1}", "eval", "exec", "--", "&&", "-1"),
            *("--nnodes", "--gpu-memory-utilization", ".", "1.", "\u0661", "1e5", "'", '"', "$@", "`x`", "\\", "$(("),
        )
    ),
)
LINES = st.one_of(st.none(), st.lists(WORDS, max_size=8))


@given(
    image=st.one_of(
        st.none(), st.text(max_size=40), st.sampled_from(["vllm/vllm-openai", "x/nim/a/b", "text-generation-inference"])
    ),
    command=LINES,
    args=LINES,
    env=st.one_of(
        st.none(),
        st.lists(
            st.tuples(
                st.sampled_from(["A", "MODEL_ID", "NUM_SHARD", "NIM_PASSTHROUGH_ARGS"]), st.one_of(st.none(), WORDS)
            ),
            max_size=3,
        ),
    ),
)
def test_reading_never_raises_and_gives_sizes_of_at_least_one(
    image: str | None, command: list[str] | None, args: list[str] | None, env: list[tuple[str, str | None]] | None
) -> None:
    variables = None if env is None else [EnvVar(name, value) for name, value in env]
    joined = ["sh", "-c", " ".join(args or [])]
    for container in (
        Container(image=image, command=command, args=args, env=variables),
        Container(image=image, command=joined, env=variables),
    ):
        serving = read(container)
        assert isinstance(serving, Serving)
        assert min(serving.tensor_parallel or 1, serving.pipeline_parallel, serving.data_parallel) >= 1
