"""What we ship, as people apply it to a cluster that has never seen it."""

import copy
import json
from subprocess import CompletedProcess
from typing import NamedTuple

import pytest

from tests.cluster.harness.api import Object
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.documents import kustomized, of_kinds
from tests.cluster.harness.kinds import DEPLOYMENT, POD, RESOURCE_QUOTA, Kind
from tests.cluster.harness.kinds import kind_of as kind
from tests.cluster.harness.tollgate import ACCOUNT, BASE, CONFIGURATION, NAMESPACE
from tests.cluster.harness.waiting import wait_for
from tests.cluster.objects import gpu_pod, pod

DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget")
REPLICAS = 3

Done = CompletedProcess[str]


class Tried(NamedTuple):
    """A dry run, and which objects were there after it."""

    done: Done
    left: list[Object]


@pytest.fixture(scope="module")
def documents(own_cluster: Cluster) -> list[Object]:
    return kustomized(own_cluster.kubectl(), BASE)


@pytest.fixture(scope="module")
def nodes(own_cluster: Cluster) -> list[str]:
    return [own_cluster.add_node(f"node-{number}") for number in range(REPLICAS)]


def apply(cluster: Cluster, *flags: str) -> Done:
    return cluster.admin.kubectl("apply", "-k", str(BASE), *flags)


def lines(documents: list[Object], outcome: str) -> list[str]:
    """What kubectl says of each."""
    said = []
    for document in documents:
        group = document["apiVersion"].rpartition("/")[0]
        resource = document["kind"].lower() + (f".{group}" if group else "")
        said.append(f"{resource}/{document['metadata']['name']} {outcome}")
    return said


def generations(cluster: Cluster, documents: list[Object]) -> list[int | None]:
    """How often the spec of each was changed, where the API server counts."""
    places = [(kind(one), one["metadata"]["name"], one["metadata"].get("namespace")) for one in documents]
    return [cluster.admin.api.get(*place)["metadata"].get("generation") for place in places]


def told(done: Done) -> tuple[int, str, list[str]]:
    """Exit code, what was complained of, what was done."""
    return done.returncode, done.stderr, sorted(done.stdout.splitlines())


@pytest.fixture(scope="module")
def tried(own_cluster: Cluster, documents: list[Object]) -> Tried:
    """Before anything of ours is there but the namespace, without which nothing can be tried in it."""
    (namespace,) = of_kinds(documents, "Namespace")
    made = own_cluster.admin.kubectl("apply", "-f", "-", given=json.dumps(namespace))
    assert told(made) == (0, "", lines([namespace], "created"))
    done = apply(own_cluster, "--dry-run=server")
    places = [(kind(one), one["metadata"]["name"], one["metadata"].get("namespace")) for one in documents]
    found = [own_cluster.admin.api.find(*place) for place in places]
    return Tried(done, [one for one in found if one is not None])


@pytest.fixture(scope="module")
def installed(own_cluster: Cluster, tried: Tried, nodes: list[str]) -> Done:
    return apply(own_cluster)


@pytest.fixture
def replicas(own_cluster: Cluster, installed: Done) -> list[Object]:
    """Our own pods once all are ready."""

    def look() -> bool:
        status = own_cluster.admin.api.get(DEPLOYMENT, "tollgate", NAMESPACE)["status"]
        assert status.get("readyReplicas") == REPLICAS, status
        return True

    wait_for("all replicas are ready", look)
    return own_cluster.admin.api.list(POD, NAMESPACE)


def test_the_api_server_would_accept_every_manifest_without_a_warning(tried: Tried, documents: list[Object]) -> None:
    others = [document for document in documents if document["kind"] != "Namespace"]
    expected = [
        *lines(of_kinds(documents, "Namespace"), "unchanged (server dry run)"),
        *lines(others, "created (server dry run)"),
    ]
    assert told(tried.done) == (0, "", sorted(expected))


def test_the_dry_run_makes_nothing(tried: Tried) -> None:
    assert [one["kind"] for one in tried.left] == ["Namespace"]


def test_one_command_installs_everything_without_a_warning(installed: Done, documents: list[Object]) -> None:
    others = [document for document in documents if document["kind"] != "Namespace"]
    expected = [*lines(of_kinds(documents, "Namespace"), "unchanged"), *lines(others, "created")]
    assert told(installed) == (0, "", sorted(expected))


