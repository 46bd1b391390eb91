"""Which requests the API server sends to us, and what becomes of pods while nobody answers.

In a cluster of its own: the request counter must count nobody else's pods.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Answer, Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.kinds import DEPLOYMENT, NAMESPACE, NODE, POD
from tests.cluster.harness.tollgate import Tollgate
from tests.cluster.harness.waiting import wait_for
from tests.cluster.objects import GPU, gpu_pod, merged, pod, policy

AUDITED, METERED = "audited", "metered"
"""Namespaces with a budget of mode Audit, in which no pod ends at our first call, and with one of mode Enforce."""

MIRROR = "kubernetes.io/config.mirror"
MANAGED = "kueue.x-k8s.io/managed"
EXEMPT = (
    "gpu-operator",
    "kai-resource-reservation",
    "kai-scale-adjust",
    "kai-scheduler",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "kueue-system",
    "tollgate-system",
)
ONE_GPU = {"limits": {GPU: "1"}}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


class Calls(NamedTuple):
    """Reviews that we answered."""

    keys: int
    mutate: int
    validate: int


NONE = Calls(0, 0, 0)
BOTH = Calls(0, 1, 1)


def calls(ours: Tollgate) -> Calls:
    return Calls(*(ours.reviews(operation) for operation in Calls._fields))


def since(before: Calls, ours: Tollgate) -> Calls:
    return Calls(*(now - then for now, then in zip(calls(ours), before, strict=True)))


@pytest.fixture(scope="module")
def node(own_cluster: Cluster) -> str:
    return own_cluster.add_node("gpu", {GPU: "64", "hugepages-2Mi": "1Gi"})


@pytest.fixture(scope="module")
def ours(own_cluster: Cluster, node: str) -> Iterator[Tollgate]:
    for namespace in (AUDITED, METERED):
        own_cluster.namespace(namespace)
    yield own_cluster.start_tollgate(merged(policy(AUDITED, 1000, mode="Audit"), policy(METERED, 100_000)))
    own_cluster.stop_tollgate()


@pytest.fixture(scope="module")
def ana(own_cluster: Cluster, ours: Tollgate) -> Account:
    return own_cluster.user("ana", AUDITED, METERED)


@pytest.fixture
def name(own_cluster: Cluster) -> str:
    """Of a pod that nobody has."""
    return own_cluster.unique("pod")


def made(metadata: Object | None = None, resources: Object | None = None, **spec: Any) -> Object:
    """A pod without a name."""
    found = pod("", AUDITED, **(metadata or {}))
    found["spec"] |= spec
    if resources is not None:
        found["spec"]["containers"][0]["resources"] = resources
    return found


def container(resources: Object, **more: Any) -> Object:
    return {"name": "second", "image": "registry.example/second:1", "resources": resources, **more}


def bound(pod: Object, node: str) -> Object:
    pod["spec"]["nodeName"] = node
    return pod


def mirror(cluster: Cluster, name: str, namespace: str, node: str) -> Object:
    """A GPU pod as the kubelet of this node reports it from a file."""
    found = bound(gpu_pod(name, namespace, annotations={MIRROR: "abc"}), node)
    uid = cluster.admin.api.get(NODE, node)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    return found


def deployment(name: str, namespace: str, **labels: str) -> Object:
    """Two CPU pods with these labels."""
    labels |= {"app": name}
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": pod("", "", {"cpu": "1"})["spec"]},
        },
    }


def run(account: Account, name: str, namespace: str) -> Object:
    def look() -> Object | None:
        found = account.api.get(POD, name, namespace)
        return found if found["status"].get("phase") == "Running" else None

    return wait_for(f"pod {name} runs", look)


def replicas_run(account: Account, name: str, namespace: str) -> None:
    def look() -> bool:
        ready: int | None = account.api.get(DEPLOYMENT, name, namespace)["status"].get("readyReplicas")
        return ready == 2

    wait_for(f"both replicas of {name} are ready", look)


# Who reaches us.


OTHERS = {
    "no resources": made(),
    "empty resources": made(resources={}),
    "built-in resources": made(
        resources={"limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi"}}
    ),
    "init container": made(initContainers=[container({"limits": {"cpu": "1"}})]),
    "keys that look like ours": made({"annotations": {"gpu-fractions": "1", "my-tollgate.dev/model": "x"}}),
    "labels": made({"labels": {"app": "web", "gpu-fraction": "0.5"}}),
    "empty lists": made({"labels": {}, "annotations": {}}, initContainers=[], resourceClaims=[]),
    "queue of Kueue": made({"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
}


@pytest.mark.parametrize("wanted", OTHERS.values(), ids=OTHERS)
def test_a_pod_without_gpus_never_reaches_us(ours: Tollgate, ana: Account, name: str, wanted: Object) -> None:
    before = calls(ours)
    ana.api.create({**wanted, "metadata": {**wanted["metadata"], "name": name}})
    ana.api.patch(POD, name, AUDITED, {"metadata": {"labels": {"changed": "true"}}})
    run(ana, name, AUDITED)
    ana.api.delete(POD, name, AUDITED)
    wait_for("the pod is gone", lambda: ana.api.find(POD, name, AUDITED) is None)
    assert since(before, ours) == NONE


GPU_PODS = {
    "limit": made(resources=ONE_GPU),
    "second container": made(
        containers=[{"name": "main", "image": "registry.example/main:1"}, container(ONE_GPU)],
    ),
    "init container": made(initContainers=[container(ONE_GPU)]),
    "sidecar": made(initContainers=[container(ONE_GPU, restartPolicy="Always")]),
    "MIG": made(resources={"limits": {"nvidia.com/mig-3g.40gb": "1"}}),
    "AMD": made(resources={"limits": {"amd.com/gpu": "1"}}),
    "any extended resource": made(resources={"limits": {"rdma.example/hca": "1"}}),
    "resource claim": made(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]),
    "gpu-fraction": made({"annotations": {"gpu-fraction": "0.5"}}),
    "gpu-memory": made({"annotations": {"gpu-memory": "4096"}}),
    "declared claim": made({"annotations": {"tollgate.dev/tokens-per-second": "100"}}),
    "typing error": made({"annotations": {"tollgate.dev/tokens-per-seconds": "100"}}),
}


@pytest.mark.parametrize("wanted", GPU_PODS.values(), ids=GPU_PODS)
def test_a_pod_that_asks_for_gpus_in_any_form_reaches_both_once(
    ours: Tollgate, ana: Account, name: str, wanted: Object
) -> None:
    before = calls(ours)
    ana.api.create({**wanted, "metadata": {**wanted["metadata"], "name": name}}, dry_run=True)
    assert since(before, ours) == BOTH


def test_our_label_on_a_pod_without_gpus_is_taken_off_and_the_pod_is_no_more_of_ours(
    ours: Tollgate, ana: Account, name: str
) -> None:
    before = calls(ours)
    created = ana.api.create(pod(name, METERED, labels={"app": "web", "tollgate.dev/budget": METERED}), dry_run=True)
    assert created["metadata"]["labels"] == {"app": "web"}
    assert since(before, ours) == Calls(0, 1, 0)


def test_only_the_creation_of_a_gpu_pod_reaches_us(
    own_cluster: Cluster, ours: Tollgate, ana: Account, name: str
) -> None:
    before = calls(ours)
    ana.api.create(gpu_pod(name, METERED))
    run(ana, name, METERED)  # so it was bound, and kubelet wrote its status
    ana.api.patch(POD, name, METERED, {"metadata": {"labels": {"changed": "true"}, "annotations": {"a": "b"}}})
    debugger = {"name": "debugger", "image": "registry.example/debugger:1"}
    patch = {"spec": {"ephemeralContainers": [debugger]}}
    own_cluster.admin.api.patch(POD, name, METERED, patch, subresource="ephemeralcontainers")
    assert since(before, ours) == BOTH


def test_a_bound_pod_is_only_validated(ours: Tollgate, ana: Account, node: str, name: str) -> None:
    before = calls(ours)
    ana.api.create(bound(gpu_pod(name, METERED), node), dry_run=True)
    assert since(before, ours) == Calls(0, 0, 1)


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_key_of_kueue_s_own_is_refused_before_anything_else_is_asked(
    ours: Tollgate, ana: Account, name: str, gpus: int
) -> None:
    wanted = gpu_pod(name, METERED, labels={MANAGED: "true"}) if gpus else pod(name, METERED, labels={MANAGED: "true"})
    before = calls(ours)
    assert ana.api.try_create(wanted).status == 403
    assert since(before, ours) == Calls(1, 0, 0)


def test_a_controller_s_pods_may_carry_keys_of_kueue_s_own_and_do_not_reach_us(
    ours: Tollgate, ana: Account, name: str
) -> None:
    before = calls(ours)
    ana.api.create(deployment(name, METERED, **{MANAGED: "true"}))
    replicas_run(ana, name, METERED)
    assert since(before, ours) == NONE


@pytest.mark.parametrize("namespace", EXEMPT)
def test_exempt_namespaces_never_reach_us(own_cluster: Cluster, ours: Tollgate, name: str, namespace: str) -> None:
    if own_cluster.admin.api.find(NAMESPACE, namespace) is None:
        own_cluster.namespace(namespace)
    wanted = gpu_pod(name, namespace, labels={MANAGED: "true"})
    wanted["spec"]["containers"][0]["securityContext"] = RESTRICTED
    before = calls(ours)
    created = wait_for("its service account is there", lambda: made_or_none(own_cluster, wanted))
    assert created["metadata"]["labels"] == {MANAGED: "true"}
    assert since(before, ours) == NONE


def made_or_none(cluster: Cluster, wanted: Object) -> Object | None:
    answer = cluster.admin.api.try_create(wanted, dry_run=True)
    assert "error looking up service account" not in answer.message, answer.message
    assert answer.status == 201, answer.message
    return answer.body


def test_kubelet_s_mirror_pods_never_reach_us_and_are_not_touched(
    own_cluster: Cluster, ours: Tollgate, node: str, name: str
) -> None:
    wanted = mirror(own_cluster, name, METERED, node)
    before = calls(ours)
    created = own_cluster.kubelet(node).api.create(wanted)
    assert created["metadata"]["annotations"] == {MIRROR: "abc"}
    assert "labels" not in created["metadata"]
    assert since(before, ours) == NONE


def test_a_tenant_s_mirror_annotation_does_not_keep_a_pod_from_us(
    ours: Tollgate, ana: Account, node: str, name: str
) -> None:
    before = calls(ours)
    assert ana.api.try_create(bound(gpu_pod(name, METERED, annotations={MIRROR: "abc"}), node)).status == 403
    assert since(before, ours) == Calls(0, 0, 1)


# While nobody answers.


@pytest.fixture
def there(ours: Tollgate, ana: Account, own_cluster: Cluster) -> str:
    """A metered pod that came while we were up."""
    name = own_cluster.unique("pod")
    ana.api.create(gpu_pod(name, METERED))
    run(ana, name, METERED)
    return name


@pytest.fixture
def stopped(ours: Tollgate, there: str) -> Iterator[None]:
    """Our only server is dead."""
    (server,) = ours.servers
    server.component.kill()
    yield
    server.component.start()
    wait_for("the balancer sends it connections", ours.balancer.ready)


def cannot_ask(ours: Tollgate, entry: str, path: str) -> str:
    """How the API server begins to say that it did not reach us."""
    post = f'Post "{ours.url}/{path}?timeout=3s"'
    return f'Internal error occurred: failed calling webhook "{entry}.tollgate.dev": failed to call webhook: {post}: '


def is_not_asked(answer: Answer, ours: Tollgate, entry: str) -> None:
    assert (answer.status, answer.reason) == (500, "InternalError")
    assert answer.message.startswith(cannot_ask(ours, entry, entry)), answer.message


@pytest.mark.usefixtures("stopped")
def test_with_our_server_stopped_other_pods_still_come(ana: Account, name: str) -> None:
    ana.api.create(pod(name, METERED, {"cpu": "1"}))
    run(ana, name, METERED)
    ana.api.create(deployment(name, METERED))
    replicas_run(ana, name, METERED)


@pytest.mark.usefixtures("stopped")
def test_with_our_server_stopped_metered_pods_are_refused(
    own_cluster: Cluster, ours: Tollgate, ana: Account, node: str, name: str
) -> None:
    is_not_asked(ana.api.try_create(gpu_pod(name, METERED)), ours, "validate")
    # mutate fails open, and the log says so; that validate fails closed is what keeps the pod out.
    said = own_cluster.audit.annotations(METERED, name)
    assert said["failed-open.mutation.webhook.admission.k8s.io/round_0_index_1"] == "mutate.tollgate.dev"
    is_not_asked(ana.api.try_create(bound(gpu_pod(name, METERED), node)), ours, "validate")
    is_not_asked(ana.api.try_create(pod(name, METERED, labels={MANAGED: "true"})), ours, "keys")
    assert ana.api.find(POD, name, METERED) is None


@pytest.mark.usefixtures("stopped")
def test_with_our_server_stopped_the_cluster_s_own_pods_still_come(own_cluster: Cluster, node: str, name: str) -> None:
    own_cluster.kubelet(node).api.create(mirror(own_cluster, name, METERED, node))
    own_cluster.admin.api.create(gpu_pod(name, "kube-system"))
    run(own_cluster.admin, name, "kube-system")


def test_with_our_server_stopped_pods_that_are_there_live_on_and_may_go(
    ana: Account, there: str, stopped: None
) -> None:
    ana.api.patch(POD, there, METERED, {"metadata": {"labels": {"changed": "true"}}})
    assert ana.api.get(POD, there, METERED)["status"]["phase"] == "Running"
    ana.api.delete(POD, there, METERED)
    wait_for("the pod is gone", lambda: ana.api.find(POD, there, METERED) is None)


def test_metered_pods_come_again_when_our_server_does(ours: Tollgate, ana: Account, name: str, there: str) -> None:
    (server,) = ours.servers
    server.component.kill()
    is_not_asked(ana.api.try_create(gpu_pod(name, METERED)), ours, "validate")
    server.component.start()
    wait_for("the balancer sends it connections", ours.balancer.ready)
    created = wait_for("the pod may come", lambda: created_or_none(ana, gpu_pod(name, METERED)))
    assert created["metadata"]["labels"]["tollgate.dev/budget"] == METERED


def created_or_none(account: Account, wanted: Object) -> Object | None:
    answer = account.api.try_create(wanted)
    assert answer.ok, answer.message
    return answer.body


def test_a_server_that_hangs_refuses_metered_pods_and_delays_nobody_else(
    ours: Tollgate, ana: Account, name: str
) -> None:
    (server,) = ours.servers
    server.component.started().pause()
    try:
        assert ana.api.try_create(pod(name, METERED, {"cpu": "1"})).status == 201
        answer = ana.api.try_create(gpu_pod(f"{name}-gpu", METERED))
    finally:
        server.component.started().resume()
        server.component.wait_ready()
        wait_for("the balancer sends it connections", ours.balancer.ready)
    is_not_asked(answer, ours, "validate")
