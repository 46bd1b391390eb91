"""Which queue label a pod gets, by the rule that matches it and the kind of its owner (DESIGN section 7)."""

from collections.abc import Mapping

from msgspec import Struct

from webhook.domain import keys
from webhook.domain.outcome import Problem, Reason, field_of_label
from webhook.domain.pod import OwnerReference, Pod
from webhook.domain.rules import KaiQueue, KueueQueue, OnOther, QueueRule
from webhook.domain.view import View
from webhook.domain.who import DAEMON_SET, KUEUE_KINDS, KueuePods


class Placement(Struct, frozen=True, gc=False):
    """What the queue rule writes into a pod."""

    labels: Mapping[str, str] = {}
    """Labels to set; only those that are not already so."""
    scheduler_name: str | None = None
    kueue_queue: str | None = None
    """The Kueue queue that the pod is in once the labels are set: ours, or the tenant's."""
    awaits_kueue: bool = False
    """Kueue is to put its own gate on this very pod."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def kueue_pods(owner: OwnerReference | None, view: View) -> KueuePods:
    """Whether Kueue queues this pod itself, or an owner of it."""
    if owner is not None and owner.kind_and_group == DAEMON_SET:
        return KueuePods.NEVER
    treatment = KueuePods.LABEL if owner is None else KUEUE_KINDS.get(owner.kind_and_group, KueuePods.LABEL)
    if treatment is KueuePods.LABEL and any(keys.KUEUE_QUEUE in link.labels for link in view.owners):
        return KueuePods.LEAVE
    return treatment


def place(pod: Pod, rule: QueueRule | None, owner: OwnerReference | None, view: View) -> Placement:
    """The queue labels of one pod that may be mutated."""
    current = pod.labels.get(keys.KUEUE_QUEUE)
    treatment = kueue_pods(owner, view)
    labels: dict[str, str] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    if rule is not None and rule.kueue is not None:
        _place_kueue(pod, rule.kueue, rule.on_other, treatment, labels, problems, warnings)
    scheduler_name = None
    if rule is not None and rule.kai is not None:
        scheduler_name = _place_kai(pod, rule.kai, rule.on_other, labels, problems, warnings)
    queue = labels.get(keys.KUEUE_QUEUE, current)
    return Placement(
        labels=labels,
        scheduler_name=scheduler_name,
        kueue_queue=queue,
        awaits_kueue=queue is not None and treatment is KueuePods.LABEL,
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def _place_kueue(
    pod: Pod,
    queue: KueueQueue,
    on_other: OnOther,
    treatment: KueuePods,
    labels: dict[str, str],
    problems: list[Problem],
    warnings: list[str],
) -> None:
    if treatment is not KueuePods.LABEL:
        return
    kept = _set_or_keep(pod, keys.KUEUE_QUEUE, queue.local_queue, on_other, labels, problems, warnings)
    if not kept and queue.priority_class is not None and keys.KUEUE_PRIORITY_CLASS not in pod.labels:
        labels[keys.KUEUE_PRIORITY_CLASS] = queue.priority_class


def _place_kai(
    pod: Pod,
    queue: KaiQueue,
    on_other: OnOther,
    labels: dict[str, str],
    problems: list[Problem],
    warnings: list[str],
) -> str | None:
    _set_or_keep(pod, keys.KAI_QUEUE, queue.queue, on_other, labels, problems, warnings)
    current = pod.spec.scheduler_name
    if current == queue.scheduler_name:
        return None
    if not current or current == keys.DEFAULT_SCHEDULER:
        return queue.scheduler_name
    problems.append(
        Problem(
            Reason.SCHEDULER_CONFLICT,
            "spec.schedulerName",
            f"{current!r}, but these pods go to KAI's queue {queue.queue}, which only {queue.scheduler_name} serves; "
            f"leave schedulerName empty or write {queue.scheduler_name}",
        )
    )
    return None


def _set_or_keep(
    pod: Pod,
    key: str,
    wanted: str,
    on_other: OnOther,
    labels: dict[str, str],
    problems: list[Problem],
    warnings: list[str],
) -> bool:
    """Set a queue label by the rule's onOther. True where another queue of the tenant's is kept."""
    current = pod.labels.get(key)
    if current == wanted:
        return False
    if current is None or on_other is OnOther.REPLACE:
        labels[key] = wanted
        return False
    if on_other is OnOther.KEEP:
        warnings.append(f"label {key}: {current} is kept; the policy's queue here is {wanted}")
        return True
    problems.append(
        Problem(
            Reason.QUEUE_CONFLICT,
            field_of_label(key),
            f"{current!r}, but these pods belong to queue {wanted}; remove the label or write {wanted}",
        )
    )
    return True
