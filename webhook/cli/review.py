"""`tollgate review`: what the webhook would answer for the pods of some files, without a cluster.

Every Pod and every workload with a known template goes the way of a real pod, in the order of the documents: validity,
the keys entry, mutate, the patch, validate, the ledger, and the leader's release step at once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import jsonpatch
from msgspec import Struct
from msgspec.structs import replace

from webhook.cli import schema, workloads
from webhook.cli.documents import Document
from webhook.cli.results import Result, numbers_of
from webhook.cli.surroundings import Surroundings
from webhook.domain.budgets import Charge, Room
from webhook.domain.decide import Decision, mutate, refuse_keys, settle, validate
from webhook.domain.outcome import Claim, Problem, Reason, Verdict
from webhook.domain.pod import Pod
from webhook.domain.rules import Policy
from webhook.domain.validity import problems_of
from webhook.domain.view import Owner, Request, Requester, View
from webhook.domain.who import forbidden_keys
from webhook.ledger.memory import MemoryLedger
from webhook.review.patch import operations
from webhook.review.shape import WrongShape, pod_of

POD_KIND: Final = "Pod"
POD: Final = ("v1", POD_KIND)


class Case(Struct, frozen=True, gc=False):
    """One document as the deciding functions need it."""

    document: Document
    namespace: str
    name: str
    raw: dict[str, Any]
    """The pod to be created."""
    replicas: int = 1
    owners: tuple[Owner, ...] | None = None
    """Known for workloads; of pods they are looked up."""
    requester: Requester | None = None
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    template: str = ""
    """Where the pod stands in the document: empty, or `spec.template.`."""


class Settled(Struct, frozen=True, gc=False):
    """A decision once the ledger has been asked."""

    decision: Decision
    fits: int
    claim: Claim | None = None
    room: Room | None = None


class Reviewer:
    """Reviews documents one after the other; what is admitted holds its claim for those that follow."""

    def __init__(
        self,
        policy: Policy,
        surroundings: Surroundings,
        ledger: MemoryLedger,
        *,
        requester: Requester | None = None,
        kueue_present: bool = False,
    ) -> None:
        self._policy = policy
        self._surroundings = surroundings
        self._ledger = ledger
        self._requester = requester
        self._kueue_present = kueue_present
        self._count = 0
        self.passed_over: list[str] = []
        """A line for each document with a pod template of a kind that is not known here."""

    def review(self, documents: Iterable[Document]) -> list[Result]:
        """One result for each Pod and known workload, in order."""
        return [result for document in documents if (result := self._review(document)) is not None]

    def _review(self, document: Document) -> Result | None:
        kind = (document.api_version, document.kind)
        shape = workloads.SHAPES.get(kind)
        if kind == POD:
            case = self._pod_case(document)
        elif shape is not None:
            case = self._workload_case(document, shape)
        else:
            if workloads.has_pod_template(document.value):
                self.passed_over.append(
                    f"{document.source}: {document.api_version} {document.kind} is passed over: of kinds with a pod "
                    f"template only {', '.join(name for _, name in workloads.SHAPES)} of apps/v1 and batch/v1 are read"
                )
            return None
        self._count += 1
        return self._result(case)

    def _pod_case(self, document: Document) -> Case:
        checked = schema.check(document.value, schema.POD)
        namespace = self._surroundings.namespace_of(document)
        return Case(
            document=document,
            namespace=namespace,
            name=_shown_name(document.value),
            raw=checked.value,
            requester=self._requester,
            warnings=_unknown_fields(checked),
            problems=tuple(_problems_of_object(checked)),
        )

    def _workload_case(self, document: Document, shape: workloads.Shape) -> Case:
        checked = schema.check(document.value, shape.model)
        namespace = self._surroundings.namespace_of(document)
        made = workloads.pod_of(checked.value, shape, namespace)
        replicas = workloads.replicas_of(checked.value, shape)
        warnings = [*_unknown_fields(checked), *workloads.warnings_of(checked.value, shape)]
        if replicas.warning:
            warnings.append(replicas.warning)
        problems = _problems_of_object(checked)
        problems += [
            Problem(Reason.INVALID_POD, field, message)
            for field, message in workloads.negative_counts(checked.value, shape)
        ]
        requester = None if self._requester is None else Requester(*workloads.controller_account(shape))
        return Case(
            document=document,
            namespace=namespace,
            name=_shown_name(document.value),
            raw=made.pod,
            replicas=replicas.count,
            owners=made.owners,
            requester=requester,
            warnings=tuple(warnings),
            problems=tuple(problems),
            template=f"{workloads.template_path(shape)}.",
        )

    def _result(self, case: Case) -> Result:
        patch: list[dict[str, Any]] = []
        patched = case.raw
        warnings = case.warnings
        settled = Settled(_wrong(case.problems), 0)
        if not case.problems:
            settled, patch, patched, more = self._decide(case)
            warnings = (*warnings, *more)
        decision = settled.decision
        verdict = _verdict(decision, patch)
        return Result(
            source=case.document.source,
            kind=case.document.kind,
            namespace=case.namespace,
            name=case.name,
            verdict=verdict,
            reason=decision.reason.value,
            message=decision.message,
            warnings=tuple(dict.fromkeys((*warnings, *decision.warnings))),
            patch=patch,
            object=patched,
            replicas=case.replicas,
            fits=settled.fits,
            claim=settled.claim,
            budget=numbers_of(settled.room) if settled.room is not None else None,
            audit={**decision.audit, "decision": verdict},
        )

    def _decide(self, case: Case) -> tuple[Settled, list[dict[str, Any]], dict[str, Any], tuple[str, ...]]:
        """The decision, mutate's patch, the patched pod, and mutate's warnings."""
        try:
            pod, wrong = self._seen(case, case.raw)
        except WrongShape as error:
            return Settled(_wrong(_placed(error.problems, case)), 0), [], case.raw, ()
        invalid = (*wrong, *problems_of(pod))
        if invalid:
            return Settled(_wrong(_placed(invalid, case)), 0), [], case.raw, ()
        request = Request(case.namespace, case.name, case.requester)
        if forbidden_keys(pod, request, self._policy):
            return Settled(refuse_keys(pod, request, self._policy), 0), [], case.raw, ()
        view = self._view(case, pod)
        first = mutate(pod, request, self._policy, view)
        if first.verdict is Verdict.DENY:
            return self._without_charge(first, case.replicas), [], case.raw, ()
        patch = operations(pod, first.edits)
        patched: dict[str, Any] = jsonpatch.apply_patch(case.raw, patch) if patch else case.raw
        final_pod, _ = self._seen(case, patched)
        second = validate(final_pod, request, self._policy, view)
        if patch and second.verdict is Verdict.UNTOUCHED:
            second = replace(first, warnings=second.warnings)  # cleaned of its keys: what is left is no pod of ours
        if second.verdict is Verdict.DENY or second.charge is None:
            settled = self._without_charge(second, case.replicas)
        else:
            settled = self._charge(second, second.charge, case.replicas)
        return settled, patch, patched, first.warnings

    def _seen(self, case: Case, raw: dict[str, Any]) -> tuple[Pod, tuple[Problem, ...]]:
        """The pod as webhooks see it: with its namespace and its priority. Raises WrongShape."""
        pod = pod_of(raw)
        pod = replace(pod, metadata=replace(pod.metadata, namespace=case.namespace))
        return self._surroundings.prioritized(pod)

    def _view(self, case: Case, pod: Pod) -> View:
        owners = self._surroundings.owners_of(pod, case.namespace) if case.owners is None else case.owners
        return View(self._surroundings.labels_of(case.namespace), owners, self._kueue_present)

    def _without_charge(self, decision: Decision, replicas: int) -> Settled:
        denied = decision.verdict is Verdict.DENY
        return Settled(
            decision,
            0 if denied else replicas,
            _times(decision.claim, replicas),
            self._room(decision.budget),
        )

    def _room(self, name: str | None) -> Room | None:
        """A budget's numbers now."""
        if name is None or name not in self._policy.budgets_by_name:
            return None
        question = Charge("", POD_KIND, "", "", budget=name, tokens_per_second=0, limited=False)
        return self._ledger.reserve(question, dry_run=True).room

    def _charge(self, decision: Decision, charge: Charge, replicas: int) -> Settled:
        """All replicas or none; what is not admitted charges nothing."""
        one = replace(charge, uid=f"{self._count:09d}")
        if replicas == 1:
            answer = self._ledger.reserve(one)
            settled = settle(replace(decision, charge=one), answer.verdict, answer.room, self._policy, answer.behind)
            return Settled(settled, int(settled.verdict is Verdict.ADMIT), decision.claim, answer.room)
        alone = self._ledger.reserve(one, dry_run=True)
        if replicas == 0:
            message = f"asks for no replicas now; one would claim {charge.tokens_per_second} tokens/s"
            return Settled(replace(decision, message=message), 0, _times(decision.claim, 0), alone.room)
        claim = _times(decision.claim, replicas)
        if one.limited and one.tokens_per_second > alone.room.ever:
            settled = settle(replace(decision, charge=one), alone.verdict, alone.room, self._policy)
            return Settled(settled, 0, claim, alone.room)
        whole = replace(one, tokens_per_second=one.tokens_per_second * replicas)
        if whole.limited and whole.tokens_per_second > alone.room.ever:
            # No replica is too large, only all together: each is refused or held by itself, none for good.
            verdict, numbers, behind = Verdict.HOLD if whole.holds else Verdict.DENY, alone.room, alone.behind
            settled_room = replace(numbers, ever=whole.tokens_per_second)
        else:
            answer = self._ledger.reserve(whole)
            verdict, numbers, behind = answer.verdict, answer.room, answer.behind
            settled_room = numbers
        settled = settle(replace(decision, charge=whole, claim=claim), verdict, settled_room, self._policy, behind)
        fits = _fits(replicas, one, settled.verdict, alone.verdict, numbers)
        return Settled(_of_replicas(settled, one, replicas, fits), fits, claim, numbers)


