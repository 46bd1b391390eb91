"""The cluster is one: its parts work together, and a pod takes the way that it takes in production."""

from typing import Any

import pytest

from tests.cluster.conftest import StartTollgate
from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import ApiError
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.kinds import DEPLOYMENT, NODE, POD, WORKLOAD
from tests.cluster.harness.kueue import GATE
from tests.cluster.harness.waiting import stays, wait_for
from tests.cluster.objects import GPU, gpu_pod, pod, policy

QUOTA = {GPU: "4", "cpu": "64", "memory": "256Gi"}


@pytest.fixture(scope="module")
def gpu_node(cluster: Cluster) -> str:
    return cluster.add_node(cluster.unique("gpu"), {GPU: "8"})


@pytest.fixture
def ana(cluster: Cluster, namespace: str) -> Account:
    """Somebody of the team whose namespace it is."""
    return cluster.user("ana", namespace)


def running(account: Account, name: str, namespace: str) -> dict[str, Any]:
    """The pod once it runs."""

    def look() -> dict[str, Any] | None:
        found = account.api.get(POD, name, namespace)
        assert found["status"].get("phase") == "Running", found["status"]
        return found

    return wait_for(f"pod {name} runs", look)


def test_a_deployment_s_pods_are_made_by_its_controllers_and_run(
    cluster: Cluster, gpu_node: str, ana: Account, namespace: str
) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("", "", {"cpu": "1"})["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": namespace}
    ana.api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    wait_for(
        "both replicas are ready",
        lambda: ana.api.get(DEPLOYMENT, "web", namespace)["status"].get("readyReplicas") == 2,
    )
    makers = {event["user"]["username"] for event in cluster.audit.events(verb="create", namespace=namespace)}
    assert makers == {"system:serviceaccount:kube-system:replicaset-controller"}


def test_people_may_work_in_their_namespaces_and_nowhere_else(cluster: Cluster, ana: Account, namespace: str) -> None:
    elsewhere = cluster.namespace()
    with pytest.raises(ApiError, match="403 Forbidden") as caught:
        ana.api.create(pod("a", elsewhere))
    assert 'User "ana" cannot create resource "pods"' in str(caught.value)
    assert ana.kubectl("auth", "can-i", "create", "pods", "-n", namespace).stdout == "yes\n"


@pytest.mark.parametrize("component", ["scheduler", "controllers", "kwok", "kueue", "tollgate"])
def test_no_component_is_an_administrator(cluster: Cluster, component: str) -> None:
    cluster.need("kueue")
    accounts = {
        "scheduler": "system:kube-scheduler",
        "controllers": "system:kube-controller-manager",
        "kwok": "system:serviceaccount:kube-system:kwok-controller",
        "kueue": "system:serviceaccount:kueue-system:kueue-controller-manager",
        "tollgate": "system:serviceaccount:tollgate-system:tollgate",
    }
    attributes = {"verb": "*", "group": "*", "resource": "*"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": accounts[component], "resourceAttributes": attributes},
    }
    assert cluster.admin.api.create(review)["status"]["allowed"] is False


def test_a_pod_without_gpus_never_reaches_us(
    cluster: Cluster, gpu_node: str, tollgate: StartTollgate, ana: Account, namespace: str
) -> None:
    ours = tollgate(policy(namespace, 1000))
    before = ours.reviews()
    ana.api.create(pod("web", namespace, {"cpu": "1"}))
    running(ana, "web", namespace)
    ana.api.delete(POD, "web", namespace)
    wait_for("the pod is gone", lambda: ana.api.find(POD, "web", namespace) is None)
    assert ours.reviews() == before


def test_a_gpu_pod_is_charged_and_runs_and_one_too_many_is_told_the_numbers(
    cluster: Cluster, gpu_node: str, tollgate: StartTollgate, ana: Account, namespace: str
) -> None:
    tollgate(policy(namespace, 2000))
    for name in ("a", "b"):
        made = ana.api.create(gpu_pod(name, namespace))
        assert made["metadata"]["labels"]["tollgate.dev/budget"] == namespace
        assert made["metadata"]["annotations"]["tollgate.dev/claim"] == "1000"
        running(ana, name, namespace)
    assert cluster.audit.annotations(namespace, "a")["validate.tollgate.dev/decision"] == "Admit"

    refused = ana.api.try_create(gpu_pod("c", namespace))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert "claims 1000 tokens/s" in refused.message
    assert "of 2000" in refused.message

    ana.api.delete(POD, "a", namespace, grace_seconds=0)
    wait_for("there is room again", lambda: ana.api.try_create(gpu_pod("c", namespace)).ok)


def test_kueue_gates_a_queued_pod_and_admits_it_when_there_is_quota(
    cluster: Cluster, gpu_node: str, tollgate: StartTollgate, ana: Account, namespace: str
) -> None:
    cluster.queue(namespace, "serving", QUOTA)
    tollgate(policy(namespace, 10000, queue="serving"), "--kueue", "present")
    made = ana.api.create(gpu_pod("first", namespace, gpus=3))
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "serving"
    assert GATE in {gate["name"] for gate in made["spec"]["schedulingGates"]}
    running(ana, "first", namespace)
    assert len(cluster.admin.api.list(WORKLOAD, namespace)) == 1

    ana.api.create(gpu_pod("second", namespace, gpus=3))
    stays("it waits for quota", lambda: bool(ana.api.get(POD, "second", namespace)["spec"].get("schedulingGates")))
    ana.api.delete(POD, "first", namespace)
    running(ana, "second", namespace)


def test_kubelets_may_make_mirror_pods_of_their_own_node_only(cluster: Cluster, gpu_node: str) -> None:
    other = cluster.add_node(cluster.unique("gpu"))
    mirror = pod("static-pod", "kube-system", annotations={"kubernetes.io/config.mirror": "abc"})
    mirror["spec"]["nodeName"] = gpu_node
    uid = cluster.admin.api.get(NODE, gpu_node)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": gpu_node, "uid": uid, "controller": True}
    mirror["metadata"]["ownerReferences"] = [owner]
    assert cluster.kubelet(other).api.try_create(mirror).status == 403
    assert cluster.kubelet(gpu_node).api.try_create(mirror).ok
