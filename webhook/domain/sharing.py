"""A pod's share of a GPU, expressed in resources that schedulers and autoscalers see.

`express` is asked by mutate and by validate, and what it writes it recognises: on its own result it gives the same GPUs
and text, no edits and no problems. No mark of ours is trusted for that; names and counts are compared.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from msgspec import Struct

from webhook.domain import gpunames as names
from webhook.domain import keys, shares
from webhook.domain.answers import Answer, Question
from webhook.domain.cards import Cards, base_product, cards_of, required_values
from webhook.domain.carried import (
    contradictions,
    is_limited,
    missing_labels,
    missing_limits,
    missing_requirements,
    missing_tolerations,
    selector_conflicts,
)
from webhook.domain.devices import Count, Reading, count
from webhook.domain.gpus import ContainerGpus, PodGpus
from webhook.domain.nearmiss import near_misses
from webhook.domain.nodes import devices_of_nodes
from webhook.domain.outcome import Edits, Problem, Reason, field_of_annotation
from webhook.domain.pod import Pod
from webhook.domain.rules import Gpu, Scheme, SharingRule, UnmatchedShare
from webhook.domain.schemes import VOLCANO_SCHEDULER, answer_to, memory_above
from webhook.domain.selectors import Selector
from webhook.domain.shares import Asked

__all__ = ["Share", "backed", "express", "near_misses"]

_KAI_WITHOUT_RULE = SharingRule(selector=Selector(), scheme=Scheme.KAI)
"""What covers a share that no rule covers but KAI will honour."""

_KAI_SCHEDULERS = frozenset({keys.KAI_SCHEDULER})
_UNSET_SCHEDULERS = (None, "", keys.DEFAULT_SCHEDULER)
_NO_EDITS = Edits()
_NO_NAMES: frozenset[str] = frozenset()
_KAI_MPS = "mps"


class Share(Struct, frozen=True, gc=False):
    """What a pod asks for and how its share, if it has one, is expressed."""

    gpus: PodGpus
    """After the share has become resources."""
    scheme: Scheme | None = None
    """None: the pod asks for no share, or for one that nobody honours."""
    text: str = ""
    """For `tollgate.dev/share`: `scheme=TimeSlicing;resource=nvidia.com/gpu.shared;count=1`; empty without a share."""
    edits: Edits = _NO_EDITS
    """Only limits, node selector, required node affinity, tolerations, scheduler name; nothing that is already so."""
    problems: tuple[Problem, ...] = ()
    """Where there are any, there are no edits."""
    warnings: tuple[str, ...] = ()


def express(
    pod: Pod,
    rule: SharingRule | None,
    *,
    kai_queue: bool,
    unmatched: UnmatchedShare,
    catalogue: Mapping[str, Gpu],
    extra_resources: frozenset[str] = _NO_NAMES,
    kai_schedulers: frozenset[str] = _KAI_SCHEDULERS,
) -> Share:
    """The GPUs of the pod, and the edits that make its share visible in resources.

    `rule` is the sharing rule that matches the pod, `kai_queue` tells that its queue is one of KAI's. `extra_resources`
    are the resource names that any rule of the policy gives, `kai_schedulers` the names under which KAI schedules.
    """
    for_kai = kai_queue or pod.spec.scheduler_name in kai_schedulers
    if rule is not None and rule.resource is not None and rule.resource not in extra_resources:
        extra_resources |= {rule.resource}
    if not shares.has_share(pod):
        return _without_share(pod, rule, catalogue, extra_resources, for_kai=for_kai)
    asked, problems = shares.read(pod)
    if asked is None:
        return _wrong(pod, rule, catalogue, extra_resources, problems)
    if rule is None and not for_kai:
        return _unmatched(pod, asked, unmatched, catalogue, extra_resources, kai_schedulers)
    rule = rule or _KAI_WITHOUT_RULE
    conflicts = tuple(_scheduler_conflicts(pod, asked, rule, kai_schedulers, kai_queue=kai_queue))
    if conflicts:
        return _wrong(pod, rule, catalogue, extra_resources, conflicts)
    return _expressed(pod, asked, rule, catalogue, extra_resources)


def backed(pod: Pod, share: Share) -> bool:
    """Whether the resources that the share needs are in the pod already, as a bound or DaemonSet pod must have them.

    KAI's shares are given by its scheduler alone, which never sees such a pod.
    """
    if not shares.has_share(pod):
        return True
    if share.scheme in (None, Scheme.KAI) or share.problems:
        return False
    missing = share.edits.limits
    return missing is None or is_limited(pod.containers[missing.index], missing)


def _without_share(
    pod: Pod, rule: SharingRule | None, catalogue: Mapping[str, Gpu], extra: frozenset[str], *, for_kai: bool
) -> Share:
    gpus, counted = _counted(pod, rule, catalogue, extra)
    problems, warnings = counted.problems, counted.warnings
    if for_kai:
        if pod.annotations.get(_KAI_MPS) == "true":
            problems = (*problems, _mps_alone())
        partial = sorted(name for name in counted.resources if name.startswith(names.MIG_PREFIX) and ".me" in name)
        warnings = (*warnings, *(f"{name}: KAI does not count profiles with media engines (.me)" for name in partial))
    return Share(gpus=gpus, problems=problems, warnings=warnings)


def _wrong(
    pod: Pod,
    rule: SharingRule | None,
    catalogue: Mapping[str, Gpu],
    extra: frozenset[str],
    problems: tuple[Problem, ...],
) -> Share:
    """A share that cannot be expressed: only what the pod's own resources ask for is counted."""
    gpus, counted = _counted(pod, rule, catalogue, extra)
    return Share(gpus=gpus, problems=problems, warnings=counted.warnings)


