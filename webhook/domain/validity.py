"""What the API server would refuse in a pod, told before anything else is decided.

Rules and field paths are those of kubernetes pkg/apis/core/validation/validation.go and apimachinery's object metadata
validation, as far as `domain.pod` decodes a pod. The API server runs them after admission, so a pod that breaks them
must not be charged. Not checked: `image` (another webhook may still fill it in), a missing name (webhooks see pods made
with generateName before they have one) and what is not decoded.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from webhook.domain.names import (
    LABEL_VALUES,
    QUALIFIED_NAMES,
    Remembered,
    dns_label_fault,
    dns_subdomain_fault,
    label_value_fault,
    qualified_name_fault,
)
from webhook.domain.outcome import Problem, Reason
from webhook.domain.pod import (
    Affinity,
    Container,
    Metadata,
    NodeSelectorRequirement,
    OwnerReference,
    Pod,
    PodResourceClaim,
    Quantity,
    Spec,
)
from webhook.domain.quantity import parse_json

ANNOTATIONS_BYTES = 256 * 1024
"""TotalAnnotationSizeLimitB of apimachinery/pkg/api/validation/objectmeta.go: keys and values together."""

_QUANTITIES = Remembered[tuple[str, Quantity]]()
"""Resource and quantity, as a limit or a request."""

_PAIRS = Remembered[tuple[str, Quantity, Quantity]]()
"""Resource, request and limit."""

_STANDARD_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES = "hugepages-"
_NATIVE_DOMAIN = "kubernetes.io/"
_VALUES_OF_OPERATOR = {
    "In": "some",
    "NotIn": "some",
    "Exists": "none",
    "DoesNotExist": "none",
    "Gt": "one",
    "Lt": "one",
}


def problems_of(pod: Pod) -> tuple[Problem, ...]:
    """Everything in the pod that the API server refuses, in the order of its fields; empty where it takes the pod."""
    found: list[Problem] = []
    _metadata(pod.metadata, found)
    _spec(pod.spec, found)
    return tuple(found)


def _problem(field: str, message: str) -> Problem:
    return Problem(Reason.INVALID_POD, field, message)


def _metadata(metadata: Metadata, found: list[Problem]) -> None:
    if metadata.name and (fault := dns_subdomain_fault(metadata.name)):
        found.append(_problem("metadata.name", fault))
    prefix = metadata.generate_name
    # NameIsDNSSubdomain with prefix: the dash that ends a prefix is not the end of the name.
    if prefix and (fault := dns_subdomain_fault(prefix[:-1] + "a" if prefix.endswith("-") else prefix)):
        found.append(_problem("metadata.generateName", fault))
    if metadata.namespace and (fault := dns_label_fault(metadata.namespace)):
        found.append(_problem("metadata.namespace", fault))
    if metadata.labels:
        _labels("metadata.labels", metadata.labels, found)
    if metadata.annotations:
        _annotations(metadata.annotations, found)
    if metadata.owner_references:
        _owners(metadata.owner_references, found)


def _labels(field: str, labels: Mapping[str, str], found: list[Problem]) -> None:
    known_keys, known_values = QUALIFIED_NAMES.members, LABEL_VALUES.members
    for key, value in labels.items():
        if key not in known_keys and (fault := qualified_name_fault(key)):
            found.append(_problem(field, f"key {fault}"))
        if value not in known_values and (fault := label_value_fault(value)):
            found.append(_problem(f"{field}[{key}]", fault))


def _annotations(annotations: Mapping[str, str], found: list[Problem]) -> None:
    size = 0
    known_keys = QUALIFIED_NAMES.members
    for key, value in annotations.items():
        # ValidateAnnotations folds the case of the whole key first.
        if key not in known_keys and (fault := qualified_name_fault(key.lower())):
            found.append(_problem("metadata.annotations", f"key {fault}"))
        size += len(key) + len(value)
    # Bytes are counted only where characters leave it open: UTF-8 takes at most four for one.
    if size * 4 > ANNOTATIONS_BYTES:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > ANNOTATIONS_BYTES:
            message = f"{size} bytes together, at most {ANNOTATIONS_BYTES} are allowed"
            found.append(_problem("metadata.annotations", message))


def _owners(owners: Sequence[OwnerReference], found: list[Problem]) -> None:
    controllers = 0
    for index, owner in enumerate(owners):
        if not (owner.api_version and owner.kind and owner.name and owner.uid):
            parts = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
            found += [
                _problem(f"metadata.ownerReferences[{index}].{name}", "is required")
                for name, value in parts.items()
                if not value
            ]
        controllers += bool(owner.controller)
    if controllers > 1:
        named = ", ".join(f"{owner.kind}/{owner.name}" for owner in owners if owner.controller)
        message = f"only one may have controller: true, these have: {named}"
        found.append(_problem("metadata.ownerReferences", message))


def _spec(spec: Spec, found: list[Problem]) -> None:
    names: set[str] = set()
    for index, container in enumerate(spec.init_containers or ()):
        _container("initContainers", index, container, names, found)
    if not spec.containers:
        found.append(_problem("spec.containers", "is required: a pod has at least one container"))
    for index, container in enumerate(spec.containers or ()):
        _container("containers", index, container, names, found)
    if spec.scheduling_gates:
        _gates(spec, found)
    if spec.node_selector:
        _labels("spec.nodeSelector", spec.node_selector, found)
    if spec.affinity is not None:
        _node_affinity(spec.affinity, found)
    if spec.resource_claims:
        _resource_claims(spec.resource_claims, found)


def _container(where: str, index: int, container: Container, names: set[str], found: list[Problem]) -> None:
    name = container.name
    if not name:
        found.append(_problem(f"spec.{where}[{index}].name", "is required"))
    elif fault := dns_label_fault(name):
        found.append(_problem(f"spec.{where}[{index}].name", fault))
    elif name in names:
        message = f"{name!r} is used twice; names are unique in a pod"
        found.append(_problem(f"spec.{where}[{index}].name", message))
    names.add(name)
    resources = container.resources
    if resources is None:
        return
    limits, requests = resources.limits, resources.requests
    for part, quantities in (("limits", limits), ("requests", requests)):
        for resource, quantity in quantities.items() if quantities else ():
            known = (resource, quantity) in _QUANTITIES.members
            if not known and (faults := _faults_of_quantity(resource, quantity)):
                field = f"spec.{where}[{index}].resources.{part}[{resource}]"
                found += [_problem(field, fault) for fault in faults]
    if requests and requests != limits:
        _requests(f"spec.{where}[{index}].resources", requests, limits or {}, found)


def _is_extended(resource: str) -> bool:
    """IsExtendedResourceName of pkg/apis/core/helper: a domain of its own, and no quota name."""
    return "/" in resource and _NATIVE_DOMAIN not in resource and not resource.startswith("requests.")


def _may_be_overcommitted(resource: str) -> bool:
    """IsOvercommitAllowed of pkg/apis/core/helper: what is native, but for huge pages."""
    return ("/" not in resource or _NATIVE_DOMAIN in resource) and not resource.startswith(_HUGE_PAGES)


def _resource_name_fault(resource: str) -> str:
    if fault := qualified_name_fault(resource):
        return fault
    if "/" not in resource:
        if resource in _STANDARD_CONTAINER_RESOURCES or resource.startswith(_HUGE_PAGES):
            return ""
        return f"{resource!r} is no resource of containers; write its domain too, as in nvidia.com/gpu"
    if _NATIVE_DOMAIN in resource or _is_extended(resource):
        return ""
    return f"{resource!r} does not follow the standard of extended resource names"


def _value(quantity: Quantity) -> Fraction | None:
    """The quantity's value; None where it has none."""
    try:
        return parse_json(quantity)
    except ValueError:
        return None


