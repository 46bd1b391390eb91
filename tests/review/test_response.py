"""Decisions out: the recipes that the API server and kubectl understand."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.review.reviews import body, pod
from webhook.domain.decide import Decision
from webhook.domain.outcome import Problem, Reason, Verdict
from webhook.review.patch import encoded
from webhook.review.response import MAX_WARNINGS_LENGTH, audit_key, encode
from webhook.review.wire import decode

REQUEST = decode(body())
ADMIT = Decision(Verdict.ADMIT, Reason.FITS)


def response(decision: Decision, patch: list[dict[str, Any]] | None = None, request: Any = REQUEST) -> dict[str, Any]:
    answer = msgspec.json.decode(encode(request, decision, encoded(patch or [])))
    assert answer.pop("apiVersion") == "admission.k8s.io/v1"
    assert answer.pop("kind") == "AdmissionReview"
    assert set(answer) == {"response"}
    inner: dict[str, Any] = answer["response"]
    return inner


def test_nothing_to_do_is_allowed_without_patch_and_patch_type() -> None:
    assert response(ADMIT) == {"uid": REQUEST.uid, "allowed": True}


def test_a_patch_comes_with_its_type_in_base64() -> None:
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    answer = response(ADMIT, operations)
    assert answer["patchType"] == "JSONPatch"
    assert msgspec.json.decode(base64.b64decode(answer["patch"])) == operations


def test_a_held_pod_is_allowed() -> None:
    assert response(Decision(Verdict.HOLD, Reason.WAITING))["allowed"] is True


def test_over_budget_is_403_with_the_message_for_people_and_a_cause_for_programs() -> None:
    message = "budget interactive has no room: claims 2500 tokens/s, used 23000 of 24000"
    decision = Decision(Verdict.DENY, Reason.TOKEN_BUDGET_EXCEEDED, message=message)
    assert response(decision) == {
        "uid": REQUEST.uid,
        "allowed": False,
        "status": {
            "status": "Failure",
            "code": 403,
            "reason": "Forbidden",
            "message": message,
            "details": {
                "kind": "pods",
                "name": "chat-0",
                "causes": [{"reason": "TokenBudgetExceeded", "message": message}],
            },
        },
    }


def test_a_wrong_pod_is_422_with_one_cause_per_field() -> None:
    problems = (
        Problem(Reason.INVALID_SHARE, "metadata.annotations[gpu-fraction]", "must be below 1, found 1.5"),
        Problem(Reason.INVALID_ANNOTATION, "metadata.annotations[tollgate.dev/deadline]", "not RFC 3339"),
    )
    decision = Decision(Verdict.DENY, Reason.INVALID_SHARE, message="2 fields are wrong", problems=problems)
    status = response(decision)["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"] == {
        "kind": "Pod",
        "name": "chat-0",
        "causes": [
            {"reason": problem.reason.value, "field": problem.field, "message": problem.message} for problem in problems
        ],
    }


def test_a_denial_names_a_pod_that_has_no_name_yet_by_its_prefix() -> None:
    request = decode(body(name="", object=pod(metadata={"generateName": "chat-"})))
    status = response(Decision(Verdict.DENY, Reason.NEVER_FITS, message="m"), request=request)["status"]
    assert status["details"]["name"] == "chat-"


def test_a_denial_never_carries_a_patch() -> None:
    denial = Decision(Verdict.DENY, Reason.UNKNOWN_CLAIM, message="m")
    assert "patch" not in response(denial, [{"op": "remove", "path": "/a"}])


def test_warnings_are_one_line_each_and_said_once() -> None:
    warnings = ("line one\nline two\x1b[31m", "again", "again", "w" * 1000)
    assert response(Decision(Verdict.ADMIT, Reason.FITS, warnings=warnings))["warnings"] == [
        "line one line two\\x1b[31m",
        "again",
        "w" * 255 + "…",
    ]


@given(st.lists(st.text(max_size=400), max_size=60))
def test_warnings_never_pass_what_the_api_server_keeps(warnings: list[str]) -> None:
    kept = response(Decision(Verdict.ADMIT, Reason.FITS, warnings=tuple(warnings))).get("warnings", [])
    assert all(len(warning) <= 256 and warning.isprintable() for warning in kept)
    assert sum(map(len, kept)) <= MAX_WARNINGS_LENGTH + 50
    assert len(kept) == len(set(kept))


def test_too_many_warnings_end_with_a_word_that_some_are_missing() -> None:
    warnings = tuple(f"{number:03}" + "w" * 197 for number in range(50))
    kept = response(Decision(Verdict.ADMIT, Reason.FITS, warnings=warnings))["warnings"]
    assert kept[:-1] == list(warnings[:10])
    assert kept[-1] == "more warnings are left out"


def test_a_message_of_several_lines_becomes_one() -> None:
    status = response(Decision(Verdict.DENY, Reason.UNKNOWN_CLAIM, message="a\r\nb" + "c" * 5000))["status"]
    assert status["message"].startswith("a  bc")
    assert len(status["message"]) == 1024


def test_audit_annotations_pass_with_small_values() -> None:
    answer = response(Decision(Verdict.ADMIT, Reason.FITS, audit={"decision": "Admit", "share": "s" * 1000}))
    assert answer["auditAnnotations"]["decision"] == "Admit"
    assert len(answer["auditAnnotations"]["share"]) == 256


@pytest.mark.parametrize(
    ("key", "legal"),
    [
        ("claim-source", "claim-source"),
        ("tollgate.dev/claim", "tollgate.dev-claim"),
        ("k" * 100, "k" * 63),
        ("-a b-", "a-b"),
        ("//", "unnamed"),
    ],
)
def test_audit_keys_are_made_legal(key: str, legal: str) -> None:
    assert audit_key(key) == legal


def test_the_owner_of_a_held_pod_is_told_why_it_waits() -> None:
    held = Decision(Verdict.HOLD, Reason.WAITING, "held: budget b has no room", warnings=("another",))
    assert response(held)["warnings"] == ["another", "held: budget b has no room"]
    assert response(held)["allowed"]
