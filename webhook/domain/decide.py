"""The two questions, composed of the rooms beside this file: `mutate` (what to write) and `validate` (may it come).

Three families of denial: the pod is wrong (422, a cause per field), not now or not allowed (403, one line with all
numbers), and, decided by the shell, we cannot decide (503). In Warn and Audit nothing is denied; Warn says what Enforce
would have done.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from webhook.domain import keys, messages
from webhook.domain.budgets import Charge, Room
from webhook.domain.edits import edits_of, gated_by
from webhook.domain.gpus import is_gpu_pod
from webhook.domain.outcome import (
    Claim,
    Edits,
    Problem,
    Reason,
    Verdict,
    field_of_annotation,
    field_of_label,
)
from webhook.domain.plan import Plan, make_plan
from webhook.domain.pod import Pod
from webhook.domain.rules import Mode, Policy, Scheme, UnmatchedGPUs
from webhook.domain.sharing import backed, near_misses
from webhook.domain.view import Request, View
from webhook.domain.who import forbidden_keys, is_added_controller, is_exempt, is_kubelet, is_mirror


class Decision(Struct, frozen=True, gc=False):
    """The whole answer to one review, before it is put on the wire."""

    verdict: Verdict
    reason: Reason
    message: str = ""
    """One line, all numbers, stable order, the next step."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the pod; where the verdict is Deny for this, the answer is a 422 with these as causes."""
    warnings: tuple[str, ...] = ()
    edits: Edits = Edits()
    """mutate only."""
    claim: Claim | None = None
    budget: str | None = None
    charge: Charge | None = None
    """validate only: what the ledger must hold before the pod is allowed; None: nothing to charge."""
    audit: Mapping[str, str] = {}
    """Audit annotations, keys without a slash."""

    @property
    def code(self) -> int:
        """The status code of a denial: 422 where the pod is wrong, 403 where it may not come (now)."""
        return 422 if self.problems else 403


class Refusal(Struct, frozen=True, gc=False):
    """Why validate refuses a pod, before its mode has been looked at."""

    reason: Reason
    message: str
    problems: tuple[Problem, ...] = ()


def mutate(pod: Pod, request: Request, policy: Policy, view: View) -> Decision:
    """What is to be written into the pod. Pure; running it on its own result gives no edits."""
    not_ours = _not_ours(pod, request, policy)
    if not_ours is not None:
        return not_ours
    plan = make_plan(pod, request, policy, view)
    if plan.left_alone:
        return _decision(Verdict.UNTOUCHED, Reason.LEFT_ALONE, plan, request, policy)
    warnings = plan.warnings
    if plan.problems:
        refusal = _wrong(plan.problems)
        if plan.mode is Mode.ENFORCE:
            return _denied(refusal, plan, request, policy)
        warnings = (*warnings, messages.would(plan.mode, refusal.message))
    reason = Reason.GATED if plan.gated else _reason_to_admit(plan)
    decision = _decision(Verdict.ADMIT, reason, plan, request, policy)
    return replace(decision, edits=edits_of(pod, plan), warnings=warnings)


def validate(pod: Pod, request: Request, policy: Policy, view: View) -> Decision:
    """Whether the pod as it stands after all mutation may come, before the ledger is asked.

    Every check of mutate is repeated, since mutate fails open, and what mutate promised must still be true.
    """
    not_ours = _not_ours(pod, request, policy)
    if not_ours is not None:
        return not_ours
    plan = make_plan(pod, request, policy, view)
    refusals = _refusals(pod, request, policy, view, plan)
    warnings = plan.warnings
    if plan.mode is Mode.ENFORCE:
        gravest = next(refusals, None)
        if gravest is not None:
            return _denied(gravest, plan, request, policy)
    else:
        told = (refusal.message for refusal in refusals if plan.mode is Mode.WARN or refusal.problems)
        warnings = (*warnings, *(messages.would(plan.mode, message) for message in told))
    if plan.asks and plan.budget is None and policy.unmatched_gpus is UnmatchedGPUs.WARN:
        warnings = (*warnings, _no_budget(request))
    decision = _decision(Verdict.ADMIT, _reason_to_admit(plan), plan, request, policy)
    return replace(decision, warnings=warnings, charge=_charge(pod, request, plan))