def _unmatched(
    pod: Pod,
    asked: Asked,
    unmatched: UnmatchedShare,
    catalogue: Mapping[str, Gpu],
    extra: frozenset[str],
    kai_schedulers: frozenset[str],
) -> Share:
    message = (
        f"{asked}: no sharing rule of the policy covers this pod and no KAI scheduler will honour it, so it would run "
        f"without its GPU; write schedulerName: {_any_of(kai_schedulers)} where KAI runs, have a sharing rule added, "
        f"or ask for limits {names.NVIDIA_GPU}"
    )
    if unmatched is UnmatchedShare.DENY:
        return _wrong(pod, None, catalogue, extra, (Problem(Reason.UNMATCHED_SHARE, asked.field, message),))
    gpus, counted = _counted(pod, None, catalogue, extra)
    return Share(gpus=gpus, problems=counted.problems, warnings=(*counted.warnings, message))


def _counted(
    pod: Pod, rule: SharingRule | None, catalogue: Mapping[str, Gpu], extra: frozenset[str]
) -> tuple[PodGpus, Count]:
    """The GPUs of the pod's own resources."""
    cards = cards_of(pod, rule, catalogue).known
    counted = count(pod, Reading(cards, catalogue, devices_of_nodes(pod, rule), extra, [], {}))
    if counted.resources and not counted.resources.isdisjoint(names.OTHER_VENDORS):
        cards = ()
    gpus = PodGpus(
        cards=cards,
        containers=counted.containers,
        counted=counted.counted,
        claims_unknown=bool(pod.spec.resource_claims),
    )
    return gpus, counted


def _any_of(kai_schedulers: frozenset[str]) -> str:
    return " or ".join(sorted(kai_schedulers))


def _scheduler_conflicts(
    pod: Pod, asked: Asked, rule: SharingRule, kai_schedulers: frozenset[str], *, kai_queue: bool
) -> Iterator[Problem]:
    current = pod.spec.scheduler_name
    if rule.scheme is not Scheme.KAI:
        if current in kai_schedulers or kai_queue:
            why = f"schedulerName {current}" if current in kai_schedulers else "a KAI queue"
            yield Problem(
                Reason.SCHEDULER_CONFLICT,
                "spec.schedulerName",
                f"{asked} beside {why}: KAI reads it itself and refuses resources of nvidia.com, but the sharing rule "
                f"of this pod has scheme {rule.scheme}; use another scheduler, or change the rule's scheme to KAI",
            )
        if asked.init:
            yield Problem(
                Reason.INVALID_SHARE,
                field_of_annotation(keys.GPU_FRACTION_CONTAINER_NAME),
                f"{asked.container!r} is an init container, which only scheme KAI can give a share, not {rule.scheme}; "
                "name one of spec.containers",
            )
    elif not kai_queue and current not in _UNSET_SCHEDULERS and current not in kai_schedulers:
        yield Problem(
            Reason.SCHEDULER_CONFLICT,
            "spec.schedulerName",
            f"{current!r}, but shares are expressed by scheme KAI here, which only {_any_of(kai_schedulers)} "
            f"honours; leave schedulerName empty or write {_any_of(kai_schedulers)}, or name it in the policy's queues "
            "(kai.schedulerName) if it is a KAI scheduler",
        )


