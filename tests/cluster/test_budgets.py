"""What budgets do to the pods of a real cluster, below which Kueue queues."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.documents import has_condition
from tests.cluster.harness.kinds import CLUSTER_QUEUE, EVENT, POD, REPLICA_SET, WORKLOAD
from tests.cluster.harness.kueue import GATE as KUEUE_GATE
from tests.cluster.harness.waiting import stays, wait_for
from tests.cluster.objects import GPU, denied, gates, gpu_pod, merged, no_room, policy

DENY, REPLICAS, HOLD = "budgets-deny", "budgets-replicas", "budgets-hold"
GATED = "budgets-gated"

OURS = "tollgate.dev/budget"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
QUEUE = "serving"
QUOTA = 4


@pytest.fixture(scope="module", autouse=True)
def server(cluster: Cluster) -> Iterator[None]:
    """One server for all: each test has a namespace, a queue and a budget of its own."""
    cluster.add_node(cluster.unique("gpu"), {GPU: "32"})
    cluster.kueue_gates()
    for namespace in (DENY, REPLICAS, HOLD, GATED):
        cluster.namespace(namespace)
        cluster.queue(namespace, QUEUE, {GPU: str(QUOTA)})
    text = merged(
        policy(DENY, 3000, queue=QUEUE),
        policy(REPLICAS, 4000),
        policy(HOLD, 8000, queue=QUEUE, onExceeded="Hold"),
        policy(GATED, 8000, queue=QUEUE, onExceeded="Hold", selector=selector(GATED, "held")),
    )
    cluster.start_tollgate(text, "--kueue", "present")
    yield
    cluster.stop_tollgate()


@pytest.fixture(scope="module")
def ana(cluster: Cluster, server: None) -> Account:
    """Somebody who may edit all of these namespaces."""
    return cluster.user("ana", DENY, REPLICAS, HOLD, GATED)


@pytest.fixture
def kueue_honours_gates(cluster: Cluster) -> Iterator[None]:
    """On from Kueue 0.19; the version here has it off."""
    cluster.kueue_gates(AdmissionGatedBy=True)
    yield
    cluster.kueue_gates()


def selector(namespace: str, tier: str) -> Object:
    return {"namespaces": [namespace], "podSelector": {"matchLabels": {"tier": tier}}}


def phase(account: Account, name: str, namespace: str) -> str:
    found = account.api.get(POD, name, namespace)
    return str(found["status"].get("phase"))


def workload(cluster: Cluster, pod: Object) -> Object:
    """Kueue's Workload of a pod."""

    def look() -> Object | None:
        uid = pod["metadata"]["uid"]
        for found in cluster.admin.api.list(WORKLOAD, pod["metadata"]["namespace"]):
            if uid in {owner["uid"] for owner in found["metadata"]["ownerReferences"]}:
                return found
        return None

    return wait_for(f"Kueue has a Workload for {pod['metadata']['name']}", look)


def reserved(cluster: Cluster, namespace: str) -> str:
    """GPUs that the namespace's ClusterQueue has reserved."""
    status = cluster.admin.api.get(CLUSTER_QUEUE, f"{namespace}-{QUEUE}")["status"]
    (flavor,) = status["flavorsReservation"]
    (resource,) = flavor["resources"]
    return str(resource["total"])


def test_a_pod_gets_its_label_then_kueue_s_gate_and_runs_when_kueue_admits_it(cluster: Cluster, ana: Account) -> None:
    made = ana.api.create(gpu_pod("chat", DENY, 3))
    assert made["metadata"]["labels"] == {
        OURS: DENY,
        "kueue.x-k8s.io/queue-name": QUEUE,
        "kueue.x-k8s.io/managed": "true",
    }
    assert made["metadata"]["annotations"]["tollgate.dev/claim"] == "3000"
    assert gates(made) == {KUEUE_GATE, TOPOLOGY_GATE}

    wait_for("Kueue admits it", lambda: has_condition(workload(cluster, made), "Admitted"))
    wait_for("it runs", lambda: phase(ana, "chat", DENY) == "Running")
    assert gates(ana.api.get(POD, "chat", DENY)) == set()
    assert cluster.audit.annotations(DENY, "chat")["validate.tollgate.dev/decision"] == "Admit"

    said = denied("validate", no_room(DENY, 1000, reserved=3000, nominal=3000))
    for _ in range(2):  # what is refused is charged to nobody
        refused = ana.kubectl("create", "-f", "-", given=json.dumps(gpu_pod("second", DENY)))
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == f'Error from server (Forbidden): error when creating "STDIN": {said}\n'
    answer = ana.api.try_create(gpu_pod("second", DENY))
    assert (answer.status, answer.reason, answer.message) == (403, "Forbidden", said)
    assert len(ana.api.list(POD, DENY)) == 1
    assert len(cluster.admin.api.list(WORKLOAD, DENY)) == 1


