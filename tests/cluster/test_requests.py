"""What becomes of one request in all the forms in which it comes: tried, unnamed, repeated, changed by others."""

import copy
import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.kinds import POD
from tests.cluster.harness.sibling import Change, sibling
from tests.cluster.harness.tollgate import CONFIGURATION, Tollgate
from tests.cluster.harness.waiting import wait_for
from tests.cluster.objects import GPU, denied, gates, gpu_pod, merged, no_room, pod, policy

DENY = [f"requests-deny-{number}" for number in range(1, 61)]
HOLD = [f"requests-hold-{number}" for number in range(1, 11)]
SHARED = [f"requests-shared-{number}" for number in range(1, 11)]
STRICT = "requests-strict"
BOTH = ("requests-both-1", "requests-both-2")

NOMINAL = 3000
BUDGET = "tollgate.dev/budget"
CLAIM = "tollgate.dev/claim"
SHARE = "tollgate.dev/share"
SLICE = "nvidia.com/gpu.shared"
BEFORE, AFTER = "aa-sibling", "zz-sibling"
SIDECAR: Object = {"name": "sidecar", "image": "registry.example/sidecar:1"}
ONE_GPU = {"limits": {GPU: "1"}}


def rules() -> str:
    """A Deny budget for most namespaces, Hold budgets, and time slices."""
    document = json.loads(
        merged(
            *(policy(name, NOMINAL) for name in DENY),
            *(policy(name, NOMINAL, onExceeded="Hold") for name in HOLD),
            *(policy(name, NOMINAL) for name in SHARED),
            policy(STRICT, NOMINAL, onExceeded="Hold", queueing="StrictFIFO"),
            policy("both", NOMINAL, selector={"namespaces": list(BOTH)}),
        )
    )
    slices = {"selector": {"namespaces": SHARED}, "scheme": "TimeSlicing", "replicas": 4, "resource": SLICE}
    document["sharing"] = [slices]
    return json.dumps(document)


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> Iterator[Tollgate]:
    yield cluster.start_tollgate(rules())
    cluster.stop_tollgate()


@pytest.fixture(scope="module")
def left() -> dict[str, Iterator[str]]:
    return {"deny": iter(DENY), "hold": iter(HOLD), "shared": iter(SHARED)}


@pytest.fixture
def deny(cluster: Cluster, ours: Tollgate, left: dict[str, Iterator[str]]) -> str:
    """A namespace with a Deny budget of its own."""
    return cluster.namespace(next(left["deny"]))


@pytest.fixture
def hold(cluster: Cluster, ours: Tollgate, left: dict[str, Iterator[str]]) -> str:
    """A namespace with a Hold budget of its own."""
    return cluster.namespace(next(left["hold"]))


@pytest.fixture
def shared(cluster: Cluster, ours: Tollgate, left: dict[str, Iterator[str]]) -> str:
    """A namespace whose shares become time slices."""
    return cluster.namespace(next(left["shared"]))


def tenant(cluster: Cluster, *namespaces: str) -> Account:
    return cluster.user("ana", *namespaces)


def unnamed(prefix: str, namespace: str, gpus: int = 1) -> Object:
    """A pod whose name the API server finds."""
    made = gpu_pod("", namespace, gpus, generateName=prefix)
    del made["metadata"]["name"]
    return made


def fraction(name: str, namespace: str, **annotations: str) -> Object:
    return pod(name, namespace, annotations={"gpu-fraction": "0.25", **annotations})


# Dry run.


def test_a_dry_run_is_answered_like_the_real_thing_and_changes_nothing(
    cluster: Cluster, ours: Tollgate, deny: str
) -> None:
    ana = tenant(cluster, deny)
    tried = ana.api.create(gpu_pod("chat", deny), dry_run=True)
    assert tried["metadata"]["labels"] == {BUDGET: deny}
    assert tried["metadata"]["annotations"] == {CLAIM: "1000"}
    assert ours.tokens_per_second(deny) == 0
    assert ana.api.find(POD, "chat", deny) is None
    assert cluster.audit.annotations(deny, "chat")["validate.tollgate.dev/dry-run"] == "true"

    large = ana.api.try_create(gpu_pod("large", deny, 3), dry_run=True)
    assert large.status == 201
    ana.api.create(gpu_pod("chat", deny))
    large = ana.api.try_create(gpu_pod("large", deny, 3), dry_run=True)
    assert (large.status, large.message) == (
        403,
        denied("validate", no_room(deny, 3000, reserved=1000, nominal=NOMINAL)),
    )
    assert ours.tokens_per_second(deny) == 1000


