"""The way of one review: bytes, request, decision, bytes. HTTP is in `app`, what to decide is in `domain.decide`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from time import perf_counter, time
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from webhook.domain import decide, keys
from webhook.domain.budgets import Charge, Room
from webhook.domain.decide import Decision
from webhook.domain.memo import Memo, for_this_pod
from webhook.domain.order import Waiting
from webhook.domain.outcome import Reason, Verdict
from webhook.domain.pod import Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Request, View
from webhook.ledger import Answer, CannotDecide, Ledger
from webhook.observe.log import Log
from webhook.observe.metrics import Metrics
from webhook.review.patch import encoded, operations
from webhook.review.response import encode
from webhook.review.wire import AdmissionRequest, WrongPod, decode


class Question(StrEnum):
    """What a webhook entry asks; each has the path of its name."""

    KEYS = "keys"
    MUTATE = "mutate"
    VALIDATE = "validate"


class Views(Protocol):
    """Looks up what a decision needs beyond the pod. Raises CannotDecide where it cannot be known now."""

    async def __call__(self, pod: Pod, request: Request) -> View:
        """The view for one pod."""
        ...


class NamespaceNames:
    """The view of a server without a cluster: of a namespace it knows the name, which is also a label."""

    def __init__(self, *, kueue_present: bool = False) -> None:
        self._kueue_present = kueue_present

    async def __call__(self, pod: Pod, request: Request) -> View:  # noqa: ARG002 - see Views
        """See `Views`."""
        return View({keys.NAMESPACE_NAME_LABEL: request.namespace}, kueue_present=self._kueue_present)


class Settle(Protocol):
    """`domain.decide.settle`."""

    def __call__(
        self, decision: Decision, verdict: Verdict, room: Room, policy: Policy, behind: str | None = None
    ) -> Decision:
        """The final answer once the ledger has spoken."""
        ...


class Deciders(NamedTuple):
    """The pure functions that decide; the real ones unless a test puts others."""

    mutate: Callable[[Pod, Request, Policy, View], Decision] = decide.mutate
    validate: Callable[[Pod, Request, Policy, View], Decision] = decide.validate
    settle: Settle = decide.settle
    refuse_keys: Callable[[Pod, Request, Policy], Decision] = decide.refuse_keys


class Reply(NamedTuple):
    """What was decided, and the patch of mutate as it goes onto the wire."""

    decision: Decision
    patch: bytes = b""


class InForce:
    """A policy and what has been answered under it."""

    def __init__(self, policy: Policy, deciders: Deciders) -> None:
        def mutate(pod: Pod, asked: Request, policy: Policy, view: View) -> Reply:
            decision = deciders.mutate(pod, asked, policy, view)
            return Reply(decision, encoded(operations(pod, decision.edits)))

        self.policy = policy
        self.mutate = Memo(mutate, policy)
        self.validate = Memo(deciders.validate, policy, for_this_pod)


class Office:
    """What answering needs: the policy in force, the ledger, and where decisions are recorded.

    A new policy may be put in force at any time; a review reads `in_force` once.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        ledger: Ledger,
        views: Views,
        metrics: Metrics,
        log: Log,
        deciders: Deciders | None = None,
    ) -> None:
        self.deciders = deciders or Deciders()
        self.put_in_force(policy)
        self.ledger = ledger
        self.views = views
        self.metrics = metrics
        self.log = log

    def put_in_force(self, policy: Policy) -> None:
        """Decide under this policy from the next review on."""
        self.in_force = InForce(policy, self.deciders)


class Call(NamedTuple):
    """One review on its way."""

    request: AdmissionRequest
    asked: Request
    in_force: InForce
    office: Office
    seconds_left: float


async def answer(question: Question, body: bytes, office: Office, seconds_left: float) -> bytes:
    """The AdmissionReview that answers one, within the time that the caller waits.

    Raises BadCall (HTTP 400) and CannotDecide (HTTP 503); anything else is a bug.
    """
    started = perf_counter()
    try:
        request = decode(body)
        call = Call(request, request.asked(), office.in_force, office, seconds_left)
        decision, patch = await (_ASK[question] if request.handled else _PASS[question])(call)
    except WrongPod as wrong:
        call = Call(wrong.request, wrong.request.asked(), office.in_force, office, seconds_left)
        decision, patch = Reply(wrong.decision)
    answered = encode(call.request, decision, patch)
    _record(question, call, decision, perf_counter() - started)
    return answered


