"""Workloads: how many pods, and which pod their controllers would create."""

from typing import Any

import pytest

from webhook.cli import workloads
from webhook.cli.workloads import SHAPES

TEMPLATE = {
    "metadata": {"labels": {"app": "llm"}, "annotations": {"gpu-fraction": "0.5"}, "name": "ignored"},
    "spec": {"containers": [{"name": "main"}]},
}


def workload(api_version: str, kind: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    spec = {**spec, "template": TEMPLATE}
    if kind == "CronJob":
        spec = {"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": {"of": "job"}}, "spec": spec}}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "labels": labels or {}}, "spec": spec}


REPLICAS = [
    (workload("apps/v1", "Deployment"), 1),
    (workload("apps/v1", "Deployment", replicas=3), 3),
    (workload("apps/v1", "Deployment", replicas=0), 0),
    (workload("apps/v1", "ReplicaSet", replicas=2), 2),
    (workload("apps/v1", "StatefulSet", replicas=4), 4),
    (workload("apps/v1", "DaemonSet"), 1),
    (workload("batch/v1", "Job"), 1),
    (workload("batch/v1", "Job", parallelism=4), 4),
    (workload("batch/v1", "Job", completions=4), 1),
    (workload("batch/v1", "Job", parallelism=4, completions=2), 2),
    (workload("batch/v1", "Job", parallelism=2, completions=8, completionMode="Indexed"), 2),
    (workload("batch/v1", "Job", parallelism=0, completions=8), 0),
    (workload("batch/v1", "Job", parallelism=2, suspend=True), 2),
    (workload("batch/v1", "CronJob", parallelism=3, completions=3), 3),
]


@pytest.mark.parametrize(("value", "count"), REPLICAS)
def test_how_many_pods_there_are_at_once(value: dict[str, Any], count: int) -> None:
    shape = SHAPES[value["apiVersion"], value["kind"]]

    assert workloads.replicas_of(value, shape).count == count


def test_a_daemon_set_says_that_its_nodes_are_not_counted() -> None:
    warning = workloads.replicas_of({}, SHAPES["apps/v1", "DaemonSet"]).warning

    assert "one pod for each node" in warning


@pytest.mark.parametrize(
    ("kind", "field"),
    [("Deployment", "spec.replicas"), ("Job", "spec.parallelism"), ("CronJob", "spec.jobTemplate.spec.completions")],
)
def test_counts_below_zero_are_refused(kind: str, field: str) -> None:
    api_version = "apps/v1" if kind == "Deployment" else "batch/v1"
    counts: dict[str, Any] = {field.rpartition(".")[2]: -1}
    value = workload(api_version, kind, **counts)

    assert list(workloads.negative_counts(value, SHAPES[api_version, kind])) == [(field, "-1 must be 0 or more")]


CHAINS = [
    ("apps/v1", "Deployment", [("ReplicaSet", "apps"), ("Deployment", "apps")]),
    ("apps/v1", "ReplicaSet", [("ReplicaSet", "apps")]),
    ("apps/v1", "StatefulSet", [("StatefulSet", "apps")]),
    ("apps/v1", "DaemonSet", [("DaemonSet", "apps")]),
    ("batch/v1", "Job", [("Job", "batch")]),
    ("batch/v1", "CronJob", [("Job", "batch"), ("CronJob", "batch")]),
]


@pytest.mark.parametrize(("api_version", "kind", "chain"), CHAINS)
def test_the_pod_belongs_to_the_nearest_owner_of_the_chain(
    api_version: str, kind: str, chain: list[tuple[str, str]]
) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    made = workloads.pod_of(workload(api_version, kind, labels), SHAPES[api_version, kind], "prod")

    metadata = made.pod["metadata"]
    (reference,) = metadata["ownerReferences"]
    assert [(owner.kind, owner.group) for owner in made.owners] == chain
    assert made.owners[-1].labels == labels
    assert (reference["kind"], reference["apiVersion"], reference["controller"]) == (chain[0][0], api_version, True)
    assert (reference["name"], reference["uid"]) == (made.owners[0].name, made.owners[0].uid)
    assert metadata["namespace"] == "prod"
    assert metadata["labels"]["app"] == "llm"
    assert metadata["annotations"] == {"gpu-fraction": "0.5"}
    assert made.pod["spec"] == TEMPLATE["spec"]
    assert ("name" in metadata) == (kind == "StatefulSet")
    assert ("generateName" in metadata) == (kind != "StatefulSet")