def _expressed(
    pod: Pod,
    asked: Asked,
    rule: SharingRule,
    catalogue: Mapping[str, Gpu],
    extra: frozenset[str],
) -> Share:
    # KAI's own floor on gpu.memory says how much is asked, not which card is meant.
    kai_floor = memory_above(asked.memory_mib) if rule.scheme is Scheme.KAI and asked.memory_mib is not None else None
    cards = cards_of(pod, rule, catalogue, ignoring=kai_floor)
    answer = answer_to(Question(asked, rule, cards, catalogue))
    problems = [*answer.problems]
    index = 0 if asked.init else asked.index
    if not problems:
        problems += contradictions(pod, asked, rule, answer, index, extra)
        problems += selector_conflicts(pod, asked, rule, answer)
    if problems:
        return _wrong(pod, rule, catalogue, extra, tuple(problems))
    amount = Fraction(answer.devices) * answer.part
    held = ContainerGpus(asked.container, answer.devices, answer.part, answer.memory_mib)
    return Share(
        gpus=PodGpus(
            cards=cards.known if answer.cards is None else answer.cards,
            containers=() if asked.init and not pod.init_containers[asked.index].is_sidecar else (held,),
            counted=amount,
            claims_unknown=bool(pod.spec.resource_claims),
        ),
        scheme=rule.scheme,
        text=_text(asked, rule.scheme, answer),
        edits=Edits(
            limits=missing_limits(pod.containers[index], index, answer),
            set_node_selector=missing_labels(pod, answer.node_selector),
            require_node_affinity=missing_requirements(pod, answer.affinity),
            add_tolerations=missing_tolerations(pod, rule.tolerations),
            scheduler_name=_scheduler_to_set(pod, answer),
        ),
        warnings=(
            *answer.warnings,
            *_scheduler_warnings(pod, answer),
            *_product_warnings(pod, rule, cards, answer),
            *_mps_warnings(pod, rule.scheme),
        ),
    )


def _text(asked: Asked, scheme: Scheme, answer: Answer) -> str:
    if not answer.quantities:  # the annotation itself is what the scheduler reads
        return f"scheme={scheme};resource={asked.key};count={asked.devices}"
    resources = ",".join(name for name, _ in answer.quantities)
    counts = ",".join(str(quantity) for _, quantity in answer.quantities)
    return f"scheme={scheme};resource={resources};count={counts}"


def _scheduler_to_set(pod: Pod, answer: Answer) -> str | None:
    return answer.scheduler if pod.spec.scheduler_name in _UNSET_SCHEDULERS else None


def _scheduler_warnings(pod: Pod, answer: Answer) -> Iterator[str]:
    current = pod.spec.scheduler_name
    if answer.scheduler == VOLCANO_SCHEDULER and current not in (*_UNSET_SCHEDULERS, VOLCANO_SCHEDULER):
        yield f"schedulerName {current!r}: vGPU resources of volcano.sh are honoured only by a Volcano scheduler"


def _product_warnings(pod: Pod, rule: SharingRule, cards: Cards, answer: Answer) -> Iterator[str]:
    """Nodes that share their GPUs under the plugin's own name carry another product than the card's own."""
    if not cards.by_pod or names.SHARING_STRATEGY_LABEL not in answer.node_selector:
        return
    for product in required_values(pod, names.PRODUCT_LABEL):
        if base_product(product) in (product, product.removeprefix("NVIDIA-")):
            yield (
                f"{names.PRODUCT_LABEL} {product} is required, but nodes for scheme {rule.scheme} carry "
                f"{product}{names.PRODUCT_SHARED_SUFFIX}: the pod may never be scheduled"
            )


def _mps_warnings(pod: Pod, scheme: Scheme) -> Iterator[str]:
    if scheme is not Scheme.KAI and pod.annotations.get(_KAI_MPS) == "true":
        yield f"annotation {_KAI_MPS} means something to KAI only, not to scheme {scheme}"


def _mps_alone() -> Problem:
    return Problem(
        Reason.INVALID_SHARE,
        field_of_annotation(_KAI_MPS),
        f"{_KAI_MPS} 'true' without a share, which KAI refuses: add {keys.GPU_FRACTION} or {keys.GPU_MEMORY}, or "
        f"remove {_KAI_MPS}",
    )
