"""The accounts of a cohort: idempotent, never over, nothing lost (the invariants at the top of accounts.py)."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.domain.test_budgets import largest_claim
from webhook.domain.budgets import Charge, Held
from webhook.domain.outcome import Verdict
from webhook.domain.rules import Budget, OnExceeded, Policy
from webhook.domain.selectors import FirstMatch, Selector
from webhook.ledger.accounts import CohortAccounts
from webhook.ledger.memory import MemoryLedger

NOW = 100.0


def budget(name: str, nominal: int, *, cohort: str | None = None, bypass: int = 600) -> Budget:
    return Budget(
        name,
        Selector(),
        nominal,
        cohort=cohort,
        on_exceeded=OnExceeded.HOLD if name.startswith("hold") else OnExceeded.DENY,
        max_bypass_seconds=Fraction(bypass),
    )


def charge(uid: str, tokens: int, name: str = "deny", *, limited: bool = True, priority: int = 0) -> Charge:
    return Charge(
        uid, "Pod", "team", uid, name, tokens, limited=limited, holds=name.startswith("hold"), priority=priority
    )


def test_a_charge_is_entered_once_however_often_it_is_asked_for() -> None:
    accounts = CohortAccounts([budget("deny", 10)])
    first = accounts.ask(charge("u", 6), NOW, dry_run=False)
    again = accounts.ask(charge("u", 6), NOW, dry_run=False)
    assert first.verdict is again.verdict is Verdict.ADMIT
    assert first.room == again.room
    assert accounts.held("deny") == Held(reserved=6)


def test_a_dry_run_answers_the_same_and_enters_nothing() -> None:
    accounts = CohortAccounts([budget("deny", 10), budget("hold", 10)])
    for name in ("deny", "hold"):
        dry = accounts.ask(charge("u" + name, 6, name), NOW, dry_run=True)
        assert accounts.held(name) == Held()
        assert accounts.waiting(name) == ()
        assert accounts.ask(charge("u" + name, 6, name), NOW, dry_run=False) == dry


def test_what_does_not_fit_is_denied_or_held_by_the_pods_gate_and_charges_nothing() -> None:
    accounts = CohortAccounts([budget("deny", 10), budget("hold", 10)])
    for name, verdict in (("deny", Verdict.DENY), ("hold", Verdict.HOLD)):
        assert accounts.ask(charge("first" + name, 6, name), NOW, dry_run=False).verdict is Verdict.ADMIT
        assert accounts.ask(charge("second" + name, 6, name), NOW, dry_run=False).verdict is verdict
        assert accounts.held(name) == Held(reserved=6)


def test_a_pod_that_can_never_fit_is_denied_even_behind_a_gate() -> None:
    accounts = CohortAccounts([budget("hold", 10)])
    answer = accounts.ask(charge("u", 11, "hold"), NOW, dry_run=False)
    assert answer.verdict is Verdict.DENY
    assert answer.room.ever == 10
    assert accounts.waiting("hold") == ()


def test_in_warn_and_audit_a_charge_is_entered_without_a_limit() -> None:
    accounts = CohortAccounts([budget("deny", 10)])
    assert accounts.ask(charge("u", 25, limited=False), NOW, dry_run=False).verdict is Verdict.ADMIT
    assert accounts.held("deny") == Held(reserved=25)
    assert accounts.ask(charge("v", 1), NOW, dry_run=False).verdict is Verdict.DENY


def test_what_is_given_back_goes_to_the_next_held_pod_in_order() -> None:
    accounts = CohortAccounts([budget("hold", 10)])
    accounts.ask(charge("runs", 8, "hold"), NOW, dry_run=False)
    accounts.ask(charge("early", 5, "hold"), NOW + 1, dry_run=False)
    accounts.ask(charge("urgent", 5, "hold", priority=9), NOW + 2, dry_run=False)
    released = accounts.release("runs", NOW + 3)
    assert [pod.uid for pod in released] == ["urgent", "early"]
    assert accounts.held("hold") == Held(reserved=10)


def test_a_held_pod_that_goes_away_leaves_the_queue() -> None:
    accounts = CohortAccounts([budget("hold", 10, bypass=0)])
    accounts.ask(charge("runs", 4, "hold"), NOW, dry_run=False)
    accounts.ask(charge("big", 9, "hold"), NOW, dry_run=False)
    behind = accounts.ask(charge("small", 2, "hold"), NOW, dry_run=False)
    assert behind.verdict is Verdict.HOLD
    assert behind.behind == "team/big"
    assert [pod.uid for pod in accounts.release("big", NOW)] == ["small"]


def test_a_new_head_may_unblock_those_behind_the_old_one() -> None:
    accounts = CohortAccounts([budget("hold", 10, bypass=60)])
    accounts.ask(charge("runs", 5, "hold"), NOW, dry_run=False)
    accounts.ask(charge("big", 9, "hold"), NOW, dry_run=False)
    assert accounts.ask(charge("small", 3, "hold"), NOW + 61, dry_run=False).verdict is Verdict.HOLD
    answer = accounts.ask(charge("bigger", 10, "hold", priority=1), NOW + 62, dry_run=False)
    assert answer.verdict is Verdict.HOLD
    assert [pod.uid for pod in answer.also_released] == ["small"]
    assert accounts.held("hold") == Held(reserved=8)


def test_releasing_what_holds_nothing_changes_nothing() -> None:
    accounts = CohortAccounts([budget("deny", 10)])
    accounts.ask(charge("u", 6), NOW, dry_run=False)
    assert accounts.release("stranger", NOW) == ()
    assert accounts.release("u", NOW) == ()
    assert accounts.release("u", NOW) == ()
    assert accounts.held("deny") == Held()


def test_running_pods_count_as_used() -> None:
    accounts = CohortAccounts([budget("deny", 10)])
    accounts.found("deny", 7)
    answer = accounts.ask(charge("u", 4), NOW, dry_run=False)
    assert answer.verdict is Verdict.DENY
    assert (answer.room.used, answer.room.reserved, answer.room.largest) == (7, 0, 3)


async def test_the_memory_ledger_keeps_each_cohort_apart() -> None:
    budgets = [budget("deny", 10), budget("hold", 10), budget("hold2", 5, cohort="c"), budget("deny2", 5, cohort="c")]
    ledger = MemoryLedger(Policy(budgets=FirstMatch(budgets)), clock=lambda: NOW)
    assert ledger.reserve(charge("u", 8, "deny2"), dry_run=False).verdict is Verdict.ADMIT
    assert ledger.held(budgets[3]) == Held(reserved=8)
    assert ledger.reserve(charge("v", 3, "hold2"), dry_run=False).verdict is Verdict.HOLD
    assert ledger.reserve(charge("w", 10, "deny"), dry_run=False).verdict is Verdict.ADMIT
    assert [pod.uid for pod in await ledger.release("u")] == ["v"]


class Accounts(RuleBasedStateMachine):
    """Asks, repeats, dry runs and releases in any order, against a plain model."""

    names = ("hold", "deny", "hold2")

    def __init__(self) -> None:
        super().__init__()
        self.cohort = [
            budget("hold", 20, cohort="c"),
            budget("deny", 15, cohort="c"),
            budget("hold2", 10, cohort="c", bypass=0),
        ]
        self.accounts = CohortAccounts(self.cohort)
        self.now = NOW
        self.asked: dict[str, Charge] = {}
        self.admitted: dict[str, Charge] = {}
        self.waiting: set[str] = set()
        self.serial = 0

    @rule(tokens=st.integers(1, 50), name=st.sampled_from(names), priority=st.integers(0, 2))
    def ask(self, tokens: int, name: str, priority: int) -> None:
        self.serial += 1
        new = charge(f"u{self.serial}", tokens, name, priority=priority)
        self.asked[new.uid] = new
        self.enter(new)

    def enter(self, new: Charge) -> None:
        before = {name: self.accounts.held(name).total for name in self.names}
        answer = self.accounts.ask(new, self.now, dry_run=False)
        verdict = answer.verdict
        for pod in answer.also_released:
            self.waiting.remove(pod.uid)
            self.admitted[pod.uid] = self.asked[pod.uid]
        if verdict is Verdict.ADMIT and new.uid not in self.admitted:
            member = next(member for member in self.cohort if member.name == new.budget)
            assert answer.also_released or new.tokens_per_second <= largest_claim(member, self.cohort, before)
            self.admitted[new.uid] = new
            self.waiting.discard(new.uid)
        elif verdict is Verdict.HOLD:
            assert new.budget != "deny"
            self.waiting.add(new.uid)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), dry_run=st.booleans())
    def repeat(self, data: st.DataObject, dry_run: bool) -> None:
        known = self.asked[data.draw(st.sampled_from(sorted(self.asked)))]
        if dry_run:
            self.accounts.ask(known, self.now, dry_run=True)
        else:
            self.enter(known)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.asked)))
        del self.asked[uid]
        self.admitted.pop(uid, None)
        self.waiting.discard(uid)
        for pod in self.accounts.release(uid, self.now):
            assert pod.uid in self.waiting
            self.waiting.remove(pod.uid)
            self.admitted[pod.uid] = self.asked[pod.uid]

    @rule(seconds=st.integers(0, 700))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def the_sums_are_those_of_the_admitted_pods_and_within_the_arithmetic(self) -> None:
        held = {name: self.accounts.held(name).total for name in self.names}
        for name in self.names:
            admitted = [pod for pod in self.admitted.values() if pod.budget == name]
            assert held[name] == sum(pod.tokens_per_second for pod in admitted)
            assert {pod.uid for pod in self.accounts.waiting(name)} == {
                uid for uid in self.waiting if self.asked[uid].budget == name
            }
        assert sum(held.values()) <= 45


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(st.integers(1, 12), max_size=20))
def test_order_of_arrival_decides_alone_in_a_deny_budget(claims: list[int]) -> None:
    accounts = CohortAccounts([budget("deny", 30)])
    left = 30
    for index, tokens in enumerate(claims):
        verdict = accounts.ask(charge(f"u{index}", tokens), NOW, dry_run=False).verdict
        assert (verdict is Verdict.ADMIT) == (tokens <= left)
        left -= tokens if verdict is Verdict.ADMIT else 0
