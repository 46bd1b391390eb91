"""What the API server's audit log says of our decisions, with the audit policy that we ship."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.kinds import POD
from tests.cluster.harness.sibling import sibling
from tests.cluster.harness.tollgate import Tollgate
from tests.cluster.harness.waiting import wait_for
from tests.cluster.objects import gpu_pod, merged, pod, policy

DENY, HOLD, WARNED, AUDITED, SHARED, UNMETERED = (
    f"audit-{kind}" for kind in ("deny", "hold", "warned", "audited", "shared", "unmetered")
)
LONGEST = "audit-" + "n" * 57
"""63 characters, which names of namespaces, budgets and claims may have."""

NOMINAL = 3000
SLICE = "nvidia.com/gpu.shared"
RESOURCE = "example.com/" + "r" * 63
OWN = ("keys.tollgate.dev/", "mutate.tollgate.dev/", "validate.tollgate.dev/")
NOT_TAKEN = re.compile(r"Failed to set admission audit annotation|Failed to set annotations\[.* for audit:")
"""apiserver, pkg/admission/plugin/webhook/*/dispatcher.go and pkg/audit/context.go."""

Said = dict[str, str]


def rules() -> str:
    document = json.loads(
        merged(
            *(policy(name, NOMINAL) for name in (DENY, SHARED, LONGEST)),
            policy(HOLD, NOMINAL, onExceeded="Hold"),
            policy(WARNED, NOMINAL, mode="Warn"),
            policy(AUDITED, NOMINAL, mode="Audit"),
        )
    )
    document["sharing"] = [
        {"selector": {"namespaces": [name]}, "scheme": "TimeSlicing", "replicas": 4, "resource": resource}
        for name, resource in ((SHARED, SLICE), (LONGEST, RESOURCE))
    ]
    return json.dumps(document)


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> Iterator[Tollgate]:
    for namespace in (DENY, HOLD, WARNED, AUDITED, SHARED, UNMETERED, LONGEST):
        cluster.namespace(namespace)
    yield cluster.start_tollgate(rules())
    cluster.stop_tollgate()


@pytest.fixture(scope="module")
def ana(cluster: Cluster, ours: Tollgate) -> Account:
    return cluster.user("ana", DENY, HOLD, WARNED, AUDITED, SHARED, UNMETERED, LONGEST)


@pytest.fixture
def name(cluster: Cluster) -> str:
    """Of a pod that nobody has."""
    return cluster.unique("pod")


@pytest.fixture
def empty(ours: Tollgate, ana: Account) -> None:
    """Budgets that hold nothing, whatever ran before."""
    for namespace in (DENY, HOLD, WARNED, AUDITED, SHARED, LONGEST):
        for found in ana.api.list(POD, namespace):
            ana.api.delete(POD, found["metadata"]["name"], namespace, grace_seconds=0)
        for kind in ("reserved", "held"):
            wait_for(
                f"budget {namespace} is empty",
                lambda budget=namespace, kind=kind: ours.tokens_per_second(budget, kind) == 0,  # type: ignore[misc]
            )


def digest(ours: Tollgate) -> str:
    """The short hash of the policy, as the server says it."""
    (ready,) = [line for line in ours.servers[0].log() if line["msg"].startswith("ready: ")]
    return str(ready["policy"])


def said(cluster: Cluster, namespace: str, name: str) -> dict[str, Said]:
    """What each entry of ours wrote about the last creation of the pod."""
    annotations = cluster.audit.annotations(namespace, name)
    found = {prefix.partition(".")[0]: of(prefix, annotations) for prefix in OWN}
    return {entry: values for entry, values in found.items() if values}


def of(prefix: str, annotations: Said) -> Said:
    return {key.removeprefix(prefix): value for key, value in annotations.items() if key.startswith(prefix)}


def metered(ours: Tollgate, budget: str, decision: str, reason: str, claim: int = 1000) -> Said:
    numbers = {"budget": budget, "claim": str(claim), "claim-source": "Default"}
    return {"decision": decision, "reason": reason, "policy": digest(ours), **numbers}


@pytest.mark.usefixtures("empty")
def test_an_admitted_pod(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    ana.api.create(gpu_pod(f"{name}-before", DENY, 2))
    ana.api.create(gpu_pod(name, DENY))
    assert said(cluster, DENY, name) == {
        "mutate": metered(ours, DENY, "Admit", "Metered"),
        "validate": {**metered(ours, DENY, "Admit", "Fits"), "used": "2000", "limit": "3000"},
    }


@pytest.mark.usefixtures("empty")
def test_a_held_pod(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    ana.api.create(gpu_pod(f"{name}-before", HOLD, 2))
    ana.api.create(gpu_pod(name, HOLD, 2))
    assert said(cluster, HOLD, name) == {
        "mutate": metered(ours, HOLD, "Admit", "Gated", 2000),
        "validate": {**metered(ours, HOLD, "Hold", "Waiting", 2000), "used": "2000", "limit": "3000"},
    }


@pytest.mark.usefixtures("empty")
def test_a_denied_pod(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    ana.api.create(gpu_pod(f"{name}-before", DENY, 2))
    assert ana.api.try_create(gpu_pod(name, DENY, 2)).status == 403
    assert said(cluster, DENY, name) == {
        "mutate": metered(ours, DENY, "Admit", "Metered", 2000),
        "validate": {**metered(ours, DENY, "Deny", "TokenBudgetExceeded", 2000), "used": "2000", "limit": "3000"},
    }
    (event,) = cluster.audit.events(verb="create", namespace=DENY, name=name)
    assert event["responseStatus"]["code"] == 403


@pytest.mark.usefixtures("empty")
def test_a_pod_that_can_never_come(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    assert ana.api.try_create(gpu_pod(name, HOLD, 4)).status == 403
    never = {**metered(ours, HOLD, "Deny", "NeverFits", 4000), "used": "0", "limit": "3000"}
    assert said(cluster, HOLD, name)["validate"] == never


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("namespace", [WARNED, AUDITED])
def test_a_pod_that_only_enforce_would_refuse(
    cluster: Cluster, ours: Tollgate, ana: Account, name: str, namespace: str
) -> None:
    ana.api.create(gpu_pod(name, namespace, 4))
    assert said(cluster, namespace, name) == {
        "mutate": metered(ours, namespace, "Admit", "Metered", 4000),
        "validate": {**metered(ours, namespace, "Admit", "Observed", 4000), "used": "0", "limit": "3000"},
    }


@pytest.mark.usefixtures("empty")
def test_a_dry_run_says_that_it_is_one(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    ana.api.create(gpu_pod(name, DENY), dry_run=True)
    assert said(cluster, DENY, name) == {
        "mutate": {**metered(ours, DENY, "Admit", "Metered"), "dry-run": "true"},
        "validate": {**metered(ours, DENY, "Admit", "Fits"), "dry-run": "true", "used": "0", "limit": "3000"},
    }


@pytest.mark.usefixtures("empty")
def test_a_share(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    ana.api.create(pod(name, SHARED, annotations={"gpu-fraction": "0.25"}))
    share = {"share": f"scheme=TimeSlicing;resource={SLICE};count=1"}
    assert said(cluster, SHARED, name) == {
        "mutate": {**metered(ours, SHARED, "Admit", "Metered", 250), **share},
        "validate": {**metered(ours, SHARED, "Admit", "Fits", 250), **share, "used": "0", "limit": "3000"},
    }


def test_a_wrong_pod(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    wanted = pod(name, DENY, {"nvidia.com/gpu": "1"}, annotations={"tollgate.dev/tokens-per-second": "many"})
    assert ana.api.try_create(wanted).status == 422
    assert said(cluster, DENY, name) == {"mutate": metered(ours, DENY, "Deny", "InvalidAnnotation")}


def test_a_forbidden_key(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    assert ana.api.try_create(gpu_pod(name, DENY, labels={"kueue.x-k8s.io/managed": "true"})).status == 403
    denied = {"decision": "Deny", "reason": "ForbiddenKey", "policy": digest(ours)}
    assert said(cluster, DENY, name) == {"keys": denied}


def test_a_pod_of_no_budget(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    ana.api.create(gpu_pod(name, UNMETERED))
    admitted = {"decision": "Admit", "reason": "Unmetered", "policy": digest(ours)}
    assert said(cluster, UNMETERED, name) == {"mutate": admitted, "validate": admitted}


def test_an_extended_resource_that_is_no_gpu(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    ana.api.create(pod(name, DENY, {"rdma.example/hca": "1"}))
    untouched = {"decision": "Untouched", "reason": "NotGPU", "policy": digest(ours)}
    assert said(cluster, DENY, name) == {"mutate": untouched, "validate": untouched}


def test_a_pod_without_gpus_has_nothing_of_ours(cluster: Cluster, ana: Account, name: str) -> None:
    ana.api.create(pod(name, DENY, {"cpu": "1"}))
    assert said(cluster, DENY, name) == {}


@pytest.mark.usefixtures("empty")
def test_the_longest_names_are_whole(cluster: Cluster, ours: Tollgate, ana: Account) -> None:
    long = "p" * 253
    ana.api.create(pod(long, LONGEST, annotations={"gpu-fraction": "0.25"}))
    share = {"share": f"scheme=TimeSlicing;resource={RESOURCE};count=1"}
    assert said(cluster, LONGEST, long) == {
        "mutate": {**metered(ours, LONGEST, "Admit", "Metered", 250), **share},
        "validate": {**metered(ours, LONGEST, "Admit", "Fits", 250), **share, "used": "0", "limit": "3000"},
    }


@pytest.mark.usefixtures("empty")
def test_a_large_pod_is_in_the_log_whole_with_all_that_we_said(
    cluster: Cluster, ours: Tollgate, ana: Account, name: str
) -> None:
    notes = {f"example.com/note-{number}": "x" * 2000 for number in range(100)}
    made = ana.api.create(gpu_pod(name, DENY, annotations=notes))
    assert said(cluster, DENY, name)["validate"]["reason"] == "Fits"
    (event,) = cluster.audit.events(verb="create", namespace=DENY, name=name)
    assert "audit.k8s.io/truncated" not in event["annotations"]
    assert event["requestObject"]["metadata"]["annotations"] == notes
    stored: Object = event["responseObject"]["metadata"]
    assert (stored["uid"], stored["annotations"]) == (made["metadata"]["uid"], made["metadata"]["annotations"])


@pytest.mark.usefixtures("empty")
def test_a_pod_without_a_name_is_found_by_its_uid(cluster: Cluster, ours: Tollgate, ana: Account) -> None:
    wanted = gpu_pod("", DENY, generateName="chat-")
    del wanted["metadata"]["name"]
    made = ana.api.create(wanted)["metadata"]

    def found() -> list[Object]:
        events = cluster.audit.events(verb="create", namespace=DENY)
        return [one for one in events if one.get("responseObject", {}).get("metadata", {}).get("uid") == made["uid"]]

    (event,) = wait_for("the audit log has its creation", found)
    assert event["responseObject"]["metadata"]["name"] == made["name"]
    assert of("validate.tollgate.dev/", event["annotations"])["decision"] == "Admit"


def complaints(cluster: Cluster, webhook: str) -> list[str]:
    """What the API server says of annotations that it did not take from webhooks of this domain."""
    said = cluster.components["kube-apiserver"].started().said()
    return [line for line in said.splitlines() if webhook in line and NOT_TAKEN.search(line)]


def test_the_api_server_took_every_key_of_ours(cluster: Cluster, ours: Tollgate, ana: Account, name: str) -> None:
    folder = cluster.run.path / cluster.unique("sibling")
    illegal = {"a/b": "a slash makes it no qualified name"}
    with sibling(cluster.admin.api, folder, "aa-illegal", DENY, lambda pod: [], illegal):
        for wanted in (gpu_pod(name, DENY, 4), gpu_pod(name, DENY), gpu_pod(name, HOLD), gpu_pod(name, UNMETERED)):
            ana.api.try_create(wanted, dry_run=True)
    wait_for("it complains of another's", lambda: complaints(cluster, "aa-illegal.example.com"))
    assert complaints(cluster, "tollgate.dev") == []
