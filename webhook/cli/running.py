"""Pods that are there already, charged to their budgets as the leader's recount does (DESIGN section 6).

Finished pods and pods behind our gate hold nothing. A pod with our label and a valid claim is believed; of the others
budget and claim are computed under the policy at hand. A pod that is being deleted holds its claim until it is gone.
"""

from functools import cache
from typing import Any, Final

from msgspec.structs import replace

from webhook.cli import schema
from webhook.cli.documents import Document, Unreadable
from webhook.cli.surroundings import Surroundings
from webhook.domain import keys
from webhook.domain.decide import validate
from webhook.domain.pod import Pod
from webhook.domain.rules import Budget, Policy
from webhook.domain.selectors import FirstMatch, Selector
from webhook.domain.view import Request, View
from webhook.ledger.memory import MemoryLedger
from webhook.review.shape import WrongShape, pod_of

_FINISHED: Final = ("Succeeded", "Failed")

_LONGEST_CLAIM = 18
"""Digits; a longer number was not written by us."""


def pods_in(documents: list[Document]) -> tuple[list[tuple[Document, Pod]], list[Unreadable]]:
    """The pods among documents, and those that no API server can have given out."""
    pods: list[tuple[Document, Pod]] = []
    errors: list[Unreadable] = []
    for document in documents:
        if (document.api_version, document.kind) != ("v1", "Pod"):
            continue
        try:
            pods.append((document, _pod(document.value)))
        except WrongShape as error:
            errors.append(Unreadable(document.source, document.line, f"no running Pod: {error}"))
    return pods, errors


def _pod(value: dict[str, Any]) -> Pod:
    try:
        return pod_of(value)
    except WrongShape:
        return pod_of(schema.check(value, schema.POD).value)  # nulls that a person left in


class RunningPods:
    """Charges pods that are there to a ledger."""

    def __init__(self, policy: Policy, surroundings: Surroundings, ledger: MemoryLedger) -> None:
        self._policy = policy
        self._surroundings = surroundings
        self._ledger = ledger
        self._policy_of_budget = cache(self._only)

    def charge(self, document: Document, pod: Pod) -> None:
        """Enter what this pod holds, whatever its budget says."""
        if (pod.status is not None and pod.status.phase in _FINISHED) or keys.GATE in pod.gates:
            return
        labelled = self._policy.budgets_by_name.get(pod.labels.get(keys.BUDGET_LABEL, ""))
        stated = _stated_claim(pod) if labelled is not None else None
        if labelled is not None and stated is not None:
            self._ledger.found(labelled, stated)
            return
        policy = self._policy if labelled is None else self._policy_of_budget(labelled)
        namespace = self._surroundings.namespace_of(document)
        view = View(self._surroundings.labels_of(namespace), self._surroundings.owners_of(pod, namespace))
        decision = validate(_without_mirror_mark(pod), Request(namespace), policy, view)
        budget = policy.budgets_by_name.get(decision.budget or "")
        if budget is not None and decision.claim is not None:
            self._ledger.found(budget, decision.claim.tokens_per_second)

    def _only(self, budget: Budget) -> Policy:
        """The policy with one budget that takes every pod: a pod belongs for life to the budget of its label."""
        return replace(self._policy, budgets=FirstMatch((replace(budget, selector=Selector()),)))


def _stated_claim(pod: Pod) -> int | None:
    """The claim that we wrote; None where it is no number of ours."""
    text = pod.annotations.get(keys.CLAIM_ANNOTATION, "")
    if not text or len(text) > _LONGEST_CLAIM or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def _without_mirror_mark(pod: Pod) -> Pod:
    """Static pods hold GPUs like others; only at admission nobody may refuse them."""
    if keys.MIRROR not in pod.annotations:
        return pod
    annotations = {key: value for key, value in pod.annotations.items() if key != keys.MIRROR}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
