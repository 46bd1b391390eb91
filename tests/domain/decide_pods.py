"""Pods, policies and requests for properties: every scheme, owner, mode and key, and texts that nobody would write.

`documents` are shaped as the API server sends pods, and mean something; `decodable` is anything that the decoder takes,
made from the types themselves, so that a new field is covered from its first day.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml
from hypothesis import strategies as st
from msgspec import inspect

from tests.domain.sharing_cases import Document
from webhook.domain import keys
from webhook.domain.pod import Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Owner, Request, Requester, View
from webhook.domain.who import BUILT_IN_ACCOUNTS
from webhook.policy.load import load

NAMESPACES = ("team", "other", "kube-system", "exempt")
EXEMPT = ("kube-system", "exempt")
GPU_NAMES = (
    *("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb", "amd.com/gpu"),
    *("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-number"),
    *("aliyun.com/gpu-mem", "gpu.intel.com/i915", "habana.ai/gaudi", "cpu", "tollgate.dev/milligpu", "example.com/x"),
)
QUANTITIES: tuple[str | int | float, ...] = (
    1,
    2,
    0,
    "1",
    "2",
    "8",
    "1k",
    "500m",
    "-1",
    "",
    "1e3",
    0.5,
    40960,
    "x",
    1e30,
)
OWNERS = (
    *(
        ("batch/v1", "Job"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "StatefulSet"),
        ("v1", "Pod"),
    ),
    *(
        ("v1", "Node"),
        ("v1", "ReplicationController"),
        ("ray.io/v1", "RayCluster"),
        ("argoproj.io/v1alpha1", "Workflow"),
    ),
    *(("batch.volcano.sh/v1alpha1", "Job"), ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ("", ""), ("/", "x/y")),
)
TEXTS = (
    "",
    "x",
    "main",
    "true",
    "1",
    "0.5",
    ".25",
    "50%",
    "NaN",
    "８",
    "a" * 70,
    "a,b",
    ",",
    "é\n\u2028",
    "tollgate.dev/budget",
)
_GATED_BY = ("", ",", "tollgate.dev/budget", "a.example.com/x", "a.example.com/x, tollgate.dev/budget,b.example.com/y")
_VALUES: Mapping[str, tuple[str, ...]] = {
    keys.GPU_FRACTION: ("0.5", "0.25", "0.1", "50%", "1"),
    keys.GPU_MEMORY: ("8192", "20000", "8Gi", "999999999"),
    keys.GPU_FRACTION_NUM_DEVICES: ("1", "2", "0"),
    keys.GPU_FRACTION_CONTAINER_NAME: ("main", "init", "none"),
    keys.TOKENS_PER_SECOND: ("1", "100", "2500", "3k", "many"),
    keys.MODEL: ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct", "unknown/model", "?"),
    keys.MODEL_DTYPE: ("fp8", "bf16", "auto", "?"),
    keys.TRAFFIC_MIX: ("1000/1000", "100/2000", "0/1"),
    keys.DEADLINE: ("2027-01-15T08:00:00Z", "soon"),
    keys.CLAIM_ANNOTATION: ("1", "x"),
    keys.SHARE_ANNOTATION: ("x",),
    keys.KUEUE_GATED_BY: _GATED_BY,
    keys.MIRROR: ("x",),
    "mps": ("true",),
}
_LABELS: Mapping[str, tuple[str, ...]] = {
    keys.BUDGET_LABEL: ("b0", "b1", "gone"),
    keys.KUEUE_QUEUE: ("main", "own"),
    keys.KUEUE_PRIORITY_CLASS: ("high", "low"),
    keys.KAI_QUEUE: ("research", "own"),
    "tier": ("a", "b"),
    "leaderworkerset.sigs.k8s.io/worker-index": ("0", "1"),
    "gpu-fraction": ("0.5",),
}
_NODE_LABELS: Mapping[str, tuple[str, ...]] = {
    "nvidia.com/gpu.product": ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB-SHARED", "?"),
    "nvidia.com/gpu.sharing-strategy": ("time-slicing", "mps"),
    "cloud.google.com/gke-accelerator": ("nvidia-l4",),
    "nvidia.com/gpu.memory": ("81920",),
}
_SHARES: tuple[Document, ...] = (
    {keys.GPU_FRACTION: "0.5"},
    {keys.GPU_FRACTION: "0.2"},
    {keys.GPU_FRACTION: "0.1"},
    {keys.GPU_FRACTION: "0.5", keys.GPU_FRACTION_NUM_DEVICES: "2"},
    {keys.GPU_FRACTION: "0.25", keys.GPU_FRACTION_CONTAINER_NAME: "main"},
    {keys.GPU_MEMORY: "8192"},
    {keys.GPU_MEMORY: "16000"},
)
_TWISTS = (keys.CLAIM_ANNOTATION, keys.SHARE_ANNOTATION, keys.KUEUE_GATED_BY, keys.DEADLINE, keys.MODEL, keys.MIRROR)
_PODS_TOLERATIONS: tuple[Document, ...] = ({"key": "nvidia.com/gpu", "operator": "Exists"}, {})
_MODES = ("Enforce", "Warn", "Audit")


def _sometimes(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _seldom(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 4).flatmap(lambda chance: strategy if chance == 0 else st.none())


def _map(values: Mapping[str, tuple[str, ...]]) -> st.SearchStrategy[dict[str, str]]:
    """Some of the keys, each with one of its own values or, seldom, with a text of a stranger's."""
    pair = st.sampled_from(sorted(values)).flatmap(
        lambda key: st.tuples(st.just(key), st.sampled_from(values[key] * 4 + TEXTS[:4]))
    )
    return st.lists(pair, max_size=4).map(dict)


