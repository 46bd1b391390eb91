"""The order in which held pods leave their queues (DESIGN section 6, order of release)."""

from collections.abc import Mapping
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.domain.test_budgets import free_in_pool, largest_claim
from webhook.domain import order
from webhook.domain.order import Head, Releases, Waiting, queue_order
from webhook.domain.rules import Budget
from webhook.domain.selectors import Selector

NOW = 1_000.0


def budget(name: str, nominal: int, *, cohort: str | None = None, bypass: int = 600, weight: int = 1) -> Budget:
    return Budget(
        name, Selector(), nominal, cohort=cohort, max_bypass_seconds=Fraction(bypass), weight=Fraction(weight)
    )


def waiting(
    uid: str,
    tokens: int,
    *,
    name: str = "a",
    since: float = 0.0,
    priority: int = 0,
    deadline: float | None = None,
) -> Waiting:
    return Waiting(uid, name, tokens, since, priority, deadline)


def releases(
    cohort: list[Budget], held: dict[str, int], pods: list[Waiting], heads: Mapping[str, Head], now: float
) -> Releases:
    totals = {member.name: held.get(member.name, 0) for member in cohort}
    by_name = {member.name: member for member in cohort}
    return order.releases(by_name, totals, free_in_pool(cohort, held), pods, heads, now)


def released(
    cohort: list[Budget], held: dict[str, int], pods: list[Waiting], heads: Mapping[str, Head], now: float
) -> list[str]:
    return [pod.uid for pod in releases(cohort, held, pods, heads, now).released]


def test_within_a_budget_priority_goes_before_deadline_before_age() -> None:
    pods = [
        waiting("old", 1, since=1),
        waiting("older", 1, since=0),
        waiting("soon", 1, since=9, deadline=NOW + 1),
        waiting("later", 1, since=9, deadline=NOW + 2),
        waiting("important", 1, since=9, priority=5),
    ]
    assert [pod.uid for pod in queue_order(pods, NOW)] == ["important", "soon", "later", "older", "old"]


def test_a_deadline_that_is_past_counts_as_none() -> None:
    pods = [waiting("late", 1, since=5, deadline=NOW), waiting("patient", 1, since=1)]
    assert [pod.uid for pod in queue_order(pods, NOW)] == ["patient", "late"]


def test_pods_that_fit_pass_a_head_that_does_not_until_its_bypass_is_over() -> None:
    cohort = [budget("a", 10, bypass=60)]
    pods = [waiting("big", 8, since=0), waiting("small", 3, since=1)]
    first = releases(cohort, {"a": 5}, pods, {}, NOW)
    assert [pod.uid for pod in first.released] == ["small"]
    assert first.heads == {"a": Head("big", NOW)}
    assert released(cohort, {"a": 5}, pods, first.heads, NOW + 59) == ["small"]
    last = releases(cohort, {"a": 5}, pods, first.heads, NOW + 60)
    assert last.released == ()
    assert last.blocking["a"].uid == "big"


def test_strict_fifo_never_lets_anybody_pass() -> None:
    cohort = [budget("a", 10, bypass=0)]
    assert released(cohort, {"a": 5}, [waiting("big", 8), waiting("small", 3, since=1)], {}, NOW) == []


def test_while_a_head_blocks_no_other_budget_of_the_cohort_borrows() -> None:
    cohort = [budget("a", 10, cohort="c", bypass=0), budget("b", 10, cohort="c")]
    pods = [waiting("big", 18), waiting("borrower", 6, name="b"), waiting("own", 4, name="b", since=1)]
    outcome = releases(cohort, {"a": 0, "b": 5}, pods, {}, NOW)
    assert [pod.uid for pod in outcome.released] == ["own"]


def test_budgets_within_their_nominal_go_before_those_that_borrow() -> None:
    cohort = [budget("a", 10, cohort="c"), budget("b", 10, cohort="c")]
    pods = [waiting("borrows", 4), waiting("own", 4, name="b", since=9)]
    assert released(cohort, {"a": 10, "b": 0}, pods, {}, NOW) == ["own", "borrows"]


def test_borrowers_share_by_weight_what_is_over_their_nominal() -> None:
    cohort = [
        budget("light", 10, cohort="c", weight=1),
        budget("heavy", 10, cohort="c", weight=3),
        budget("idle", 40, cohort="c"),
    ]
    pods = [waiting(f"l{i}", 5, name="light", since=i) for i in range(8)]
    pods += [waiting(f"h{i}", 5, name="heavy", since=i) for i in range(8)]
    left = released(cohort, {"light": 10, "heavy": 10}, pods, {}, NOW)
    assert len(left) == 8
    assert left[:4] == ["l0", "h0", "h1", "h2"]
    assert sum(uid.startswith("h") for uid in left) == 6


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30), st.integers(0, 3)), max_size=25),
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
)
def test_a_pass_never_gives_out_more_than_fits_and_leaves_nothing_that_would(
    pods: list[tuple[int, int, int]], used: tuple[int, int, int]
) -> None:
    cohort = [budget("b0", 20, cohort="c"), budget("b1", 10, cohort="c"), budget("b2", 15, cohort="c")]
    queue = [
        waiting(f"p{index}", tokens, name=f"b{who}", since=index, priority=priority)
        for index, (who, tokens, priority) in enumerate(pods)
    ]
    held = {f"b{index}": amount for index, amount in enumerate(used)}
    outcome = releases(cohort, held, queue, {}, NOW)
    for pod in outcome.released:
        member = next(member for member in cohort if member.name == pod.budget)
        assert pod.tokens_per_second <= largest_claim(member, cohort, held)
        held[pod.budget] += pod.tokens_per_second
    for pod in set(queue) - set(outcome.released):
        member = next(member for member in cohort if member.name == pod.budget)
        assert pod.tokens_per_second > largest_claim(member, cohort, held)