def test_labels_that_controllers_add_are_there_for_selectors() -> None:
    job = workloads.pod_of(workload("batch/v1", "Job"), SHAPES["batch/v1", "Job"], "a").pod["metadata"]
    stateful = workloads.pod_of(workload("apps/v1", "StatefulSet"), SHAPES["apps/v1", "StatefulSet"], "a").pod[
        "metadata"
    ]

    assert job["labels"]["job-name"] == job["labels"]["batch.kubernetes.io/job-name"] == "w"
    assert stateful["labels"]["statefulset.kubernetes.io/pod-name"] == stateful["name"] == "w-0"


def test_a_job_with_generate_name_gets_a_name_before_it_gets_into_labels() -> None:
    value = {**workload("batch/v1", "Job"), "metadata": {"generateName": "sample-job-"}}
    metadata = workloads.pod_of(value, SHAPES["batch/v1", "Job"], "a").pod["metadata"]
    name = metadata["labels"]["job-name"]

    assert (name.removeprefix("sample-job-").isalnum(), len(name)) == (True, len("sample-job-") + 5)
    assert metadata["generateName"] == f"{name}-"
    assert metadata["ownerReferences"][0]["name"] == name


def test_the_job_of_a_cron_job_carries_the_labels_of_its_template() -> None:
    made = workloads.pod_of(workload("batch/v1", "CronJob"), SHAPES["batch/v1", "CronJob"], "a")

    assert made.owners[0].labels == {"of": "job"}


def test_the_same_document_makes_the_same_pod_in_every_run() -> None:
    value, shape = workload("apps/v1", "Deployment"), SHAPES["apps/v1", "Deployment"]

    assert workloads.pod_of(value, shape, "a") == workloads.pod_of(value, shape, "a")
    assert workloads.pod_of(value, shape, "a").owners[0].uid != workloads.pod_of(value, shape, "b").owners[0].uid


def test_a_template_without_anything_makes_an_empty_pod() -> None:
    made = workloads.pod_of(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}, SHAPES["apps/v1", "Deployment"], "a"
    )

    assert made.pod["spec"] == {}


def test_annotations_on_the_workload_itself_are_warned_about() -> None:
    value = workload("apps/v1", "Deployment")
    value["metadata"]["annotations"] = {"gpu-memory": "8000", "gpu-fraction": "0.5", "tollgate.dev/model": "m"}

    warnings = list(workloads.warnings_of(value, SHAPES["apps/v1", "Deployment"]))

    assert warnings == [
        f"metadata.annotations[{key}] of the Deployment reaches no pod; move it to spec.template.metadata.annotations"
        for key in ("gpu-memory", "tollgate.dev/model")
    ]


def test_annotations_on_a_job_template_are_warned_about_too() -> None:
    value = workload("batch/v1", "CronJob")
    value["spec"]["jobTemplate"]["metadata"]["annotations"] = {"gpu-memory": "8000"}

    assert any("spec.jobTemplate.metadata.annotations[gpu-memory]" in w for w in _warnings("batch/v1", value))


def _warnings(api_version: str, value: dict[str, Any]) -> list[str]:
    return list(workloads.warnings_of(value, SHAPES[api_version, value["kind"]]))


def test_a_restart_policy_that_the_api_server_refuses_is_warned_about() -> None:
    assert (
        "the API server refuses Always in a Job; write Never or OnFailure"
        in _warnings("batch/v1", workload("batch/v1", "Job"))[0]
    )
    assert _warnings("apps/v1", workload("apps/v1", "Deployment")) == []


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": {"containers": [{}]}}}}}]}}, True),
        ({"spec": {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "h"}]}}}}}, True),
        ({"spec": {"predictor": {"containers": [{"name": "h"}]}}}, True),
        ({"spec": {"versions": [{"schema": {"containers": {"type": "array"}}}]}}, False),
        ({"data": {"containers": [{}]}}, False),
        ({"spec": None}, False),
        ({}, False),
    ],
)
def test_other_kinds_with_a_pod_template_are_recognised(value: dict[str, Any], found: bool) -> None:
    assert workloads.has_pod_template(value) is found
