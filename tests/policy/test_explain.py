"""What `tollgate config explain` says."""

from collections.abc import Iterator
from typing import Any

import pytest

from webhook.policy.explain import UnknownFieldError, explain
from webhook.policy.kinds import Custom, Kind
from webhook.policy.records import ListOf, Record
from webhook.policy.schema.policy import POLICY


def every_path(kind: Kind[Any] = POLICY, path: str = "") -> Iterator[str]:
    """The path of every field of every table."""
    if isinstance(kind, Custom) and kind.members is not None:
        kind = kind.members
    while isinstance(kind, ListOf):
        kind, path = kind.item, f"{path}[]"
    if isinstance(kind, Record):
        for field in kind.fields:
            here = f"{path}.{field.name}".lstrip(".")
            yield here
            yield from every_path(field.kind, here)


PATHS = sorted(every_path())


def test_the_tables_are_walked_to_the_end() -> None:
    assert "budgets[].selector.podSelector.matchExpressions[].operator" in PATHS
    assert "budgets[].unknownClaim.tokensPerSecondPerGPU" in PATHS


@pytest.mark.parametrize("path", PATHS)
def test_every_field_is_explained(path: str) -> None:
    explanation = explain(path)
    assert explanation.path == path
    assert explanation.meaning
    assert explanation.allowed
    assert explanation.default
    assert all(line and "\n" not in line for line in explanation.lines())


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("mode", "Enforce"),
        ("budgets.mix", "{input: 1000, output: 1000}"),
        ("budgets.mix.input", "1000"),
        ("budgets.utilization", "0.7"),
        ("budgets.onExceeded", "Deny"),
        ("budgets.queueing", "BestEffortFIFO"),
        ("budgets.unknownClaim", "Deny"),
        ("budgets.weight", "1"),
        ("budgets.maxBypass", "10m"),
        ("budgets.replacementGrace", "1m"),
        ("budgets.cohort", "none"),
        ("queues.onOther", "Keep"),
        ("queues.kai.schedulerName", "kai-scheduler"),
        ("sharing.migStrategy", "mixed"),
        ("sharing.strategy", "time-sharing"),
        ("unmatchedShare", "Deny"),
        ("unmatchedGPUs", "Admit"),
    ],
)
def test_defaults_are_those_of_the_parser(path: str, default: str) -> None:
    assert explain(path).default == default


@pytest.mark.parametrize(
    "path",
    [
        "budgets[1].mix.input",
        "budgets[interactive].mix.input",
        "budgets[].mix.input",
        "budgets.mix.input",
        "data[config.yaml].budgets[0].mix.input",
        " budgets.mix.input ",
    ],
)
def test_a_path_may_be_written_as_messages_write_it(path: str) -> None:
    explanation = explain(path)
    assert explanation.path == "budgets[].mix.input"
    assert explanation.allowed == "a whole number of at least 1"


def test_a_record_lists_its_fields() -> None:
    assert [name for name, _ in explain("budgets").fields][:3] == ["name", "selector", "tokensPerSecond"]
    assert explain("").fields[0] == ("apiVersion", "The version of this format.")
    assert list(explain("budgets.mix").lines())[-1] == "    output  Output tokens per request."


def test_a_member_of_a_mapping_has_the_kind_of_its_values() -> None:
    assert "or null" in explain("gpus[0].migProfiles[3g.40gb]").allowed
    assert "user names" in explain("controllerAccounts[Job.batch]").allowed


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("budget", ["budget: unknown field", "did you mean budgets?"]),
        ("budgets.tokenPerSecond", ["budgets[].tokenPerSecond", "did you mean tokensPerSecond?"]),
        ("budgets[0].mix.inputs", ["budgets[].mix.inputs", "did you mean input?"]),
        ("zzz", ["known are apiVersion, kind, mode"]),
        ("mode.x", ["mode.x: unknown field", "mode has no fields", "one of Enforce, Warn, Audit"]),
        ("mode[0]", ["mode is no list"]),
        ("[0]", ["the policy is no list"]),
    ],
)
def test_an_unknown_path_names_the_nearest(path: str, words: list[str]) -> None:
    with pytest.raises(UnknownFieldError) as raised:
        explain(path)
    for word in words:
        assert word in str(raised.value)
    assert "\n" not in str(raised.value)
