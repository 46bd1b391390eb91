"""What `tollgate config diff` says."""

import pytest

from tests.policy.policies import EXAMPLE, budget, sharing, with_head
from webhook.policy import load
from webhook.policy.diff import diff


def lines(old: str, new: str) -> list[str]:
    return [str(difference) for difference in diff(load(old).policy, load(new).policy)]


@pytest.mark.parametrize("text", [EXAMPLE, budget(), sharing("scheme: MIG")])
def test_the_same_policy_has_no_differences(text: str) -> None:
    assert lines(text, text) == []


def test_layout_comments_and_written_defaults_are_no_difference() -> None:
    assert lines(budget(tokens="24000"), "# new\n" + budget("weight: 1.0\nmaxBypass: 600s", tokens="24k")) == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("", "weight: 2", "~ budgets[b].weight: 1 -> 2"),
        ("", "utilization: 0.85", "~ budgets[b].utilization: 0.7 -> 0.85"),
        ("", "mix: {input: 4000}", "~ budgets[b].mix.input: 1000 -> 4000"),
        ("", "maxBypass: 90m", "~ budgets[b].maxBypass: 10m -> 1h30m"),
        ("mode: Warn", "", "~ budgets[b].mode: Warn -> the policy's mode"),
        (
            "",
            "unknownClaim: {tokensPerSecondPerGPU: 800}",
            "~ budgets[b].unknownClaim: Deny -> {tokensPerSecondPerGPU: 800}",
        ),
        (
            "cohort: c\nborrowingLimit: 5",
            "cohort: c",
            "~ budgets[b].borrowingLimit: 5 -> no limit but what the cohort lends",
        ),
    ],
)
def test_a_changed_field_has_its_old_and_new_value(old: str, new: str, line: str) -> None:
    assert lines(budget(old), budget(new)) == [line]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("{namespaces: [a]}", "{namespaces: [b, a]}", "~ budgets[b].selector.namespaces: [a] -> [a, b]"),
        ("{namespaces: [a]}", "{}", "~ budgets[b].selector.namespaces: [a] -> every namespace"),
        (
            "{podSelector: {matchLabels: {a: b, c: d}}}",
            "{podSelector: {matchLabels: {c: e, a: b}}}",
            "~ budgets[b].selector.podSelector.matchLabels[c]: d -> e",
        ),
        (
            "{podSelector: {matchLabels: {a: b}}}",
            "{podSelector: {matchLabels: {a: b, c: d}}}",
            "+ budgets[b].selector.podSelector.matchLabels[c]: d",
        ),
    ],
)
def test_a_changed_selector(old: str, new: str, line: str) -> None:
    assert lines(budget(selector=old), budget(selector=new)) == [line]


def budgets(*names: str) -> str:
    entries = (f"- {{name: {name}, selector: {{namespaces: [{name}]}}, tokensPerSecond: 5}}\n" for name in names)
    return with_head("budgets:\n" + "".join(entries))


def test_budgets_come_go_and_move_by_name() -> None:
    assert lines(budgets("a"), budgets("a", "b")) == [
        "+ budgets[b]: {name: b, selector: {namespaces: [b]}, tokensPerSecond: 5}"
    ]
    assert lines(budgets("a", "b"), budgets("b")) == [
        "- budgets[a]: {name: a, selector: {namespaces: [a]}, tokensPerSecond: 5}"
    ]
    assert lines(budgets("a", "b", "c"), budgets("c", "a", "b")) == ["~ order of budgets: a, b, c -> c, a, b"]


def test_rules_without_a_name_are_told_apart_by_their_selector() -> None:
    old = with_head(
        "sharing:\n- {selector: {namespaces: [a]}, scheme: MPS, replicas: 2}\n- {selector: {}, scheme: MIG}\n"
    )
    assert lines(old, old.replace("replicas: 2", "replicas: 3")) == ["~ sharing[{namespaces: [a]}].replicas: 2 -> 3"]
    assert lines(old, old.replace("scheme: MIG", "scheme: HAMi")) == ["~ sharing[{}].scheme: MIG -> HAMi"]
    assert lines(sharing("scheme: MIG"), old) == [
        "+ sharing[{namespaces: [a]}]: {selector: {namespaces: [a]}, scheme: MPS, replicas: 2}"
    ]


def test_two_rules_with_one_selector_are_both_compared() -> None:
    two = with_head("queues:\n- {selector: {}, kai: {queue: a}}\n- {selector: {}, kai: {queue: b}}\n")
    assert lines(two, two.replace("queue: b", "queue: c")) == ["~ queues[{} #2].kai.queue: b -> c"]


def test_top_level_fields() -> None:
    assert lines(with_head(""), with_head("mode: Warn\nexemptNamespaces: [b, a]\n")) == [
        "~ mode: Enforce -> Warn",
        "~ exemptNamespaces: [] -> [a, b]",
    ]
    account = "controllerAccounts: {Job.batch: [x]}\n"
    assert lines(with_head(""), with_head(account)) == ["+ controllerAccounts[Job.batch]: [x]"]


def test_what_is_laid_over_the_catalogue_is_compared_with_it() -> None:
    assert lines(with_head(""), with_head("gpus:\n- {name: h100-80gb, memoryMiB: 80000}\n")) == [
        "~ gpus[h100-80gb].memoryMiB: 81559 -> 80000"
    ]
    model = "models:\n- {name: acme/m, parameters: 8e9, nativeDtype: bf16}\n"
    assert lines(with_head(""), with_head(model)) == [
        "+ models[acme/m]: {name: acme/m, parameters: 8000000000, nativeDtype: bf16}"
    ]
    profile = "{gpu: h100-80gb, devices: 1, dtype: fp8, prefillTokensPerSecond: 5, decodeTokensPerSecond: 6, "
    with_profile = model.replace("bf16}", f"bf16, profiles: [{profile}contextSecondsPerToken2: 6.8e-8}}]}}")
    assert lines(with_head(with_profile), with_head(with_profile.replace("6.8e-8", "7e-8"))) == [
        "~ models[acme/m].profiles[1 x h100-80gb at fp8].contextSecondsPerToken2: 6.8e-8 -> 7e-8"
    ]
