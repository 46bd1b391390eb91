"""Who made a pod counts by the account that asks, not by what the pod says."""

import pytest

from webhook.domain import keys
from webhook.domain.decide import refuse_keys
from webhook.domain.outcome import Verdict
from webhook.domain.pod import Metadata, OwnerReference, Pod, SchedulingGate, Spec
from webhook.domain.rules import Policy
from webhook.domain.view import Request, Requester
from webhook.domain.who import forbidden_keys, is_exempt, is_owner_controller, ownership

POLICY = Policy(
    exempt_namespaces=frozenset({"rook-ceph"}),
    controller_accounts={
        "RayCluster.ray.io": frozenset({"system:serviceaccount:ray-system:kuberay-operator"}),
        "Job.batch": frozenset({"system:serviceaccount:jobs:custom"}),
        "Notebook.kubeflow.org": frozenset({"system:serviceaccount:kubeflow:notebooks"}),
    },
)


def owned(api_version: str, kind: str, *, controller: bool = True) -> Pod:
    return Pod(Metadata(owner_references=[OwnerReference(api_version, kind, "x", "u", controller)]))


def asked_by(username: str, *groups: str, namespace: str = "team") -> Request:
    return Request(namespace, "p", Requester(username, frozenset(groups)))


KUBE = "system:serviceaccount:kube-system:"


@pytest.mark.parametrize(
    ("api_version", "kind", "username", "expected"),
    [
        ("apps/v1", "ReplicaSet", KUBE + "replicaset-controller", "believed"),
        ("apps/v1", "DaemonSet", KUBE + "daemon-set-controller", "believed"),
        ("apps/v1", "StatefulSet", KUBE + "statefulset-controller", "believed"),
        ("batch/v1", "Job", KUBE + "job-controller", "believed"),
        ("batch/v1", "Job", "system:kube-controller-manager", "believed"),
        ("batch/v1", "Job", "system:serviceaccount:jobs:custom", "believed"),
        ("v1", "ReplicationController", KUBE + "replication-controller", "believed"),
        ("ray.io/v1", "RayCluster", "system:serviceaccount:ray-system:kuberay-operator", "believed"),
        ("v1", "Pod", "system:serviceaccount:team:spark", "believed"),
        ("batch/v1", "Job", "alice", "forged"),
        ("batch/v1", "Job", KUBE + "replicaset-controller", "forged"),
        ("apps/v1", "ReplicaSet", "system:serviceaccount:team:default", "forged"),
        ("ray.io/v1", "RayCluster", "alice", "forged"),
        ("v1", "Pod", "alice", "forged"),
        ("v1", "Pod", "system:serviceaccount:other:spark", "forged"),
        ("v1", "Pod", "system:serviceaccount:team-b:spark", "forged"),
        ("apps/v1", "DaemonSet", "alice", "ignored"),
        ("kubeflow.org/v1", "Notebook", "alice", "ignored"),
        ("v1", "Node", "alice", "ignored"),
        ("argoproj.io/v1alpha1", "Workflow", "alice", "warned"),
        ("batch.volcano.sh/v1alpha1", "Job", "alice", "warned"),
        ("ray.io/v1", "RayJob", "alice", "warned"),
    ],
)
def test_an_owner_counts_only_from_its_controllers_account(
    api_version: str, kind: str, username: str, expected: str
) -> None:
    result = ownership(owned(api_version, kind), asked_by(username), POLICY)
    seen = "forged" if result.forged else "ignored" if result.owner is None else "believed"
    assert seen == expected.replace("warned", "believed")
    assert (result.warning is not None) == (expected == "warned")


def test_offline_the_pod_is_believed() -> None:
    assert ownership(owned("batch/v1", "Job"), Request("team"), POLICY).owner is not None


def test_an_owner_that_is_no_controller_never_counts() -> None:
    result = ownership(owned("batch/v1", "Job", controller=False), asked_by("alice"), POLICY)
    assert result.owner is None
    assert result.forged is None


@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize("key", keys.KUEUE_OWN_KEYS)
def test_kueues_own_keys_are_refused_from_everybody_but_owner_controllers(place: str, key: str) -> None:
    metadata = Metadata(labels={key: "true"}) if place == "labels" else Metadata(annotations={key: "true"})
    pod = Pod(metadata)
    assert forbidden_keys(pod, asked_by("alice"), POLICY) == (f"metadata.{place}[{key}]",)
    assert forbidden_keys(pod, Request("team"), POLICY) == (f"metadata.{place}[{key}]",)
    assert forbidden_keys(pod, asked_by(KUBE + "replicaset-controller"), POLICY) == ()
    assert forbidden_keys(pod, asked_by("system:serviceaccount:ray-system:kuberay-operator"), POLICY) == ()


@pytest.mark.parametrize(
    ("username", "verdict"),
    [
        ("alice", Verdict.DENY),
        (KUBE + "job-controller", Verdict.DENY),
        ("system:serviceaccount:ray-system:kuberay-operator", Verdict.UNTOUCHED),
    ],
)
def test_the_keys_entry_refuses_whoever_reaches_it_but_the_accounts_that_the_policy_adds(
    username: str, verdict: Verdict
) -> None:
    decision = refuse_keys(Pod(Metadata(labels={keys.KUEUE_MANAGED: "true"})), asked_by(username), POLICY)
    assert decision.verdict is verdict


@pytest.mark.parametrize(("gate", "told"), [(keys.KUEUE_GATE, True), ("example.com/other", False)])
def test_where_kueue_was_asked_before_us_the_refusal_of_its_keys_says_so(gate: str, told: bool) -> None:
    pod = Pod(Metadata(labels={keys.KUEUE_MANAGED: "true"}), Spec(scheduling_gates=[SchedulingGate(gate)]))
    decision = refuse_keys(pod, asked_by("alice"), POLICY)
    assert decision.verdict is Verdict.DENY
    assert ("let Tollgate's configuration sort before Kueue's" in decision.message) is told


def test_offline_a_controllers_pod_may_carry_what_kueue_wrote_into_its_template() -> None:
    pod = Pod(
        Metadata(
            labels={keys.KUEUE_MANAGED: "true"},
            owner_references=[OwnerReference("apps/v1", "ReplicaSet", "x", "u", controller=True)],
        )
    )
    assert forbidden_keys(pod, Request("team"), POLICY) == ()


def test_accounts_of_the_policy_add_to_the_built_in_ones() -> None:
    assert is_owner_controller(Requester("system:serviceaccount:jobs:custom"), POLICY)
    assert is_owner_controller(Requester(KUBE + "job-controller"), POLICY)
    assert not is_owner_controller(Requester("alice"), POLICY)


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [("kube-system", True), ("kai-resource-reservation", True), ("rook-ceph", True), ("team", False)],
)
def test_exempt_namespaces_are_the_built_in_ones_and_the_policys(namespace: str, expected: bool) -> None:
    assert is_exempt(namespace, POLICY) is expected
