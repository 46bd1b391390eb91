"""Selectors, and first match that costs the same for one rule and for hundreds."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from webhook.domain.selectors import Expression, FirstMatch, LabelSelector, Operator, Selector, Subject


class Rule(Struct, frozen=True):
    name: str
    selector: Selector


def subject(
    namespace: str = "team",
    namespace_labels: dict[str, str] | None = None,
    pod_labels: dict[str, str] | None = None,
    priority_class_name: str | None = None,
) -> Subject:
    return Subject(namespace, namespace_labels or {}, pod_labels or {}, priority_class_name)


def test_an_empty_selector_takes_every_pod() -> None:
    assert Selector().matches(subject())


def test_all_parts_that_are_given_must_match() -> None:
    selector = Selector(
        namespaces=frozenset({"team"}),
        namespace_selector=LabelSelector(match_labels=(("tier", "prod"),)),
        pod_selector=LabelSelector(match_labels=(("app", "llm"),)),
        priority_class_names=frozenset({"high"}),
    )
    whole = subject("team", {"tier": "prod"}, {"app": "llm"}, "high")
    assert selector.matches(whole)
    for other in (
        subject("other", {"tier": "prod"}, {"app": "llm"}, "high"),
        subject("team", {"tier": "dev"}, {"app": "llm"}, "high"),
        subject("team", {"tier": "prod"}, {}, "high"),
        subject("team", {"tier": "prod"}, {"app": "llm"}, None),
    ):
        assert not selector.matches(other)


def test_expressions_read_absent_keys_as_kubernetes_does() -> None:
    table = {
        Operator.IN: (False, True, False),
        Operator.NOT_IN: (True, False, True),
        Operator.EXISTS: (False, True, True),
        Operator.DOES_NOT_EXIST: (True, False, False),
    }
    for operator, expected in table.items():
        expression = Expression("k", operator, frozenset({"v"}))
        assert tuple(expression.matches(labels) for labels in ({}, {"k": "v"}, {"k": "w"})) == expected


names = st.sampled_from(["a", "b", "c"])
label_maps = st.dictionaries(names, names, max_size=2)
label_selectors = st.builds(
    LabelSelector,
    match_labels=st.lists(st.tuples(names, names), max_size=2, unique_by=lambda pair: pair[0]).map(tuple),
    match_expressions=st.lists(
        st.builds(Expression, names, st.sampled_from(Operator), st.frozensets(names, min_size=1)), max_size=1
    ).map(tuple),
)
selectors = st.builds(
    Selector,
    namespaces=st.none() | st.frozensets(names, min_size=1),
    namespace_selector=st.none() | label_selectors,
    pod_selector=st.none() | label_selectors,
    priority_class_names=st.none() | st.frozensets(names, min_size=1),
)
subjects = st.builds(Subject, names, label_maps, label_maps, st.none() | names)


@given(st.lists(selectors, max_size=8), subjects)
def test_first_match_is_the_first_rule_that_matches(many: list[Selector], pod: Subject) -> None:
    rules = [Rule(str(index), selector) for index, selector in enumerate(many)]
    assert FirstMatch(rules).find(pod) == next((rule for rule in rules if rule.selector.matches(pod)), None)
