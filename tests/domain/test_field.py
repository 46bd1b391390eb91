"""Pods as people of this field write them, each decided whole (tests/cases/field.yaml)."""

from typing import Any

import jsonpatch
import pytest
import yaml

from tests.domain.sharing_cases import CASES, Document, document_of, pod_of
from webhook.domain import keys
from webhook.domain.decide import Decision, mutate, validate
from webhook.domain.outcome import Verdict
from webhook.domain.view import Request, View
from webhook.policy.load import load
from webhook.review.patch import Operation, operations

FIELD: Document = yaml.safe_load((CASES / "field.yaml").read_text(encoding="utf-8"))
POLICY = load(yaml.safe_dump(FIELD["policy"])).policy
VIEW = View()


def written_by_others(patch: list[Operation]) -> list[list[Any]]:
    """Path and value of every operation but on our own keys; a map of labels that is made falls into its keys."""
    found: list[list[Any]] = []
    for operation in patch:
        path, value = operation["path"], operation["value"]
        if path in ("/metadata/labels", "/metadata/annotations"):
            found += [[f"{path}/{key.replace('/', '~1')}", text] for key, text in value.items()]
        else:
            found.append([path, value])
    return [one for one in found if f"/{keys.PREFIX.replace('/', '~1')}" not in one[0]]


def decided(document: Document, request: Request) -> tuple[Decision, list[Operation], Document]:
    """What is answered in the end, mutate's patch, and the object after it."""
    first = mutate(pod_of(document), request, POLICY, VIEW)
    patch = operations(pod_of(document), first.edits)
    patched: Document = jsonpatch.apply_patch(document, patch)
    if first.verdict is not Verdict.ADMIT:
        return (
            first if first.reason != "LeftAlone" else validate(pod_of(patched), request, POLICY, VIEW),
            patch,
            patched,
        )
    return validate(pod_of(patched), request, POLICY, VIEW), patch, patched


@pytest.mark.parametrize("row", FIELD["rows"], ids=lambda row: row["name"])
def test_a_pod_of_the_field_gets_what_it_needs_and_no_more(row: Document) -> None:
    expect = row["expect"]
    request = Request(row["namespace"], "pod", None)
    decision, patch, patched = decided(document_of(row["pod"]), request)

    assert decision.verdict == expect["verdict"], decision.message
    assert decision.reason == expect.get("reason", decision.reason)
    assert decision.budget == expect.get("budget", decision.budget)
    assert [problem.field for problem in decision.problems] == ([expect["field"]] if "field" in expect else [])
    assert [text for text in expect.get("says", []) if text not in decision.message] == []
    assert written_by_others(patch) == expect.get("patch", [])
    wanted = expect.get("warnings", [])
    if decision.verdict is not Verdict.DENY:
        assert len(decision.warnings) == len(wanted), decision.warnings
        assert mutate(pod_of(patched), request, POLICY, VIEW).edits.empty
    assert all(any(text in warning for warning in decision.warnings) for text in wanted)
