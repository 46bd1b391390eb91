"""What budgets have given out: the pure state machine and its stores."""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from webhook.domain.budgets import Charge, Room
from webhook.domain.order import Waiting
from webhook.domain.outcome import Verdict


class Answer(Struct, frozen=True, gc=False):
    """What a ledger says of a charge: Admit, Hold or Deny, and the numbers before this pod."""

    verdict: Verdict
    room: Room
    behind: str | None = None
    """Held behind this pod (namespace/name), which heads the queue and blocks it."""
    also_released: tuple[Waiting, ...] = ()
    """Other held pods that left their queue in the same step: a new head may unblock those behind the old one."""


class Ledger(Protocol):
    """The accounts of all cohorts. Raises `CannotDecide` where no answer can be given now."""

    def reserve(self, charge: Charge, *, dry_run: bool) -> Answer | Awaitable[Answer]:
        """Hold the charge under its uid; the same uid twice is one charge. A dry run only computes.

        A ledger that knows at once answers at once; another gives something to wait for.
        """
        ...

    async def release(self, uid: str) -> tuple[Waiting, ...]:
        """Give back what the pod of this uid held; returns the held pods that may go now. Unknown uids are no error."""
        ...


class CannotDecide(Exception):  # noqa: N818 - the third family of DESIGN: neither a wrong pod nor a full budget
    """The ledger cannot answer now; the caller answers HTTP 503 and failurePolicy decides."""
