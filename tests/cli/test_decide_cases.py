"""`tollgate review` gives the answers that the functions behind it give: the rows of tests/cases/decide*.yaml."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.manifests import Files, running
from tests.domain.decide_cases import Case, Passed, cases, passed

CASES = [case for case in cases() if not case.only_in_process]


def _options(case: Case, files: Files) -> list[str]:
    options: list[str] = ["--kueue", "present"] if case.row.get("kueue") else []
    asked = case.row.get("as")
    if asked is not None:
        options += ["--as", asked["user"]]
        options += [part for group in asked.get("groups", ()) for part in ("--as-group", group)]
    there = [
        running(
            f"there-{budget}", labels={"tollgate.dev/budget": budget}, annotations={"tollgate.dev/claim": str(tokens)}
        )
        for budget, tokens in case.row.get("running", {}).items()
    ]
    return [*options, "--running", files.write("running.yaml", *there)] if there else options


def _of(one: Passed) -> dict[str, Any]:
    """The fields of a result that the functions give."""
    decision = one.decision
    claim = None if decision.claim is None else decision.claim
    return {
        "verdict": one.verdict,
        "reason": decision.reason,
        "message": decision.message,
        "warnings": list(one.warnings),
        "patch": one.patch,
        "object": one.object,
        "claim": claim and {"tokensPerSecond": claim.tokens_per_second, "source": claim.source},
        "audit": {**decision.audit, "decision": one.verdict},
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_review_answers_as_the_webhook_does(case: Case, tmp_path: Path) -> None:
    files = Files(tmp_path, case.policy)
    labels = {"metadata": {"name": case.namespace, "labels": case.row.get("namespaceLabels", {})}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", **labels}

    results = files.results(namespace, *case.pods, options=tuple(_options(case, files)))

    for result, one in zip(results, passed(case), strict=True):
        expected = _of(one)
        assert {key: result[key] for key in expected} == expected
