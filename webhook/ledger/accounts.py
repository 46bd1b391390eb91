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

from webhook.domain.budgets import Charge, Held, Room, beyond_guaranteed, largest_claim_ever, pool, room
from webhook.domain.order import Head, Releases, Waiting, releases
from webhook.domain.outcome import Verdict
from webhook.domain.rules import Budget
from webhook.ledger import Answer


class CohortAccounts:
    """What the budgets of one cohort have given out, and who waits."""

    def __init__(self, cohort: Sequence[Budget]) -> None:
        self._budgets = {budget.name: budget for budget in cohort}
        self._free_in_pool = pool(cohort)
        self._ever = {budget.name: largest_claim_ever(budget, self._free_in_pool) for budget in cohort}
        self._held = dict.fromkeys(self._budgets, Held())
        self._reservations: dict[str, Charge] = {}
        self._waiting: dict[str, Waiting] = {}
        self._heads: Mapping[str, Head] = {}
        self._blocking: Mapping[str, Waiting] = {}

    def found(self, budget: str, tokens_per_second: int) -> None:
        """A pod that is there already: charged as found, whatever the budget says."""
        self._add(budget, used=tokens_per_second)

    def held(self, budget: str) -> Held:
        """What one budget has given out."""
        return self._held[budget]

    def waiting(self, budget: str) -> tuple[Waiting, ...]:
        """The pods of one budget that are held, in no particular order."""
        return tuple(pod for pod in self._waiting.values() if pod.budget == budget)

    def ask(self, charge: Charge, now_epoch_seconds: float, *, dry_run: bool) -> Answer:
        """Admit, Hold or Deny, with the numbers before this pod; the charge is entered unless this is a dry run."""
        budget = self._budgets[charge.budget]
        if charge.uid in self._reservations:
            return Answer(Verdict.ADMIT, self._room_without(budget, charge.tokens_per_second))
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
            self._add(charge.budget, reserved=-charge.tokens_per_second)
        waited = self._waiting.pop(uid, None)
        if charge is None and waited is None:
            return ()
        if not self._waiting:
            self._heads, self._blocking = {}, {}
            return ()
        outcome = self._pass(tuple(self._waiting.values()), now_epoch_seconds)
        self._apply(outcome)
        return outcome.released

    def _add(self, name: str, *, used: int = 0, reserved: int = 0) -> None:
        budget, before = self._budgets[name], self._held[name]
        after = Held(before.used + used, before.reserved + reserved)
        self._held[name] = after
        self._free_in_pool -= beyond_guaranteed(budget, after.total) - beyond_guaranteed(budget, before.total)

    def _room(self, budget: Budget) -> Room:
        return room(
            budget,
            self._held[budget.name],
            free_in_pool=self._free_in_pool,
            ever=self._ever[budget.name],
            may_borrow=not (self._blocking and self._others_block(budget)),
        )

    def _others_block(self, budget: Budget) -> bool:
        return any(name != budget.name for name in self._blocking)

    def _room_without(self, budget: Budget, reserved: int) -> Room:
        """The numbers before a pod that is in already."""
        self._add(budget.name, reserved=-reserved)
        before = self._room(budget)
        self._add(budget.name, reserved=reserved)
        return before

    def _enter(self, charge: Charge, before: Room, *, dry_run: bool) -> Answer:
        if not dry_run:
            self._reservations[charge.uid] = charge
            self._add(charge.budget, reserved=charge.tokens_per_second)
        return Answer(Verdict.ADMIT, before)

    def _queue(self, charge: Charge, before: Room, now_epoch_seconds: float, *, dry_run: bool) -> Answer:
        """A pod behind our gate joins its queue; the release pass says whether it leaves it at once."""
        if not self._waiting and charge.tokens_per_second <= before.largest:
            return self._enter(charge, before, dry_run=dry_run)
        known = self._waiting.get(charge.uid)
        pod = known or Waiting(
            uid=charge.uid,
            budget=charge.budget,
            tokens_per_second=charge.tokens_per_second,
            since_epoch_seconds=now_epoch_seconds,
            priority=charge.priority,
            deadline_epoch_seconds=charge.deadline_epoch_seconds,
            namespace=charge.namespace,
            name=charge.name,
        )
        outcome = self._pass([*self._waiting.values(), *(() if known else (pod,))], now_epoch_seconds)
        if not dry_run:
            self._waiting[pod.uid] = pod
            self._apply(outcome)
        head = outcome.blocking.get(charge.budget)
        return Answer(
            Verdict.ADMIT if pod in outcome.released else Verdict.HOLD,
            before,
            behind=f"{head.namespace}/{head.name}" if head is not None and head.uid != pod.uid else None,
            also_released=tuple(other for other in outcome.released if other.uid != pod.uid),
        )

    def _pass(self, waiting: Sequence[Waiting], now_epoch_seconds: float) -> Releases:
        totals = {pod.budget: self._held[pod.budget].total for pod in waiting}
        return releases(self._budgets, totals, self._free_in_pool, waiting, self._heads, now_epoch_seconds)

    def _apply(self, outcome: Releases) -> None:
        self._heads, self._blocking = outcome.heads, outcome.blocking
        for pod in outcome.released:
            del self._waiting[pod.uid]
            self._reservations[pod.uid] = Charge(
                uid=pod.uid,
                kind="Pod",
                namespace=pod.namespace,
                name=pod.name,
                budget=pod.budget,
                tokens_per_second=pod.tokens_per_second,
                holds=True,
            )
            self._add(pod.budget, reserved=pod.tokens_per_second)
