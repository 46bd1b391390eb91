"""What the API server would refuse in a pod, told before anything else is decided.

Rules and field paths are those of kubernetes pkg/apis/core/validation/validation.go and apimachinery's object metadata
validation, as far as `domain.pod` decodes a pod. The API server runs them after admission, so a pod that breaks them
must not be charged. Not checked: `image` (another webhook may still fill it in), a missing name (webhooks see pods made
with generateName before they have one) and what is not decoded.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from webhook.domain.names import dns_label_fault, dns_subdomain_fault, label_value_fault, qualified_name_fault
from webhook.domain.outcome import Problem, Reason
from webhook.domain.pod import Container, Metadata, NodeSelectorRequirement, Pod, Quantity, Spec
from webhook.domain.quantity import parse_json

ANNOTATIONS_BYTES = 256 * 1024
"""TotalAnnotationSizeLimitB of apimachinery/pkg/api/validation/objectmeta.go: keys and values together."""

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
    return (*_metadata(pod.metadata), *_spec(pod.spec))


def _problem(field: str, message: str) -> Problem:
    return Problem(Reason.INVALID_POD, field, message)


def _metadata(metadata: Metadata) -> Iterator[Problem]:
    if metadata.name and (fault := dns_subdomain_fault(metadata.name)):
        yield _problem("metadata.name", fault)
    # NameIsDNSSubdomain with prefix: the dash that ends a prefix is not the end of the name.
    prefix = metadata.generate_name
    if prefix and (fault := dns_subdomain_fault(prefix[:-1] + "a" if prefix.endswith("-") else prefix)):
        yield _problem("metadata.generateName", fault)
    if metadata.namespace and (fault := dns_label_fault(metadata.namespace)):
        yield _problem("metadata.namespace", fault)
    if metadata.labels:
        yield from _labels("metadata.labels", metadata.labels)
    if metadata.annotations:
        yield from _annotations(metadata.annotations)
    if metadata.owner_references:
        yield from _owners(metadata)


def _labels(field: str, labels: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in labels.items():
        if fault := qualified_name_fault(key):
            yield _problem(field, f"key {fault}")
        if fault := label_value_fault(value):
            yield _problem(f"{field}[{key}]", fault)


def _annotations(annotations: Mapping[str, str]) -> Iterator[Problem]:
    size = 0
    for key, value in annotations.items():
        # ValidateAnnotations folds the case of the whole key first.
        if fault := qualified_name_fault(key.lower()):
            yield _problem("metadata.annotations", f"key {fault}")
        size += len(key) + len(value)
    # Bytes are counted only where characters leave it open: UTF-8 takes at most four for one.
    if size * 4 > ANNOTATIONS_BYTES:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > ANNOTATIONS_BYTES:
            yield _problem("metadata.annotations", f"{size} bytes together, at most {ANNOTATIONS_BYTES} are allowed")


def _owners(metadata: Metadata) -> Iterator[Problem]:
    controllers = []
    for index, owner in enumerate(metadata.owner_references or ()):
        field = f"metadata.ownerReferences[{index}]"
        for name, value in (
            ("apiVersion", owner.api_version),
            ("kind", owner.kind),
            ("name", owner.name),
            ("uid", owner.uid),
        ):
            if not value:
                yield _problem(f"{field}.{name}", "is required")
        if owner.controller:
            controllers.append(f"{owner.kind}/{owner.name}")
    if len(controllers) > 1:
        yield _problem(
            "metadata.ownerReferences", f"only one may have controller: true, these have: {', '.join(controllers)}"
        )


def _spec(spec: Spec) -> Iterator[Problem]:
    names: set[str] = set()
    for index, container in enumerate(spec.init_containers or ()):
        yield from _container(f"spec.initContainers[{index}]", container, names)
    if not spec.containers:
        yield _problem("spec.containers", "is required: a pod has at least one container")
    for index, container in enumerate(spec.containers or ()):
        yield from _container(f"spec.containers[{index}]", container, names)
    if spec.scheduling_gates:
        yield from _gates(spec)
    if spec.node_selector:
        yield from _labels("spec.nodeSelector", spec.node_selector)
    if spec.affinity is not None:
        yield from _node_affinity(spec)
    if spec.resource_claims:
        yield from _resource_claims(spec)


def _container(field: str, container: Container, names: set[str]) -> Iterator[Problem]:
    if not container.name:
        yield _problem(f"{field}.name", "is required")
    elif fault := dns_label_fault(container.name):
        yield _problem(f"{field}.name", fault)
    elif container.name in names:
        yield _problem(f"{field}.name", f"{container.name!r} is used twice; names are unique in a pod")
    names.add(container.name)
    if container.resources is not None:
        limits = container.resources.limits or {}
        requests = container.resources.requests or {}
        if limits:
            yield from _quantities(f"{field}.resources.limits", limits)
        if requests:
            yield from _quantities(f"{field}.resources.requests", requests)
            yield from _requests(f"{field}.resources", requests, limits)


def _is_extended(resource: str) -> bool:
    """IsExtendedResourceName of pkg/apis/core/helper: a domain of its own, and no quota name."""
    return "/" in resource and _NATIVE_DOMAIN not in resource and not resource.startswith("requests.")


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


def _value(quantity: Quantity) -> Fraction | int | None:
    """The quantity's value; None where it has none. Whole numbers, nearly all there are, need no grammar."""
    if type(quantity) is int:
        return quantity
    try:
        return parse_json(quantity)
    except ValueError:
        return None


