"""Which requests the API server sends to us, evaluated as it does, is exactly what the domain wants to see."""

from typing import Any

import cel
import msgspec
import pytest

from tests.manifests.shipped import ROOT, base, condition, entry, only
from webhook.domain import keys
from webhook.domain.gpunames import MIG_PREFIX, NAMES
from webhook.domain.gpus import is_gpu_pod
from webhook.domain.pod import Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Request, Requester
from webhook.domain.who import BUILT_IN_ACCOUNTS, EXEMPT_NAMESPACES, forbidden_keys, is_kubelet, is_mirror
from webhook.server.questions import Question

ENTRIES = ("keys.tollgate.dev", "mutate.tollgate.dev", "validate.tollgate.dev")
ALICE = {"username": "alice", "groups": ["system:authenticated"]}
KUBELET = {"username": "system:node:gpu-1", "groups": ["system:nodes", "system:authenticated"]}

Json = dict[str, Any]


def matches(webhook: str, pod: Json, user: Json = ALICE) -> bool:
    """Whether the API server calls this entry for the creation of a pod."""
    given = {"object": pod, "request": {"userInfo": user}}
    answers = [cel.evaluate(one["expression"], given) for one in entry(webhook)["matchConditions"]]
    assert all(isinstance(answer, bool) for answer in answers)
    return all(answers)


def pod(metadata: Json | None = None, resources: Json | None = None, **spec: Any) -> Json:
    container: Json = {"name": "main", "image": "i"}
    if resources is not None:
        container["resources"] = resources
    return {"metadata": metadata or {}, "spec": {"containers": [container], **spec}}


def test_entries_come_in_the_order_in_which_they_protect() -> None:
    mutating, validating = only("MutatingWebhookConfiguration"), only("ValidatingWebhookConfiguration")
    assert [one["name"] for one in mutating["webhooks"]] == ["keys.tollgate.dev", "mutate.tollgate.dev"]
    assert [one["name"] for one in validating["webhooks"]] == ["validate.tollgate.dev"]


@pytest.mark.parametrize("later", ["kueue-mutating-webhook-configuration", "mutating-kai-admission"])
def test_our_configuration_sorts_before_those_that_must_see_our_labels(later: str) -> None:
    name = only("MutatingWebhookConfiguration")["metadata"]["name"]
    assert name == "gpu-tollgate"
    assert name < later


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("keys.tollgate.dev", {"failurePolicy": "Fail", "sideEffects": "None", "reinvocationPolicy": "Never"}),
        ("mutate.tollgate.dev", {"failurePolicy": "Ignore", "sideEffects": "None", "reinvocationPolicy": "Never"}),
        ("validate.tollgate.dev", {"failurePolicy": "Fail", "sideEffects": "NoneOnDryRun"}),
    ],
)
def test_each_entry_says_how_it_fails_and_what_it_does(name: str, expected: Json) -> None:
    found = entry(name)
    fixed = {"matchPolicy": "Equivalent", "timeoutSeconds": 3, "admissionReviewVersions": ["v1"]}
    assert {key: found.get(key) for key in (expected | fixed)} == expected | fixed
    assert found["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }
    ]


@pytest.mark.parametrize("name", ENTRIES)
def test_each_entry_calls_a_path_that_is_served_through_our_service(name: str) -> None:
    service = only("Service")
    assert entry(name)["clientConfig"] == {
        "service": {
            "name": service["metadata"]["name"],
            "namespace": service["metadata"]["namespace"],
            "path": f"/{Question(name.partition('.')[0])}",
            "port": service["spec"]["ports"][0]["port"],
        }
    }


def test_no_ca_bundle_is_shipped_that_applying_again_would_put_back() -> None:
    assert all("caBundle" not in one["clientConfig"] for value in base() for one in value.get("webhooks", ()))


@pytest.mark.parametrize("name", ENTRIES)
def test_exempt_namespaces_are_those_of_the_domain(name: str) -> None:
    (expression,) = entry(name)["namespaceSelector"]["matchExpressions"]
    assert (expression["key"], expression["operator"]) == (keys.NAMESPACE_NAME_LABEL, "NotIn")
    assert expression["values"] == sorted(EXEMPT_NAMESPACES)


def test_our_own_namespace_is_exempt_so_that_our_replicas_never_wait_for_us() -> None:
    assert only("Namespace")["metadata"]["name"] in EXEMPT_NAMESPACES


def test_mutate_and_validate_agree_on_what_a_gpu_pod_is() -> None:
    assert condition("mutate.tollgate.dev", "gpu-pod") == condition("validate.tollgate.dev", "gpu-pod")


RESOURCES = sorted({*NAMES, MIG_PREFIX + "3g.40gb", "vendor.example/gpu"})