def test_kubectl_s_dry_run_changes_nothing(cluster: Cluster, ours: Tollgate, deny: str) -> None:
    ana = tenant(cluster, deny)
    done = ana.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(gpu_pod("chat", deny)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "pod/chat created (server dry run)\n", "")
    assert ours.tokens_per_second(deny) == 0
    assert ana.api.list(POD, deny) == []


def test_a_dry_run_joins_no_queue(cluster: Cluster, ours: Tollgate, hold: str) -> None:
    ana = tenant(cluster, hold)
    ana.api.create(gpu_pod("first", hold, 3))
    tried = ana.api.create(gpu_pod("second", hold), dry_run=True)
    assert gates(tried) == {BUDGET}
    assert (ours.tokens_per_second(hold), ours.tokens_per_second(hold, "held")) == (3000, 0)


def test_a_dry_run_of_a_deletion_frees_nothing(cluster: Cluster, ours: Tollgate, deny: str) -> None:
    ana = tenant(cluster, deny)
    ana.api.create(gpu_pod("chat", deny))
    path = ana.api.path(POD, "chat", deny)
    assert ana.api.send("DELETE", path, query={"dryRun": "All"}).ok
    assert ours.tokens_per_second(deny) == 1000


# Names and uids.


def test_pods_without_a_name_are_charged_once_each_and_freed_by_the_uid_that_they_got(
    cluster: Cluster, ours: Tollgate, deny: str
) -> None:
    ana = tenant(cluster, deny)
    made = [ana.api.create(unnamed("chat-", deny)) for _ in range(3)]
    names = [found["metadata"]["name"] for found in made]
    assert len(set(names)) == 3
    assert all(found["metadata"]["labels"] == {BUDGET: deny} for found in made)
    assert ours.tokens_per_second(deny) == 3000
    refused = ana.api.try_create(unnamed("chat-", deny))
    assert refused.message == denied("validate", no_room(deny, 1000, reserved=3000, nominal=NOMINAL))
    for number, name in enumerate(names, 1):
        ana.api.delete(POD, name, deny, grace_seconds=0)
        assert ours.tokens_per_second(deny) == 3000 - 1000 * number


def test_a_held_pod_without_a_name_is_known_by_the_one_that_it_got(cluster: Cluster, ours: Tollgate) -> None:
    ana = tenant(cluster, cluster.namespace(STRICT))
    ana.api.create(unnamed("chat-", STRICT, 2))
    head = ana.api.create(unnamed("chat-", STRICT, 2))["metadata"]["name"]
    answer = ana.api.try_create(unnamed("chat-", STRICT, 2))
    assert answer.status == 201
    waits = (
        f"held: budget {STRICT} has no room, behind {STRICT}/{head}: claims 2000 tokens/s, used 0 + reserved 2000 of "
        f"{NOMINAL}, has no cohort to borrow from; released when 2000 tokens/s are free"
    )
    assert answer.warnings == (waits,)
    assert (ours.tokens_per_second(STRICT), ours.tokens_per_second(STRICT, "held")) == (2000, 4000)


def test_pods_of_one_name_in_two_namespaces_are_two_charges(cluster: Cluster, ours: Tollgate) -> None:
    for namespace in BOTH:
        cluster.namespace(namespace)
    ana = tenant(cluster, *BOTH)
    for namespace in BOTH:
        ana.api.create(gpu_pod("chat", namespace))
    assert ours.tokens_per_second("both") == 2000
    ana.api.delete(POD, "chat", BOTH[0], grace_seconds=0)
    assert ours.tokens_per_second("both") == 1000


def test_a_pod_made_again_under_its_old_name_is_a_charge_of_its_own(
    cluster: Cluster, ours: Tollgate, deny: str
) -> None:
    ana = tenant(cluster, deny)
    for _ in range(3):
        ana.api.create(gpu_pod("chat", deny, 2))
        assert ours.tokens_per_second(deny) == 2000
        assert ana.api.try_create(gpu_pod("chat", deny, 2)).status == 403  # no room for two
        ana.api.delete(POD, "chat", deny, grace_seconds=0)
        assert ours.tokens_per_second(deny) == 0


def test_deleting_all_pods_of_a_namespace_frees_all_that_they_held(cluster: Cluster, ours: Tollgate, deny: str) -> None:
    ana = tenant(cluster, deny)
    for name in ("a", "b", "c"):
        ana.api.create(gpu_pod(name, deny))
    assert ours.tokens_per_second(deny) == 3000
    assert ana.api.send("DELETE", ana.api.path(POD, None, deny), {"gracePeriodSeconds": 0}).ok
    wait_for("all is free", lambda: ours.tokens_per_second(deny) == 0)


