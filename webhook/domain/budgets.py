"""Cohort arithmetic: what fits into a budget now, and what never will. Kueue's words and rules, in whole tokens/s.

lendable = min(lendingLimit, nominal); guaranteed = nominal - lendable; pool = sum of lendable over the cohort.
A budget may hold up to nominal + borrowingLimit while the sum of max(0, held - guaranteed) stays within the pool; what
is guaranteed can always be used by its owner (kueue pkg/cache/scheduler/resource_node.go, `available`).
"""

from collections.abc import Iterable

from msgspec import Struct

from webhook.domain.rules import Budget


class Held(Struct, frozen=True, gc=False):
    """What one budget has given out, in tokens/s."""

    used: int = 0
    """Held by pods that are there."""
    reserved: int = 0
    """Named reservations: admitted, not yet seen (offline: admitted earlier in this call)."""

    @property
    def total(self) -> int:
        """Used and reserved together."""
        return self.used + self.reserved


class Room(Struct, frozen=True, gc=False):
    """One budget's numbers at one moment, as messages, JSON and audit annotations give them."""

    name: str
    nominal: int
    used: int
    reserved: int
    borrowable: int
    """How much of the largest claim that fits now would be beyond the budget's own nominal; never below 0."""
    cohort: str | None
    largest: int
    """The largest claim that fits now; 0 or more."""
    ever: int
    """The largest claim that could fit if the whole cohort were empty."""


class Charge(Struct, frozen=True, gc=False):
    """What validate asks the ledger to hold for one pod."""

    uid: str
    kind: str
    namespace: str
    name: str
    budget: str
    tokens_per_second: int
    limited: bool = True
    """False in Warn and Audit: charged as found, whatever the budget says."""
    holds: bool = False
    """Where it is limited, no room means that the pod waits behind our gate, not that it is denied."""
    priority: int = 0
    deadline_epoch_seconds: float | None = None

    def of(self, uid: str, name: str) -> "Charge":
        """The same for another pod of the template."""
        return Charge(
            uid,
            self.kind,
            self.namespace,
            name,
            self.budget,
            self.tokens_per_second,
            self.limited,
            self.holds,
            self.priority,
            self.deadline_epoch_seconds,
        )


def beyond_guaranteed(budget: Budget, held: int) -> int:
    """How much of what a budget holds comes out of the cohort's pool."""
    return max(0, held - budget.guaranteed)


def pool(cohort: Iterable[Budget]) -> int:
    """What the budgets of a cohort lend to each other, themselves included."""
    return sum(member.tokens_per_second - member.guaranteed for member in cohort)


def cohort_of(budget: Budget, budgets: Iterable[Budget]) -> tuple[Budget, ...]:
    """The budgets that share one ledger with this one, itself included, in policy order."""
    if budget.cohort is None:
        return (budget,)
    return tuple(other for other in budgets if other.cohort == budget.cohort)


def ledger_key(budget: Budget) -> str:
    """The name of the ledger that a budget is accounted in; a ConfigMap of that name in a cluster."""
    return f"tollgate-ledger-cohort-{budget.cohort}" if budget.cohort else f"tollgate-ledger-budget-{budget.name}"


def largest_claim(budget: Budget, held: int, free_in_pool: int, *, may_borrow: bool = True) -> int:
    """The largest claim in tokens/s that fits now; 0 where nothing does.

    `held` is the budget's own used plus reserved, `free_in_pool` the cohort's pool less the sum of
    `beyond_guaranteed`. Where the pool is overdrawn (pods that came in past us), the owner may still use what is
    guaranteed to it. `may_borrow` False keeps the claim within the budget's own nominal.
    """
    own = budget.guaranteed - held
    largest = (own if own > 0 else 0) + (free_in_pool if free_in_pool > 0 else 0)
    limit = budget.ceiling if may_borrow else budget.tokens_per_second
    if limit is not None and limit - held < largest:
        largest = limit - held
    return largest if largest > 0 else 0


def largest_claim_ever(budget: Budget, cohort_pool: int) -> int:
    """The largest claim that could fit if the whole cohort were empty."""
    return largest_claim(budget, 0, cohort_pool)


def room(budget: Budget, held: Held, *, free_in_pool: int, ever: int, may_borrow: bool = True) -> Room:
    """The numbers of one budget at one moment; `ever` is `largest_claim_ever`, which does not change."""
    largest = largest_claim(budget, held.total, free_in_pool, may_borrow=may_borrow)
    return Room(
        name=budget.name,
        nominal=budget.tokens_per_second,
        used=held.used,
        reserved=held.reserved,
        borrowable=max(0, largest - max(0, budget.tokens_per_second - held.total)),
        cohort=budget.cohort,
        largest=largest,
        ever=ever,
    )
