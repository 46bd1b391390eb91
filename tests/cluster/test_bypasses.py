"""Ways around budgets and queues that tenants have, and the honest ways that look like them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Answer, Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    EVENT,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    ROLE_BINDING,
    STATEFUL_SET,
    Kind,
)
from tests.cluster.harness.kueue import GATE as KUEUE_GATE
from tests.cluster.harness.tollgate import Tollgate
from tests.cluster.harness.waiting import wait_for
from tests.cluster.objects import GPU, denied, gates, gpu_pod, merged, no_room, policy

DENY = [f"bypasses-deny-{number}" for number in range(1, 21)]
HOLD = [f"bypasses-hold-{number}" for number in range(1, 5)]
QUEUED = [f"bypasses-queued-{number}" for number in range(1, 16)]

NOMINAL = 3000
BUDGET = "tollgate.dev/budget"
CLAIM = "tollgate.dev/claim"
MIRROR = "kubernetes.io/config.mirror"
QUEUE = "serving"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

CONTROLLERS = {
    REPLICA_SET: "replicaset-controller",
    DEPLOYMENT: "replicaset-controller",
    STATEFUL_SET: "statefulset-controller",
    JOB: "job-controller",
}


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> str:
    return cluster.add_node(cluster.unique("gpu"), {GPU: "64"})


@pytest.fixture(scope="module")
def ours(cluster: Cluster, node: str) -> Iterator[Tollgate]:
    """One server, and a budget for each namespace that a test may take."""
    cluster.need("kueue")
    text = merged(
        *(policy(name, NOMINAL) for name in DENY),
        *(policy(name, NOMINAL, onExceeded="Hold") for name in HOLD),
        *(policy(name, NOMINAL, queue=QUEUE) for name in QUEUED),
    )
    yield cluster.start_tollgate(text, "--kueue", "present")
    cluster.stop_tollgate()


@pytest.fixture(scope="module")
def left() -> dict[str, Iterator[str]]:
    return {"deny": iter(DENY), "hold": iter(HOLD), "queued": iter(QUEUED)}


@pytest.fixture
def deny(cluster: Cluster, ours: Tollgate, left: dict[str, Iterator[str]]) -> str:
    """A namespace of a Deny budget."""
    return cluster.namespace(next(left["deny"]))


@pytest.fixture
def hold(cluster: Cluster, ours: Tollgate, left: dict[str, Iterator[str]]) -> str:
    """A namespace of a Hold budget."""
    return cluster.namespace(next(left["hold"]))


@pytest.fixture
def queued(cluster: Cluster, ours: Tollgate, left: dict[str, Iterator[str]]) -> str:
    """A namespace of a Deny budget whose pods belong to a queue of Kueue with quota."""
    namespace = cluster.namespace(next(left["queued"]))
    cluster.queue(namespace, QUEUE, {GPU: "8"})
    return namespace


def tenant(cluster: Cluster, namespace: str) -> Account:
    return cluster.user("ana", namespace)


def bound(name: str, namespace: str, node: str, gpus: int = 1, **metadata: Any) -> Object:
    """A pod that its maker has put on a node."""
    made = gpu_pod(name, namespace, gpus, **metadata)
    made["spec"]["nodeName"] = node
    return made


def owned(pod: Object, owner: Object) -> Object:
    """The pod with a controller reference to an object that exists."""
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    pod["metadata"]["ownerReferences"] = [{**reference, "uid": metadata["uid"], "controller": True}]
    return pod


def workload(kind: Kind, name: str, namespace: str, replicas: int = 2, **metadata: Any) -> Object:
    """An object of this kind with pods of one GPU each."""
    labels = {"app": name}
    spec: Object = {"template": {"metadata": {"labels": labels}, "spec": gpu_pod("", "")["spec"]}}
    if kind == JOB:
        spec |= {"parallelism": replicas, "completions": replicas}
        spec["template"]["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": labels}
    if kind not in (JOB, DAEMON_SET):
        spec["replicas"] = replicas
    if kind == STATEFUL_SET:
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    about = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": about, "spec": spec}


def daemon_set(name: str, namespace: str, *nodes: str) -> Object:
    """A DaemonSet on these nodes."""
    made = workload(DAEMON_SET, name, namespace)
    among = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    terms = [{"matchExpressions": [among]}]
    made["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    return made


def refused(answer: Answer, status: int, message: str) -> None:
    assert (answer.status, answer.message) == (status, denied("validate", message))


def has_left(account: Account, namespace: str, claim: int, reserved: int) -> None:
    """The budget holds exactly this: a pod that wants one more GPU than is free is told so."""
    wanted = gpu_pod("one-too-many", namespace, claim // 1000)
    refused(
        account.api.try_create(wanted, dry_run=True), 403, no_room(namespace, claim, reserved=reserved, nominal=NOMINAL)
    )


def running(account: Account, namespace: str, count: int) -> list[Object]:
    """The namespace's pods once so many of them have run."""

    def look() -> list[Object] | None:
        pods = account.api.list(POD, namespace)
        phases = [pod["status"].get("phase") for pod in pods]
        assert len(pods) == count, phases
        return pods if all(phase in ("Running", "Succeeded") for phase in phases) else None

    return wait_for(f"{count} pods run in {namespace}", look)


