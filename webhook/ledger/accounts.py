"""The accounts of one cohort: the one place where what budgets have given out changes.

Invariants, at every step:
1. A uid is charged at most once, however often it is asked for.
2. A limited charge enters only if the cohort arithmetic of `domain.budgets` has room for it at that moment; so
   used + reserved never exceeds it by anything but charges that came as found (Warn, Audit, running pods).
3. A waiting pod charges nothing. It leaves the queue by `domain.order` alone, or when it is gone.
4. Releasing a uid that holds nothing changes nothing.

No I/O and no clock: the time comes in with each call.
"""

from collections.abc import Mapping, Sequence

from webhook.domain.budgets import Charge, Held, Room, room
from webhook.domain.order import Head, Waiting, releases
from webhook.domain.outcome import Verdict
from webhook.domain.rules import Budget
from webhook.ledger import Answer


class CohortAccounts:
    """What the budgets of one cohort have given out, and who waits."""

    def __init__(self, cohort: Sequence[Budget]) -> None:
        self._cohort = tuple(cohort)
        self._budgets = {budget.name: budget for budget in self._cohort}
        self._used = dict.fromkeys(self._budgets, 0)
        self._reserved = dict.fromkeys(self._budgets, 0)
        self._reservations: dict[str, Charge] = {}
        self._waiting: dict[str, Waiting] = {}
        self._heads: Mapping[str, Head] = {}
        self._blocking: Mapping[str, Waiting] = {}

    def found(self, budget: str, tokens_per_second: int) -> None:
        """A pod that is there already: charged as found, whatever the budget says."""
        self._used[budget] += tokens_per_second

    def held(self, budget: str) -> Held:
        """What one budget has given out."""
        return Held(self._used[budget], self._reserved[budget])

    def waiting(self, budget: str) -> tuple[Waiting, ...]:
        """The pods of one budget that are held, in no particular order."""
        return tuple(pod for pod in self._waiting.values() if pod.budget == budget)

    def ask(self, charge: Charge, now_epoch_seconds: float, *, dry_run: bool) -> Answer:
        """Admit, Hold or Deny, with the numbers before this pod; the charge is entered unless this is a dry run."""
        budget = self._budgets[charge.budget]
        if charge.uid in self._reservations:
            return Answer(Verdict.ADMIT, self._room(budget, without=charge.tokens_per_second))
        before = self._room(budget)
        if not charge.limited:
            return self._enter(charge, before, dry_run=dry_run)
        if charge.tokens_per_second > before.ever:
            return Answer(Verdict.DENY, before)
        if charge.holds:
            return self._queue(charge, before, now_epoch_seconds, dry_run=dry_run)
        if charge.tokens_per_second > before.largest:
            return Answer(Verdict.DENY, before)
        return self._enter(charge, before, dry_run=dry_run)

    def release(self, uid: str, now_epoch_seconds: float) -> tuple[Waiting, ...]:
        """Give back what this uid held or waited for; returns the held pods that leave their queue because of it."""
        charge = self._reservations.pop(uid, None)
        if charge is not None:
            self._reserved[charge.budget] -= charge.tokens_per_second
        waited = self._waiting.pop(uid, None)
        if charge is None and waited is None:
            return ()
        return self._release_waiting(now_epoch_seconds)

    def _room(self, budget: Budget, *, without: int = 0) -> Room:
        held = {name: Held(self._used[name], self._reserved[name]) for name in self._budgets}
        if without:
            own = held[budget.name]
            held[budget.name] = Held(own.used, own.reserved - without)
        others_block = any(name != budget.name for name in self._blocking)
        return room(budget, self._cohort, held, may_borrow=not others_block)

    def _enter(self, charge: Charge, before: Room, *, dry_run: bool) -> Answer:
        if not dry_run:
            self._reservations[charge.uid] = charge
            self._reserved[charge.budget] += charge.tokens_per_second
        return Answer(Verdict.ADMIT, before)

    def _queue(self, charge: Charge, before: Room, now_epoch_seconds: float, *, dry_run: bool) -> Answer:
        """A pod behind our gate joins its queue; the release pass says whether it leaves it at once."""
        known = self._waiting.get(charge.uid)
        pod = known or Waiting(
            uid=charge.uid,
            budget=charge.budget,
            tokens_per_second=charge.tokens_per_second,
            since_epoch_seconds=now_epoch_seconds,
            priority=charge.priority,
            deadline_epoch_seconds=charge.deadline_epoch_seconds,
            name=f"{charge.namespace}/{charge.name}",
        )
        outcome = releases(
            self._cohort,
            self._totals(),
            [*self._waiting.values(), *(() if known else (pod,))],
            self._heads,
            now_epoch_seconds,
        )
        leaves = pod in outcome.released
        head = outcome.blocking.get(charge.budget)
        behind = head.name if head is not None and head.uid != pod.uid else None
        if not dry_run:
            self._waiting[pod.uid] = pod
            self._apply(outcome.released)
            self._heads, self._blocking = outcome.heads, outcome.blocking
        others = tuple(other for other in outcome.released if other.uid != pod.uid)
        return Answer(Verdict.ADMIT if leaves else Verdict.HOLD, before, behind, others)

    def _release_waiting(self, now_epoch_seconds: float) -> tuple[Waiting, ...]:
        outcome = releases(self._cohort, self._totals(), self._waiting.values(), self._heads, now_epoch_seconds)
        self._apply(outcome.released)
        self._heads, self._blocking = outcome.heads, outcome.blocking
        return outcome.released

    def _apply(self, released: Sequence[Waiting]) -> None:
        for pod in released:
            del self._waiting[pod.uid]
            namespace, _, name = pod.name.partition("/")
            self._reservations[pod.uid] = Charge(
                pod.uid, "Pod", namespace, name, pod.budget, pod.tokens_per_second, holds=True
            )
            self._reserved[pod.budget] += pod.tokens_per_second

    def _totals(self) -> dict[str, int]:
        return {name: self._used[name] + self._reserved[name] for name in self._budgets}
