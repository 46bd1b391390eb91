"""The claim of a pod: how many output tokens/s it is charged, and where that number comes from.

In order of trust: what the tenant declares, within a floor and a ceiling; a measured profile; the roofline; what the
budget charges for pods of which nothing is known.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final

from msgspec import Struct

from webhook.domain import annotations, keys, models, serving
from webhook.domain.capacity import Capacity, Rate, assess
from webhook.domain.dtypes import Dtype
from webhook.domain.engines import Engine
from webhook.domain.gpus import ContainerGpus, PodGpus
from webhook.domain.identity import Same
from webhook.domain.outcome import Claim, ClaimSource, Problem, Reason, field_of_annotation
from webhook.domain.pod import Pod
from webhook.domain.quantity import number
from webhook.domain.question import Question
from webhook.domain.rules import Budget, Gpu, Mix, Policy, UnknownClaimAction
from webhook.domain.serving import CommandKey, Serving

CEILING: Final = Fraction(5, 4)
"""A declared claim above this multiple of the published saturated throughput is refused."""
FLOOR: Final = Fraction(1, 2)
"""A declared claim below this multiple of the derived one is charged at it: nobody gets a budget by declaring 1."""

GROUP_LABEL: Final = "leaderworkerset.sigs.k8s.io/name"
"""Label of every pod of a LeaderWorkerSet (lws api/leaderworkerset/v1, SetNameLabelKey)."""


class ClaimOutcome(Struct, frozen=True, gc=False):
    """What a pod claims, or why that cannot be said."""

    claim: Claim | None = None
    """None: unknown. Beside problems it is what Warn and Audit charge."""
    problems: tuple[Problem, ...] = ()
    unknown: str | None = None
    """Where nothing gives a claim and `unknownClaim` is Deny: what was read, and what to declare."""
    warnings: tuple[str, ...] = ()


class _Declared(Struct, frozen=True, gc=False):
    """What the tenant declares that a claim depends on."""

    tokens_per_second: int | None
    model: str | None
    model_dtype: Dtype | None
    traffic_mix: Mix | None


class _Holder(Struct, frozen=True, gc=False):
    """A container that holds GPUs."""

    field: str
    gpus: ContainerGpus
    key: CommandKey


def derive(pod: Pod, gpus: PodGpus, budget: Budget, policy: Policy) -> ClaimOutcome:
    """The claim of a pod in a budget. Pure, never raises; equal pods are computed once."""
    tenant, malformed = annotations.read(pod.annotations)
    declared = _Declared(tenant.tokens_per_second, tenant.model, tenant.model_dtype, tenant.traffic_mix)
    outcome = _derive(
        Same(policy),
        Same(budget),
        declared,
        tuple(_holders(pod, gpus)),
        tuple(Same(card) for card in gpus.cards),
        gpus.counted,
        gpus.claims_unknown,
        GROUP_LABEL in pod.labels,
    )
    if not malformed:
        return outcome
    return ClaimOutcome(outcome.claim, (*malformed, *outcome.problems), None, outcome.warnings)


def _holders(pod: Pod, gpus: PodGpus) -> Iterator[_Holder]:
    held = {one.name: one for one in gpus.containers}
    for path, containers in (("spec.containers", pod.containers), ("spec.initContainers", pod.init_containers)):
        for index, container in enumerate(containers):
            one = held.get(container.name)
            if one is not None and (path == "spec.containers" or container.is_sidecar):
                yield _Holder(f"{path}[{index}]", one, serving.command_key(container))


class _Facts(Struct, frozen=True, gc=False):
    """All that a claim is decided from."""

    budget: Budget
    declared: _Declared
    capacities: tuple[Capacity, ...]
    """Of the serving containers; empty where no container serves anything we know."""
    counted: Fraction
    claims_unknown: bool

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The throughputs that are known."""
        return tuple(capacity.rate for capacity in self.capacities if capacity.rate is not None)

    @property
    def complete(self) -> bool:
        """Whether the throughput of every serving container is known."""
        return bool(self.capacities) and len(self.rates) == len(self.capacities)

    @property
    def measured(self) -> bool:
        """Whether every one comes from a profile."""
        return self.complete and all(rate.measured for rate in self.rates)

    def throughput(self, mix: Mix) -> Fraction:
        """Saturated output tokens/s of what is known."""
        return sum((rate.tokens_per_second(mix) for rate in self.rates), Fraction(0))


