"""The lines that people read: one line each, all numbers, stable order, the next step."""

from webhook.domain.budgets import Room
from webhook.domain.outcome import ClaimSource
from webhook.domain.view import Requester

_HELD = "held: "


def _numbers(room: Room, tokens_per_second: int) -> str:
    borrow = (
        f"can borrow {room.borrowable} from cohort {room.cohort}" if room.cohort else "has no cohort to borrow from"
    )
    return (
        f"claims {tokens_per_second} tokens/s, used {room.used} + reserved {room.reserved} of {room.nominal}, {borrow}"
    )


def fits(room: Room, tokens_per_second: int, source: ClaimSource) -> str:
    """Admitted within the budget."""
    return f"budget {room.name} has room: {_numbers(room, tokens_per_second)} (claim by {source})"


def no_room(room: Room, tokens_per_second: int) -> str:
    """Denied for now."""
    return (
        f"budget {room.name} has no room: {_numbers(room, tokens_per_second)}; "
        f"lower replicas or raise budgets[{room.name}].tokensPerSecond"
    )


def waits(room: Room, tokens_per_second: int, behind: str | None) -> str:
    """Held for now."""
    if behind is not None and tokens_per_second <= room.largest:
        why = f"waits behind {behind}, which heads the queue and does not fit yet"
    elif behind is not None:
        why = f"has no room, behind {behind}"
    else:
        why = "has no room"
    return (
        f"{_HELD}budget {room.name} {why}: {_numbers(room, tokens_per_second)}; "
        f"released when {tokens_per_second} tokens/s are free"
    )


def never_fits(room: Room, tokens_per_second: int) -> str:
    """Denied for good: larger than the budget could ever give."""
    lent = f" with all that cohort {room.cohort} could lend" if room.cohort else ""
    return (
        f"budget {room.name} can never hold this pod: claims {tokens_per_second} tokens/s, at most {room.ever} of "
        f"{room.nominal} nominal{lent}; use smaller pods or raise budgets[{room.name}].tokensPerSecond"
    )


def observed(room: Room, tokens_per_second: int, mode: str) -> str:
    """Charged without a limit, in Warn and Audit."""
    return f"budget {room.name} is in mode {mode}, nothing is refused: {_numbers(room, tokens_per_second)}"


def would(mode: str, message: str) -> str:
    """The warning of mode Warn."""
    return f"mode {mode}: Enforce would refuse this: {message}"


def would_hold(message: str) -> str:
    """The warning of mode Warn for a pod that Enforce would keep behind the gate."""
    return f"mode Warn: Enforce would hold this: {message.removeprefix(_HELD)}"


def keys_refused(fields: tuple[str, ...], requester: Requester | None, *, kueue_ran: bool) -> str:
    """Denied for keys of Kueue's own. `kueue_ran`: they may be there because Kueue's webhook was asked before ours."""
    verb, them = ("is", "it") if len(fields) < 2 else ("are", "them")
    named = ", ".join(fields) if fields else "a key of Kueue's own"
    message = f"{named} {verb} set by Kueue alone, not by {who_asked(requester)}; remove {them} from the pod"
    if not kueue_ran:
        return message
    return f"{message}, or, if Kueue's webhook wrote {them}, let Tollgate's configuration sort before Kueue's"


def who_asked(requester: Requester | None) -> str:
    """The user for a message about who may do what."""
    return requester.username if requester is not None and requester.username else "an unnamed user"
