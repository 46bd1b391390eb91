"""Kueue sees what we write only if it is asked after us, which the names of the configurations decide."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.kinds import POD
from tests.cluster.harness.kueue import GATE as KUEUE_GATE
from tests.cluster.harness.kueue import MUTATING as KUEUES
from tests.cluster.harness.tollgate import CONFIGURATION
from tests.cluster.harness.waiting import wait_for
from tests.cluster.objects import GPU, denied, gates, gpu_pod, policy

LATE = "zz-tollgate"
QUEUE = "serving"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
Install = Callable[..., None]


@pytest.fixture
def queued(cluster: Cluster) -> str:
    """A namespace whose GPU pods belong to Kueue's queue QUEUE."""
    cluster.add_node(cluster.unique("gpu"), {GPU: "8"})
    namespace = cluster.namespace()
    cluster.queue(namespace, QUEUE, {GPU: "4"})
    return namespace


@pytest.fixture
def ana(cluster: Cluster, queued: str) -> Account:
    return cluster.user("ana", queued)


@pytest.fixture
def install(cluster: Cluster, queued: str) -> Iterator[Install]:
    """Starts our server, its mutating configuration under the given name."""

    def start(name: str, kueue: str) -> None:
        def renamed(document: Object) -> Object:
            if document["kind"] == "MutatingWebhookConfiguration":
                document["metadata"]["name"] = name
            return document

        ours = cluster.start_tollgate(policy(queued, 8000, queue=QUEUE), "--kueue", kueue, install=False)
        ours.install(renamed)

    yield start
    cluster.stop_tollgate()


def asked(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """The mutating configurations that changed a pod at its creation, in the order in which they were asked."""
    prefix = "mutation.webhook.admission.k8s.io/round_0_index_"
    found = {
        int(key.removeprefix(prefix)): json.loads(text)
        for key, text in cluster.audit.annotations(namespace, name).items()
        if key.startswith(prefix)
    }
    return [call["configuration"] for _, call in sorted(found.items()) if call["mutated"]]


def runs(account: Account, name: str, namespace: str) -> Object:
    def look() -> Object | None:
        found = account.api.get(POD, name, namespace)
        return found if found["status"].get("phase") == "Running" else None

    return wait_for(f"{name} runs", look)


def test_kueue_is_asked_after_us_and_gates_the_pod_that_we_put_in_a_queue(
    cluster: Cluster, install: Install, ana: Account, queued: str
) -> None:
    install(CONFIGURATION, kueue="present")
    made = ana.api.create(gpu_pod("chat", queued))
    assert asked(cluster, queued, "chat") == [CONFIGURATION, KUEUES]
    assert KUEUE_GATE in gates(made)
    assert runs(ana, "chat", queued)["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"


def test_a_configuration_that_sorts_after_kueue_s_lets_no_pod_run_unqueued(
    cluster: Cluster, install: Install, ana: Account, queued: str
) -> None:
    install(LATE, kueue="present")
    refused = ana.api.try_create(gpu_pod("chat", queued))
    message = (
        f"label {QUEUE_LABEL}={QUEUE} but no gate {KUEUE_GATE}: Kueue's webhook ran before ours, or its pod "
        "integration is off in this namespace; the pod would run unqueued"
    )
    assert (refused.status, refused.reason, refused.message) == (403, "Forbidden", denied("validate", message))
    assert refused.body["details"]["causes"] == [{"reason": "KueueGateMissing", "message": message}]
    assert cluster.audit.annotations(queued, "chat")["validate.tollgate.dev/reason"] == "KueueGateMissing"
    assert asked(cluster, queued, "chat") == [LATE]

    # Of a pod that the tenant put in a queue, Kueue's keys are there before us; nobody can tell who wrote them.
    refused = ana.api.try_create(gpu_pod("labelled", queued, labels={QUEUE_LABEL: QUEUE}))
    message = (
        "metadata.labels[kueue.x-k8s.io/managed], metadata.annotations[kueue.x-k8s.io/role-hash] are set by Kueue "
        "alone, not by ana; remove them from the pod, or, if Kueue's webhook wrote them, let Tollgate's configuration "
        "sort before Kueue's"
    )
    assert (refused.status, refused.message) == (403, denied("keys", message))
    assert ana.api.list(POD, queued) == []


def test_without_that_check_such_a_pod_runs_and_kueue_never_counts_it(
    install: Install, ana: Account, queued: str
) -> None:
    install(LATE, kueue="absent")
    made = ana.api.create(gpu_pod("chat", queued))
    assert made["metadata"]["labels"][QUEUE_LABEL] == QUEUE
    assert gates(made) == set()
    assert "kueue.x-k8s.io/managed" not in runs(ana, "chat", queued)["metadata"]["labels"]
