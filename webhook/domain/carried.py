"""What a pod with a share carries already: what contradicts the share, and what is still to be written.

What the share itself gives is never a contradiction, half of it is: nothing that a tenant wrote is raised, lowered or
overwritten.
"""

from collections.abc import Iterator, Mapping

from webhook.domain import gpunames as names
from webhook.domain import keys
from webhook.domain.answers import Answer
from webhook.domain.cards import has_terms, required_terms, required_values
from webhook.domain.devices import amount_of
from webhook.domain.outcome import ContainerLimits, Problem, Reason
from webhook.domain.pod import Container, NodeSelectorRequirement, NodeSelectorTerm, Pod, Toleration
from webhook.domain.rules import Scheme, SharingRule
from webhook.domain.shares import Asked

_REQUIRED_FIELD = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def contradictions(
    pod: Pod, asked: Asked, rule: SharingRule, answer: Answer, index: int, extra: frozenset[str]
) -> Iterator[Problem]:
    """Explicit GPUs beside the share, unless they are exactly, and wholly, what the share gives."""
    own = dict(answer.quantities)
    seen: list[str] = []
    agreeing: set[str] = set()
    limited: set[str] = set()
    # KAI's validator looks for the name, not at the amount (gpu_request_validator.go, getFirstGPULimit).
    refused_even_if_zero = names.NVIDIA_GPU if rule.scheme is Scheme.KAI else None
    for field, name, side, quantity, is_target in _gpu_quantities(pod, own, index, extra):
        amount = amount_of(quantity)
        if is_target and own.get(name) == amount:
            agreeing.add(name)
            if side == "limits":
                limited.add(name)
        elif amount or name in own or (name == refused_even_if_zero and side == "limits"):
            seen.append(f"{field}.resources.{side}[{name}]: {quantity}")
    half = [name for name in own if agreeing and name not in limited]
    if not seen and not half:
        return
    step = "remove the annotation or the resources"
    holder = None if agreeing else _holder(pod, own, seen)
    if holder is not None:
        step = f"{step}, or name the container that has them in {keys.GPU_FRACTION_CONTAINER_NAME}: {holder.name}"
    gives = ", ".join(f"{name}: {quantity}" for name, quantity in answer.quantities) or "no resource"
    target = pod.containers[index].name
    found = "; ".join(seen) or f"only {', '.join(sorted(agreeing))} without {', '.join(half)}"
    yield Problem(
        Reason.CONTRADICTORY_SHARE,
        asked.field,
        f"{asked} beside {found}: scheme {rule.scheme} gives the container {target} {gives}; {step}",
    )


def _holder(pod: Pod, own: Mapping[str, int], seen: list[str]) -> Container | None:
    """The one container that has all GPUs of the pod, and exactly what the share gives to another.

    So it is where the share was meant for it, or where another webhook put a container in front of it after mutate.
    """
    for position, container in enumerate(pod.containers):
        limits = (container.resources.limits if container.resources is not None else None) or {}
        if own and own == {name: amount_of(limits[name]) for name in own if name in limits}:
            path = f"spec.containers[{position}].resources."
            return container if all(field.startswith(path) for field in seen) else None
    return None


def _gpu_quantities(
    pod: Pod, own: Mapping[str, int], index: int, extra: frozenset[str]
) -> Iterator[tuple[str, str, str, str | int | float, bool]]:
    """Every quantity of a GPU resource, or of one that the share gives: field, name, side, value, in the target."""
    places: tuple[tuple[str, list[Container], bool], ...] = (
        ("spec.initContainers", pod.init_containers, False),
        ("spec.containers", pod.containers, True),
    )
    for path, containers, main in places:
        for position, container in enumerate(containers):
            if container.resources is None:
                continue
            sides = (("limits", container.resources.limits), ("requests", container.resources.requests))
            for side, quantities in sides:
                for name, quantity in (quantities or {}).items():
                    if name in own or names.is_gpu_name(name, extra):
                        yield f"{path}[{position}]", name, side, quantity, main and position == index


def selector_conflicts(pod: Pod, asked: Asked, rule: SharingRule, answer: Answer) -> Iterator[Problem]:
    """A node label that the pod requires otherwise: both can never hold, and what a tenant wrote is not overwritten."""
    wanted = {key: [value] for key, value in answer.node_selector.items()}
    wanted.update((one.key, one.values or []) for one in answer.affinity if one.operator == "In")
    for key, values in wanted.items():
        required = required_values(pod, key)
        if required and set(required).isdisjoint(values):
            found, ours = ", ".join(map(repr, required)), " or ".join(map(repr, values))
            if key in (pod.spec.node_selector or {}):
                field, what = f"spec.nodeSelector[{key}]", "selector"
            else:
                field, what, found = _REQUIRED_FIELD, "requirement", f"{key} {found}"
            yield Problem(
                Reason.CONTRADICTORY_SHARE,
                field,
                f"{found} beside {asked}: scheme {rule.scheme} gives {ours} here; remove the {what} or the annotation",
            )


def missing_limits(container: Container, index: int, answer: Answer) -> ContainerLimits | None:
    """Limits and requests, where either lacks something."""
    if not answer.quantities:
        return None
    resources = container.resources
    sides = (None, None) if resources is None else (resources.limits, resources.requests)
    if all(side is not None and all(name in side for name, _ in answer.quantities) for side in sides):
        return None
    return ContainerLimits(index=index, quantities=answer.quantities)


def is_limited(container: Container, wanted: ContainerLimits) -> bool:
    """Whether the limits are there: the API server copies them to requests that are missing (defaults.go)."""
    limits = (container.resources.limits if container.resources is not None else None) or {}
    return all(name in limits for name, _ in wanted.quantities)


def missing_labels(pod: Pod, wanted: Mapping[str, str]) -> dict[str, str]:
    """Node labels that the pod does not select by yet."""
    selector = pod.spec.node_selector or {}
    return {key: value for key, value in wanted.items() if key not in selector}


def missing_requirements(pod: Pod, wanted: tuple[NodeSelectorRequirement, ...]) -> tuple[NodeSelectorRequirement, ...]:
    """Requirements that not every term has (terms are ORed). Terms that match no node are left to match none."""
    terms = required_terms(pod)
    if not terms and has_terms(pod):
        return ()
    return tuple(one for one in wanted if not _is_required(one, terms))


def _is_required(requirement: NodeSelectorRequirement, terms: tuple[NodeSelectorTerm, ...]) -> bool:
    """Whether every term has the requirement (terms are ORed); the order of values means nothing."""

    def same(one: NodeSelectorRequirement) -> bool:
        return (
            one.key == requirement.key
            and one.operator == requirement.operator
            and set(one.values or ()) == set(requirement.values or ())
        )

    return bool(terms) and all(any(same(one) for one in term.match_expressions or ()) for term in terms)


def missing_tolerations(pod: Pod, wanted: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Tolerations that the pod does not have in exactly that meaning, each once."""
    if not wanted:
        return ()
    present = {_meaning(one) for one in pod.spec.tolerations or ()}
    missing: dict[tuple[str | int | None, ...], Toleration] = {}
    for toleration in wanted:
        meaning = _meaning(toleration)
        if meaning not in present:
            missing.setdefault(meaning, toleration)
    return tuple(missing.values())


def _meaning(toleration: Toleration) -> tuple[str | int | None, ...]:
    """What a toleration says, defaults written out."""
    return (
        toleration.key or "",
        toleration.operator or "Equal",
        toleration.value or "",
        toleration.effect or "",
        toleration.toleration_seconds,
    )