def _fits(replicas: int, one: Charge, verdict: Verdict, alone: Verdict, numbers: Room) -> int:
    if verdict is Verdict.ADMIT:
        return replicas
    return min(replicas, numbers.largest // one.tokens_per_second) if alone is Verdict.ADMIT else 0


def _of_replicas(decision: Decision, one: Charge, replicas: int, fits: int) -> Decision:
    """The message of a workload: what one replica claims, and what the cluster would do."""
    message = f"{replicas} replicas of {one.tokens_per_second} tokens/s each: {decision.message}"
    if decision.verdict is not Verdict.ADMIT:
        rest = "hold" if decision.verdict is Verdict.HOLD else "refuse"
        message += f"; {fits} of {replicas} replicas fit now: the cluster would admit {fits} and {rest} the rest"
    return replace(decision, message=message)


def _times(claim: Claim | None, replicas: int) -> Claim | None:
    return claim and Claim(claim.tokens_per_second * replicas, claim.source)


def _verdict(decision: Decision, patch: list[dict[str, Any]]) -> Verdict:
    """Untouched is what is allowed, not patched and not charged."""
    if decision.verdict is Verdict.ADMIT and decision.charge is None and not patch:
        return Verdict.UNTOUCHED
    return decision.verdict


def _wrong(problems: tuple[Problem, ...]) -> Decision:
    """The API server's own refusal, which no mode softens."""
    message = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
    audit = {"decision": Verdict.DENY.value, "reason": Reason.INVALID_POD.value}
    return Decision(Verdict.DENY, Reason.INVALID_POD, message, problems, audit=audit)


def _placed(problems: tuple[Problem, ...], case: Case) -> tuple[Problem, ...]:
    """Problems with their fields as they stand in the document."""
    return tuple(replace(problem, field=f"{case.template}{problem.field}") for problem in problems)


def _problems_of_object(checked: schema.Checked) -> list[Problem]:
    """Wrong types, or no name: of a name of the wrong type nobody needs to hear that it is missing."""
    problems = [Problem(Reason.INVALID_POD, wrong.field, wrong.message) for wrong in checked.wrong]
    if not any(_names(checked.value)) and not any(wrong.field.startswith("metadata") for wrong in checked.wrong):
        problems.append(Problem(Reason.INVALID_POD, "metadata.name", "is required, or metadata.generateName"))
    return problems


def _unknown_fields(checked: schema.Checked) -> tuple[str, ...]:
    if not checked.unknown:
        return ()
    named = ", ".join(checked.unknown)
    return (f"unknown field {named}: kubectl refuses it, for other clients the API server drops it",)


def _names(value: Mapping[str, Any]) -> tuple[str, str]:
    metadata = workloads.inside(value, ("metadata",))
    name, prefix = metadata.get("name"), metadata.get("generateName")
    return name if isinstance(name, str) else "", prefix if isinstance(prefix, str) else ""


def _shown_name(value: Mapping[str, Any]) -> str:
    """The name, or `prefix*` where the API server makes one."""
    name, prefix = _names(value)
    return name or (f"{prefix}*" if prefix else "")