def test_a_pod_larger_than_its_budget_is_told_so_through_kubectl(ana: Account) -> None:
    refused = ana.kubectl("create", "-f", "-", given=json.dumps(gpu_pod("huge", DENY, 4)))
    message = (
        f"budget {DENY} can never hold this pod: claims 4000 tokens/s, at most 3000 of 3000 nominal; use smaller pods "
        f"or raise budgets[{DENY}].tokensPerSecond"
    )
    said = denied("validate", message)
    assert refused.returncode == 1
    assert refused.stderr == f'Error from server (Forbidden): error when creating "STDIN": {said}\n'


def test_of_five_replicas_three_fit_and_two_wait_for_room_with_our_numbers_in_an_event(ana: Account) -> None:
    ana.api.create(gpu_pod("other", REPLICAS))
    labels = {"app": "chat"}
    template = {"metadata": {"labels": labels}, "spec": gpu_pod("", "")["spec"]}
    ana.api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "chat", "namespace": REPLICAS},
            "spec": {"replicas": 5, "selector": {"matchLabels": labels}, "template": template},
        }
    )

    def replicas() -> Any:
        return ana.api.get(REPLICA_SET, "chat", REPLICAS)

    said = f"Error creating: {denied('validate', no_room(REPLICAS, 1000, reserved=4000, nominal=4000))}"
    wait_for("three run", lambda: replicas()["status"].get("readyReplicas") == 3)
    wait_for("the ReplicaSet says why not more", lambda: has_condition(replicas(), "ReplicaFailure"))
    wait_for(
        "its event has the numbers",
        lambda: (
            said
            in {
                event["message"]
                for event in ana.api.list(EVENT, REPLICAS, fields="involvedObject.kind=ReplicaSet,reason=FailedCreate")
            }
        ),
    )
    stays("two wait", lambda: replicas()["status"]["replicas"] == 3)

    ana.api.delete(POD, "other", REPLICAS, grace_seconds=0)
    wait_for("a fourth runs", lambda: replicas()["status"].get("readyReplicas") == 4)


def test_a_held_pod_stays_behind_our_gate_when_kueue_has_admitted_it(cluster: Cluster, ana: Account) -> None:
    made = ana.api.create(gpu_pod("held", HOLD))
    assert gates(made) == {OURS, KUEUE_GATE, TOPOLOGY_GATE}
    assert made["metadata"]["annotations"][GATED_BY] == OURS

    def only_ours() -> bool:
        return gates(ana.api.get(POD, "held", HOLD)) == {OURS}

    wait_for("Kueue takes its gates away, and not ours", only_ours)
    assert has_condition(workload(cluster, made), "Admitted")
    wait_for("quota is idle meanwhile: this Kueue was not told of our gate", lambda: reserved(cluster, HOLD) == "1")
    stays("it is gated", lambda: only_ours() and phase(ana, "held", HOLD) == "Pending")
    assert "nodeName" not in ana.api.get(POD, "held", HOLD)["spec"]


@pytest.mark.usefixtures("kueue_honours_gates")
def test_a_held_pod_takes_no_quota_from_others_where_kueue_honours_our_gate(cluster: Cluster, ana: Account) -> None:
    made = ana.api.create(gpu_pod("held", GATED, QUOTA, labels={"tier": "held"}))
    assert gates(made) == {OURS, KUEUE_GATE, TOPOLOGY_GATE}

    def told() -> tuple[str, str, str] | None:
        conditions = workload(cluster, made).get("status", {}).get("conditions", [])
        found = next((one for one in conditions if one["type"] == "QuotaReserved"), None)
        return found and (found["status"], found["reason"], found["message"])

    wait_for("Kueue waits for us", lambda: told() == ("False", "AdmissionGated", f"Admission is gated by: {OURS}"))
    wait_for("no quota is reserved", lambda: reserved(cluster, GATED) == "0")

    # The whole quota is there for somebody else, whom no budget takes.
    ana.api.create(gpu_pod("other", GATED, QUOTA))
    wait_for("another pod has it all", lambda: phase(ana, "other", GATED) == "Running")
    assert gates(ana.api.get(POD, "held", GATED)) == {OURS, KUEUE_GATE, TOPOLOGY_GATE}

    # What the leader does, done by hand: the gate and the entry that tells Kueue.
    names = [gate["name"] for gate in made["spec"]["schedulingGates"]]
    entry = GATED_BY.replace("/", "~1")
    lift = [
        {"op": "test", "path": f"/spec/schedulingGates/{names.index(OURS)}/name", "value": OURS},
        {"op": "remove", "path": f"/spec/schedulingGates/{names.index(OURS)}"},
        {"op": "remove", "path": f"/metadata/annotations/{entry}"},
    ]
    ana.api.patch(POD, "held", GATED, lift, form="application/json-patch+json")
    ana.api.delete(POD, "other", GATED, grace_seconds=0)
    wait_for("once lifted, it runs", lambda: phase(ana, "held", GATED) == "Running")