def makers(cluster: Cluster, namespace: str) -> set[str]:
    """Who created pods there."""
    events = cluster.audit.events(verb="create", namespace=namespace)
    return {event["user"]["username"].removeprefix("system:serviceaccount:kube-system:") for event in events}


# Pods that are bound already.


def test_a_bound_pod_is_charged_and_not_patched(cluster: Cluster, node: str, deny: str) -> None:
    ana = tenant(cluster, deny)
    made = ana.api.create(bound("mine", deny, node, 2))
    assert "labels" not in made["metadata"]
    assert "annotations" not in made["metadata"]
    assert gates(made) == set()
    running(ana, deny, 1)
    assert cluster.audit.annotations(deny, "mine")["validate.tollgate.dev/claim"] == "2000"
    message = no_room(deny, 2000, reserved=2000, nominal=NOMINAL)
    refused(ana.api.try_create(bound("more", deny, node, 2)), 403, message)
    has_left(ana, deny, 2000, 2000)


def test_a_bound_pod_of_a_hold_budget_cannot_wait_so_it_is_charged_or_refused(
    cluster: Cluster, node: str, hold: str
) -> None:
    ana = tenant(cluster, hold)
    assert gates(ana.api.create(bound("mine", hold, node, 2))) == set()
    running(ana, hold, 1)
    refused(ana.api.try_create(bound("more", hold, node, 2)), 403, no_room(hold, 2000, reserved=2000, nominal=NOMINAL))


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_bound_pod_with_a_copy_of_our_own_keys_is_wrong(cluster: Cluster, node: str, deny: str, place: str) -> None:
    key, value = (BUDGET, deny) if place == "labels" else (CLAIM, "1")
    copied: Object = {place: {key: value}}
    answer = tenant(cluster, deny).api.try_create(bound("mine", deny, node, **copied))
    message = "tollgate.dev/* here is written by Tollgate alone; remove it"
    refused(answer, 422, f"metadata.{place}[{key}]: {message}")
    assert answer.body["details"]["causes"] == [
        {"reason": "ReservedKey", "message": message, "field": f"metadata.{place}[{key}]"}
    ]


# Mirror pods.


def test_a_mirror_pod_of_anybody_but_a_kubelet_is_refused(cluster: Cluster, node: str, deny: str) -> None:
    ana = tenant(cluster, deny)
    answer = ana.api.try_create(bound("mine", deny, node, annotations={MIRROR: "abc"}))
    refused(answer, 403, f"annotation {MIRROR} is for kubelet's mirror pods; ana is in no group system:nodes")
    assert ana.api.list(POD, deny) == []


def test_a_mirror_pod_of_kubelet_s_never_reaches_us(cluster: Cluster, node: str, deny: str) -> None:
    mirror = bound("static", deny, node, annotations={MIRROR: "abc"})
    made = cluster.kubelet(node).api.create(owned(mirror, cluster.admin.api.get(NODE, node)))
    assert "labels" not in made["metadata"]
    assert made["metadata"]["annotations"] == {MIRROR: "abc"}
    # Every answer of ours leaves a decision in the audit log.
    assert not [key for key in cluster.audit.annotations(deny, "static") if "tollgate" in key]


# DaemonSets.


