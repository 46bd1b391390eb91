"""Which held pod is next (DESIGN section 6, order of release).

Between budgets: those that stay within their own nominal first, then weighted fair share of what each holds over its
nominal. Within a budget: priority, deadline (one that is past counts as none), age. A head that does not fit is passed
over by those that do for `maxBypass` at most; then it blocks its budget, and while it does no other budget of the
cohort may borrow. A pod within its budget's own nominal is never blocked by another budget.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from webhook.domain.budgets import largest_claim
from webhook.domain.rules import Budget


class Waiting(Struct, frozen=True):
    """A pod behind our gate."""

    uid: str
    budget: str
    tokens_per_second: int
    since_epoch_seconds: float
    priority: int = 0
    deadline_epoch_seconds: float | None = None
    name: str = ""
    """namespace/name, for messages."""


class Head(Struct, frozen=True):
    """The pod at the head of one budget's queue that does not fit, and since when it has been passed over."""

    uid: str
    since_epoch_seconds: float


class Releases(Struct, frozen=True):
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
    """One pass: what is held, who waits, and who heads each queue, while pods are taken out one by one."""

    def __init__(
        self,
        cohort: Sequence[Budget],
        held: Mapping[str, int],
        waiting: Iterable[Waiting],
        heads: Mapping[str, Head],
        now_epoch_seconds: float,
    ) -> None:
        self.cohort = cohort
        self.held = dict(held)
        self.now = now_epoch_seconds
        self.heads = dict(heads)
        queues: dict[str, list[Waiting]] = {}
        for pod in waiting:
            queues.setdefault(pod.budget, []).append(pod)
        self.queues = {name: queue_order(pods, now_epoch_seconds) for name, pods in queues.items()}

    def blocking(self) -> dict[str, Waiting]:
        """The heads that have been passed over for their budget's maxBypass, by budget; renews `heads` on the way."""
        blocking: dict[str, Waiting] = {}
        for budget in self.cohort:
            queue = self.queues.get(budget.name)
            if not queue or queue[0].tokens_per_second <= largest_claim(budget, self.cohort, self.held):
                self.heads.pop(budget.name, None)
                continue
            head = self.heads.get(budget.name)
            if head is None or head.uid != queue[0].uid:
                head = self.heads[budget.name] = Head(queue[0].uid, self.now)
            if Fraction(self.now - head.since_epoch_seconds) >= budget.max_bypass_seconds:
                blocking[budget.name] = queue[0]
        return blocking

    def candidate(self, budget: Budget, blocking: Mapping[str, Waiting]) -> Waiting | None:
        """The pod of this budget that would leave next, if any may."""
        queue = self.queues.get(budget.name, ())
        others_block = any(name != budget.name for name in blocking)
        largest = largest_claim(budget, self.cohort, self.held, may_borrow=not others_block)
        for pod in queue:
            if pod.tokens_per_second <= largest:
                return pod
            if budget.name in blocking:
                return None
        return None

    def take(self, pod: Waiting) -> None:
        """The pod leaves its queue and holds its claim."""
        self.queues[pod.budget].remove(pod)
        self.held[pod.budget] = self.held.get(pod.budget, 0) + pod.tokens_per_second

    def rank(self, budget: Budget, pod: Waiting) -> tuple[bool, Fraction]:
        """Sort key between budgets."""
        held = self.held.get(budget.name, 0)
        borrows = held + pod.tokens_per_second > budget.tokens_per_second
        return (borrows, Fraction(max(0, held - budget.tokens_per_second)) / budget.weight)


def releases(
    cohort: Sequence[Budget],
    held: Mapping[str, int],
    waiting: Iterable[Waiting],
    heads: Mapping[str, Head],
    now_epoch_seconds: float,
) -> Releases:
    """Everything that may leave the queues of one cohort now, in order.

    `held` is used plus reserved by budget; `heads` is what the previous pass gave.
    """
    step = _Pass(cohort, held, waiting, heads, now_epoch_seconds)
    released: list[Waiting] = []
    while True:
        blocking = step.blocking()
        candidates = [(budget, pod) for budget in cohort if (pod := step.candidate(budget, blocking)) is not None]
        if not candidates:
            return Releases(tuple(released), step.heads, blocking)
        _, pod = min(candidates, key=lambda pair: step.rank(*pair))
        step.take(pod)
        released.append(pod)