def _faults_of_quantity(resource: str, quantity: Quantity) -> tuple[str, ...]:
    """validateContainerResourceName and ValidateResourceQuantityValue."""
    fault = _resource_name_fault(resource)
    faults = (fault,) if fault else ()
    value = _value(quantity)
    if value is None:
        return (*faults, f"{_shown(quantity)} is not a Kubernetes quantity, such as 4, 500m or 16Gi")
    if value < 0:
        return (*faults, f"{_shown(quantity)} must be 0 or more")
    if value.denominator != 1 and _is_extended(resource):
        what = "extended resources are whole; a part of a GPU is asked for with the annotation gpu-fraction"
        return (*faults, f"{_shown(quantity)} must be an integer: {what}")
    if not faults:
        _QUANTITIES.add((resource, quantity))
    return faults


def _requests(
    field: str, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity], found: list[Problem]
) -> None:
    for resource, request in requests.items():
        limit = limits.get(resource)
        if limit is not None:
            if limit != request and (fault := _fault_of_request(resource, request, limit)):
                found.append(_problem(f"{field}.requests[{resource}]", fault))
        elif not _may_be_overcommitted(resource):
            message = (
                f"is required: {resource} cannot be overcommitted; write a limit equal to the request of "
                f"{_shown(request)}"
            )
            found.append(_problem(f"{field}.limits[{resource}]", message))