@pytest.mark.parametrize("kind_of_budget", ["deny", "hold"])
def test_daemonset_pods_are_charged_as_they_come_and_refused_where_there_is_no_room(
    cluster: Cluster, kind_of_budget: str, request: pytest.FixtureRequest
) -> None:
    namespace: str = request.getfixturevalue(kind_of_budget)
    nodes = [cluster.add_node(cluster.unique("gpu"), {GPU: "8"}) for _ in range(4)]
    ana = tenant(cluster, namespace)
    ana.api.create(daemon_set("agent", namespace, *nodes))
    for pod in running(ana, namespace, 3):
        assert BUDGET not in pod["metadata"]["labels"]
        assert gates(pod) == set()
    said = f"Error creating: {denied('validate', no_room(namespace, 1000, reserved=3000, nominal=NOMINAL))}"
    wait_for(
        "the DaemonSet says why there is no fourth",
        lambda: (
            said
            in {
                event["message"]
                for event in ana.api.list(EVENT, namespace, fields="involvedObject.kind=DaemonSet,reason=FailedCreate")
            }
        ),
    )
    assert makers(cluster, namespace) == {"daemon-set-controller"}


def test_an_owner_reference_to_a_daemonset_written_by_hand_counts_for_nothing(
    cluster: Cluster, node: str, hold: str
) -> None:
    ana = tenant(cluster, hold)
    owner = ana.api.create(daemon_set("agent", hold, "no-such-node"))
    made = ana.api.create(owned(gpu_pod("mine", hold), owner))
    assert made["metadata"]["labels"][BUDGET] == hold
    assert gates(made) == {BUDGET}


# Owner references written by hand.


@pytest.mark.parametrize("kind", CONTROLLERS, ids=lambda kind: kind.kind)
def test_an_owner_of_a_kind_that_kueue_manages_is_forged_unless_its_controller_says_so(
    cluster: Cluster, queued: str, kind: Kind
) -> None:
    ana = tenant(cluster, queued)
    # Of a queue already, so that Kueue lets its pods pass without counting them.
    owner = ana.api.create(workload(kind, "real", queued, replicas=0, labels={QUEUE_LABEL: QUEUE}))
    answer = ana.api.try_create(owned(gpu_pod("mine", queued), owner))
    group = kind.api_version.partition("/")[0]
    message = (
        f"metadata.ownerReferences names {kind.kind} real, but ana is not the account of that controller; create the "
        f"{kind.kind} instead, or name the account in controllerAccounts[{kind.kind}.{group}]"
    )
    refused(answer, 403, message)
    assert answer.body["details"]["causes"] == [{"reason": "ForgedOwner", "message": message}]


def test_an_owner_of_an_unknown_kind_is_believed_with_a_warning_and_the_pod_is_charged(
    cluster: Cluster, queued: str
) -> None:
    ana = tenant(cluster, queued)
    reference = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "name": "w",
        "uid": "abc",
        "controller": True,
    }
    answer = ana.api.try_create(gpu_pod("mine", queued, 3, ownerReferences=[reference]))
    assert answer.status == 201
    warning = (
        "owner Workflow.argoproj.io w is believed: no account is known for it; name one in "
        "controllerAccounts[Workflow.argoproj.io]"
    )
    assert answer.warnings == (warning,)
    assert answer.body["metadata"]["labels"][QUEUE_LABEL] == QUEUE
    assert KUEUE_GATE in gates(answer.body)
    has_left(ana, queued, 1000, 3000)


def test_a_pod_owns_pods_that_a_service_account_of_the_namespace_makes_and_no_others(
    cluster: Cluster, deny: str
) -> None:
    ana = tenant(cluster, deny)
    driver = ana.api.create(gpu_pod("driver", deny))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": "spark", "namespace": deny}, "roleRef": role}
    spark = [{"kind": "ServiceAccount", "name": "default", "namespace": deny}]
    cluster.admin.api.apply(
        {"apiVersion": ROLE_BINDING.api_version, "kind": ROLE_BINDING.kind, **binding, "subjects": spark}
    )
    account = cluster.service_account(deny, "default")

    def executor() -> Object | None:
        answer = account.api.try_create(owned(gpu_pod("executor", deny), driver))
        assert "cannot create resource" not in answer.message  # the binding is not known yet
        assert answer.status == 201, answer.message
        return answer.body

    assert wait_for("the driver's account may make executors", executor)["metadata"]["labels"][BUDGET] == deny

    message = (
        "metadata.ownerReferences names Pod driver, but ana is not the account of that controller; create the Pod "
        "instead, or name the account in controllerAccounts[Pod]"
    )
    refused(ana.api.try_create(owned(gpu_pod("mine", deny), driver)), 403, message)