@lru_cache(maxsize=1024)
def _derive(
    policy: Same[Policy],
    budget: Same[Budget],
    declared: _Declared,
    holders: tuple[_Holder, ...],
    cards: tuple[Same[Gpu], ...],
    counted: Fraction,
    claims_unknown: bool,  # noqa: FBT001 - a cache key is positional
    in_group: bool,  # noqa: FBT001
) -> ClaimOutcome:
    questions = _questions(policy.value, declared, holders, tuple(card.value for card in cards), in_group=in_group)
    capacities = tuple(assess(question, policy.value, budget.value.mix) for question in questions)
    facts = _Facts(budget.value, declared, capacities, counted, claims_unknown)
    problems = tuple(problem for capacity in capacities for problem in capacity.problems)
    warnings = tuple(warning for capacity in capacities for warning in capacity.warnings)
    decided = _decide(facts)
    if declared.traffic_mix is not None and declared.tokens_per_second is None:
        warnings += (
            f"{keys.TRAFFIC_MIX} says at which mix {keys.TOKENS_PER_SECOND} is stated; alone it has no effect",
        )
    problems = (*problems, *decided.problems)
    return ClaimOutcome(decided.claim, problems, None if problems else decided.unknown, (*warnings, *decided.warnings))


def _questions(
    policy: Policy, declared: _Declared, holders: tuple[_Holder, ...], cards: tuple[Gpu, ...], *, in_group: bool
) -> list[Question]:
    """The containers that serve a model; where none is recognised, all that hold GPUs serve the declared one."""
    read = [(holder, serving.read_key(holder.key)) for holder in holders]
    serves = [(holder, one) for holder, one in read if one.engine is not Engine.UNKNOWN or _known(policy, one)]
    if not serves and declared.model is not None:
        serves = read
    questions = []
    for holder, one in serves:
        names = one.model_names if declared.model is None else (declared.model,)
        found = next(((name, named) for name in names if (named := models.find(policy.models, name))), None)
        model, named = found or (names[0] if names else "", None)
        questions.append(
            Question(
                container=holder.gpus.name,
                field=holder.field,
                serving=one,
                gpus=holder.gpus,
                cards=cards,
                model=model,
                named=named,
                declared_dtype=declared.model_dtype,
                vouched=declared.tokens_per_second is not None,
                in_group=in_group,
            )
        )
    return questions


def _known(policy: Policy, one: Serving) -> bool:
    return any(models.find(policy.models, name) for name in one.model_names)


def _decide(facts: _Facts) -> ClaimOutcome:
    if facts.declared.tokens_per_second is not None:
        return _from_declaration(facts, Fraction(facts.declared.tokens_per_second))
    if facts.complete:
        derived = facts.budget.utilization * facts.throughput(facts.budget.mix)
        source = ClaimSource.PROFILE if facts.measured else ClaimSource.ROOFLINE
        return ClaimOutcome(Claim(ceil(derived), source))
    return _from_default(facts)


def _from_declaration(facts: _Facts, stated: Fraction) -> ClaimOutcome:
    warnings: list[str] = []
    at_mix = _at_budget_mix(facts, stated, warnings)
    problem = _above_ceiling(facts, at_mix, warnings)
    floor, why = _floor(facts)
    charged = ceil(at_mix)
    if charged < floor:
        charged = ceil(floor)
        warnings.append(f"{keys.TOKENS_PER_SECOND} declares {number(at_mix)} tokens/s and {charged} are charged: {why}")
    claim = Claim(charged, ClaimSource.DECLARED)
    return ClaimOutcome(claim, () if problem is None else (problem,), None, tuple(warnings))


