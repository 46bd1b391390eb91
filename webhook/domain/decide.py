"""The two questions, composed of the rooms beside this file: `mutate` (what to write) and `validate` (may it come)."""

from collections.abc import Mapping

from msgspec import Struct

from webhook.domain.budgets import Charge, Room
from webhook.domain.outcome import Claim, Edits, Problem, Reason, Verdict
from webhook.domain.pod import Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Request, View


class Decision(Struct, frozen=True):
    """The whole answer to one review, before it is put on the wire."""

    verdict: Verdict
    reason: Reason
    message: str = ""
    """One line, all numbers, stable order, the next step."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the pod; where the verdict is Deny for this, the answer is a 422 with these as causes."""
    warnings: tuple[str, ...] = ()
    edits: Edits = Edits()
    """mutate only."""
    claim: Claim | None = None
    budget: str | None = None
    charge: Charge | None = None
    """validate only: what the ledger must hold before the pod is allowed; None: nothing to charge."""
    audit: Mapping[str, str] = {}
    """Audit annotations, keys without a slash."""

    @property
    def code(self) -> int:
        """The status code of a denial: 422 where the pod is wrong, 403 where it may not come (now)."""
        return 422 if self.problems else 403


def mutate(pod: Pod, request: Request, policy: Policy, view: View) -> Decision:
    """What is to be written into the pod. Pure; running it on its own result gives no edits."""
    raise NotImplementedError


def validate(pod: Pod, request: Request, policy: Policy, view: View) -> Decision:
    """Whether the pod as it stands after all mutation may come, before the ledger is asked."""
    raise NotImplementedError


def settle(decision: Decision, verdict: Verdict, room: Room, policy: Policy) -> Decision:
    """The final answer once the ledger has said Admit, Hold or Deny for `decision.charge`."""
    raise NotImplementedError


def refuse_keys(pod: Pod, request: Request, policy: Policy) -> Decision:
    """The answer of the `keys` entry: always a denial, naming the keys that a tenant must not write."""
    raise NotImplementedError