# Keys that we write, and keys that Kueue sets itself.


def test_a_tenant_s_copies_of_our_own_keys_mean_nothing(cluster: Cluster, deny: str) -> None:
    ana = tenant(cluster, deny)
    copies: Object = {"labels": {BUDGET: "somebody-else-s"}, "annotations": {CLAIM: "1", "tollgate.dev/share": "x"}}
    wanted = gpu_pod("mine", deny, 3, **copies)
    wanted["spec"]["schedulingGates"] = [{"name": BUDGET}]
    made = ana.api.create(wanted)
    assert made["metadata"]["labels"] == {BUDGET: deny}
    assert made["metadata"]["annotations"] == {CLAIM: "3000"}
    assert gates(made) == set()
    has_left(ana, deny, 1000, 3000)


@pytest.mark.parametrize("gpus", [1, 0], ids=["gpu", "cpu"])
@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ("labels", "kueue.x-k8s.io/managed", "true"),
        ("annotations", "kueue.x-k8s.io/role-hash", "forged"),
        ("annotations", "kueue.x-k8s.io/pod-group-fast-admission", "true"),
        ("annotations", "kueue.x-k8s.io/pod-suspending-parent", "deployment"),
    ],
)
def test_a_tenant_s_copy_of_kueue_s_own_keys_is_refused(
    cluster: Cluster, place: str, key: str, value: str, gpus: int, keys_namespace: str
) -> None:
    ana = tenant(cluster, keys_namespace)
    forged: Object = {place: {key: value}}
    made = gpu_pod("mine", keys_namespace, **forged)
    if not gpus:
        del made["spec"]["containers"][0]["resources"]
    answer = ana.api.try_create(made)
    message = f"metadata.{place}[{key}] is set by Kueue alone, not by ana; remove it from the pod"
    assert (answer.status, answer.reason, answer.message) == (403, "Forbidden", denied("keys", message))
    assert ana.api.list(POD, keys_namespace) == []


@pytest.fixture(scope="module")
def keys_namespace(cluster: Cluster, ours: Tollgate, left: dict[str, Iterator[str]]) -> str:
    return cluster.namespace(next(left["deny"]))


# What looks like it, and is honest.


@pytest.mark.parametrize("kind", CONTROLLERS, ids=lambda kind: kind.kind)
def test_what_a_controller_makes_is_charged_and_runs(cluster: Cluster, deny: str, kind: Kind) -> None:
    ana = tenant(cluster, deny)
    ana.api.create(workload(kind, "chat", deny, replicas=2))
    for pod in running(ana, deny, 2):
        assert pod["metadata"]["labels"][BUDGET] == deny
        assert pod["metadata"]["annotations"][CLAIM] == "1000"
    assert makers(cluster, deny) == {CONTROLLERS[kind]}
    has_left(ana, deny, 2000, 2000)


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET, JOB], ids=lambda kind: kind.kind)
def test_what_kueue_manages_carries_its_keys_in_the_template_and_runs(
    cluster: Cluster, queued: str, kind: Kind
) -> None:
    ana = tenant(cluster, queued)
    ana.api.create(workload(kind, "chat", queued, replicas=2, labels={QUEUE_LABEL: QUEUE}))
    for pod in running(ana, queued, 2):
        assert pod["metadata"]["labels"][BUDGET] == queued
        assert pod["metadata"]["annotations"][CLAIM] == "1000"
        suspends = pod["metadata"]["annotations"].get("kueue.x-k8s.io/pod-suspending-parent")
        assert suspends == {JOB: None, DEPLOYMENT: "deployment", STATEFUL_SET: "statefulset"}[kind]
    assert makers(cluster, queued) == {CONTROLLERS[kind]}


@pytest.mark.parametrize("kind", [REPLICA_SET, DEPLOYMENT], ids=lambda kind: kind.kind)
def test_a_replica_set_s_pods_go_to_the_queue_of_the_policy(cluster: Cluster, queued: str, kind: Kind) -> None:
    ana = tenant(cluster, queued)
    ana.api.create(workload(kind, "chat", queued, replicas=2))
    for pod in running(ana, queued, 2):
        assert pod["metadata"]["labels"][QUEUE_LABEL] == QUEUE
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