async def _keys(call: Call) -> Reply:
    return Reply(call.office.deciders.refuse_keys(call.request.pod, call.asked, call.in_force.policy))


async def _mutate(call: Call) -> Reply:
    pod, asked, office = call.request.pod, call.asked, call.office
    return call.in_force.mutate(pod, asked, await office.views(pod, asked))


async def _validate(call: Call) -> Reply:
    asked, office = call.asked, call.office
    decision = call.in_force.validate(call.request.pod, asked, await office.views(call.request.pod, asked))
    charge = decision.charge
    if charge is None or decision.verdict is Verdict.DENY:
        return Reply(decision)
    if not charge.uid:  # the API server gives every pod one before it validates; never let two share the empty one
        charge = replace(charge, uid=call.request.uid)
    try:
        said = await _reserve(charge, call)
    except CannotDecide as error:
        if charge.limited:
            raise
        warning = f"admitted without being charged yet: {error}"
        return Reply(replace(decision, warnings=(*decision.warnings, warning)))
    for pod in said.also_released:
        _tell_released(pod, office)
    return Reply(office.deciders.settle(decision, said.verdict, said.room, call.in_force.policy, said.behind))


async def _reserve(charge: Charge, call: Call) -> Answer:
    said = call.office.ledger.reserve(charge, dry_run=call.asked.dry_run)
    if isinstance(said, Answer):
        return said
    try:
        async with asyncio.timeout(call.seconds_left):
            return await said
    except TimeoutError:
        raise CannotDecide(
            f"the ledger of budget {charge.budget} did not answer within {call.seconds_left:g} s"
        ) from None


_NOT_HANDLED = Reply(Decision(Verdict.UNTOUCHED, Reason.NOT_HANDLED))


async def _pass(call: Call) -> Reply:  # noqa: ARG001 - a row of _PASS
    """What we do not decide about passes."""
    return _NOT_HANDLED


async def _give_back(call: Call) -> Reply:
    """A pod that goes gives back what it held (nobody asks in a cluster: there the leader watches pods)."""
    uid = call.request.deleted_uid
    if uid is not None and not call.asked.dry_run:
        for pod in await call.office.ledger.release(uid):
            _tell_released(pod, call.office)
    return _NOT_HANDLED


def _tell_released(pod: Waiting, office: Office) -> None:
    name, held_seconds = f"{pod.namespace}/{pod.name}", time() - pod.since_epoch_seconds
    office.metrics.released(pod.budget, held_seconds)
    office.log.info("held pod may go", pod=name, budget=pod.budget, claim=pod.tokens_per_second)


_Asked = Callable[[Call], Awaitable[Reply]]
_ASK: Mapping[Question, _Asked] = {
    Question.KEYS: _keys,
    Question.MUTATE: _mutate,
    Question.VALIDATE: _validate,
}
_PASS: Mapping[Question, _Asked] = {
    Question.KEYS: _pass,
    Question.MUTATE: _pass,
    Question.VALIDATE: _give_back,
}


def _record(question: Question, call: Call, decision: Decision, duration_seconds: float) -> None:
    request, asked, claim = call.request, call.asked, decision.claim
    call.office.metrics.reviewed(question, decision.verdict, decision.reason, duration_seconds)
    call.office.log.decided(
        operation=question,
        uid=request.uid,
        verdict=decision.verdict,
        reason=decision.reason,
        namespace=asked.namespace,
        name=request.pod_name,
        user=asked.requester.username if asked.requester is not None else "",
        budget=decision.budget,
        claim=claim.tokens_per_second if claim is not None else None,
        message=decision.message,
        policy=call.in_force.policy.digest,
        dry_run=asked.dry_run,
        duration_seconds=duration_seconds,
    )
