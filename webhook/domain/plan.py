"""What mutate and validate compute alike: the whole of a decision but for who may ask and what the ledger says.

One GPU pod, in order: owner, queue, budget, share, claim. Each step is a function of its own room.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from webhook.domain import annotations
from webhook.domain.annotations import TenantAnnotations
from webhook.domain.claims import ClaimOutcome, derive
from webhook.domain.gpus import asks_for_gpus
from webhook.domain.groups import led_claim
from webhook.domain.outcome import Claim, Problem
from webhook.domain.pod import OwnerReference, Pod
from webhook.domain.queues import Placement, place
from webhook.domain.rules import Budget, Mode, OnExceeded, Policy, Scheme, SharingRule
from webhook.domain.selectors import Subject
from webhook.domain.sharing import Share, express, near_misses
from webhook.domain.validity import problems_of
from webhook.domain.view import Request, View
from webhook.domain.who import DAEMON_SET, Ownership, is_mirror, ownership


class Plan(Struct, frozen=True, gc=False):
    """Everything about one GPU pod."""

    mode: Mode
    ownership: Ownership
    left_alone: bool
    """Bound, mirror and DaemonSet pods are never patched; validate charges them like pods of a Deny budget."""
    asks: bool
    """False: the pod only carries keys; it is checked and cleaned, nothing else."""
    budget: Budget | None
    share: Share
    tenant: TenantAnnotations
    claims: ClaimOutcome
    placement: Placement
    waits: bool
    """Enforce keeps the pod behind our gate until there is room."""
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]

    @property
    def gated(self) -> bool:
        """The pod belongs behind our gate."""
        return self.waits and self.mode is Mode.ENFORCE

    @property
    def claim(self) -> Claim | None:
        """What the pod is charged."""
        return self.claims.claim


_NO_CLAIM = ClaimOutcome()
_NO_PLACEMENT = Placement()


def make_plan(pod: Pod, request: Request, policy: Policy, view: View) -> Plan:
    """The plan of one GPU pod (the caller has sorted out the pods that are not ours)."""
    owned = ownership(pod, request, policy)
    if owned.owner is None and view.owners:
        view = replace(view, owners=())  # the chain above an owner that does not count counts for nothing either
    left_alone = is_left_alone(pod, owned.owner)
    asks = asks_for_gpus(pod, policy.extra_gpu_resources)
    budget, queue_rule, sharing_rule, placement = None, None, None, _NO_PLACEMENT
    if asks:
        queue_rule = policy.queues.find(_subject(pod, request, view, pod.labels))
        if not left_alone:
            placement = place(pod, queue_rule, owned.owner, view)
        # The other rules see the labels as they will be, so that they are the same rules once the queue is written.
        subject = _subject(pod, request, view, {**pod.labels, **placement.labels})
        budget, sharing_rule = policy.budgets.find(subject), policy.sharing.find(subject)
    mode = policy.mode if budget is None or budget.mode is None else budget.mode

    share = express(
        pod,
        sharing_rule,
        kai_queue=queue_rule is not None and queue_rule.kai is not None,
        unmatched=policy.unmatched_share,
        catalogue=policy.gpus,
        extra_resources=policy.extra_gpu_resources,
        kai_schedulers=policy.kai_schedulers,
    )
    tenant, tenant_problems = annotations.read(pod.annotations)
    claims = _NO_CLAIM
    if budget is not None and (not share.problems or (mode is not Mode.ENFORCE and _is_charged(share, tenant))):
        claims = led_claim(pod, view, sharing_rule, budget, policy) or derive(pod, share.gpus, budget, policy)

    return Plan(
        mode=mode,
        ownership=owned,
        left_alone=left_alone,
        asks=asks,
        budget=budget,
        share=share,
        tenant=tenant,
        claims=claims,
        placement=placement,
        waits=not left_alone and _waits(budget, claims),
        problems=_unique((*problems_of(pod), *tenant_problems, *share.problems, *claims.problems, *placement.problems)),
        warnings=_warnings(pod, owned, share, claims, placement) + _uncounted(share, sharing_rule, placement),
    )


def is_left_alone(pod: Pod, owner: OwnerReference | None) -> bool:
    """Whether nothing may be patched: the API server refuses a gate beside nodeName, and DaemonSet pods cannot wait."""
    return bool(pod.spec.node_name) or is_mirror(pod) or (owner is not None and owner.kind_and_group == DAEMON_SET)


def _subject(pod: Pod, request: Request, view: View, labels: Mapping[str, str]) -> Subject:
    return Subject(
        namespace=request.namespace,
        namespace_labels=view.namespace_labels,
        pod_labels=labels,
        priority_class_name=pod.spec.priority_class_name,
    )


def _is_charged(share: Share, tenant: TenantAnnotations) -> bool:
    """Whether a pod whose share is wrong, and that Warn and Audit let in, gets GPUs of its own or declares a claim."""
    return share.gpus.counted > 0 or share.gpus.claims_unknown or tenant.tokens_per_second is not None


def _waits(budget: Budget | None, claims: ClaimOutcome) -> bool:
    """A pod of a Hold budget waits for room, unless there is nothing to charge for it."""
    return (
        budget is not None
        and budget.on_exceeded is OnExceeded.HOLD
        and claims.claim is not None
        and claims.claim.tokens_per_second > 0
    )


def _warnings(pod: Pod, owned: Ownership, share: Share, claims: ClaimOutcome, placement: Placement) -> tuple[str, ...]:
    warnings = (*near_misses(pod), *share.warnings, *claims.warnings, *placement.warnings)
    return warnings if owned.warning is None else (*warnings, owned.warning)


def _uncounted(share: Share, rule: SharingRule | None, placement: Placement) -> tuple[str, ...]:
    """KAI's shares are annotations, and Kueue counts resources (pkg/workload/resources.go)."""
    queue = placement.kueue_queue
    if queue is None or share.scheme is not Scheme.KAI or (rule is not None and rule.shadow_resource is not None):
        return ()
    warning = (
        f"Kueue counts no GPU for this share in queue {queue}: scheme KAI gives it no resource; the budget counts it, "
        "and a shadowResource in the sharing rule would let Kueue count it too"
    )
    return (warning,)


def _unique(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """One problem per field: the first that was found says it, later rooms only repeat it in their own words."""
    if not problems:
        return problems
    by_field: dict[str, Problem] = {}
    for problem in problems:
        by_field.setdefault(problem.field, problem)
    return tuple(by_field.values())