def settle(decision: Decision, verdict: Verdict, room: Room, policy: Policy, behind: str | None = None) -> Decision:
    """The final answer once the ledger has said Admit, Hold or Deny for `decision.charge`.

    `room` are the numbers before this pod; `behind` names the pod whose turn must come first.
    """
    charge = decision.charge
    if charge is None or decision.claim is None:
        return decision
    tokens = charge.tokens_per_second
    warnings = decision.warnings
    if not charge.limited:
        budget = policy.budgets_by_name[room.name]
        mode = budget.mode or policy.mode
        reason, message = Reason.OBSERVED, messages.observed(room, tokens, mode)
        if mode is Mode.WARN and tokens > room.largest:
            warnings = (*warnings, _enforce_would(room, tokens, holds=charge.holds))
    elif verdict is Verdict.ADMIT:
        reason, message = Reason.FITS, messages.fits(room, tokens, decision.claim.source)
    elif verdict is Verdict.HOLD:
        reason, message = Reason.WAITING, messages.waits(room, tokens, behind)
    elif tokens > room.ever:
        reason, message = Reason.NEVER_FITS, messages.never_fits(room, tokens)
    else:
        reason, message = Reason.TOKEN_BUDGET_EXCEEDED, messages.no_room(room, tokens)
    audit = {
        **decision.audit,
        "decision": verdict,
        "reason": reason,
        "used": str(room.used + room.reserved),
        "limit": str(room.nominal),
    }
    return Decision(
        verdict=verdict,
        reason=reason,
        message=message,
        warnings=warnings,
        claim=decision.claim,
        budget=decision.budget,
        charge=charge,
        audit=audit,
    )


def refuse_keys(pod: Pod, request: Request, policy: Policy) -> Decision:
    """The answer of the `keys` entry: a denial that names the keys that a tenant must not write.

    The entry matches only requests that are to be refused, so that an outage stops nobody honest. An account that the
    policy adds in controllerAccounts is let through: match conditions are static and cannot know it.
    """
    if request.requester is not None and is_added_controller(request.requester, policy):
        return Decision(Verdict.UNTOUCHED, Reason.CHECKED)
    found = forbidden_keys(pod, request, policy)
    # Behind Kueue's gate the keys may be Kueue's own: then its webhook ran before ours, and the tenant wrote nothing.
    message = messages.keys_refused(found, request.requester, kueue_ran=keys.KUEUE_GATE in pod.gates)
    audit = _audit(Verdict.DENY, Reason.FORBIDDEN_KEY, request, policy)
    return Decision(verdict=Verdict.DENY, reason=Reason.FORBIDDEN_KEY, message=message, audit=audit)


def _not_ours(pod: Pod, request: Request, policy: Policy) -> Decision | None:
    """The answer for a pod that is never touched: exempt namespaces, pods without GPUs, kubelet's mirror pods."""
    if is_exempt(request.namespace, policy):
        return _untouched(Reason.EXEMPT_NAMESPACE, request, policy)
    if not is_gpu_pod(pod, policy.extra_gpu_resources):
        return replace(_untouched(Reason.NOT_GPU, request, policy), warnings=near_misses(pod))
    if is_mirror(pod) and is_kubelet(request.requester):
        return _untouched(Reason.MIRROR_POD, request, policy)
    return None


def _untouched(reason: Reason, request: Request, policy: Policy) -> Decision:
    return Decision(Verdict.UNTOUCHED, reason, audit=_audit(Verdict.UNTOUCHED, reason, request, policy))


