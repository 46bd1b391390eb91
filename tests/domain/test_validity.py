"""The pods that the API server refuses: kubernetes pkg/apis/core/validation/validation.go, row by row."""

from typing import Any

import msgspec
import pytest

from webhook.domain.names import Remembered
from webhook.domain.outcome import Reason
from webhook.domain.pod import Pod
from webhook.domain.validity import problems_of


def pod(metadata: dict[str, Any] | None = None, **spec: Any) -> Pod:
    spec.setdefault("containers", [{"name": "main", "image": "vllm/vllm-openai"}])
    return msgspec.convert({"metadata": {"name": "llm", **(metadata or {})}, "spec": spec}, Pod)


def container(**resources: Any) -> Pod:
    return pod(containers=[{"name": "main", "resources": resources}])


def term(key: str, operator: str, values: list[str] | None) -> Pod:
    expression = {"key": key, "operator": operator, "values": values}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llm", "uid": "u", "controller": True}
LIMITS = "spec.containers[0].resources.limits"
REQUESTS = "spec.containers[0].resources.requests"
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

REFUSED = [
    # ValidateObjectMeta
    ("name upper case", pod({"name": "LLM"}), "metadata.name", "'LLM'"),
    ("name too long", pod({"name": "a" * 254}), "metadata.name", "254"),
    ("generateName", pod({"name": None, "generateName": "llm_"}), "metadata.generateName", "'llm_'"),
    ("namespace", pod({"namespace": "a.b"}), "metadata.namespace", "'a.b'"),
    ("label key prefix", pod({"labels": {"/x": "1"}}), "metadata.labels", "''"),
    ("label key with two slashes", pod({"labels": {"a/b/c": "1"}}), "metadata.labels", "'a/b'"),
    ("label value too long", pod({"labels": {"tier": "x" * 64}}), "metadata.labels[tier]", "64"),
    ("label value with blanks", pod({"labels": {"tier": "a b"}}), "metadata.labels[tier]", "'a b'"),
    ("label value ends in dash", pod({"labels": {"tier": "a-"}}), "metadata.labels[tier]", "'a-'"),
    ("annotation key", pod({"annotations": {"gpu fraction": "1"}}), "metadata.annotations", "'gpu fraction'"),
    ("annotations too large", pod({"annotations": {"a": "x" * 262144}}), "metadata.annotations", "262145"),
    ("owner without uid", pod({"ownerReferences": [{**OWNER, "uid": ""}]}), "metadata.ownerReferences[0].uid", "req"),
    ("two controllers", pod({"ownerReferences": [OWNER, OWNER]}), "metadata.ownerReferences", "only one"),
    # validateContainers
    ("no containers", pod(containers=[]), "spec.containers", "at least one"),
    ("container without name", pod(containers=[{}]), "spec.containers[0].name", "required"),
    ("container name", pod(containers=[{"name": "a.b"}]), "spec.containers[0].name", "'a.b'"),
    ("container name twice", pod(containers=[{"name": "a"}, {"name": "a"}]), "spec.containers[1].name", "twice"),
    (
        "init container of the same name",
        pod(initContainers=[{"name": "main"}]),
        "spec.containers[0].name",
        "twice",
    ),
    # ValidateResourceRequirements
    ("no quantity", container(limits={"memory": "16 GB"}), f"{LIMITS}[memory]", "'16 GB'"),
    ("NaN", container(limits={"cpu": "NaN"}), f"{LIMITS}[cpu]", "NaN"),
    ("negative", container(limits={"cpu": "-1"}), f"{LIMITS}[cpu]", "'-1'"),
    ("negative number", container(limits={"nvidia.com/gpu": -1}), f"{LIMITS}[nvidia.com/gpu]", "-1"),
    ("half a device", container(limits={"nvidia.com/gpu": "0.5"}), f"{LIMITS}[nvidia.com/gpu]", "integer"),
    ("half a device as a number", container(limits={"nvidia.com/gpu": 0.5}), f"{LIMITS}[nvidia.com/gpu]", "0.5"),
    ("milli devices", container(limits={"nvidia.com/gpu": "500m"}), f"{LIMITS}[nvidia.com/gpu]", "500m"),
    ("resource without domain", container(limits={"gpu": "1"}), f"{LIMITS}[gpu]", "nvidia.com/gpu"),
    ("resource name", container(limits={"nvidia.com/": "1"}), f"{LIMITS}[nvidia.com/]", "name"),
    (
        "quota name",
        container(limits={"requests.nvidia.com/gpu": "1"}),
        f"{LIMITS}[requests.nvidia.com/gpu]",
        "standard",
    ),
    ("request alone", container(requests={"nvidia.com/gpu": 2}), f"{LIMITS}[nvidia.com/gpu]", "2"),
    ("huge pages alone", container(requests={"hugepages-2Mi": "4Mi"}), f"{LIMITS}[hugepages-2Mi]", "4Mi"),
    (
        "request below the limit",
        container(limits={"nvidia.com/gpu": 2}, requests={"nvidia.com/gpu": 1}),
        f"{REQUESTS}[nvidia.com/gpu]",
        "1 must be equal to the limit of 2",
    ),
    (
        "memory request above the limit",
        container(limits={"memory": "1Gi"}, requests={"memory": "2Gi"}),
        f"{REQUESTS}[memory]",
        "'2Gi' must be less than or equal to the limit of '1Gi'",
    ),
    # validateSchedulingGates, ValidatePodSpec
    ("gate name", pod(schedulingGates=[{"name": "a b"}]), "spec.schedulingGates[0].name", "'a b'"),
    ("gate twice", pod(schedulingGates=[{"name": "a"}, {"name": "a"}]), "spec.schedulingGates[1].name", "twice"),
    ("gate on a bound pod", pod(nodeName="n1", schedulingGates=[{"name": "a"}]), "spec.nodeName", "'n1'"),
    ("node selector value", pod(nodeSelector={"gpu": "a b"}), "spec.nodeSelector[gpu]", "'a b'"),
    ("no terms", pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}), TERMS, "one"),
    ("In without values", term("gpu", "In", None), f"{TERMS}[0].matchExpressions[0].values", "found 0"),
    ("Exists with values", term("gpu", "Exists", ["a"]), f"{TERMS}[0].matchExpressions[0].values", "found 1"),
    ("Gt with two values", term("gpu", "Gt", ["1", "2"]), f"{TERMS}[0].matchExpressions[0].values", "found 2"),
    ("operator", term("gpu", "Equals", ["1"]), f"{TERMS}[0].matchExpressions[0].operator", "'Equals'"),
    ("expression key", term("", "Exists", None), f"{TERMS}[0].matchExpressions[0].key", "''"),
    # validatePodResourceClaims
    ("claim name", pod(resourceClaims=[{"name": "A", "resourceClaimName": "x"}]), "spec.resourceClaims[0].name", "'A'"),
    ("claim of nothing", pod(resourceClaims=[{"name": "a"}]), "spec.resourceClaims[0]", "exactly one"),
    (
        "claim name twice",
        pod(resourceClaims=[{"name": "a", "resourceClaimName": "x"}] * 2),
        "spec.resourceClaims[1].name",
        "twice",
    ),
]

