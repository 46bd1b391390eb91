"""What mutate asks for, as RFC 6902 operations on exactly the object that was sent.

The operations are written directly from the edits; documents are never compared. `add` is used throughout: on a member
that is there it replaces, so an operation cannot fail for the wrong guess (a patch that does not apply is a 500 even
where failurePolicy is Ignore). A parent that is absent, or null, is created with what goes into it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from webhook.domain.devices import amount_of
from webhook.domain.outcome import ContainerLimits, Edits
from webhook.domain.pod import NodeSelectorRequirement, NodeSelectorTerm, Pod, Quantity, Toleration

Operation = dict[str, Any]
"""One RFC 6902 operation: `op`, `path` and, but for `remove`, `value`."""

_METADATA_ABSENT = Pod().metadata
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def operations(pod: Pod, edits: Edits) -> list[Operation]:
    """The patch that makes the edits; empty where there is nothing to do (then no patch is sent)."""
    if edits.empty:
        return []
    metadata, spec = pod.metadata, pod.spec
    patch: list[Operation] = []
    if metadata is _METADATA_ABSENT and (edits.set_labels or edits.set_annotations):
        patch.append(_add("/metadata", {}))
    patch += _members("/metadata/labels", metadata.labels, edits.set_labels, edits.remove_labels)
    patch += _members("/metadata/annotations", metadata.annotations, edits.set_annotations, edits.remove_annotations)
    patch += [_remove(f"/spec/schedulingGates/{index}") for index in sorted(edits.remove_gates, reverse=True)]
    if edits.add_gate is not None:
        patch += _appended("/spec/schedulingGates", spec.scheduling_gates, [{"name": edits.add_gate}])
    if edits.scheduler_name is not None:
        patch.append(_add("/spec/schedulerName", edits.scheduler_name))
    if edits.limits is not None:
        patch += _limits(pod, edits.limits)
    patch += _members("/spec/nodeSelector", spec.node_selector, edits.set_node_selector)
    if edits.require_node_affinity:
        patch += _affinity(pod, edits.require_node_affinity)
    if edits.add_tolerations:
        patch += _appended("/spec/tolerations", spec.tolerations, [_toleration(one) for one in edits.add_tolerations])
    return patch


def encoded(patch: list[Operation]) -> bytes:
    """The patch as JSON; empty where there is nothing to do, since an empty list would start a second round."""
    return msgspec.json.encode(patch) if patch else b""


def _add(path: str, value: object) -> Operation:
    return {"op": "add", "path": path, "value": value}


def _remove(path: str) -> Operation:
    return {"op": "remove", "path": path}


def _escaped(key: str) -> str:
    """A key as one token of a JSON pointer (RFC 6901 section 3)."""
    return key.replace("~", "~0").replace("/", "~1")


def _members(
    parent: str, present: Mapping[str, object] | None, put: Mapping[str, object], remove: Iterable[str] = ()
) -> list[Operation]:
    if present is None:
        return [_add(parent, dict(put))] if put else []
    patch = [_remove(f"{parent}/{_escaped(key)}") for key in remove if key in present]
    patch += [_add(f"{parent}/{_escaped(key)}", value) for key, value in put.items()]
    return patch


def _appended(parent: str, present: Sequence[object] | None, items: list[Any]) -> list[Operation]:
    if present is None:
        return [_add(parent, items)]
    return [_add(f"{parent}/-", item) for item in items]


def _limits(pod: Pod, limits: ContainerLimits) -> list[Operation]:
    """Limits and requests, equal: the API server demands that of extended resources (validation.go).

    What is there already in another spelling (`1`, `1e0`) stays as it is.
    """
    parent = f"/spec/containers/{limits.index}/resources"
    quantities = {name: str(count) for name, count in limits.quantities}
    resources = pod.containers[limits.index].resources
    if resources is None:
        return [_add(parent, {"limits": quantities, "requests": dict(quantities)})]
    return [
        *_members(f"{parent}/limits", resources.limits, _other(quantities, resources.limits)),
        *_members(f"{parent}/requests", resources.requests, _other(quantities, resources.requests)),
    ]


def _other(wanted: Mapping[str, str], present: Mapping[str, Quantity] | None) -> dict[str, str]:
    """The quantities that are not there in just that amount."""
    there = present or {}
    return {name: count for name, count in wanted.items() if name not in there or amount_of(there[name]) != int(count)}


def _affinity(pod: Pod, requirements: Sequence[NodeSelectorRequirement]) -> list[Operation]:
    """The requirements in every required term, since terms are ORed; without any term, a term of their own."""
    alone = {"matchExpressions": [_requirement(one) for one in requirements]}
    affinity = pod.spec.affinity
    if affinity is None:
        return [_add("/spec/affinity", {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [alone]}}})]
    if affinity.node_affinity is None:
        return [_add("/spec/affinity/nodeAffinity", {_REQUIRED: {"nodeSelectorTerms": [alone]}})]
    required = affinity.node_affinity.required
    parent = f"/spec/affinity/nodeAffinity/{_REQUIRED}"
    if required is None:
        return [_add(parent, {"nodeSelectorTerms": [alone]})]
    if not required.node_selector_terms:
        return [_add(f"{parent}/nodeSelectorTerms", [alone])]
    patch: list[Operation] = []
    for index, term in enumerate(required.node_selector_terms):
        patch += _term(f"{parent}/nodeSelectorTerms/{index}", term, requirements)
    return patch


def _term(path: str, term: NodeSelectorTerm, requirements: Sequence[NodeSelectorRequirement]) -> list[Operation]:
    if not term.match_expressions and not term.match_fields:
        return []  # matches no node (nodeaffinity.go isEmptyNodeSelectorTerm); filled, it would match some
    present = term.match_expressions
    missing = [_requirement(one) for one in requirements if one not in (present or ())]
    return _appended(f"{path}/matchExpressions", present, missing) if missing else []


def _requirement(requirement: NodeSelectorRequirement) -> dict[str, Any]:
    written: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values is not None:
        written["values"] = requirement.values
    return written


def _toleration(toleration: Toleration) -> object:
    return msgspec.to_builtins(toleration)
