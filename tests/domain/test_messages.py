"""The lines that people read."""

from webhook.domain import messages
from webhook.domain.budgets import Room
from webhook.domain.outcome import ClaimSource
from webhook.domain.view import Requester

ROOM = Room("batch", nominal=3000, used=1000, reserved=500, largest=1500, borrowable=0, ever=3000, cohort="llm")


def test_a_held_pod_hears_why_and_until_when() -> None:
    assert messages.waits(ROOM, 2000, None) == (
        "held: budget batch has no room: claims 2000 tokens/s, used 1000 + reserved 500 of 3000, "
        "can borrow 0 from cohort llm; released when 2000 tokens/s are free"
    )


def test_mode_warn_says_once_that_a_pod_would_be_held() -> None:
    assert messages.would_hold(messages.waits(ROOM, 2000, None)).startswith(
        "mode Warn: Enforce would hold this: budget batch has no room: claims 2000 tokens/s"
    )


def test_what_fits_says_the_numbers_before_it_and_whose_claim_it_is() -> None:
    assert messages.fits(ROOM, 1500, ClaimSource.PROFILE) == (
        "budget batch has room: claims 1500 tokens/s, used 1000 + reserved 500 of 3000, can borrow 0 from cohort llm "
        "(claim by Profile)"
    )


def test_a_full_budget_says_all_numbers_and_what_to_do() -> None:
    room = Room(
        "interactive", nominal=24000, used=23000, reserved=500, largest=500, borrowable=0, ever=30000, cohort="llm"
    )
    assert messages.no_room(room, 2500) == (
        "budget interactive has no room: claims 2500 tokens/s, used 23000 + reserved 500 of 24000, "
        "can borrow 0 from cohort llm; lower replicas or raise budgets[interactive].tokensPerSecond"
    )
    alone = Room("own", nominal=10, used=10, reserved=0, largest=0, borrowable=0, ever=10, cohort=None)
    assert "of 10, has no cohort to borrow from; lower replicas" in messages.no_room(alone, 1)


def test_what_never_fits_says_how_much_ever_would() -> None:
    assert messages.never_fits(ROOM, 3001) == (
        "budget batch can never hold this pod: claims 3001 tokens/s, at most 3000 of 3000 nominal with all that cohort "
        "llm could lend; use smaller pods or raise budgets[batch].tokensPerSecond"
    )


def test_a_pod_that_waits_for_its_turn_hears_whose_turn_it_is() -> None:
    assert messages.waits(ROOM, 100, "batch/big").startswith(
        "held: budget batch waits behind batch/big, which heads the queue and does not fit yet: claims 100"
    )
    assert messages.waits(ROOM, 2000, "batch/big").startswith(
        "held: budget batch has no room, behind batch/big: claims"
    )


def test_outside_enforce_a_charge_is_told_with_its_mode() -> None:
    assert messages.observed(ROOM, 9, "Audit").startswith(
        "budget batch is in mode Audit, nothing is refused: claims 9 tokens/s"
    )
    assert messages.would("Warn", "no") == "mode Warn: Enforce would refuse this: no"


def test_who_asked_is_named_also_where_nobody_is() -> None:
    assert messages.who_asked(Requester("alice")) == "alice"
    assert messages.who_asked(Requester("")) == messages.who_asked(None) == "an unnamed user"


def test_keys_of_kueue_s_own_are_told_all_and_how_else_they_may_have_come() -> None:
    asked = Requester("alice")
    assert messages.keys_refused(("metadata.labels[a]",), asked, kueue_ran=False) == (
        "metadata.labels[a] is set by Kueue alone, not by alice; remove it from the pod"
    )
    assert messages.keys_refused(("metadata.labels[a]", "metadata.annotations[b]"), asked, kueue_ran=True) == (
        "metadata.labels[a], metadata.annotations[b] are set by Kueue alone, not by alice; remove them from the pod, "
        "or, if Kueue's webhook wrote them, let Tollgate's configuration sort before Kueue's"
    )
