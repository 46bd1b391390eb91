"""Types of fields as the API server decodes them, for pods and workloads alike."""

from typing import Any

import pytest

from webhook.cli import schema


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def main(**container: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "main", **container}])


WRONG = [
    (
        main(args=["--port", 8000]),
        "spec.containers[0].args[1]",
        "8000 is a number, a string is wanted; put it",
    ),
    (main(env=[{"name": "A", "value": True}]), "spec.containers[0].env[0].value", "true is a boolean"),
    (main(resources={"limits": {"cpu": True}}), "spec.containers[0].resources.limits[cpu]", "a quantity is wanted"),
    (main(resources=[]), "spec.containers[0].resources", "is a list, a mapping is wanted"),
    (main(ports=[{"containerPort": "80"}]), "spec.containers[0].ports[0].containerPort", "an integer is wanted"),
    (main(ports=[{"containerPort": 80.5}]), "spec.containers[0].ports[0].containerPort", "80.5 is a number"),
    (pod(containers={}), "spec.containers", "is a mapping, a list is wanted"),
    (pod(containers=["vllm"]), "spec.containers[0]", "'vllm' is a string, a mapping is wanted"),
    (pod(hostNetwork="yes"), "spec.hostNetwork", "'yes' is a string, a boolean is wanted"),
    (pod(priority="high"), "spec.priority", "an integer is wanted"),
    (pod(nodeSelector={"gpu": 1}), "spec.nodeSelector[gpu]", "1 is a number, a string is wanted"),
    (pod(volumes=[{"hostPath": {"path": 5}}]), "spec.volumes[0].hostPath.path", "5 is a number"),
    ({**pod(), "metadata": {"annotations": {"gpu-fraction": 0.5}}}, "metadata.annotations[gpu-fraction]", "0.5 is a"),
    ({**pod(), "metadata": "x"}, "metadata", "'x' is a string, a mapping is wanted"),
    ({**pod(), "spec": []}, "spec", "is a list"),
]


@pytest.mark.parametrize(("value", "field", "message"), WRONG)
def test_wrong_types_are_named_by_their_field(value: dict[str, Any], field: str, message: str) -> None:
    checked = schema.check(value, schema.POD)

    assert [wrong.field for wrong in checked.wrong] == [field]
    assert message in checked.wrong[0].message


@pytest.mark.parametrize(
    "value",
    [
        main(resources={"limits": {"nvidia.com/gpu": 1, "cpu": 0.5, "memory": "1Gi"}}),
        main(livenessProbe={"httpGet": {"port": "http", "path": "/"}}, ports=[{"containerPort": 80}]),
        main(livenessProbe={"httpGet": {"port": 8000}}),
        pod(volumes=[{"emptyDir": {"sizeLimit": 5, "medium": "Memory"}}], overhead={"cpu": 1}),
        {**pod(), "metadata": {"creationTimestamp": "2025-01-02T03:04:05Z"}, "status": {"phase": "Running"}},
    ],
)
def test_right_types_pass_unchanged(value: dict[str, Any]) -> None:
    assert schema.check(value, schema.POD) == schema.Checked(value, [], [])


def test_null_is_what_go_makes_of_it() -> None:
    value = {
        "metadata": {"labels": {"a": None}, "annotations": None, "creationTimestamp": None},
        "spec": {
            "containers": [None, {"args": [None], "env": [{"name": None}], "resources": {"limits": {"x/y": None}}}],
            "volumes": [{"emptyDir": None}],
        },
    }

    assert schema.check(value, schema.POD).value == {
        "metadata": {"labels": {"a": ""}},
        "spec": {
            "containers": [{}, {"args": [""], "env": [{}], "resources": {"limits": {"x/y": "0"}}}],
            "volumes": [{}],
        },
    }


def test_unknown_fields_are_told_apart_from_wrong_ones() -> None:
    checked = schema.check(pod(containers=[{"name": "a", "resorces": {"limits": {"nvidia.com/gpu": 1}}}]), schema.POD)

    assert checked.unknown == ["spec.containers[0].resorces"]
    assert checked.wrong == []


def test_templates_are_checked_where_they_stand() -> None:
    template = {"spec": {"containers": [{"name": 5}]}}
    job = {"spec": {"jobTemplate": {"spec": {"parallelism": "2", "template": template}}}}

    assert [wrong.field for wrong in schema.check(job, "V1CronJob").wrong] == [
        "spec.jobTemplate.spec.parallelism",
        "spec.jobTemplate.spec.template.spec.containers[0].name",
    ]
