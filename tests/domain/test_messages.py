"""The lines that people read."""

from webhook.domain import messages
from webhook.domain.budgets import Room

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
