"""What mutate writes into one pod: our keys, the gate, the queue labels and the share's resources.

A tenant's copy of what only we write means nothing: it is overwritten, or removed where we give none.
"""

from webhook.domain import keys
from webhook.domain.outcome import Edits
from webhook.domain.plan import Plan
from webhook.domain.pod import Pod
from webhook.domain.rules import Mode

_NO_EDITS = Edits()


def edits_of(pod: Pod, plan: Plan) -> Edits:
    """The edits of a plan; parts that are already so are left out. None for a pod that is left alone."""
    if plan.left_alone:
        return _NO_EDITS
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if plan.budget is not None:
        labels[keys.BUDGET_LABEL] = plan.budget.name
    if plan.claim is not None:
        annotations[keys.CLAIM_ANNOTATION] = str(plan.claim.tokens_per_second)
    if plan.share.text:
        annotations[keys.SHARE_ANNOTATION] = plan.share.text
    entries = _entries(gated_by(pod), wanted=_tells_kueue(plan))
    if entries:
        annotations[keys.KUEUE_GATED_BY] = entries
    ours = [keys.CLAIM_ANNOTATION, keys.SHARE_ANNOTATION]
    if entries is not None:
        ours.append(keys.KUEUE_GATED_BY)
    if plan.mode is not Mode.AUDIT:
        labels.update(plan.placement.labels)
    gates = pod.gates
    share = plan.share.edits if plan.mode is not Mode.AUDIT and not plan.share.problems else _NO_EDITS
    scheduler_name = plan.placement.scheduler_name if plan.mode is not Mode.AUDIT else None
    return Edits(
        set_labels=_missing(labels, pod.labels),
        remove_labels=_surplus((keys.BUDGET_LABEL,), labels, pod.labels),
        set_annotations=_missing(annotations, pod.annotations),
        remove_annotations=_surplus(ours, annotations, pod.annotations),
        add_gate=keys.GATE if plan.gated and keys.GATE not in gates else None,
        remove_gates=() if plan.gated else tuple(i for i, gate in enumerate(gates) if gate == keys.GATE),
        scheduler_name=scheduler_name or share.scheduler_name,
        limits=share.limits,
        set_node_selector=share.set_node_selector,
        require_node_affinity=share.require_node_affinity,
        add_tolerations=share.add_tolerations,
    )


def _tells_kueue(plan: Plan) -> bool:
    """Kueue keeps the Workload of a pod behind our gate without quota, if it is told (KEP-6915)."""
    return plan.gated and plan.placement.kueue_queue is not None


def gated_by(pod: Pod) -> list[str]:
    """The entries of `admission-gated-by`, the list of those that Kueue waits for; empty where there is none."""
    return [entry.strip() for entry in pod.annotations.get(keys.KUEUE_GATED_BY, "").split(",")]


def _entries(current: list[str], *, wanted: bool) -> str | None:
    """The list with our entry, once, or without it; the entries of others keep their place.

    Empty: the annotation is to go. None: it is not ours to touch.
    """
    if not wanted and keys.GATE not in current:
        return None
    kept = dict.fromkeys(
        entry for entry in current if entry and (wanted or entry != keys.GATE)
    )  # Kueue wants no doubles
    return ",".join(kept | {keys.GATE: None} if wanted else kept)


def _missing(wanted: dict[str, str], present: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if present.get(key) != value}


def _surplus(ours: tuple[str, ...] | list[str], wanted: dict[str, str], present: dict[str, str]) -> tuple[str, ...]:
    return tuple(key for key in ours if key in present and key not in wanted)