def _fault_of_request(resource: str, request: Quantity, limit: Quantity) -> str:
    pair = (resource, request, limit)
    if pair in _PAIRS.members:
        return ""
    asked, allowed = _value(request), _value(limit)
    if asked is None or allowed is None:
        return ""
    if asked != allowed and not _may_be_overcommitted(resource):
        return f"{_shown(request)} must be equal to the limit of {_shown(limit)}: {resource} cannot be overcommitted"
    if asked > allowed:
        return f"{_shown(request)} must be less than or equal to the limit of {_shown(limit)}"
    if not _resource_name_fault(resource):
        _PAIRS.add(pair)
    return ""


def _shown(quantity: Quantity) -> str:
    """A quantity in a message; a hostile one is cut."""
    text = repr(quantity)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _gates(spec: Spec, found: list[Problem]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates or ()):
        if fault := qualified_name_fault(gate.name):
            found.append(_problem(f"spec.schedulingGates[{index}].name", fault))
        elif gate.name in seen:
            found.append(_problem(f"spec.schedulingGates[{index}].name", f"{gate.name!r} is listed twice"))
        seen.add(gate.name)
    if spec.node_name:
        message = f"{spec.node_name!r} cannot be set while there are schedulingGates"
        found.append(_problem("spec.nodeName", message))


def _node_affinity(affinity: Affinity, found: list[Problem]) -> None:
    required = affinity.node_affinity.required if affinity.node_affinity is not None else None
    if required is None:
        return
    field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if not required.node_selector_terms:
        found.append(_problem(field, "is required: at least one node selector term"))
    for index, term in enumerate(required.node_selector_terms or ()):
        if term.match_expressions:
            _requirements(f"{field}[{index}].matchExpressions", term.match_expressions, found)


def _requirements(field: str, requirements: Iterable[NodeSelectorRequirement], found: list[Problem]) -> None:
    for index, requirement in enumerate(requirements):
        path = f"{field}[{index}]"
        if fault := qualified_name_fault(requirement.key):
            found.append(_problem(f"{path}.key", fault))
        wanted = _VALUES_OF_OPERATOR.get(requirement.operator)
        count = len(requirement.values or ())
        if wanted is None:
            message = f"{requirement.operator!r} is none of {', '.join(_VALUES_OF_OPERATOR)}"
            found.append(_problem(f"{path}.operator", message))
        elif (wanted == "some" and not count) or (wanted == "one" and count != 1) or (wanted == "none" and count):
            message = f"operator {requirement.operator} takes {wanted}, found {count}"
            found.append(_problem(f"{path}.values", message))


def _resource_claims(claims: Sequence[PodResourceClaim], found: list[Problem]) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        field = f"spec.resourceClaims[{index}]"
        if fault := dns_label_fault(claim.name):
            found.append(_problem(f"{field}.name", fault))
        elif claim.name in seen:
            found.append(_problem(f"{field}.name", f"{claim.name!r} is used twice"))
        seen.add(claim.name)
        if bool(claim.resource_claim_name) == bool(claim.resource_claim_template_name):
            found.append(_problem(field, "needs exactly one of resourceClaimName and resourceClaimTemplateName"))