# Twice.


def ask(ours: Tollgate, path: str, pod: Object) -> Object:
    """What our server answers when it is asked about a pod."""
    metadata = pod["metadata"]
    request = {
        "uid": "00000000-0000-0000-0000-000000000001",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "userInfo": {"username": "ana", "groups": ["system:authenticated"]},
        "object": pod,
        "dryRun": True,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    call = urllib.request.Request(
        f"{ours.url}/{path}", json.dumps(review).encode(), {"Content-Type": "application/json"}
    )
    context = ssl.create_default_context(cadata=ours.ca.decode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(call, timeout=10) as answer:
        found: Object = json.load(answer)["response"]
        return found


@pytest.mark.parametrize("kind", ["deny", "hold", "shared"])
def test_a_second_call_of_mutate_changes_nothing(
    cluster: Cluster, ours: Tollgate, kind: str, request: pytest.FixtureRequest
) -> None:
    namespace: str = request.getfixturevalue(kind)
    ana = tenant(cluster, namespace)
    wanted = fraction("chat", namespace) if kind == "shared" else gpu_pod("chat", namespace)
    first = ask(ours, "mutate", wanted)
    assert first["patchType"] == "JSONPatch"
    made = ana.api.create(wanted, dry_run=True)
    second = ask(ours, "mutate", made)
    assert (second["allowed"], "patch" in second) == (True, False)

    again = copy.deepcopy(made)
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        again["metadata"].pop(field, None)
    repeated = ana.api.create(again, dry_run=True)
    assert repeated["metadata"]["labels"] == made["metadata"]["labels"]
    assert repeated["metadata"]["annotations"] == made["metadata"]["annotations"]
    assert repeated["spec"] == made["spec"]


def test_when_the_api_server_asks_twice_in_one_request_nothing_changes_and_one_charge_is_made(
    cluster: Cluster, ours: Tollgate, deny: str
) -> None:
    def asked_again(document: Object) -> Object:
        document = copy.deepcopy(document)
        for hook in document["webhooks"]:
            if "reinvocationPolicy" in hook:
                hook["reinvocationPolicy"] = "IfNeeded"
        return document

    ana = tenant(cluster, deny)
    add = [{"op": "add", "path": "/spec/containers/-", "value": SIDECAR}]
    ours.uninstall()
    try:
        ours.install(asked_again)
        with sibling(cluster.admin.api, cluster.run.path / cluster.unique(AFTER), AFTER, deny, lambda pod: add):

            def twice() -> bool:
                before = ours.reviews("mutate")
                ana.api.create(gpu_pod("probe", deny), dry_run=True)
                return ours.reviews("mutate") - before == 2

            wait_for("the API server asks us twice", twice)
            made = ana.api.create(gpu_pod("chat", deny))
    finally:
        ours.uninstall()
        ours.install()
    assert made["metadata"]["labels"] == {BUDGET: deny}
    assert made["metadata"]["annotations"] == {CLAIM: "1000"}
    assert ours.tokens_per_second(deny) == 1000
    rounds = {
        key.rpartition("/")[2]: json.loads(text)
        for key, text in cluster.audit.annotations(deny, "chat").items()
        if key.startswith("mutation.webhook.admission.k8s.io/")
    }
    mutated = {name: call["mutated"] for name, call in rounds.items() if call["configuration"] == CONFIGURATION}
    assert mutated == {"round_0_index_1": True, "round_1_index_1": False}


# Others who change the same pod.


def add(path: str, value: object) -> Object:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Object:
    return {"op": "remove", "path": path}


def changing(*operations: Object) -> Change:
    """The same patch for every pod that asks for GPUs: the probe is left alone."""

    def change(pod: Object) -> list[Object]:
        return [] if pod["metadata"]["name"] == "sibling-probe" else list(operations)

    return change


def with_sibling(cluster: Cluster, name: str, namespace: str, *operations: Object) -> Any:
    folder = cluster.run.path / cluster.unique(name)
    return sibling(cluster.admin.api, folder, name, namespace, changing(*operations))


INJECTIONS = {
    "sidecar at the end": [add("/spec/containers/-", SIDECAR)],
    "sidecar in front": [add("/spec/containers/0", SIDECAR)],
    "init container": [add("/spec/initContainers", [SIDECAR])],
    "native sidecar": [add("/spec/initContainers", [{**SIDECAR, "restartPolicy": "Always"}])],
    "tolerations and selector": [
        add("/spec/tolerations", [{"key": "a", "operator": "Exists"}]),
        add("/spec/nodeSelector", {"a": "b"}),
    ],
    "gate": [add("/spec/schedulingGates", [{"name": "example.com/wait"}])],
}


@pytest.mark.parametrize("name", [BEFORE, AFTER])
@pytest.mark.parametrize("kind", ["deny", "hold"])
def test_what_others_inject_and_what_we_write_are_both_there(
    cluster: Cluster, ours: Tollgate, kind: str, name: str, request: pytest.FixtureRequest
) -> None:
    namespace: str = request.getfixturevalue(kind)
    ana = tenant(cluster, namespace)
    operations = [add("/metadata/labels/mesh", "on"), add("/metadata/annotations/injected", "yes")]
    operations += [add("/spec/containers/-", SIDECAR), add("/spec/tolerations/-", {"key": "a", "operator": "Exists"})]
    wanted = gpu_pod("chat", namespace, labels={"app": "chat"}, annotations={"owner": "ana"})
    with with_sibling(cluster, name, namespace, *operations):
        made = ana.api.create(wanted)
    assert made["metadata"]["labels"] == {"app": "chat", "mesh": "on", BUDGET: namespace}
    assert made["metadata"]["annotations"] == {"owner": "ana", "injected": "yes", CLAIM: "1000"}
    assert [container["name"] for container in made["spec"]["containers"]] == ["main", "sidecar"]
    assert gates(made) == ({BUDGET} if kind == "hold" else set())
    assert ours.tokens_per_second(namespace) == 1000


@pytest.mark.parametrize("name", [BEFORE, AFTER])
@pytest.mark.parametrize("operations", INJECTIONS.values(), ids=INJECTIONS)
def test_an_injection_changes_nothing_of_ours(
    cluster: Cluster, ours: Tollgate, deny: str, name: str, operations: list[Object]
) -> None:
    ana = tenant(cluster, deny)
    with with_sibling(cluster, name, deny, *operations):
        made = ana.api.create(gpu_pod("chat", deny))
    assert made["metadata"]["labels"] == {BUDGET: deny}
    assert made["metadata"]["annotations"] == {CLAIM: "1000"}
    for operation in operations:
        assert is_there(made, operation)
    assert ours.tokens_per_second(deny) == 1000


def is_there(made: Object, operation: Object) -> bool:
    """Whether what was added is among what the pod has, defaults aside."""
    found = made["spec"][operation["path"].split("/")[2]]
    wanted = operation["value"]
    if isinstance(wanted, dict) and "name" not in wanted:
        return bool(found == wanted)
    first = wanted[0] if isinstance(wanted, list) else wanted
    return any(first.items() <= one.items() for one in found)


def test_a_gpu_that_others_add_before_us_is_claimed(cluster: Cluster, ours: Tollgate, deny: str) -> None:
    ana = tenant(cluster, deny)
    with with_sibling(cluster, BEFORE, deny, add("/spec/containers/-", {**SIDECAR, "resources": ONE_GPU})):
        two = ana.api.create(gpu_pod("two", deny))
        one = ana.api.create(pod("one", deny))
    assert (two["metadata"]["annotations"], one["metadata"]["annotations"]) == ({CLAIM: "2000"}, {CLAIM: "1000"})
    assert ours.tokens_per_second(deny) == 3000


def test_our_keys_written_by_others_before_us_mean_nothing(cluster: Cluster, ours: Tollgate, deny: str) -> None:
    ana = tenant(cluster, deny)
    forged = [add("/metadata/labels", {BUDGET: "another"}), add("/metadata/annotations", {CLAIM: "1", SHARE: "x"})]
    with with_sibling(cluster, BEFORE, deny, *forged, add("/spec/schedulingGates", [{"name": BUDGET}])):
        made = ana.api.create(gpu_pod("chat", deny))
    assert made["metadata"]["labels"] == {BUDGET: deny}
    assert made["metadata"]["annotations"] == {CLAIM: "1000"}
    assert gates(made) == set()


def test_a_share_goes_to_its_container_wherever_others_put_it(cluster: Cluster, ours: Tollgate, shared: str) -> None:
    ana = tenant(cluster, shared)
    with with_sibling(cluster, BEFORE, shared, add("/spec/containers/0", SIDECAR)):
        made = ana.api.create(fraction("chat", shared, **{"gpu-fraction-container-name": "main"}))
    sidecar, main = made["spec"]["containers"]
    assert (sidecar["name"], sidecar["resources"]) == ("sidecar", {})
    assert (main["name"], main["resources"]) == ("main", {"limits": {SLICE: "1"}, "requests": {SLICE: "1"}})


CHANGED = (
    "the pod was changed after Tollgate's mutating webhook: {}; "
    "let that webhook sort before gpu-tollgate, or leave these fields alone"
)
LABEL_FIELD, CLAIM_FIELD = f"metadata.labels[{BUDGET}]", f"metadata.annotations[{CLAIM}]"
LATE = {
    "adds a GPU": ("deny", [add("/spec/containers/-", {**SIDECAR, "resources": ONE_GPU})], CLAIM_FIELD),
    "adds a GPU init container": (
        "deny",
        [add("/spec/initContainers", [{**SIDECAR, "resources": {"limits": {GPU: "2"}}}])],
        CLAIM_FIELD,
    ),
    "takes the claim": ("deny", [remove("/metadata/annotations")], CLAIM_FIELD),
    "writes a smaller claim": ("deny", [add("/metadata/annotations", {CLAIM: "1"})], CLAIM_FIELD),
    "writes another budget": ("deny", [add("/metadata/labels", {BUDGET: "both"})], LABEL_FIELD),
    "takes the gate": ("hold", [remove("/spec/schedulingGates")], "spec.schedulingGates"),
    "replaces the gate": (
        "hold",
        [add("/spec/schedulingGates", [{"name": "example.com/wait"}])],
        "spec.schedulingGates",
    ),
    "takes the slice": ("shared", [remove("/spec/containers/0/resources")], "spec.containers[0].resources"),
    "takes the share's text": (
        "shared",
        [remove("/metadata/annotations/tollgate.dev~1share")],
        f"metadata.annotations[{SHARE}]",
    ),
}


@pytest.mark.parametrize(("kind", "operations", "field"), LATE.values(), ids=LATE)
def test_what_others_take_from_us_afterwards_is_noticed(
    cluster: Cluster, ours: Tollgate, kind: str, operations: list[Object], field: str, request: pytest.FixtureRequest
) -> None:
    namespace: str = request.getfixturevalue(kind)
    ana = tenant(cluster, namespace)
    with with_sibling(cluster, AFTER, namespace, *operations):
        answer = ana.api.try_create(fraction("chat", namespace) if kind == "shared" else gpu_pod("chat", namespace))
    message = CHANGED.format(field)
    assert (answer.status, answer.message) == (403, denied("validate", message))
    assert answer.body["details"]["causes"] == [{"reason": "ChangedAfterMutate", "message": message}]
    assert (ours.tokens_per_second(namespace), ours.tokens_per_second(namespace, "held")) == (0, 0)
    assert ana.api.list(POD, namespace) == []


def test_a_pod_whose_label_others_take_is_as_if_we_had_not_been_asked(
    cluster: Cluster, ours: Tollgate, deny: str
) -> None:
    ana = tenant(cluster, deny)
    with with_sibling(cluster, AFTER, deny, remove("/metadata/labels")):
        answer = ana.api.try_create(gpu_pod("chat", deny))
    message = (
        "Tollgate's mutating webhook did not run on this pod (it fails open): these fields are not as it writes them: "
        f"{LABEL_FIELD}; create the pod again, and if that does not help, look for a webhook that sorts after "
        "gpu-tollgate and takes them away"
    )
    assert (answer.status, answer.message) == (403, denied("validate", message))
    assert answer.body["details"]["causes"] == [{"reason": "NotMutated", "message": message}]
    assert ours.tokens_per_second(deny) == 0


def test_a_container_that_others_put_in_front_of_a_share_afterwards_is_noticed(
    cluster: Cluster, ours: Tollgate, shared: str
) -> None:
    ana = tenant(cluster, shared)
    with with_sibling(cluster, AFTER, shared, add("/spec/containers/0", SIDECAR)):
        answer = ana.api.try_create(fraction("chat", shared))
        named = ana.api.try_create(fraction("named", shared, **{"gpu-fraction-container-name": "main"}))
    assert named.status == 201
    message = (
        f"gpu-fraction 0.25 beside spec.containers[1].resources.limits[{SLICE}]: 1; "
        f"spec.containers[1].resources.requests[{SLICE}]: 1: scheme TimeSlicing gives the container sidecar {SLICE}: "
        "1; remove the annotation or the resources, or name the container that has them in "
        "gpu-fraction-container-name: main"
    )
    field = "metadata.annotations[gpu-fraction]"
    assert (answer.status, answer.message) == (422, denied("validate", f"{field}: {message}"))
    cause = {"reason": "ContradictoryShare", "message": message, "field": field}
    assert answer.body["details"]["causes"] == [cause]