@pytest.mark.parametrize("side", ["limits", "requests"])
@pytest.mark.parametrize("resource", RESOURCES)
def test_a_gpu_is_seen_wherever_it_is_asked_for(resource: str, side: str) -> None:
    quantities = {side: {"cpu": "1", resource: "1"}}
    plain = {"name": "plain", "image": "i"}
    placed = [
        pod(resources=quantities),
        {"metadata": {}, "spec": {"containers": [plain, plain | {"resources": quantities}]}},
        pod(initContainers=[plain, plain | {"resources": quantities}]),
        pod(initContainers=[plain | {"restartPolicy": "Always", "resources": quantities}]),
    ]
    for one in placed:
        assert matches("mutate.tollgate.dev", one)
        assert matches("validate.tollgate.dev", one)


ANNOTATIONS = (
    *keys.KAI_SHARE_ANNOTATIONS,
    *keys.TENANT_ANNOTATIONS,
    keys.CLAIM_ANNOTATION,
    keys.SHARE_ANNOTATION,
    keys.PREFIX + "a-typo",
)


@pytest.mark.parametrize(
    "keyed",
    [
        *({"metadata": {"annotations": {"a": "b", key: "1"}}} for key in ANNOTATIONS),
        {"metadata": {"labels": {"a": "b", keys.BUDGET_LABEL: "team"}}},
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]},
    ],
    ids=str,
)
def test_a_key_or_a_claim_alone_makes_a_gpu_pod(keyed: Json) -> None:
    one = pod(**keyed)
    assert is_gpu_pod(msgspec.convert(one, Pod))
    assert matches("mutate.tollgate.dev", one)
    assert matches("validate.tollgate.dev", one)


@pytest.mark.parametrize(
    "other",
    [
        pod(),
        pod(resources={}),
        pod(resources={"limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi"}}),
        pod(metadata={"annotations": {"gpu-fractions": "0.5", "example.com/tollgate.dev": "x"}, "labels": {"a": "b"}}),
        pod(metadata={"annotations": {}, "labels": {}}, initContainers=[], resourceClaims=[]),
        pod(initContainers=[{"name": "init", "image": "i", "resources": {"requests": {"cpu": "1"}}}]),
        {"metadata": {}, "spec": {"containers": None}},
        pod(metadata={"annotations": {keys.MIRROR: "x"}}, nodeName="gpu-1"),
    ],
    ids=str,
)
def test_other_pods_never_reach_us(other: Json) -> None:
    assert not any(matches(name, other) for name in ENTRIES)
    assert not is_gpu_pod(msgspec.convert(other, Pod))


GPU = {"limits": {"nvidia.com/gpu": "1"}}
MIRRORED = {"annotations": {keys.MIRROR: "x"}}


@pytest.mark.parametrize(
    ("one", "user", "mutated", "validated"),
    [
        (pod(resources=GPU), ALICE, True, True),
        (pod(resources=GPU, nodeName=""), ALICE, True, True),
        (pod(resources=GPU, nodeName="gpu-1"), ALICE, False, True),
        (pod(MIRRORED, GPU, nodeName="gpu-1"), ALICE, False, True),
        (pod(MIRRORED, GPU, nodeName="gpu-1"), KUBELET, False, False),
        (pod(MIRRORED, GPU, nodeName="gpu-1"), {"username": "alice"}, False, True),
        (pod({"annotations": {}}, GPU, nodeName="gpu-1"), KUBELET, False, True),
    ],
)
def test_bound_pods_are_only_charged_and_kubelets_mirror_pods_let_alone(
    one: Json, user: Json, *, mutated: bool, validated: bool
) -> None:
    assert matches("mutate.tollgate.dev", one, user) is mutated
    assert matches("validate.tollgate.dev", one, user) is validated
    read = msgspec.convert(one, Pod)
    requester = Requester(user["username"], frozenset(user.get("groups", ())))
    assert (is_mirror(read) and is_kubelet(requester)) is not validated


OWNER_ACCOUNTS = sorted(set().union(*BUILT_IN_ACCOUNTS.values()))
KEYED = [
    pod({place: {key: "true"}}, resources)
    for place in ("labels", "annotations")
    for key in keys.KUEUE_OWN_KEYS
    for resources in (None, GPU)
]


@pytest.mark.parametrize(
    "username", ["alice", "system:serviceaccount:team:default", "system:serviceaccount:kube-system:x", *OWNER_ACCOUNTS]
)
@pytest.mark.parametrize("one", [*KEYED, pod({"labels": {keys.KUEUE_QUEUE: "q"}}, GPU), pod(MIRRORED, GPU)], ids=str)
def test_keys_is_called_for_exactly_what_is_refused(one: Json, username: str) -> None:
    request = Request("team", "p", Requester(username))
    refused = bool(forbidden_keys(msgspec.convert(one, Pod), request, Policy()))
    assert matches("keys.tollgate.dev", one, {"username": username}) is refused


def test_match_conditions_are_few_and_named_once() -> None:
    for name in ENTRIES:
        names = [one["name"] for one in entry(name)["matchConditions"]]
        assert len(names) == len(set(names)) <= 64


def test_the_install_guide_names_every_exempt_namespace() -> None:
    guide = (ROOT / "docs" / "install.md").read_text()
    assert all(f"`{namespace}`" in guide for namespace in EXEMPT_NAMESPACES)
