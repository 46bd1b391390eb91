"""A real autoscaler buys nodes for shares that we made visible, and for nothing that must wait.

Karpenter offers machines with GPUs only, tainted as in production; one CPU node is there from the start. That nothing
was bought for a pod is shown by a later pod, which must have a node of its own: once it runs, Karpenter has seen both.
"""

import json
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import JSON_PATCH, Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.karpenter import instance_type
from tests.cluster.harness.kinds import NODE, NODE_CLAIM, POD
from tests.cluster.harness.waiting import wait_for
from tests.cluster.objects import GPU, gates, pod

SHARING, HELD, KAI, EXEMPT = "sharing", "held", "kai", "exempt"
CPU_NODE = "cpu"

SHARED = "nvidia.com/gpu.shared"
GPU_MEMORY = "aliyun.com/gpu-mem"
MILLI = "tollgate.dev/milligpu"

TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}

TYPE_LABEL = "node.kubernetes.io/instance-type"
WHOLE, SLICED, BY_MEMORY, MILLI_TYPE = "whole", "sliced", "by-memory", "milli"
INSTANCE_TYPES = (
    instance_type(WHOLE, 1.0, {GPU: "1"}),
    instance_type(SLICED, 2.0, {SHARED: "4"}),
    instance_type(BY_MEMORY, 3.0, {GPU_MEMORY: "80"}),
    instance_type(MILLI_TYPE, 4.0, {GPU: "1", MILLI: "1000"}),
)
"""Name, price, resources. The cheapest has no share: who buys it for one has not seen the share."""

GATE = "tollgate.dev/budget"

HALF = {"gpu-fraction": "0.5"}
QUARTER = {"gpu-fraction": "0.25"}


def _rule(namespace: str, **rule: object) -> Object:
    return {"selector": {"namespaces": [namespace]}, "tolerations": [TOLERATION], **rule}


POLICY: Object = {
    "apiVersion": "tollgate.dev/v1alpha1",
    "kind": "Policy",
    "budgets": [
        {
            "name": HELD,
            "selector": {"namespaces": [HELD]},
            "tokensPerSecond": 8000,
            "unknownClaim": {"tokensPerSecondPerGPU": 1000},
            "onExceeded": "Hold",
        }
    ],
    "sharing": [
        _rule(SHARING, scheme="TimeSlicing", replicas=4, resource=SHARED),
        _rule(HELD, scheme="Aliyun", gpu="a100-80gb"),
        _rule(KAI, scheme="KAI", shadowResource=MILLI),
    ],
    "exemptNamespaces": [EXEMPT],
}


@pytest.fixture(scope="module")
def ana(own_cluster: Cluster) -> Iterator[Account]:
    """Somebody who may edit all of these namespaces, in a cluster with Karpenter and one of our servers."""
    namespaces = (SHARING, HELD, KAI, EXEMPT)
    for namespace in namespaces:
        own_cluster.namespace(namespace)
    own_cluster.add_node(CPU_NODE)
    own_cluster.start_karpenter(INSTANCE_TYPES, [TAINT])
    own_cluster.start_tollgate(json.dumps(POLICY))
    yield own_cluster.user("ana", *namespaces)
    own_cluster.stop_tollgate()


class Purchases:
    """What Karpenter bought since this was made."""

    def __init__(self, cluster: Cluster, account: Account) -> None:
        self._cluster = cluster
        self._account = account
        self._before = self._claims().keys()

    def types(self) -> list[str]:
        """The instance types of the new NodeClaims, sorted; empty while Karpenter has not chosen one."""
        return sorted(kind for name, kind in self._claims().items() if name not in self._before)

    def settled(self) -> list[str]:
        """The same after a pod that must have a whole machine has it, without that machine."""
        name = self._cluster.unique("whole")
        asking = pod(name, EXEMPT, {GPU: "1"})
        asking["spec"] |= {"tolerations": [TOLERATION], "nodeSelector": {TYPE_LABEL: WHOLE}}
        self._account.api.create(asking)
        running_on(self._cluster, self._account, name, EXEMPT)
        bought = self.types()
        bought.remove(WHOLE)
        return bought

    def _claims(self) -> dict[str, str]:
        claims = self._cluster.admin.api.list(NODE_CLAIM)
        return {claim["metadata"]["name"]: claim["metadata"]["labels"].get(TYPE_LABEL, "") for claim in claims}