def _refusals(pod: Pod, request: Request, policy: Policy, view: View, plan: Plan) -> Iterator[Refusal]:
    """Every reason to refuse the pod, the gravest first."""
    asked = messages.who_asked(request.requester)
    if is_mirror(pod):
        yield Refusal(
            Reason.FORGED_MIRROR,
            f"annotation {keys.MIRROR} is for kubelet's mirror pods; {asked} is in no group {keys.NODES_GROUP}",
        )
    forged = plan.ownership.forged
    if forged is not None:
        yield Refusal(
            Reason.FORGED_OWNER,
            f"metadata.ownerReferences names {forged.kind} {forged.name}, but {asked} is not the account of that "
            f"controller; create the {forged.kind} instead, or name the account in "
            f"controllerAccounts[{forged.kind_and_group}]",
        )
    if plan.left_alone:
        copies = _copies(pod)
        if copies:
            yield _wrong(copies)
    if plan.problems:
        yield _wrong(plan.problems)
    if plan.left_alone and not backed(pod, plan.share):
        yield _wrong((_unbacked(plan),))
    if plan.asks and plan.budget is None and policy.unmatched_gpus is UnmatchedGPUs.DENY:
        yield Refusal(Reason.UNMATCHED_GPUS, _no_budget(request))
    if plan.claims.unknown is not None:
        yield Refusal(Reason.UNKNOWN_CLAIM, plan.claims.unknown)
    yield from _broken_promises(pod, view, plan)


def _broken_promises(pod: Pod, view: View, plan: Plan) -> Iterator[Refusal]:
    """What mutate wrote, or would have written, and is not there; and Kueue's gate, where Kueue is installed."""
    missing = _promised(edits_of(pod, plan))
    if not missing.empty:
        what = ", ".join(_described(missing))
        if plan.budget is not None and keys.BUDGET_LABEL in pod.labels:
            yield Refusal(
                Reason.CHANGED_AFTER_MUTATE,
                f"the pod was changed after Tollgate's mutating webhook: {what}; "
                "let that webhook sort before gpu-tollgate, or leave these fields alone",
            )
        else:
            yield Refusal(
                Reason.NOT_MUTATED,
                "Tollgate's mutating webhook did not run on this pod (it fails open): these fields are not as it "
                f"writes them: {what}; create the pod again, and if that does not help, look for a webhook that sorts "
                "after gpu-tollgate and takes them away",
            )
    if view.kueue_present and plan.placement.awaits_kueue and keys.KUEUE_GATE not in pod.gates:
        yield Refusal(
            Reason.KUEUE_GATE_MISSING,
            f"label {keys.KUEUE_QUEUE}={plan.placement.kueue_queue} but no gate {keys.KUEUE_GATE}: Kueue's webhook ran "
            "before ours, or its pod integration is off in this namespace; the pod would run unqueued",
        )


def _promised(edits: Edits) -> Edits:
    """The edits without our entry for Kueue, which may be missing in all honesty.

    Kueue's webhook, after ours, puts pods without a queue into a LocalQueue called `default` (KEP-2936): mutate saw no
    queue and told Kueue nothing. Then Kueue reserves quota for a pod behind our gate, which costs but breaks nothing.
    """
    if keys.KUEUE_GATED_BY not in edits.set_annotations:
        return edits
    others = {key: value for key, value in edits.set_annotations.items() if key != keys.KUEUE_GATED_BY}
    return replace(edits, set_annotations=others)


def _described(edits: Edits) -> Iterator[str]:
    """The parts of edits by their field paths."""
    for key in (*edits.set_labels, *edits.remove_labels):
        yield field_of_label(key)
    for key in (*edits.set_annotations, *edits.remove_annotations):
        yield field_of_annotation(key)
    if edits.add_gate is not None or edits.remove_gates:
        yield "spec.schedulingGates"
    if edits.scheduler_name is not None:
        yield "spec.schedulerName"
    if edits.limits is not None:
        yield f"spec.containers[{edits.limits.index}].resources"
    for key in edits.set_node_selector:
        yield f"spec.nodeSelector[{key}]"
    if edits.require_node_affinity:
        yield "spec.affinity.nodeAffinity"
    if edits.add_tolerations:
        yield "spec.tolerations"


