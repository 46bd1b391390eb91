"""Workloads to pods: how many a Deployment, Job … asks for, and the pod that its controller would create.

Defaults are those of kubernetes pkg/apis/apps/v1 and batch/v1 defaults.go; what controllers write into their pods is in
pkg/controller/controller_utils.go, statefulset/stateful_set_utils.go and job/job_controller.go.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from webhook.domain import keys
from webhook.domain.view import Owner

_CONTROLLERS_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
"""Groups of every service account of kube-system (apiserver/pkg/authentication/serviceaccount)."""

_UID_NAMESPACE: Final = uuid.UUID("9a0e2c0e-5a3c-5b1e-9d0a-3f5f7c1d2b46")
"""Ours, so that placeholder uids are the same in every run and in no cluster."""


class Replicas(Struct, frozen=True, gc=False):
    """How many pods a workload asks for at once."""

    count: int
    warning: str = ""


class Shape(Struct, frozen=True, gc=False):
    """What differs between kinds of workloads."""

    model: str
    """The client's class, which gives the types of the fields."""
    replicas: Callable[[Mapping[str, Any]], Replicas]
    """From the spec that holds the counts."""
    controller: str
    """The service account in kube-system that creates the pods."""
    counts_at: tuple[str, ...] = ("spec",)
    template_at: tuple[str, ...] = ("spec", "template")
    between: tuple[tuple[str, str], ...] = ()
    """Group/version and kind of the object that the controller puts between the workload and its pods."""
    restart_policies: tuple[str, ...] = ("Always",)


class Made(Struct, frozen=True, gc=False):
    """The pod that a controller would create, and who it belongs to."""

    pod: dict[str, Any]
    owners: tuple[Owner, ...]


def _integer(spec: Mapping[str, Any], field: str) -> int | None:
    value = spec.get(field)
    return max(0, value) if isinstance(value, int) else None


def _replicas(spec: Mapping[str, Any]) -> Replicas:
    count = _integer(spec, "replicas")
    return Replicas(1 if count is None else count)


def _one_per_node(_: Mapping[str, Any]) -> Replicas:
    return Replicas(
        1, "a DaemonSet makes one pod for each node that it selects; how many is not known here, one is asked for"
    )


def _job_pods(spec: Mapping[str, Any]) -> Replicas:
    """Pods at one time: parallelism, at most completions. Without completions every worker may run."""
    parallelism, completions = _integer(spec, "parallelism"), _integer(spec, "completions")
    count = 1 if parallelism is None else parallelism
    return Replicas(count if completions is None else min(count, completions))


_JOB_RESTARTS = ("Never", "OnFailure")

SHAPES: Final[Mapping[tuple[str, str], Shape]] = {
    ("apps/v1", "Deployment"): Shape(
        "V1Deployment", _replicas, "replicaset-controller", between=(("apps/v1", "ReplicaSet"),)
    ),
    ("apps/v1", "ReplicaSet"): Shape("V1ReplicaSet", _replicas, "replicaset-controller"),
    ("apps/v1", "StatefulSet"): Shape("V1StatefulSet", _replicas, "statefulset-controller"),
    ("apps/v1", "DaemonSet"): Shape("V1DaemonSet", _one_per_node, "daemon-set-controller"),
    ("batch/v1", "Job"): Shape("V1Job", _job_pods, "job-controller", restart_policies=_JOB_RESTARTS),
    ("batch/v1", "CronJob"): Shape(
        "V1CronJob",
        _job_pods,
        "job-controller",
        counts_at=("spec", "jobTemplate", "spec"),
        template_at=("spec", "jobTemplate", "spec", "template"),
        between=(("batch/v1", "Job"),),
        restart_policies=_JOB_RESTARTS,
    ),
}

_COUNTS = ("replicas", "parallelism", "completions")


