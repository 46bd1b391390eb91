"""What shares become is valid for the API server, and is found by the scheduler on the nodes that have it, only there.

All nodes are there at once, those with GPUs tainted as in production, so each pod's node is told by the resources, the
selectors and the tolerations that we wrote. No scheduler of KAI or Volcano runs here: a twin of their pods with the
same resources and placement, but for the default scheduler, shows that these fit the node.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.kinds import POD
from tests.cluster.harness.waiting import wait_for
from tests.cluster.objects import GPU, pod

EXEMPT = "exempt"
CPU_NODE = "cpu"
DEFAULT_SCHEDULER = "default-scheduler"

TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}

PRODUCT = "nvidia.com/gpu.product"
MEMORY = "nvidia.com/gpu.memory"
STRATEGY = "nvidia.com/gpu.sharing-strategy"
SHARED = "nvidia.com/gpu.shared"
MILLI = "tollgate.dev/milligpu"
GKE = "cloud.google.com/gke-"

A100 = ["NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"]

NODES: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "whole": ({GPU: "8"}, {PRODUCT: "NVIDIA-L40S", MEMORY: "46068"}),
    "sliced": ({GPU: "16"}, {PRODUCT: "NVIDIA-L4-SHARED", STRATEGY: "time-slicing"}),
    "mps": ({GPU: "16"}, {PRODUCT: "NVIDIA-L4-SHARED", STRATEGY: "mps"}),
    "renamed": ({GPU: "0", SHARED: "16"}, {PRODUCT: "NVIDIA-L4", STRATEGY: "time-slicing"}),
    "mig-mixed": ({GPU: "0", "nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "1"}, {PRODUCT: A100[0]}),
    "mig-other": ({GPU: "0", "nvidia.com/mig-1g.10gb": "7"}, {PRODUCT: "NVIDIA-H100-PCIe"}),
    "mig-single-small": ({GPU: "7"}, {PRODUCT: f"{A100[0]}-MIG-1g.10gb"}),
    "mig-single-large": ({GPU: "2"}, {PRODUCT: f"{A100[0]}-MIG-3g.40gb"}),
    "hami": ({GPU: "40", "nvidia.com/gpumem": "327680", "nvidia.com/gpumem-percentage": "400"}, {PRODUCT: A100[0]}),
    "volcano": (
        {"volcano.sh/vgpu-number": "40", "volcano.sh/vgpu-memory": "327680", "volcano.sh/vgpu-cores": "400"},
        {PRODUCT: A100[0]},
    ),
    "aliyun": ({"aliyun.com/gpu-mem": "160", "aliyun.com/gpu-count": "2"}, {PRODUCT: A100[0]}),
    "gke": (
        {GPU: "8"},
        {
            f"{GKE}accelerator": "nvidia-l4",
            f"{GKE}gpu-sharing-strategy": "time-sharing",
            f"{GKE}max-shared-clients-per-gpu": "4",
        },
    ),
    "gke-mps": (
        {GPU: "8"},
        {
            f"{GKE}accelerator": "nvidia-l4",
            f"{GKE}gpu-sharing-strategy": "mps",
            f"{GKE}max-shared-clients-per-gpu": "4",
        },
    ),
    "kai": ({GPU: "2", MILLI: "2000"}, {PRODUCT: A100[1], MEMORY: "81920"}),
    "kai-small": ({GPU: "8", MILLI: "8192"}, {PRODUCT: "Tesla-T4", MEMORY: "15360"}),
}
"""Name: resources and labels, as device plugins and gpu-feature-discovery write them."""


class Case(NamedTuple):
    """A share under a rule, what is stored of it, and the one node that has room for it."""

    rule: Mapping[str, Any]
    annotations: Mapping[str, str]
    limits: Mapping[str, str]
    node: str
    affinity: Sequence[Mapping[str, Any]] = ()
    selector: Mapping[str, str] = {}
    scheduler: str = DEFAULT_SCHEDULER
    own_selector: Mapping[str, str] = {}
    """What the pod itself requires."""


def _in(key: str, *values: str) -> Mapping[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


_GKE_PLACE = {f"{GKE}accelerator": "nvidia-l4", f"{GKE}max-shared-clients-per-gpu": "4"}
_KAI = {"scheme": "KAI", "gpu": "a100-80gb", "shadowResource": MILLI}
_TWO = {"gpu-fraction-num-devices": "2"}

CASES: Mapping[str, Case] = {
    "kai-fraction": Case(
        _KAI, {"gpu-fraction": "0.33", **_TWO}, {MILLI: "660"}, "kai", [_in(PRODUCT, *A100)], scheduler="kai-scheduler"
    ),
    "kai-memory": Case(
        {"scheme": "KAI", "shadowResource": MILLI},
        {"gpu-memory": "20000"},
        {MILLI: "870"},
        "kai",
        [{"key": MEMORY, "operator": "Gt", "values": ["19999"]}],
        scheduler="kai-scheduler",
    ),
    "renamed-fraction": Case(
        {"scheme": "TimeSlicing", "replicas": 4, "resource": SHARED}, {"gpu-fraction": "0.25"}, {SHARED: "1"}, "renamed"
    ),
    "renamed-memory": Case(
        {"scheme": "TimeSlicing", "gpu": "l4", "replicas": 4, "resource": SHARED},
        {"gpu-memory": "5000"},
        {SHARED: "1"},
        "renamed",
    ),
    "slices-fraction": Case(
        {"scheme": "TimeSlicing", "replicas": 4},
        {"gpu-fraction": "0.2"},
        {GPU: "1"},
        "sliced",
        selector={STRATEGY: "time-slicing"},
    ),
    "slices-memory": Case(
        {"scheme": "TimeSlicing", "replicas": 4, "gpu": "l4"},
        {"gpu-memory": "5000"},
        {GPU: "1"},
        "sliced",
        [_in(PRODUCT, "NVIDIA-L4-SHARED")],
        {STRATEGY: "time-slicing"},
    ),
    "mps-fraction": Case(
        {"scheme": "MPS", "replicas": 4}, {"gpu-fraction": "0.25"}, {GPU: "1"}, "mps", selector={STRATEGY: "mps"}
    ),
    "mps-memory": Case(
        {"scheme": "MPS", "replicas": 4, "gpu": "l4"},
        {"gpu-memory": "5000"},
        {GPU: "1"},
        "mps",
        [_in(PRODUCT, "NVIDIA-L4-SHARED")],
        {STRATEGY: "mps"},
    ),
    "mps-renamed-fraction": Case(
        {"scheme": "MPS", "replicas": 4, "resource": SHARED}, {"gpu-fraction": "0.25"}, {SHARED: "1"}, "renamed"
    ),
    "mixed-fraction": Case(
        {"scheme": "MIG", "gpu": "a100-80gb"},
        {"gpu-fraction": "0.48"},
        {"nvidia.com/mig-3g.40gb": "1"},
        "mig-mixed",
        [_in(PRODUCT, *A100)],
    ),
    "mixed-memory": Case(
        {"scheme": "MIG", "gpu": "a100-80gb", "migStrategy": "mixed"},
        {"gpu-memory": "9000"},
        {"nvidia.com/mig-1g.10gb": "1"},
        "mig-mixed",
        [_in(PRODUCT, *A100)],
    ),
    "single-fraction": Case(
        {"scheme": "MIG", "gpu": "a100-80gb", "migStrategy": "single"},
        {"gpu-fraction": "0.1"},
        {GPU: "1"},
        "mig-single-small",
        [_in(PRODUCT, *(f"{product}-MIG-1g.10gb" for product in A100))],
    ),
    "single-memory": Case(
        {"scheme": "MIG", "gpu": "a100-80gb", "migStrategy": "single"},
        {"gpu-memory": "30000"},
        {GPU: "1"},
        "mig-single-large",
        [_in(PRODUCT, *(f"{product}-MIG-3g.40gb" for product in A100))],
    ),
    "hami-fraction": Case(
        {"scheme": "HAMi"},
        {"gpu-fraction": "0.33", **_TWO},
        {GPU: "2", "nvidia.com/gpumem-percentage": "33"},
        "hami",
    ),
    "hami-memory": Case(
        {"scheme": "HAMi", "gpu": "a100-80gb"},
        {"gpu-memory": "20480"},
        {GPU: "1", "nvidia.com/gpumem": "20480"},
        "hami",
    ),
    "volcano-fraction": Case(
        {"scheme": "Volcano", "gpu": "a100-80gb"},
        {"gpu-fraction": "0.25", **_TWO},
        {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "20480", "volcano.sh/vgpu-cores": "25"},
        "volcano",
        scheduler="volcano",
    ),
    "volcano-memory": Case(
        {"scheme": "Volcano"},
        {"gpu-memory": "8192"},
        {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8192"},
        "volcano",
        scheduler="volcano",
    ),
    "aliyun-fraction": Case(
        {"scheme": "Aliyun", "gpu": "a100-80gb"}, {"gpu-fraction": "0.5"}, {"aliyun.com/gpu-mem": "40"}, "aliyun"
    ),
    "aliyun-memory": Case({"scheme": "Aliyun"}, {"gpu-memory": "8193"}, {"aliyun.com/gpu-mem": "9"}, "aliyun"),
    "gke-fraction": Case(
        {"scheme": "GKE", "gpu": "l4", "replicas": 4},
        {"gpu-fraction": "0.25"},
        {GPU: "1"},
        "gke",
        selector={**_GKE_PLACE, f"{GKE}gpu-sharing-strategy": "time-sharing"},
    ),
    "gke-memory": Case(
        {"scheme": "GKE", "gpu": "l4", "replicas": 4, "strategy": "mps"},
        {"gpu-memory": "5000"},
        {GPU: "1"},
        "gke-mps",
        selector={**_GKE_PLACE, f"{GKE}gpu-sharing-strategy": "mps"},
    ),
    "whole-fraction": Case(
        {"scheme": "WholeGPU"},
        {"gpu-fraction": "0.3"},
        {GPU: "1"},
        "whole",
        selector={PRODUCT: "NVIDIA-L40S"},
        own_selector={PRODUCT: "NVIDIA-L40S"},
    ),
    "whole-memory": Case(
        {"scheme": "WholeGPU"},
        {"gpu-memory": "20000", **_TWO},
        {GPU: "2"},
        "whole",
        selector={PRODUCT: "NVIDIA-L40S"},
        own_selector={PRODUCT: "NVIDIA-L40S"},
    ),
}
"""By namespace: each has a rule of its own."""

KAI_ALONE = "kai-alone"


@pytest.fixture(scope="module")
def ana(own_cluster: Cluster) -> Iterator[Account]:
    """Somebody who may edit all of these namespaces, in a cluster with all nodes and one of our servers."""
    own_cluster.add_node(CPU_NODE)
    for name, (resources, labels) in NODES.items():
        own_cluster.add_node(name, resources, labels, [TAINT])
    rules = {namespace: {**case.rule, "tolerations": [TOLERATION]} for namespace, case in CASES.items()}
    rules[KAI_ALONE] = {"scheme": "KAI"}
    policy = {
        "apiVersion": "tollgate.dev/v1alpha1",
        "kind": "Policy",
        "sharing": [{"selector": {"namespaces": [namespace]}, **rule} for namespace, rule in rules.items()],
        "exemptNamespaces": [EXEMPT],
    }
    namespaces = [*rules, EXEMPT]
    for namespace in namespaces:
        own_cluster.namespace(namespace)
    own_cluster.start_tollgate(json.dumps(policy))
    yield own_cluster.user("ana", *namespaces)
    own_cluster.stop_tollgate()


def node_of(account: Account, name: str, namespace: str) -> str:
    """Where the pod runs, once it does."""

    def look() -> str | None:
        found = account.api.get(POD, name, namespace)
        assert found["status"].get("phase") == "Running", found["status"]
        return str(found["spec"]["nodeName"])

    return wait_for(f"pod {namespace}/{name} runs", look)


def placement(spec: Object) -> Object:
    """What says where a pod may run, but for its scheduler."""
    return {key: spec[key] for key in ("affinity", "nodeSelector", "tolerations") if key in spec}


def required(expressions: Sequence[Mapping[str, Any]]) -> Object:
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize("namespace", CASES)
def test_a_share_is_stored_as_its_scheme_gives_it_and_runs_on_the_nodes_that_have_it(
    ana: Account, namespace: str
) -> None:
    case = CASES[namespace]
    asking = pod("share", namespace, annotations=dict(case.annotations))
    asking["spec"]["nodeSelector"] = dict(case.own_selector)
    answer = ana.api.try_create(asking)
    assert (answer.status, answer.message) == (201, "")
    spec = answer.body["spec"]
    assert spec["containers"][0]["resources"] == {"limits": case.limits, "requests": case.limits}
    assert spec.get("nodeSelector", {}) == case.selector
    assert spec.get("affinity") == (required(case.affinity) if case.affinity else None)
    assert TOLERATION in spec["tolerations"]
    assert spec["schedulerName"] == case.scheduler

    twin = pod("share", namespace, case.limits)
    if case.scheduler != DEFAULT_SCHEDULER:
        twin = pod(namespace, EXEMPT, case.limits)
        twin["spec"] |= placement(spec)
        ana.api.create(twin)
    where = twin["metadata"]
    assert node_of(ana, where["name"], where["namespace"]) == case.node


def test_the_same_share_without_us_runs_on_a_cpu_node(ana: Account) -> None:
    made = ana.api.create(pod("share", EXEMPT, annotations={"gpu-fraction": "0.25"}))
    assert made["spec"]["containers"][0]["resources"] == {}
    assert node_of(ana, "share", EXEMPT) == CPU_NODE


def test_only_the_named_container_gets_the_share(ana: Account) -> None:
    namespace = "renamed-fraction"
    annotations = {"gpu-fraction": "0.25", "gpu-fraction-container-name": "model"}
    asking = pod("named", namespace, {"cpu": "1"}, annotations=annotations)
    model = {"name": "model", "image": "registry.example/model:1", "resources": {"requests": {"cpu": "2"}}}
    asking["spec"]["containers"].append(model)
    asking["spec"]["initContainers"] = [{"name": "fetch", "image": "registry.example/fetch:1"}]
    spec = ana.api.create(asking)["spec"]
    assert [container["resources"] for container in (*spec["initContainers"], *spec["containers"])] == [
        {},
        {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
        {"limits": {SHARED: "1"}, "requests": {"cpu": "2", SHARED: "1"}},
    ]
    assert node_of(ana, "named", namespace) == "renamed"


def test_kai_without_a_shadow_resource_leaves_the_resources_alone(ana: Account) -> None:
    made = ana.api.create(pod("share", KAI_ALONE, annotations={"gpu-fraction": "0.5"}))
    assert made["spec"]["schedulerName"] == "kai-scheduler"
    assert made["spec"]["containers"][0]["resources"] == {}