TAKEN = [
    ("a plain pod", pod()),
    ("no name yet", pod({"name": None, "generateName": "llm-"})),
    ("a long prefix", pod({"name": None, "generateName": "a" * 252 + "-"})),
    ("empty label value", pod({"labels": {"app.kubernetes.io/part-of": ""}})),
    ("upper case in an annotation key's domain", pod({"annotations": {"Example.com/Key": "any text, ü \n"}})),
    ("a large annotation", pod({"annotations": {"a": "x" * 262143}})),
    ("no image", pod(containers=[{"name": "main"}])),
    ("an owner", pod({"ownerReferences": [OWNER, {**OWNER, "controller": False}]})),
    ("limits alone", container(limits={"nvidia.com/gpu": "1", "cpu": "500m", "memory": "1e3"})),
    ("whole in other words", container(limits={"nvidia.com/gpu": "2"}, requests={"nvidia.com/gpu": "2000m"})),
    ("numbers", container(limits={"nvidia.com/gpu": 1.0, "cpu": 0.5}, requests={"nvidia.com/gpu": 1})),
    ("native overcommit", container(limits={"cpu": 2}, requests={"cpu": 1, "memory": "1Gi"})),
    ("zero", container(limits={"nvidia.com/gpu": "0"})),
    ("huge pages", container(limits={"hugepages-2Mi": "4Mi", "cpu": 1})),
    ("gates", pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}, {"name": "tollgate.dev/budget"}])),
    ("affinity", term("nvidia.com/gpu.memory", "Gt", ["40000"])),
    ("claims", pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])),
]


@pytest.mark.parametrize(("refused", "field", "part"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_the_api_server_refuses_is_named_by_its_field(refused: Pod, field: str, part: str) -> None:
    found = problems_of(refused)

    assert [problem.field for problem in found] == [field]
    assert part in found[0].message
    assert found[0].reason is Reason.INVALID_POD
    assert "\n" not in found[0].message


@pytest.mark.parametrize("taken", [row[1] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_what_the_api_server_takes_has_no_problem(taken: Pod) -> None:
    assert problems_of(taken) == ()


def test_every_problem_is_told_in_the_order_of_the_fields() -> None:
    broken = pod(
        {"name": "A", "labels": {"x": "?"}},
        containers=[{"name": "a", "resources": {"limits": {"gpu": "x"}}}, {"name": "a"}],
    )

    assert [problem.field for problem in problems_of(broken)] == [
        "metadata.name",
        "metadata.labels[x]",
        f"{LIMITS}[gpu]",
        f"{LIMITS}[gpu]",
        "spec.containers[1].name",
    ]


def test_a_hostile_quantity_is_cut_in_the_message() -> None:
    (problem,) = problems_of(container(limits={"cpu": "9" * 100_000}))

    assert len(problem.message) < 200


def test_what_was_right_once_does_not_make_something_else_right() -> None:
    assert problems_of(container(limits={"cpu": "0.5", "nvidia.com/gpu": 1}, requests={"nvidia.com/gpu": 1.0})) == ()
    assert problems_of(container(limits={"nvidia.com/gpu": "0.5"})) != ()
    assert problems_of(container(limits={"memory": 1}, requests={"memory": 1})) == ()
    assert problems_of(container(limits={"memory": 1}, requests={"memory": 2})) != ()


def test_many_invented_names_do_not_fill_the_memory() -> None:
    remembered: Remembered[str] = Remembered()
    for index in range(3 * Remembered.MOST):
        remembered.add(str(index))

    assert len(remembered.members) <= Remembered.MOST
