"""What is allowed and most likely not meant."""

import pytest

from tests.policy.policies import with_head
from webhook.policy import load


def shadowed(*selectors: str) -> list[tuple[int, str]]:
    """Indexes of the budgets that no pod can reach, and which budgets take their pods."""
    lines = (f"- {{name: b{i}, selector: {selector}, tokensPerSecond: 1}}\n" for i, selector in enumerate(selectors))
    found = []
    for warning in load(with_head("budgets:\n" + "".join(lines))).warnings:
        if "no pod can reach it" in warning:
            place, _, rest = warning.partition(".selector: ")
            takers = rest.partition("taken before by ")[2].partition(";")[0]
            found.append((int(place[len("budgets[") : place.index("]")]), takers))
    return found


@pytest.mark.parametrize(
    "selectors",
    [
        ("{}", "{namespaces: [a]}"),
        ("{}", "{}"),
        ("{namespaces: [a, b]}", "{namespaces: [b]}"),
        ("{namespaces: [a]}", "{namespaces: [a], podSelector: {matchLabels: {x: y}}}"),
        ("{namespaces: [a]}", "{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}}"),
        ("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}}", "{namespaces: [a]}"),
        ("{priorityClassNames: [p, q]}", "{priorityClassNames: [q], namespaces: [a]}"),
        ("{namespaceSelector: {matchLabels: {x: y}}}", "{namespaceSelector: {matchLabels: {x: y, z: w}}}"),
        (
            "{podSelector: {matchExpressions: [{key: x, operator: In, values: [a, b]}]}, namespaces: [n]}",
            "{podSelector: {matchLabels: {x: a}}, namespaces: [n]}",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: x, operator: Exists}]}}",
            "{namespaceSelector: {matchLabels: {x: a}}}",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: x, operator: NotIn, values: [b]}]}}",
            "{namespaceSelector: {matchLabels: {x: a}}}",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: x, operator: NotIn, values: [b]}]}}",
            "{namespaceSelector: {matchExpressions: [{key: x, operator: NotIn, values: [b, c]}]}}",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: x, operator: NotIn, values: [b]}]}}",
            "{namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}",
            "{namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}], matchLabels: {y: z}}}",
        ),
    ],
)
def test_a_budget_that_an_earlier_one_empties(selectors: tuple[str, str]) -> None:
    assert shadowed(*selectors) == [(1, "budgets[0] (b0)")]


@pytest.mark.parametrize(
    "selectors",
    [
        ("{namespaces: [a]}", "{}"),
        ("{namespaces: [a]}", "{namespaces: [a, b]}"),
        ("{namespaces: [a]}", "{namespaceSelector: {matchLabels: {x: y}}}"),
        ("{namespaces: [a], priorityClassNames: [p]}", "{namespaces: [a]}"),
        ("{namespaceSelector: {matchLabels: {x: y}}}", "{podSelector: {matchLabels: {x: y}}}"),
        (
            "{namespaceSelector: {matchLabels: {x: a}}}",
            "{namespaceSelector: {matchExpressions: [{key: x, operator: In, values: [a, b]}]}}",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: x, operator: Exists}]}}",
            "{namespaceSelector: {matchExpressions: [{key: x, operator: NotIn, values: [a]}]}}",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: x, operator: NotIn, values: [a]}]}}",
            "{namespaceSelector: {matchExpressions: [{key: x, operator: Exists}]}}",
        ),
        (
            "{namespaceSelector: {matchLabels: {x: a}}}",
            "{namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}",
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}",
            "{namespaceSelector: {matchExpressions: [{key: x, operator: NotIn, values: [a]}]}}",
        ),
    ],
)
def test_a_budget_that_keeps_pods_of_its_own(selectors: tuple[str, str]) -> None:
    assert shadowed(*selectors) == []


def test_several_budgets_may_empty_one_together() -> None:
    assert shadowed("{namespaces: [a]}", "{namespaces: [b, c]}", "{namespaces: [a, b]}") == [
        (2, "budgets[0] (b0), budgets[1] (b1)")
    ]
    assert shadowed("{namespaces: [a]}", "{namespaces: [b]}", "{namespaces: [a, b, c]}") == []


def test_a_label_selector_is_no_fence() -> None:
    text = "budgets:\n- {name: b, selector: {podSelector: {matchLabels: {a: b}}}, tokensPerSecond: 1}\n"
    (warning,) = load(with_head(text)).warnings
    assert warning.startswith("budgets[0] (b).selector: podSelector is its only fence")
    fenced = text.replace("{podSelector", "{namespaces: [n], podSelector")
    assert load(with_head(fenced)).warnings == ()


def test_a_cohort_of_one_has_nobody_to_borrow_from() -> None:
    body = (
        "budgets:\n"
        "- {name: a, selector: {namespaces: [a]}, tokensPerSecond: 1, cohort: llm}\n"
        "- {name: b, selector: {namespaces: [b]}, tokensPerSecond: 1, cohort: llm}\n"
        "- {name: c, selector: {namespaces: [c]}, tokensPerSecond: 1, cohort: lmm}\n"
    )
    (warning,) = load(with_head(body)).warnings
    assert warning.startswith("budgets[2] (c).cohort: lmm has no other budget")


def test_queue_and_sharing_rules_are_looked_at_too() -> None:
    body = (
        "queues:\n- {selector: {}, kai: {queue: a}}\n- {selector: {namespaces: [x]}, kai: {queue: b}}\n"
        "sharing:\n- {selector: {}, scheme: MIG}\n- {selector: {namespaces: [x]}, scheme: KAI}\n"
    )
    assert [warning.partition(": ")[0] for warning in load(with_head(body)).warnings] == [
        "queues[1].selector",
        "sharing[1].selector",
    ]