def test_our_own_pods_are_restricted_and_run_one_on_each_node(
    own_cluster: Cluster, replicas: list[Object], nodes: list[str]
) -> None:
    assert sorted(replica["spec"]["nodeName"] for replica in replicas) == nodes
    assert {replica["spec"]["priorityClassName"] for replica in replicas} == {"system-cluster-critical"}
    assert {replica["status"]["phase"] for replica in replicas} == {"Running"}
    wait_for(
        "the quota that lets them in counts them",
        lambda: (
            own_cluster.admin.api.get(RESOURCE_QUOTA, "tollgate-critical-pods", NAMESPACE)["status"].get("used")
            == {"pods": str(REPLICAS)}
        ),
    )


def test_one_of_our_pods_may_be_evicted_at_a_time(own_cluster: Cluster, replicas: list[Object]) -> None:
    def counted() -> bool:
        status = own_cluster.admin.api.get(DISRUPTION_BUDGET, "tollgate", NAMESPACE)["status"]
        numbers = [status[field] for field in ("expectedPods", "currentHealthy", "disruptionsAllowed")]
        assert numbers == [REPLICAS, REPLICAS, 1], status
        return True

    wait_for("the disruption budget counts them", counted)


def test_the_namespace_takes_our_pod_and_none_that_could_read_our_keys_from_a_node(
    own_cluster: Cluster, installed: Done
) -> None:
    template = own_cluster.admin.api.get(DEPLOYMENT, "tollgate", NAMESPACE)["spec"]["template"]
    ours = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": template["spec"]}
    answer = own_cluster.admin.api.try_create(ours, NAMESPACE, dry_run=True)
    assert (answer.status, answer.warnings) == (201, ())

    nosy = copy.deepcopy(ours)
    nosy["spec"]["volumes"] = [{"name": "keys", "hostPath": {"path": "/var/lib/kubelet"}}]
    answer = own_cluster.admin.api.try_create(nosy, NAMESPACE, dry_run=True)
    assert (answer.status, answer.message) == (
        403,
        (
            'pods "try" is forbidden: violates PodSecurity "restricted:latest": restricted volume types '
            '(volume "keys" uses restricted volume type "hostPath")'
        ),
    )


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "name", "may"),
    [
        ("patch", "pods", "", "", True),
        ("list", "pods", "", "", True),
        ("create", "pods", "", "", False),
        ("update", "pods", "", "", False),
        ("delete", "pods", "", "", False),
        ("list", "secrets", "", "", False),
        ("update", "secrets", NAMESPACE, "", True),
        ("delete", "secrets", NAMESPACE, "", False),
        ("update", "configmaps", NAMESPACE, "", True),
        ("delete", "configmaps", NAMESPACE, "", False),
        ("list", "configmaps", "", "", False),
        ("update", "leases.coordination.k8s.io", NAMESPACE, "", True),
        ("update", "leases.coordination.k8s.io", "kube-system", "", False),
        ("create", "events", "", "", True),
        ("list", "namespaces", "", "", True),
        ("watch", "jobs.batch", "", "", True),
        ("watch", "replicasets.apps", "", "", True),
        ("patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", CONFIGURATION, True),
        ("patch", "validatingwebhookconfigurations.admissionregistration.k8s.io", "", CONFIGURATION, True),
        ("patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", "another", False),
        ("delete", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", CONFIGURATION, False),
    ],
)
def test_our_account_may_do_this_and_not_that(
    own_cluster: Cluster, installed: Done, verb: str, resource: str, namespace: str, name: str, *, may: bool
) -> None:
    plural, _, group = resource.partition(".")
    attributes = {"verb": verb, "group": group, "resource": plural, "namespace": namespace, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}", "resourceAttributes": attributes},
    }
    assert own_cluster.admin.api.create(review)["status"]["allowed"] is may


def test_until_a_server_answers_only_gpu_pods_are_refused(own_cluster: Cluster, installed: Done) -> None:
    namespace = own_cluster.namespace()
    ana = own_cluster.user("ana", namespace)

    def refused() -> bool:
        answer = ana.api.try_create(gpu_pod("chat", namespace), dry_run=True)
        assert answer.status == 500, answer.body
        assert 'failed calling webhook "validate.tollgate.dev"' in answer.message
        return True

    wait_for("the API server knows our configurations", refused)
    assert ana.api.try_create(pod("web", namespace, {"cpu": "1"})).status == 201