@pytest.fixture
def purchases(own_cluster: Cluster, ana: Account) -> Purchases:
    return Purchases(own_cluster, ana)


def running_on(cluster: Cluster, account: Account, name: str, namespace: str) -> Object:
    """The node of the pod, once it runs."""

    def look() -> Object | None:
        found = account.api.get(POD, name, namespace)
        assert found["status"].get("phase") == "Running", found["status"]
        return cluster.admin.api.get(NODE, found["spec"]["nodeName"])

    return wait_for(f"pod {namespace}/{name} runs", look)


def resources(made: Object) -> Object:
    """Of its only container."""
    found: Object = made["spec"]["containers"][0]["resources"]
    return found


def test_a_pod_with_only_a_fraction_gets_a_new_node_with_slices(
    own_cluster: Cluster, ana: Account, purchases: Purchases
) -> None:
    made = ana.api.create(pod("share", SHARING, annotations=QUARTER))
    assert resources(made) == {"limits": {SHARED: "1"}, "requests": {SHARED: "1"}}
    node = running_on(own_cluster, ana, "share", SHARING)
    assert node["metadata"]["labels"][TYPE_LABEL] == SLICED
    assert purchases.settled() == [SLICED]


@pytest.mark.parametrize("namespace", [EXEMPT, SHARING])
def test_the_same_pod_without_us_is_bound_to_a_cpu_node_and_buys_nothing(
    own_cluster: Cluster, ana: Account, purchases: Purchases, namespace: str
) -> None:
    ours = own_cluster.tollgate
    assert ours is not None
    with nullcontext() if namespace == EXEMPT else ours.uninstalled():
        made = ana.api.create(pod("unseen", namespace, annotations=QUARTER))
    assert resources(made) == {}
    assert running_on(own_cluster, ana, "unseen", namespace)["metadata"]["name"] == CPU_NODE
    assert purchases.settled() == []


def test_a_gated_pod_buys_nothing_until_its_gate_is_lifted(
    own_cluster: Cluster, ana: Account, purchases: Purchases
) -> None:
    made = ana.api.create(pod("held", HELD, annotations=HALF))
    assert gates(made) == {GATE}
    assert resources(made) == {"limits": {GPU_MEMORY: "40"}, "requests": {GPU_MEMORY: "40"}}
    assert purchases.settled() == []
    assert gates(ana.api.get(POD, "held", HELD)) == {GATE}

    lift = [
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    own_cluster.admin.api.patch(POD, "held", HELD, lift, form=JSON_PATCH)
    node = running_on(own_cluster, ana, "held", HELD)
    assert node["metadata"]["labels"][TYPE_LABEL] == BY_MEMORY


def test_kai_s_share_is_bought_by_its_shadow(own_cluster: Cluster, ana: Account, purchases: Purchases) -> None:
    made = ana.api.create(pod("share", KAI, annotations=HALF))
    assert made["spec"]["schedulerName"] == "kai-scheduler"
    assert resources(made) == {"limits": {MILLI: "500"}, "requests": {MILLI: "500"}}
    # What KAI's scheduler, which is not here, says of a pod that finds no GPU.
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"status": {"conditions": [condition]}}
    own_cluster.admin.api.patch(POD, "share", KAI, status, subresource="status")
    wait_for("Karpenter buys a machine with the shadow", lambda: purchases.types() == [MILLI_TYPE])
    assert purchases.settled() == [MILLI_TYPE]