def inside(value: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The mapping at a path; empty where there is none."""
    here: Any = value
    for step in path:
        here = here.get(step) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def replicas_of(workload: Mapping[str, Any], shape: Shape) -> Replicas:
    """How many pods the workload asks for at once."""
    return shape.replicas(inside(workload, shape.counts_at))


def negative_counts(workload: Mapping[str, Any], shape: Shape) -> Iterator[tuple[str, str]]:
    """Field and message for every count below 0, which the API server refuses."""
    spec = inside(workload, shape.counts_at)
    for field in _COUNTS:
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            yield ".".join((*shape.counts_at, field)), f"{value} must be 0 or more"


def controller_account(shape: Shape) -> tuple[str, frozenset[str]]:
    """User and groups in whose name the API server is asked for the pods."""
    return f"{keys.SERVICE_ACCOUNT_PREFIX}kube-system:{shape.controller}", frozenset(_CONTROLLERS_GROUPS)


def template_path(shape: Shape) -> str:
    """Where the pod template stands, for messages: `spec.template`."""
    return ".".join(shape.template_at)


def pod_of(workload: Mapping[str, Any], shape: Shape, namespace: str) -> Made:
    """The (first) pod that the controller would create from the template, with placeholder uids."""
    kind, api_version = workload["kind"], workload["apiVersion"]
    metadata = inside(workload, ("metadata",))
    template = inside(workload, shape.template_at)
    name = str(metadata.get("name") or _made_name(metadata, template))
    owners = [_owner(api_version, kind, namespace, name, metadata.get("labels"))]
    owner_version = api_version
    for between_version, between_kind in shape.between:
        made_of = inside(workload, shape.template_at[:-2]) if between_kind == "Job" else template
        labels = inside(made_of, ("metadata", "labels"))
        owners.insert(0, _owner(between_version, between_kind, namespace, f"{name}-{_digest(template)}", labels))
        owner_version = between_version
    nearest = owners[0]
    pod_metadata = inside(template, ("metadata",))
    made: dict[str, Any] = {
        **{key: value for key, value in pod_metadata.items() if key in ("labels", "annotations", "finalizers")},
        **_identity(nearest),
        "namespace": namespace,
        "ownerReferences": [
            {
                "apiVersion": owner_version,
                "kind": nearest.kind,
                "name": nearest.name,
                "uid": nearest.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    own_labels = _own_labels(nearest)
    if own_labels:
        made["labels"] = {**(made.get("labels") or {}), **own_labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": inside(template, ("spec",))}
    return Made(pod, tuple(owners))


def _owner(api_version: str, kind: str, namespace: str, name: str, labels: object) -> Owner:
    group = api_version.partition("/")[0] if "/" in api_version else ""
    uid = str(uuid.uuid5(_UID_NAMESPACE, f"{kind}.{group}/{namespace}/{name}"))
    return Owner(kind=kind, group=group, name=name, uid=uid, labels=labels if isinstance(labels, dict) else {})


def _digest(template: Mapping[str, Any]) -> str:
    """Ten characters in place of the controllers' own hash or time, the same in every run."""
    return hashlib.sha256(json.dumps(template, sort_keys=True, default=str).encode()).hexdigest()[:10]


def _made_name(metadata: Mapping[str, Any], template: Mapping[str, Any]) -> str:
    """The prefix of generateName with five characters, as the API server makes a name of it; empty without one."""
    prefix = metadata.get("generateName")
    return f"{prefix}{_digest(template)[:5]}" if prefix else ""


def _identity(owner: Owner) -> dict[str, str]:
    """StatefulSet pods have a fixed name, all others get one from their owner's."""
    return {"name": f"{owner.name}-0"} if owner.kind == "StatefulSet" else {"generateName": f"{owner.name}-"}


def _own_labels(owner: Owner) -> dict[str, str]:
    """Labels that controllers add and selectors of budgets may look at, as far as they are known beforehand."""
    if owner.kind == "StatefulSet":
        return {"apps.kubernetes.io/pod-index": "0", "statefulset.kubernetes.io/pod-name": f"{owner.name}-0"}
    if owner.kind == "Job":
        return {"batch.kubernetes.io/job-name": owner.name, "job-name": owner.name}
    return {}


def warnings_of(workload: Mapping[str, Any], shape: Shape) -> Iterator[str]:
    """What a person should know of the workload itself: keys that reach no pod, a restart policy that is refused."""
    kind = workload["kind"]
    template = inside(workload, shape.template_at)
    in_template = inside(template, ("metadata", "annotations"))
    places: list[tuple[str, ...]] = [("metadata",)]
    if shape.template_at[:2] == ("spec", "jobTemplate"):
        places.append(("spec", "jobTemplate", "metadata"))
    for place in places:
        annotations = inside(workload, (*place, "annotations"))
        for key in (*keys.KAI_SHARE_ANNOTATIONS, *keys.TENANT_ANNOTATIONS):
            if key in annotations and key not in in_template:
                yield (
                    f"{'.'.join(place)}.annotations[{key}] of the {kind} reaches no pod; "
                    f"move it to {template_path(shape)}.metadata.annotations"
                )
    policy = inside(template, ("spec",)).get("restartPolicy", "Always")
    if policy not in shape.restart_policies:
        yield (
            f"{template_path(shape)}.spec.restartPolicy: the API server refuses {policy} in a {kind}; "
            f"write {' or '.join(shape.restart_policies)}"
        )


def has_pod_template(value: object) -> bool:
    """Whether a pod template seems to be somewhere in the object: a list of containers below its spec."""
    pending: list[object] = [value.get("spec")] if isinstance(value, dict) else []
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            containers = here.get("containers")
            if isinstance(containers, list) and any(isinstance(one, dict) for one in containers):
                return True
            pending.extend(here.values())
        elif isinstance(here, list):
            pending.extend(here)
    return False
