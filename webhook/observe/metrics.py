"""The Prometheus metrics of one server, in a registry of its own (so that several servers live in one process).

Labels are bounded: operations, verdicts and reasons are enumerations, budgets come from the policy.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The text format that `exposition` writes (prometheus.io/docs/instrumenting/exposition_formats)."""

DURATION_BUCKETS_SECONDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 3.0)
"""From below what a review costs to the timeout of our webhook entries, after which nobody waits."""

HOLD_BUCKETS_SECONDS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
"""From a pod that waited for another to go, to one that waited over a weekend."""

MAX_UNCOUNTED = 512
"""Reviews are counted together, at a scrape or when so many have gathered: that costs them half."""

UNANSWERED = "Unanswered"
"""The verdict label of a call that got no AdmissionReview; the reason label says which family of error."""


# Without a `_created` series beside every counter and histogram: the switch is the library's, for the whole process.
disable_created_metrics()  # type: ignore[no-untyped-call]


class BudgetNumbers(Struct, frozen=True, gc=False):
    """One budget at the moment of a scrape, in tokens/s and pods."""

    name: str
    nominal: int
    used: int
    reserved: int
    held: int
    held_pods: int


class Metrics:
    """What one server counts. `budgets` is asked at each scrape, so that no review pays for it."""

    def __init__(self, budgets: Callable[[], Iterable[BudgetNumbers]] = tuple) -> None:
        self._registry = CollectorRegistry()
        self._reviews = Counter(
            "tollgate_reviews",
            "Calls answered, by question, verdict and reason.",
            ["operation", "verdict", "reason"],
            registry=self._registry,
        )
        self._durations = Histogram(
            "tollgate_review_duration_seconds",
            "Time from the whole body read to the answer made.",
            ["operation"],
            buckets=DURATION_BUCKETS_SECONDS,
            registry=self._registry,
        )
        self._holds = Histogram(
            "tollgate_hold_duration_seconds",
            "How long pods that had to wait were held, from their creation until there was room.",
            ["budget"],
            buckets=HOLD_BUCKETS_SECONDS,
            registry=self._registry,
        )
        self._panics = Counter(
            "tollgate_panics",
            "Calls that met a bug and got HTTP 500; the log has each by its id.",
            registry=self._registry,
        )
        self._policy_valid = Gauge(
            "tollgate_policy_valid",
            "1 if the newest policy is in force, 0 if the last good one is.",
            registry=self._registry,
        )
        self._policy_info = Gauge(
            "tollgate_policy_info", "The policy in force, by its short hash.", ["hash"], registry=self._registry
        )
        self._certificate_expiry = Gauge(
            "tollgate_certificate_expiry_timestamp_seconds",
            "When a certificate in use ends.",
            ["role"],
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(_Budgets(budgets))
        self._uncounted: list[tuple[str, str, str, float]] = []

    @property
    def registry(self) -> CollectorRegistry:
        """The registry with everything counted that was recorded until now."""
        self._count()
        return self._registry

    def reviewed(self, operation: str, verdict: str, reason: str, duration_seconds: float) -> None:
        """One call was answered."""
        self._uncounted.append((operation, verdict, reason, duration_seconds))
        if len(self._uncounted) >= MAX_UNCOUNTED:
            self._count()

    def _count(self) -> None:
        uncounted, self._uncounted = self._uncounted, []
        for labels, times in Tally(review[:3] for review in uncounted).items():
            self._reviews.labels(*labels).inc(times)
        durations = {operation: self._durations.labels(operation) for operation in {review[0] for review in uncounted}}
        for operation, _, _, duration_seconds in uncounted:
            durations[operation].observe(duration_seconds)

    def unanswered(self, operation: str, reason: str) -> None:
        """A call got an HTTP error instead of an AdmissionReview."""
        self._reviews.labels(operation, UNANSWERED, reason).inc()

    def released(self, budget: str, held_seconds: float) -> None:
        """A held pod may go."""
        self._holds.labels(budget).observe(max(0.0, held_seconds))

    def panicked(self) -> None:
        """A call met a bug."""
        self._panics.inc()

    def policy_in_force(self, digest: str) -> None:
        """The newest policy was read and is in force."""
        self._policy_info.clear()
        self._policy_info.labels(digest).set(1)
        self._policy_valid.set(1)

    def policy_refused(self) -> None:
        """A newer policy was refused; the last good one stays in force."""
        self._policy_valid.set(0)

    def certificate_expires(self, role: str, at: datetime) -> None:
        """When the certificate of a role (`serving`, `ca`) ends."""
        self._certificate_expiry.labels(role).set(at.timestamp())

    def exposition(self) -> bytes:
        """All of it in the Prometheus text format."""
        return generate_latest(self.registry)


class _Budgets(Collector):
    def __init__(self, budgets: Callable[[], Iterable[BudgetNumbers]]) -> None:
        self._numbers = budgets

    def collect(self) -> Iterator[GaugeMetricFamily]:
        tokens = GaugeMetricFamily(
            "tollgate_budget_tokens_per_second", "Tokens/s of each budget.", labels=["budget", "kind"]
        )
        held_pods = GaugeMetricFamily("tollgate_held_pods", "Pods waiting behind the gate.", labels=["budget"])
        for budget in self._numbers():
            for kind in ("nominal", "used", "reserved", "held"):
                tokens.add_metric([budget.name, kind], getattr(budget, kind))
            held_pods.add_metric([budget.name], budget.held_pods)
        yield tokens
        yield held_pods
