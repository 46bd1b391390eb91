"""What tenants declare is read strictly: a value, or a problem that names the annotation and what to write."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.domain import keys
from webhook.domain.annotations import TenantAnnotations, read
from webhook.domain.dtypes import Dtype
from webhook.domain.outcome import Reason
from webhook.domain.rules import Mix


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        (keys.TOKENS_PER_SECOND, "2500", "tokens_per_second", 2500),
        (keys.TOKENS_PER_SECOND, "3k", "tokens_per_second", 3000),
        (keys.TOKENS_PER_SECOND, "2.5k", "tokens_per_second", 2500),
        (keys.TOKENS_PER_SECOND, "1500m", "tokens_per_second", 2),
        (keys.TOKENS_PER_SECOND, "0.1", "tokens_per_second", 1),
        (keys.MODEL, "meta-llama/Llama-3.1-8B-Instruct", "model", "meta-llama/Llama-3.1-8B-Instruct"),
        (keys.MODEL, "hf://a/b", "model", "hf://a/b"),
        (keys.MODEL_DTYPE, "bfloat16", "model_dtype", Dtype.BF16),
        (keys.MODEL_DTYPE, "FP8", "model_dtype", Dtype.FP8),
        (keys.MODEL_DTYPE, "auto", "model_dtype", None),
        (keys.TRAFFIC_MIX, "2048/128", "traffic_mix", Mix(input=2048, output=128)),
        (keys.DEADLINE, "1970-01-01T00:00:00Z", "deadline_epoch_seconds", 0.0),
        (keys.DEADLINE, "1970-01-01t01:00:00.5+01:00", "deadline_epoch_seconds", 0.5),
        (keys.DEADLINE, "1969-12-31T23:30:00-00:30", "deadline_epoch_seconds", 0.0),
        (keys.DEADLINE, "2016-12-31T23:59:60Z", "deadline_epoch_seconds", 1483228800.0),
    ],
)
def test_well_formed_values_are_read(key: str, text: str, field: str, value: object) -> None:
    declared, problems = read({key: text, "unrelated": "x"})

    assert problems == ()
    assert getattr(declared, field) == value


MALFORMED = {
    keys.TOKENS_PER_SECOND: ("", "NaN", "-1", "0", "+0", "1_000", "abc", "24K", "1e99", "٣", " 5", "0x10", "9E"),
    keys.MODEL: ("", "a b", "a\nb", "x" * 257, "modèle"),
    keys.MODEL_DTYPE: ("", "Foo", "16"),
    keys.TRAFFIC_MIX: ("", "1000", "1000/0", "0/1000", "-1/5", "1k/1k", "1/2/3", "99999999999/1", "99999999/1"),
    keys.DEADLINE: (
        *("", "tomorrow", "2026-03-01", "2026-03-01T10:00:00", "2026-02-30T10:00:00Z", "2026-03-01T24:00:00Z"),
        *("2026-03-01T10:00:00+25:00", "0000-01-01T00:00:00Z", "2026-W10-1T10:00:00Z", "2026-03-01 10:00:00Z"),
    ),
}


@pytest.mark.parametrize(("key", "text"), [(key, text) for key, texts in MALFORMED.items() for text in texts])
def test_malformed_values_are_problems_that_name_the_annotation(key: str, text: str) -> None:
    declared, problems = read({key: text})

    assert declared == TenantAnnotations()
    assert [(problem.reason, problem.field) for problem in problems] == [
        (Reason.INVALID_ANNOTATION, f"metadata.annotations[{key}]")
    ]
    assert problems[0].message.startswith(f"{key}: ")
    assert "or remove it" in problems[0].message
    assert "\n" not in problems[0].message


def test_one_malformed_value_does_not_hide_the_others() -> None:
    declared, problems = read({keys.TOKENS_PER_SECOND: "100", keys.TRAFFIC_MIX: "x", keys.DEADLINE: "y"})

    assert declared.tokens_per_second == 100
    assert len(problems) == 2


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))  # noqa: DTZ001
def test_deadlines_are_read_as_the_moments_they_mean(moment: datetime) -> None:
    text = moment.replace(microsecond=0).isoformat()

    declared, problems = read({keys.DEADLINE: text})

    assert problems == ()
    assert declared.deadline_epoch_seconds == moment.replace(microsecond=0).timestamp()


@given(st.dictionaries(st.sampled_from(keys.TENANT_ANNOTATIONS), st.text(max_size=300)))
def test_any_text_is_a_value_or_a_problem_and_never_an_exception(written: dict[str, str]) -> None:
    _, problems = read(written)

    assert len(problems) <= len(written)
