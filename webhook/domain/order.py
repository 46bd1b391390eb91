"""Which held pod is next (DESIGN section 6, order of release).

Between budgets: those that stay within their own nominal first, then weighted fair share of what each holds over its
nominal. Within a budget: priority, deadline (one that is past counts as none), age. A head that does not fit is passed
over by those that do for `maxBypass` at most; then it blocks its budget, and while it does no other budget of the
cohort may borrow. A pod within its budget's own nominal is never blocked by another budget.
"""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from msgspec import Struct

from webhook.domain.budgets import beyond_guaranteed, largest_claim
from webhook.domain.rules import Budget


class Waiting(Struct, frozen=True, gc=False):
    """A pod behind our gate."""

    uid: str
    budget: str
    tokens_per_second: int
    since_epoch_seconds: float
    priority: int = 0
    deadline_epoch_seconds: float | None = None
    namespace: str = ""
    name: str = ""


class Head(Struct, frozen=True, gc=False):
    """The pod at the head of one budget's queue that does not fit, and since when it has been passed over."""

    uid: str
    since_epoch_seconds: float


class Releases(Struct, frozen=True, gc=False):
    """What one pass over the queues of a cohort gives."""

    released: tuple[Waiting, ...]
    """In order of release."""
    heads: Mapping[str, Head]
    """By budget: the heads that still do not fit."""
    blocking: Mapping[str, Waiting]
    """By budget: the heads that have been passed over long enough."""


def queue_order(waiting: Iterable[Waiting], now_epoch_seconds: float) -> list[Waiting]:
    """The order within one budget."""

    def key(pod: Waiting) -> tuple[int, float, float, str]:
        deadline = pod.deadline_epoch_seconds
        if deadline is None or deadline <= now_epoch_seconds:
            deadline = math.inf
        return (-pod.priority, deadline, pod.since_epoch_seconds, pod.uid)

    return sorted(waiting, key=key)


class _Pass:
    """One pass: what is held, who waits, and who heads each queue, while pods are taken out one by one.

    Only budgets with a queue are looked at, so that a large cohort costs nothing.
    """

    def __init__(
        self,
        cohort: Mapping[str, Budget],
        held: Mapping[str, int],
        free_in_pool: int,
        waiting: Iterable[Waiting],
        heads: Mapping[str, Head],
        now_epoch_seconds: float,
    ) -> None:
        queues: dict[str, list[Waiting]] = {}
        for pod in waiting:
            queues.setdefault(pod.budget, []).append(pod)
        self.queues = {name: queue_order(queues[name], now_epoch_seconds) for name in cohort if name in queues}
        self.cohort = cohort
        self.held = {name: held[name] for name in self.queues}
        self.free_in_pool = free_in_pool
        self.now = now_epoch_seconds
        self.heads = {name: head for name, head in heads.items() if name in self.queues}

    def largest(self, name: str, *, may_borrow: bool = True) -> int:
        """The largest claim that fits into this budget now."""
        return largest_claim(self.cohort[name], self.held[name], self.free_in_pool, may_borrow=may_borrow)

    def blocking(self) -> dict[str, Waiting]:
        """The heads that have been passed over for their budget's maxBypass, by budget; renews `heads` on the way."""
        blocking: dict[str, Waiting] = {}
        for name, queue in self.queues.items():
            if not queue or queue[0].tokens_per_second <= self.largest(name):
                self.heads.pop(name, None)
                continue
            head = self.heads.get(name)
            if head is None or head.uid != queue[0].uid:
                head = self.heads[name] = Head(queue[0].uid, self.now)
            if Fraction(self.now - head.since_epoch_seconds) >= self.cohort[name].max_bypass_seconds:
                blocking[name] = queue[0]
        return blocking

    def candidate(self, name: str, blocking: Mapping[str, Waiting]) -> Waiting | None:
        """The pod of this budget that would leave next, if any may."""
        others_block = any(other != name for other in blocking)
        largest = self.largest(name, may_borrow=not others_block)
        for pod in self.queues[name]:
            if pod.tokens_per_second <= largest:
                return pod
            if name in blocking:
                return None
        return None

    def take(self, pod: Waiting) -> None:
        """The pod leaves its queue and holds its claim."""
        self.queues[pod.budget].remove(pod)
        budget, before = self.cohort[pod.budget], self.held[pod.budget]
        after = before + pod.tokens_per_second
        self.held[pod.budget] = after
        self.free_in_pool -= beyond_guaranteed(budget, after) - beyond_guaranteed(budget, before)

    def rank(self, pod: Waiting) -> tuple[bool, Fraction]:
        """Sort key between budgets."""
        budget, held = self.cohort[pod.budget], self.held[pod.budget]
        borrows = held + pod.tokens_per_second > budget.tokens_per_second
        return (borrows, Fraction(max(0, held - budget.tokens_per_second)) / budget.weight)


def releases(
    cohort: Mapping[str, Budget],
    held: Mapping[str, int],
    free_in_pool: int,
    waiting: Iterable[Waiting],
    heads: Mapping[str, Head],
    now_epoch_seconds: float,
) -> Releases:
    """Everything that may leave the queues of one cohort now, in order.

    `cohort` has the budgets by name in policy order, `held` used plus reserved by budget name, `free_in_pool` is as in
    `budgets.largest_claim`; `heads` is what the previous pass gave.
    """
    step = _Pass(cohort, held, free_in_pool, waiting, heads, now_epoch_seconds)
    released: list[Waiting] = []
    while True:
        blocking = step.blocking()
        candidates = [pod for name in step.queues if (pod := step.candidate(name, blocking)) is not None]
        if not candidates:
            return Releases(tuple(released), step.heads, blocking)
        pod = min(candidates, key=step.rank)
        step.take(pod)
        released.append(pod)