def _copies(pod: Pod) -> tuple[Problem, ...]:
    """Our own keys on a pod that mutate leaves alone: nobody but the tenant can have written them."""
    found = [field_of_label(keys.BUDGET_LABEL)] if keys.BUDGET_LABEL in pod.labels else []
    ours = (keys.CLAIM_ANNOTATION, keys.SHARE_ANNOTATION)
    found += [field_of_annotation(key) for key in ours if key in pod.annotations]
    if keys.GATE in gated_by(pod):
        found.append(field_of_annotation(keys.KUEUE_GATED_BY))
    if keys.GATE in pod.gates:
        found.append("spec.schedulingGates")
    message = f"{keys.PREFIX}* here is written by Tollgate alone; remove it"
    return tuple(Problem(Reason.RESERVED_KEY, field, message) for field in found)


def _unbacked(plan: Plan) -> Problem:
    if plan.share.scheme is Scheme.KAI:
        why = "KAI gives shares only to pods that its own scheduler places"
        step = "leave spec.nodeName out and use no DaemonSet, or ask for whole GPUs"
    else:
        why = "a bound or DaemonSet pod cannot be given its resources"
        step = "write them into the pod, or let the scheduler place it"
    return Problem(
        Reason.UNBACKED_SHARE,
        "spec",
        f"asks for a share ({plan.share.text or 'which no rule covers'}), but {why}; {step}",
    )


def _no_budget(request: Request) -> str:
    return (
        f"no budget takes this GPU pod of namespace {request.namespace}; add its namespace or labels to a selector "
        "under budgets"
    )


def _wrong(problems: tuple[Problem, ...]) -> Refusal:
    message = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
    return Refusal(problems[0].reason, message, problems)


def _enforce_would(room: Room, tokens_per_second: int, *, holds: bool) -> str:
    if tokens_per_second > room.ever:
        return messages.would(Mode.WARN, messages.never_fits(room, tokens_per_second))
    if holds:
        return messages.would_hold(messages.waits(room, tokens_per_second, None))
    return messages.would(Mode.WARN, messages.no_room(room, tokens_per_second))


def _reason_to_admit(plan: Plan) -> Reason:
    if not plan.asks:
        return Reason.CHECKED
    if plan.budget is None:
        return Reason.UNMETERED
    if plan.claim is None:
        return Reason.CLAIM_UNKNOWN
    return Reason.METERED if plan.claim.tokens_per_second else Reason.CLAIMED_BY_LEADER


def _charge(pod: Pod, request: Request, plan: Plan) -> Charge | None:
    if plan.budget is None or plan.claim is None or not plan.claim.tokens_per_second:
        return None
    return Charge(
        uid=pod.metadata.uid or "",
        kind="Pod",
        namespace=request.namespace,
        name=request.name or pod.metadata.name or "",
        budget=plan.budget.name,
        tokens_per_second=plan.claim.tokens_per_second,
        limited=plan.mode is Mode.ENFORCE,
        holds=plan.waits,
        priority=pod.spec.priority or 0,
        deadline_epoch_seconds=plan.tenant.deadline_epoch_seconds,
    )


def _denied(refusal: Refusal, plan: Plan, request: Request, policy: Policy) -> Decision:
    decision = _decision(Verdict.DENY, refusal.reason, plan, request, policy)
    return replace(decision, message=refusal.message, problems=refusal.problems, warnings=plan.warnings)


def _decision(verdict: Verdict, reason: Reason, plan: Plan, request: Request, policy: Policy) -> Decision:
    audit = _audit(verdict, reason, request, policy)
    if plan.budget is not None:
        audit["budget"] = plan.budget.name
    if plan.claim is not None:
        audit["claim"] = str(plan.claim.tokens_per_second)
        audit["claim-source"] = plan.claim.source
    if plan.share.text:
        audit["share"] = plan.share.text
    return Decision(
        verdict=verdict,
        reason=reason,
        claim=plan.claim,
        budget=plan.budget.name if plan.budget is not None else None,
        audit=audit,
    )


def _audit(verdict: Verdict, reason: Reason, request: Request, policy: Policy) -> dict[str, str]:
    """What every decision tells the audit log, also one that a pod is none of ours."""
    audit: dict[str, str] = {"decision": verdict, "reason": reason, "policy": policy.digest}
    if request.dry_run:
        audit["dry-run"] = "true"
    return audit
