"""`tollgate review` for people, on terminals of their sizes."""

import io
import re

import pytest

from webhook.cli.results import BudgetNumbers, Result, Review
from webhook.cli.text import print_review
from webhook.domain.outcome import Claim, ClaimSource, Verdict

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

RESULT = Result(
    source="pods.yaml#0",
    kind="Pod",
    namespace="prod-models",
    name="llama-70b-1",
    verdict=Verdict.DENY,
    reason="TokenBudgetExceeded",
    message="budget interactive has no room: " + "all the numbers, " * 12,
    warnings=(),
    patch=[{"op": "add", "path": "/spec/schedulingGates", "value": []}],
    object=None,
    replicas=1,
    fits=0,
    claim=Claim(2030, ClaimSource.PROFILE),
    budget=BudgetNumbers("interactive", 3000, 0, 2030, 500),
    audit={},
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, columns: int) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    print_review(Review((RESULT,), 1, ()), out)
    return _ESCAPES.sub("", out.getvalue())


@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_no_terminal_breaks_a_reason_or_a_message(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    lines = shown(monkeypatch, columns).splitlines()
    assert any("TokenBudgetExceeded" in line for line in lines[:4])
    assert f"  {RESULT.message.strip()}" in [line.rstrip() for line in lines]


def test_on_a_narrow_terminal_the_patch_stands_beside_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = shown(monkeypatch, 80), shown(monkeypatch, 120)
    assert "PATCHED" not in narrow
    assert "  patched: gate" in narrow.splitlines()
    assert "PATCHED" in wide
    assert "  patched:" not in wide


def test_a_review_in_a_file_has_the_table_whole() -> None:
    out = io.StringIO()
    print_review(Review((RESULT,), 1, ()), out)
    assert "Deny     TokenBudgetExceeded  Pod prod-models/llama-70b-1  2030 (Profile)" in out.getvalue()
