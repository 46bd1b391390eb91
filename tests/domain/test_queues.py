"""Which pods get a queue label, by the kind of their owner, and what becomes of the tenant's own."""

import pytest

from webhook.domain import keys
from webhook.domain.outcome import Reason
from webhook.domain.pod import Metadata, OwnerReference, Pod, Spec
from webhook.domain.queues import place
from webhook.domain.rules import KaiQueue, KueueQueue, OnOther, QueueRule
from webhook.domain.selectors import Selector
from webhook.domain.view import Owner, View

VIEW = View()


def kueue(on_other: OnOther = OnOther.KEEP, priority: str | None = None) -> QueueRule:
    return QueueRule(Selector(), kueue=KueueQueue("inference", priority), on_other=on_other)


def kai(on_other: OnOther = OnOther.KEEP) -> QueueRule:
    return QueueRule(Selector(), kai=KaiQueue("research"), on_other=on_other)


def pod(labels: dict[str, str] | None = None, scheduler: str | None = None) -> Pod:
    return Pod(Metadata(labels=labels), Spec(scheduler_name=scheduler))


def owner(api_version: str, kind: str) -> OwnerReference:
    return OwnerReference(api_version, kind, "x", "u", controller=True)


@pytest.mark.parametrize(
    ("reference", "labelled"),
    [
        (None, True),
        (owner("argoproj.io/v1alpha1", "Workflow"), True),
        (owner("tekton.dev/v1", "TaskRun"), True),
        (owner("apps/v1", "ReplicaSet"), True),
        (owner("kubeflow.org/v1", "PyTorchJob"), True),
        (owner("batch.volcano.sh/v1alpha1", "Job"), True),
        (owner("batch/v1", "Job"), False),
        (owner("ray.io/v1", "RayCluster"), False),
        (owner("kubeflow.org/v2beta1", "MPIJob"), False),
        (owner("v1", "Pod"), False),
        (owner("apps/v1", "StatefulSet"), False),
        (owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), False),
        (owner("apps/v1", "DaemonSet"), False),
    ],
)
def test_the_label_goes_where_kueue_would_not_queue_an_owner(reference: OwnerReference | None, labelled: bool) -> None:
    placement = place(pod(), kueue(), reference, VIEW)
    assert placement.labels == ({keys.KUEUE_QUEUE: "inference"} if labelled else {})
    assert placement.awaits_kueue is labelled


def test_a_pod_whose_deployment_kueue_queues_already_is_left_alone() -> None:
    view = View(owners=(Owner("Deployment", "apps", "d", "u", labels={keys.KUEUE_QUEUE: "own"}),))
    assert place(pod(), kueue(), owner("apps/v1", "ReplicaSet"), view).labels == {}


def test_the_priority_class_comes_with_the_queue_and_never_over_the_tenants() -> None:
    assert place(pod(), kueue(priority="high"), None, VIEW).labels[keys.KUEUE_PRIORITY_CLASS] == "high"
    own = pod({keys.KUEUE_PRIORITY_CLASS: "low"})
    assert keys.KUEUE_PRIORITY_CLASS not in place(own, kueue(priority="high"), None, VIEW).labels


@pytest.mark.parametrize(("rule", "key"), [(kueue, keys.KUEUE_QUEUE), (kai, keys.KAI_QUEUE)])
def test_another_queue_of_the_tenants_is_kept_replaced_or_denied_by_the_rule(rule: object, key: str) -> None:
    assert callable(rule)
    tenants = pod({key: "mine"})
    kept = place(tenants, rule(OnOther.KEEP), None, VIEW)
    assert kept.labels == {}
    assert "mine" in kept.warnings[0]
    assert place(tenants, rule(OnOther.REPLACE), None, VIEW).labels[key] != "mine"
    denied = place(tenants, rule(OnOther.DENY), None, VIEW)
    assert [(problem.reason, problem.field) for problem in denied.problems] == [
        (Reason.QUEUE_CONFLICT, f"metadata.labels[{key}]")
    ]


def test_kais_scheduler_is_set_where_none_is_named_and_another_is_refused() -> None:
    assert place(pod(), kai(), None, VIEW).scheduler_name == "kai-scheduler"
    assert place(pod(scheduler="default-scheduler"), kai(), None, VIEW).scheduler_name == "kai-scheduler"
    assert place(pod(scheduler="kai-scheduler"), kai(), None, VIEW).scheduler_name is None
    refused = place(pod(scheduler="volcano"), kai(), None, VIEW)
    assert refused.problems[0].reason is Reason.SCHEDULER_CONFLICT
    assert "volcano" in refused.problems[0].message


def test_without_a_rule_the_tenants_own_queue_still_awaits_kueues_gate() -> None:
    placement = place(pod({keys.KUEUE_QUEUE: "mine"}), None, None, VIEW)
    assert placement.labels == {}
    assert placement.kueue_queue == "mine"
    assert placement.awaits_kueue
    assert not place(pod(), None, None, VIEW).awaits_kueue
