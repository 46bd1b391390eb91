"""Equal questions have equal answers: the pods of one template are decided once for each policy.

`mutate` and `validate` are pure, so an answer may be given again wherever all that it depends on is the same. Replicas
differ in name, uid and volumes, none of which decide anything. The key is the canonical text of everything else, not a
hash of it, so that no two questions are ever taken for one.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from webhook.domain.decide import Decision
from webhook.domain.names import dns_subdomain_fault
from webhook.domain.pod import Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Request, View

MAX_ANSWERS = 1024
"""Templates that are created from at the same time, with a wide margin."""

MAX_KEY_BYTES = 16 * 1024
"""With MAX_ANSWERS bounds the memory at 16 MiB, whatever tenants write into their pods."""

_METADATA_ABSENT = Pod().metadata

_encode = msgspec.json.Encoder().encode

AnswerT = TypeVar("AnswerT")


class Memo(Generic[AnswerT]):
    """One pure question under one policy. Not for use by several threads."""

    def __init__(
        self,
        ask: Callable[[Pod, Request, Policy, View], AnswerT],
        policy: Policy,
        renew: Callable[[AnswerT, Pod, Request], AnswerT] | None = None,
    ) -> None:
        """`renew` puts into a remembered answer what belongs to this one pod: its name and uid."""
        self._ask = ask
        self._policy = policy
        self._renew = renew
        self._answers: dict[bytes, AnswerT] = {}

    def __call__(self, pod: Pod, request: Request, view: View) -> AnswerT:
        """The answer for this pod, as `ask` gives it."""
        key = _key(pod, request, view)
        if key is None:
            return self._ask(pod, request, self._policy, view)
        known = self._answers.get(key)
        if known is None:
            known = self._ask(pod, request, self._policy, view)
            if len(self._answers) >= MAX_ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = known
            return known
        return known if self._renew is None else self._renew(known, pod, request)


def for_this_pod(decision: Decision, pod: Pod, request: Request) -> Decision:
    """A remembered decision of `validate` with the charge under this pod's own name and uid."""
    charge = decision.charge
    if charge is None:
        return decision
    mine = charge.of(pod.metadata.uid or "", request.name or pod.metadata.name or "")
    return replace(decision, charge=mine)


def _key(pod: Pod, request: Request, view: View) -> bytes | None:
    """Everything that decides; None where the name itself is a reason to refuse, or the text is too long to keep.

    None too for a pod without metadata, which no API server sends: its patch makes them, and would empty another's.
    """
    metadata = pod.metadata
    if metadata is _METADATA_ABSENT or (metadata.name and dns_subdomain_fault(metadata.name)):
        return None
    key = _encode(
        (
            metadata.labels,
            metadata.annotations,
            metadata.owner_references,
            metadata.generate_name,
            metadata.namespace,
            pod.spec,
            request.namespace,
            request.requester,
            request.dry_run,
            view,
        )
    )
    return key if len(key) <= MAX_KEY_BYTES else None
