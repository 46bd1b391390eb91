"""Cohort arithmetic: the invariants of DESIGN section 6, and Kueue's own examples of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.domain import budgets as arithmetic
from webhook.domain.budgets import (
    Held,
    Room,
    beyond_guaranteed,
    cohort_of,
    largest_claim_ever,
    ledger_key,
    pool,
)
from webhook.domain.rules import Budget
from webhook.domain.selectors import Selector


def budget(
    name: str, nominal: int, *, cohort: str | None = "llm", borrow: int | None = None, lend: int | None = None
) -> Budget:
    return Budget(name, Selector(), nominal, cohort=cohort, borrowing_limit=borrow, lending_limit=lend)


def free_in_pool(cohort: list[Budget], held: dict[str, int]) -> int:
    return pool(cohort) - sum(beyond_guaranteed(member, held.get(member.name, 0)) for member in cohort)


def largest_claim(member: Budget, cohort: list[Budget], held: dict[str, int], *, may_borrow: bool = True) -> int:
    own = held.get(member.name, 0)
    return arithmetic.largest_claim(member, own, free_in_pool(cohort, held), may_borrow=may_borrow)


def room(member: Budget, cohort: list[Budget], held: dict[str, Held]) -> Room:
    free = free_in_pool(cohort, {name: amount.total for name, amount in held.items()})
    own = held.get(member.name, Held())
    return arithmetic.room(member, own, free_in_pool=free, ever=largest_claim_ever(member, pool(cohort)))


@pytest.mark.parametrize(
    ("budgets", "held", "expected"),
    [
        pytest.param([budget("a", 100, cohort=None)], {}, 100, id="no cohort: the nominal"),
        pytest.param([budget("a", 100, cohort=None)], {"a": 30}, 70, id="no cohort: what is left"),
        pytest.param([budget("a", 100, cohort=None)], {"a": 130}, 0, id="overdrawn by found pods: nothing, not less"),
        pytest.param([budget("a", 100), budget("b", 50)], {}, 150, id="unset limits: the whole pool"),
        pytest.param([budget("a", 100, borrow=20), budget("b", 50)], {}, 120, id="borrowingLimit caps"),
        pytest.param([budget("a", 100, borrow=0), budget("b", 50)], {}, 100, id="borrowingLimit 0: nothing borrowed"),
        pytest.param([budget("a", 100), budget("b", 50, lend=10)], {}, 110, id="lendingLimit caps the pool"),
        pytest.param([budget("a", 100), budget("b", 50, lend=0)], {}, 100, id="lendingLimit 0: nothing lent"),
        pytest.param([budget("a", 100), budget("b", 50)], {"b": 40}, 110, id="the lender uses its own first"),
        pytest.param([budget("a", 100), budget("b", 50)], {"b": 90}, 60, id="lent out: less than the nominal is left"),
        pytest.param([budget("a", 100, lend=40), budget("b", 50)], {"b": 90}, 60, id="guaranteed: never lent"),
        pytest.param([budget("a", 100, lend=40), budget("b", 50)], {"b": 500}, 60, id="guaranteed: even if overdrawn"),
        pytest.param([budget("a", 100, lend=40), budget("b", 50)], {"a": 70, "b": 500}, 0, id="pool overdrawn"),
    ],
)
def test_the_largest_claim_follows_kueues_arithmetic(
    budgets: list[Budget], held: dict[str, int], expected: int
) -> None:
    assert largest_claim(budgets[0], budgets, held) == expected


def test_without_leave_to_borrow_a_budget_keeps_within_its_own_nominal() -> None:
    cohort = [budget("a", 100), budget("b", 50)]
    assert largest_claim(cohort[0], cohort, {"a": 60}, may_borrow=False) == 40


def test_the_numbers_of_a_room_add_up() -> None:
    cohort = [budget("a", 100, borrow=30), budget("b", 50)]
    numbers = room(cohort[0], cohort, {"a": Held(used=60, reserved=10), "b": Held(used=20)})
    assert (numbers.used, numbers.reserved, numbers.nominal) == (60, 10, 100)
    assert numbers.largest == 60
    assert numbers.borrowable == 60 - 30
    assert numbers.ever == 130


def test_borrowable_is_never_below_zero_where_others_have_borrowed_the_nominal() -> None:
    cohort = [budget("a", 100), budget("b", 50)]
    numbers = room(cohort[0], cohort, {"b": Held(used=140)})
    assert numbers.largest == 10
    assert numbers.borrowable == 0


def test_a_cohort_is_the_budgets_of_its_name_and_has_one_ledger() -> None:
    a, b, c = budget("a", 1), budget("b", 1), budget("c", 1, cohort=None)
    assert cohort_of(a, [a, b, c]) == (a, b)
    assert cohort_of(c, [a, b, c]) == (c,)
    assert ledger_key(a) == ledger_key(b) == "tollgate-ledger-cohort-llm"
    assert ledger_key(c) == "tollgate-ledger-budget-c"


limits = st.none() | st.integers(0, 60)


@st.composite
def cohorts(draw: st.DrawFn) -> list[Budget]:
    size = draw(st.integers(1, 4))
    cohort = "llm" if size > 1 or draw(st.booleans()) else None
    members = []
    for index in range(size):
        nominal = draw(st.integers(1, 50))
        lend = draw(st.none() | st.integers(0, nominal)) if cohort else None
        members.append(budget(f"b{index}", nominal, cohort=cohort, borrow=draw(limits) if cohort else None, lend=lend))
    return members


def allowed(cohort: list[Budget], held: dict[str, int]) -> bool:
    """The rule of DESIGN section 6, written down a second time."""
    pool = 0
    beyond = 0
    for member in cohort:
        lendable = member.tokens_per_second
        if member.cohort is not None and member.lending_limit is not None:
            lendable = min(member.lending_limit, member.tokens_per_second)
        pool += lendable
        mine = held.get(member.name, 0)
        beyond += max(0, mine - (member.tokens_per_second - lendable))
        if member.cohort is None and mine > member.tokens_per_second:
            return False
        if member.borrowing_limit is not None and mine > member.tokens_per_second + member.borrowing_limit:
            return False
    return beyond <= pool


@given(cohorts(), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.booleans()), max_size=40))
def test_no_order_of_admissions_and_releases_exceeds_the_arithmetic(
    cohort: list[Budget], steps: list[tuple[int, int, bool]]
) -> None:
    held: dict[str, int] = {}
    given_out: list[tuple[str, int]] = []
    for who, claim, release in steps:
        if release and given_out:
            name, amount = given_out.pop()
            held[name] -= amount
            continue
        member = cohort[who % len(cohort)]
        largest = largest_claim(member, cohort, held)
        after = {**held, member.name: held.get(member.name, 0) + claim}
        assert (claim <= largest) == allowed(cohort, after)
        if claim <= largest:
            held = after
            given_out.append((member.name, claim))
        assert allowed(cohort, held)


@given(cohorts(), st.dictionaries(st.sampled_from(["b0", "b1", "b2", "b3"]), st.integers(0, 200)))
def test_guaranteed_capacity_is_always_there_for_its_owner(cohort: list[Budget], held: dict[str, int]) -> None:
    for member in cohort:
        own = held.get(member.name, 0)
        assert largest_claim(member, cohort, held) >= max(0, member.guaranteed - own)