def _quantities(field: str, quantities: Mapping[str, Quantity]) -> Iterator[Problem]:
    for resource, quantity in quantities.items():
        path = f"{field}[{resource}]"
        if fault := _resource_name_fault(resource):
            yield _problem(path, fault)
        value = _value(quantity)
        if value is None:
            yield _problem(path, f"{_shown(quantity)} is not a Kubernetes quantity, such as 4, 500m or 16Gi")
        elif value < 0:
            yield _problem(path, f"{_shown(quantity)} must be 0 or more")
        elif value.denominator != 1 and _is_extended(resource):
            yield _problem(
                path,
                f"{_shown(quantity)} must be an integer: extended resources are whole; "
                "a part of a GPU is asked for with the annotation gpu-fraction",
            )


def _requests(field: str, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Iterator[Problem]:
    """Requests against limits: what is not native cannot be overcommitted (IsOvercommitAllowed)."""
    for resource, request in requests.items():
        limit = limits.get(resource)
        overcommits = "/" not in resource or _NATIVE_DOMAIN in resource
        if resource.startswith(_HUGE_PAGES):
            overcommits = False
        if limit is None:
            if not overcommits:
                yield _problem(
                    f"{field}.limits[{resource}]",
                    f"is required: {resource} cannot be overcommitted; write a limit equal to the request of {request}",
                )
            continue
        if limit == request:
            continue
        asked, allowed = _value(request), _value(limit)
        if asked is None or allowed is None or asked == allowed:
            continue
        if not overcommits:
            yield _problem(
                f"{field}.requests[{resource}]",
                f"{_shown(request)} must be equal to the limit of {_shown(limit)}: {resource} cannot be overcommitted",
            )
        elif asked > allowed:
            yield _problem(
                f"{field}.requests[{resource}]",
                f"{_shown(request)} must be less than or equal to the limit of {_shown(limit)}",
            )


def _shown(quantity: Quantity) -> str:
    """A quantity in a message; a hostile one is cut."""
    text = repr(quantity)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _gates(spec: Spec) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates or ()):
        field = f"spec.schedulingGates[{index}].name"
        if fault := qualified_name_fault(gate.name):
            yield _problem(field, fault)
        elif gate.name in seen:
            yield _problem(field, f"{gate.name!r} is listed twice")
        seen.add(gate.name)
    if spec.node_name:
        yield _problem("spec.nodeName", f"{spec.node_name!r} cannot be set while there are schedulingGates")


def _node_affinity(spec: Spec) -> Iterator[Problem]:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None:
        return
    field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = affinity.required.node_selector_terms
    if not terms:
        yield _problem(field, "is required: at least one node selector term")
    for index, term in enumerate(terms or ()):
        yield from _requirements(f"{field}[{index}].matchExpressions", term.match_expressions or ())


def _requirements(field: str, requirements: Iterable[NodeSelectorRequirement]) -> Iterator[Problem]:
    for index, requirement in enumerate(requirements):
        path = f"{field}[{index}]"
        if fault := qualified_name_fault(requirement.key):
            yield _problem(f"{path}.key", fault)
        wanted = _VALUES_OF_OPERATOR.get(requirement.operator)
        count = len(requirement.values or ())
        if wanted is None:
            yield _problem(f"{path}.operator", f"{requirement.operator!r} is none of {', '.join(_VALUES_OF_OPERATOR)}")
        elif (wanted == "some" and not count) or (wanted == "one" and count != 1) or (wanted == "none" and count):
            yield _problem(f"{path}.values", f"operator {requirement.operator} takes {wanted}, found {count}")


def _resource_claims(spec: Spec) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, claim in enumerate(spec.resource_claims or ()):
        field = f"spec.resourceClaims[{index}]"
        if fault := dns_label_fault(claim.name):
            yield _problem(f"{field}.name", fault)
        elif claim.name in seen:
            yield _problem(f"{field}.name", f"{claim.name!r} is used twice")
        seen.add(claim.name)
        if bool(claim.resource_claim_name) == bool(claim.resource_claim_template_name):
            yield _problem(field, "needs exactly one of resourceClaimName and resourceClaimTemplateName")
