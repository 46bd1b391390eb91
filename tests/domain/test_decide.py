"""A pod goes the whole way: every row of tests/cases/decide*.yaml, decided and settled in this process."""

import msgspec
import pytest

from tests.domain.decide_cases import Case, Passed, cases, differences, loaded, passed, request_of, view_of
from tests.domain.sharing_cases import Document, pod_of
from webhook.domain.decide import Decision, mutate
from webhook.domain.outcome import Verdict

CASES = cases()


def _claim(decision: Decision) -> list[object] | None:
    return None if decision.claim is None else [decision.claim.tokens_per_second, decision.claim.source.value]


def _check(one: Passed, expect: Document) -> None:
    """Everything that a row expects of one pod, and nothing but the warnings it names."""
    decision = one.decision
    assert (one.verdict, decision.reason) == (expect["verdict"], expect["reason"]), decision.message
    assert [text for text in expect.get("says", []) if text not in decision.message] == []
    if decision.verdict is Verdict.DENY:
        assert decision.code == expect["code"]
        assert [problem.field for problem in decision.problems] == expect.get("fields", [])
        assert "\n" not in decision.message
    else:
        wanted = list(expect.get("warnings", []))
        assert [text for text in wanted if not any(text in warning for warning in one.warnings)] == []
        assert len(one.warnings) == len(wanted), one.warnings
    if "patch" in expect:
        assert [[operation["op"], operation["path"]] for operation in one.patch] == expect["patch"]
    assert list(differences(one.object, expect.get("object", {}))) == []
    if "claim" in expect:
        assert _claim(decision) == expect["claim"]
    if "budget" in expect:
        assert decision.budget == expect["budget"]
    if "charge" in expect:
        charge = None if decision.charge is None else msgspec.to_builtins(decision.charge)
        assert list(differences(charge, expect["charge"])) == []
    if "room" in expect:
        assert one.room_before == tuple(expect["room"])
    assert list(differences(decision.audit, expect.get("audit", {}))) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_gets_the_answer_of_its_row(case: Case) -> None:
    results = list(passed(case))
    assert len(results) == len(case.expected)
    for one, expect in zip(results, case.expected, strict=True):
        _check(one, expect)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_mutate_wrote_it_does_not_write_again(case: Case) -> None:
    policy, request, view = loaded(case), request_of(case), view_of(case)
    for one in passed(case):
        if one.patch:
            assert mutate(pod_of(one.object), request, policy, view).edits.empty


def test_names_of_rows_tell_them_apart() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