def _at_budget_mix(facts: _Facts, stated: Fraction, warnings: list[str]) -> Fraction:
    """A declared claim converted from the mix it is stated at: the share of the pod stays what it is."""
    mix, own = facts.budget.mix, facts.declared.traffic_mix
    if own is None or own == mix:
        return stated
    if not facts.measured:
        warnings.append(
            f"{keys.TRAFFIC_MIX} {own.input}/{own.output} cannot be converted to {mix.input}/{mix.output} of budget "
            f"{facts.budget.name} without a profile of the model; {number(stated)} tokens/s are taken as stated"
        )
        return stated
    return stated * facts.throughput(mix) / facts.throughput(own)


def _above_ceiling(facts: _Facts, at_mix: Fraction, warnings: list[str]) -> Problem | None:
    if not facts.complete:
        return None
    mix = facts.budget.mix
    published = sum((rate.before_factor(mix) for rate in facts.rates), Fraction(0))
    ceiling = CEILING * published
    if at_mix <= ceiling:
        return None
    what = "the measured profile gives" if facts.measured else "the roofline estimates"
    message = (
        f"{keys.TOKENS_PER_SECOND}: {ceil(at_mix)} tokens/s at {mix.input}/{mix.output}, but {what} {int(published)} "
        f"at full load, and at most {number(CEILING)} times that, {int(ceiling)}, may be declared"
    )
    if not facts.measured:
        warnings.append(f"{message} where a profile is known; check the figure")
        return None
    step = "lower it, or have a profile of these GPUs added to models of the policy"
    return Problem(Reason.DECLARED_ABOVE_CEILING, field_of_annotation(keys.TOKENS_PER_SECOND), f"{message}; {step}")


def _floor(facts: _Facts) -> tuple[Fraction, str]:
    """The least that a declared claim is charged, and why."""
    if facts.rates:
        derived = facts.budget.utilization * facts.throughput(facts.budget.mix)
        return FLOOR * derived, f"half of the {ceil(derived)} tokens/s that its GPUs give at the budget's utilization"
    per_gpu = facts.budget.unknown_claim.tokens_per_second_per_gpu
    if per_gpu is None:
        return Fraction(1), "at least 1"
    gpus = _counted(facts)
    return (
        per_gpu * gpus,
        f"unknownClaim of budget {facts.budget.name} is {per_gpu} tokens/s for each of {number(gpus)} GPUs",
    )


def _counted(facts: _Facts) -> Fraction:
    """GPUs that the default claim is charged on; resource claims hide their number, so they count as one at least."""
    return max(facts.counted, Fraction(1)) if facts.claims_unknown else facts.counted


def _from_default(facts: _Facts) -> ClaimOutcome:
    unknown = facts.budget.unknown_claim
    why_not = "; ".join(_reasons(facts))
    if unknown.action is UnknownClaimAction.PER_GPU and unknown.tokens_per_second_per_gpu is not None:
        amount = ceil(unknown.tokens_per_second_per_gpu * _counted(facts))
        return ClaimOutcome(Claim(max(1, amount), ClaimSource.DEFAULT))
    if unknown.action is UnknownClaimAction.ADMIT:
        return ClaimOutcome(warnings=(f"tokens per second unknown ({why_not}); nothing is charged",))
    return ClaimOutcome(
        unknown=(
            f"budget {facts.budget.name} needs the tokens per second of this pod and cannot tell them: {why_not}; "
            f"annotate the pod with {keys.TOKENS_PER_SECOND}, or have the model's profile added to the policy"
        )
    )


def _reasons(facts: _Facts) -> Iterator[str]:
    if facts.claims_unknown:
        yield "resource claims do not show how many GPUs they give"
    elif not facts.capacities:
        yield f"none of its containers with GPUs starts an engine we know ({keys.MODEL} would name the model)"
    for capacity in facts.capacities:
        if capacity.problems:
            yield "its model does not fit its GPUs"
        elif capacity.why_not:
            yield capacity.why_not