def _present(fields: dict[str, Any]) -> Document:
    return {key: value for key, value in fields.items() if value is not None}


def _fields(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    """An object whose fields may each be left out (where their strategy gives None)."""
    return st.fixed_dictionaries(fields).map(_present)


_quantities = st.dictionaries(st.sampled_from(GPU_NAMES), st.sampled_from(QUANTITIES[:7] * 3 + QUANTITIES), max_size=2)
_equal = _quantities.map(lambda limits: {"limits": limits, "requests": dict(limits)})
_resources = (
    st.just({"limits": {"nvidia.com/gpu": "1"}})
    | _equal
    | _fields(limits=_sometimes(_quantities), requests=_sometimes(_quantities))
)
_MODEL_ARGUMENTS = (
    ["--model", "meta-llama/Llama-3.1-8B-Instruct"],
    ["--model", "unknown/model", "-tp", "2"],
    ["-c", "x"],
)


def _containers(*names: str) -> st.SearchStrategy[list[Document]]:
    return st.lists(
        _fields(
            name=st.sampled_from(names),
            image=_sometimes(st.sampled_from(("vllm/vllm-openai:v0.11.0", "trainer"))),
            args=_sometimes(st.sampled_from(_MODEL_ARGUMENTS)),
            resources=_sometimes(_resources),
            restartPolicy=_sometimes(st.just("Always")) if "init" in names else st.none(),
        ),
        min_size=1,
        max_size=len(names),
        unique_by=lambda container: str(container["name"]),
    )


_requirement = st.sampled_from(sorted(_NODE_LABELS)).flatmap(
    lambda key: _fields(
        key=st.just(key),
        operator=st.sampled_from(("In", "In", "NotIn", "Exists")),
        values=_sometimes(st.lists(st.sampled_from(_NODE_LABELS[key]), max_size=2)),
    )
)
_term = _fields(matchExpressions=_sometimes(st.lists(_requirement, max_size=2)))
_required = _fields(nodeSelectorTerms=_sometimes(st.lists(_term, max_size=2)))
_node_affinity = _fields(requiredDuringSchedulingIgnoredDuringExecution=_sometimes(_required))
_affinity = _fields(nodeAffinity=_sometimes(_node_affinity))
_owner = st.tuples(st.sampled_from(OWNERS), st.sampled_from((True, True, False, None))).map(
    lambda made: {"apiVersion": made[0][0], "kind": made[0][1], "name": "o", "uid": "u", "controller": made[1]}
)
_gates = st.lists(
    st.sampled_from((keys.GATE, keys.KUEUE_GATE, "a.example.com/x", "b.example.com/y")), max_size=3, unique=True
)


def _strange() -> st.SearchStrategy[Document]:
    """Pods with anything anywhere; most are wrong in some field."""
    metadata = _fields(
        name=st.just("pod"),
        labels=_sometimes(_map(_LABELS)),
        annotations=_sometimes(_map(_VALUES)),
        ownerReferences=_sometimes(st.lists(_owner, min_size=1, max_size=2)),
    )
    spec = _fields(
        containers=_containers("main", "side"),
        initContainers=_sometimes(_containers("init")),
        nodeName=_sometimes(st.sampled_from(("", "", "n1"))),
        schedulerName=_sometimes(st.sampled_from(("", "default-scheduler", "kai-scheduler", "volcano"))),
        schedulingGates=_sometimes(_gates.map(lambda gates: [{"name": gate} for gate in gates])),
        nodeSelector=_sometimes(_map(_NODE_LABELS)),
        affinity=_sometimes(_affinity),
        tolerations=_sometimes(st.lists(st.sampled_from(_PODS_TOLERATIONS), max_size=1)),
        priorityClassName=_sometimes(st.just("urgent")),
        priority=_sometimes(st.integers(-10, 10)),
        resourceClaims=_sometimes(st.just([{"name": "gpu", "resourceClaimName": "c"}])),
    )
    return _pod(metadata, spec)


def _sound() -> st.SearchStrategy[Document]:
    """Pods that mean something: a share or whole GPUs, mostly with a claim, and one or two twists."""
    share = st.sampled_from((*_SHARES, *_SHARES, {}))
    claim = st.sampled_from(({}, *({keys.TOKENS_PER_SECOND: text} for text in ("1", "100", "900", "2500", "9k"))))
    twist = st.sampled_from(({}, {}, {}, *({key: values[0]} for key, values in _VALUES.items() if key in _TWISTS)))
    annotations = st.builds(lambda *parts: {k: v for part in parts for k, v in part.items()}, share, claim, twist)
    metadata = _fields(
        name=st.just("pod"),
        labels=_seldom(_map(_LABELS)),
        annotations=annotations,
        ownerReferences=_seldom(_owner.map(lambda owner: [owner])),
    )
    spec = _fields(
        containers=st.just([{"name": "main"}, {"name": "side"}]) | st.just([{"name": "main"}]) | _containers("main"),
        schedulerName=_seldom(st.sampled_from(("default-scheduler", "kai-scheduler"))),
        nodeName=_seldom(_seldom(st.just("n1"))),
        schedulingGates=_seldom(_gates.map(lambda gates: [{"name": gate} for gate in gates])),
        nodeSelector=_seldom(_map(_NODE_LABELS)),
        affinity=_seldom(_affinity),
        tolerations=_seldom(st.lists(st.sampled_from(_PODS_TOLERATIONS), max_size=1)),
        priorityClassName=_seldom(st.just("urgent")),
        priority=_seldom(st.integers(-10, 10)),
    )
    return _pod(metadata, spec).map(_with_gpus)


def _with_gpus(document: Document) -> Document:
    """A whole GPU for the first container where nothing else is asked for."""
    annotations, containers = document["metadata"]["annotations"], document["spec"]["containers"]
    if keys.GPU_FRACTION in annotations or keys.GPU_MEMORY in annotations or "resources" in containers[0]:
        return document
    first = {**containers[0], "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {**document, "spec": {**document["spec"], "containers": [first, *containers[1:]]}}


def _pod(metadata: st.SearchStrategy[Document], spec: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    header = {"apiVersion": st.just("v1"), "kind": st.just("Pod")}
    return st.fixed_dictionaries({**header, "metadata": metadata, "spec": spec})


def documents() -> st.SearchStrategy[Document]:
    """Pods with containers, most of them GPU pods, as an API server would send them; right and wrong ones."""
    return _sound() | _sound() | _strange()


def seen(document: Document, **metadata: str) -> Document:
    """The document with a name or uid of its own."""
    return {**document, "metadata": {**document["metadata"], **metadata}}


def decodable() -> st.SearchStrategy[Document]:
    """Anything that decodes as a Pod."""
    return _of_struct(Pod)


@cache
def _of_struct(struct: type) -> st.SearchStrategy[Document]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    optional = {field.encode_name: _of_type(field.type) for field in info.fields}
    return st.fixed_dictionaries({}, optional=optional)


def _of_type(expected: inspect.Type) -> st.SearchStrategy[Any]:
    match expected:
        case inspect.UnionType():
            return st.one_of([_of_type(member) for member in expected.types])
        case inspect.StructType():
            return _of_struct(expected.cls)
        case inspect.DictType():
            known = st.sampled_from((*_VALUES, *_LABELS, *_NODE_LABELS, *GPU_NAMES))
            return st.dictionaries(known | st.text(max_size=8), _of_type(expected.value_type), max_size=3)
        case inspect.ListType():
            return st.lists(_of_type(expected.item_type), max_size=2)
        case inspect.StrType():
            words = sorted({value for values in (*_VALUES.values(), *_LABELS.values()) for value in values})
            return st.sampled_from((*words, *TEXTS)) | st.text(max_size=8)
        case inspect.IntType():
            return st.integers(-(2**70), 2**70) | st.integers(0, 9)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.BoolType():
            return st.booleans()
        case _:
            return st.none()


_SCHEMES: tuple[Document, ...] = (
    {"scheme": "KAI"},
    {"scheme": "KAI", "shadowResource": "tollgate.dev/milligpu"},
    {"scheme": "TimeSlicing", "replicas": 4},
    {"scheme": "TimeSlicing", "replicas": 4, "resource": "nvidia.com/gpu.shared", "gpu": "a100-80gb"},
    {"scheme": "MPS", "replicas": 2, "gpu": "h100-80gb"},
    {"scheme": "MIG", "gpu": "a100-80gb"},
    {"scheme": "MIG", "gpu": "h100-80gb", "migStrategy": "single"},
    {"scheme": "HAMi"},
    {"scheme": "HAMi", "gpu": "a100-80gb"},
    {"scheme": "Volcano", "gpu": "a100-80gb"},
    {"scheme": "Aliyun", "gpu": "a100-80gb"},
    {"scheme": "GKE", "gpu": "l4", "replicas": 4},
    {"scheme": "WholeGPU"},
)
_TOLERATIONS: tuple[Document, ...] = (
    {},
    {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]},
)
_selectors: st.SearchStrategy[Document] = st.sampled_from(
    (
        *({} for _ in range(6)),
        {"namespaces": ["team"]},
        {"namespaceSelector": {"matchLabels": {"team": "a"}}},
        {"podSelector": {"matchLabels": {"tier": "a"}}},
        {"priorityClassNames": ["urgent"]},
    )
)
_selectors_by_queue = _selectors | st.just({"podSelector": {"matchLabels": {keys.KUEUE_QUEUE: "main"}}})
_UNKNOWN = ("Deny", "Admit", {"tokensPerSecondPerGPU": 800}, {"tokensPerSecondPerGPU": 50})


def _rules(selectors: st.SearchStrategy[Document], *variants: Document) -> st.SearchStrategy[list[Document]]:
    one = st.builds(lambda selector, rest: {"selector": selector, **rest}, selectors, st.sampled_from(variants))
    return st.lists(one, min_size=1, max_size=2) | st.lists(one, max_size=1)


_queues = _rules(
    _selectors,
    *(
        {**queue, "onOther": on_other}
        for queue in ({"kueue": {"localQueue": "main", "priorityClass": "high"}}, {"kai": {"queue": "research"}})
        for on_other in ("Keep", "Replace", "Deny")
    ),
)
_sharing = _rules(
    _selectors_by_queue, *({**scheme, **tolerations} for scheme in _SCHEMES for tolerations in _TOLERATIONS)
)


@st.composite
def _budgets(draw: st.DrawFn, modes: tuple[str | None, ...]) -> list[Document]:
    made: list[Document] = []
    for number in range(draw(st.sampled_from((1, 1, 2, 3, 0)))):
        nominal = draw(st.sampled_from((100, 2500, 10000)))
        budget: Document = {
            "name": f"b{number}",
            "selector": draw(_selectors_by_queue),
            "tokensPerSecond": nominal,
            "onExceeded": draw(st.sampled_from(("Hold", "Deny"))),
            "queueing": draw(st.sampled_from(("BestEffortFIFO", "StrictFIFO"))),
            "unknownClaim": draw(st.sampled_from(_UNKNOWN)),
            "mode": draw(st.sampled_from(modes)),
        }
        if draw(st.booleans()):
            limits = {
                "borrowingLimit": draw(st.sampled_from((None, 0, 3000))),
                "lendingLimit": draw(st.sampled_from((None, 0, nominal // 2))),
            }
            budget |= {"cohort": "llm", **limits}
        made.append(_present(budget))
    return made


@cache
def _loaded(text: str) -> Policy:
    return load(text).policy


def policies(*modes: str) -> st.SearchStrategy[Policy]:
    """Policies of all kinds; where modes are given, only of those, in the policy and in its budgets."""
    either = tuple(modes) or _MODES
    document = _fields(
        apiVersion=st.just("tollgate.dev/v1alpha1"),
        kind=st.just("Policy"),
        mode=st.sampled_from(either),
        budgets=_budgets((None, *either)),
        queues=_queues,
        sharing=_sharing,
        unmatchedShare=st.sampled_from(("Deny", "Warn")),
        unmatchedGPUs=st.sampled_from(("Admit", "Warn", "Deny")),
        exemptNamespaces=st.just(["exempt"]),
        controllerAccounts=st.just({"RayCluster.ray.io": ["system:serviceaccount:ray-system:kuberay-operator"]}),
    )
    return document.map(lambda made: _loaded(yaml.dump(made, Dumper=_Plain)))


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


_USERS = (
    *sorted(account for accounts in BUILT_IN_ACCOUNTS.values() for account in accounts),
    *("alice", "", "system:node:n1", "system:serviceaccount:team:default"),
    "system:serviceaccount:ray-system:kuberay-operator",
)


def asked(namespaces: tuple[str, ...] = ("team", "other")) -> st.SearchStrategy[Request]:
    """Who asks, where."""
    groups = st.sampled_from((frozenset[str](), frozenset({keys.NODES_GROUP})))
    requester = st.none() | st.builds(Requester, st.sampled_from(_USERS), groups)
    return st.builds(Request, st.sampled_from(namespaces), st.just("pod"), requester, dry_run=st.booleans())


def views() -> st.SearchStrategy[View]:
    """What the shell knows around the pod."""
    labels = st.sampled_from(({}, {"team": "a"}, {"team": "b"}))
    link = st.sampled_from(
        (Owner("Deployment", "apps", "d", "u", {keys.KUEUE_QUEUE: "own"}), Owner("Pod", "", "p", "u"))
    )
    return st.builds(View, labels, st.lists(link, max_size=2).map(tuple), st.booleans())
