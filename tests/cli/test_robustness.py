"""Whatever stands in a document, the answer is a result or one line of complaint, never a crash."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.manifests import POLICY, pod, workload
from webhook.cli.documents import Document
from webhook.cli.results import Result
from webhook.cli.review import Reviewer
from webhook.cli.running import RunningPods, pods_in
from webhook.cli.surroundings import NamespaceFlags, Surroundings
from webhook.domain.rules import Policy
from webhook.ledger.memory import MemoryLedger
from webhook.policy import load

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["0.5", "1", "-1", "nvidia.com/gpu", "tollgate.dev/budget", "a", "Always", "1e99", "x" * 300]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
KEYS = (
    *("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name"),
    *("tollgate.dev/tokens-per-second", "tollgate.dev/model", "tollgate.dev/traffic-mix", "tollgate.dev/deadline"),
)
DOCUMENTS = (
    pod("a", "dev", annotations={"gpu-fraction": "0.25"}, labels={"a": "b"}),
    *(workload(kind, "w", "prod", replicas=2, parallelism=2) for kind in ("Deployment", "StatefulSet", "CronJob")),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod", "labels": {"team": "batch"}}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1},
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, member in members for place in places(member, (*path, key)))]


@st.composite
def spoiled(draw: st.DrawFn) -> dict[str, Any]:
    """A right document with a few values replaced and annotations added."""
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from([place for place in places(document) if place]))
        here: Any = document
        for step in parents:
            here = here[step]
        here[last] = draw(VALUES)
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
        metadata["annotations"].update(draw(st.dictionaries(st.sampled_from(KEYS), SCALARS, max_size=2)))
    document["kind"], document["apiVersion"] = str(document["kind"]), str(document["apiVersion"])
    return document


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load(json.dumps(POLICY)).policy


@settings(max_examples=300, deadline=None)
@given(st.lists(spoiled(), min_size=1, max_size=3))
def test_spoiled_documents_get_an_answer(policy: Policy, values: list[dict[str, Any]]) -> None:
    documents = [Document(f"f#{i}", 1, one["apiVersion"], one["kind"], one) for i, one in enumerate(values)]
    surroundings = Surroundings(documents, NamespaceFlags())
    ledger = MemoryLedger(policy, clock=lambda: 0.0)
    running, _ = pods_in(documents)
    for document, found in running:
        RunningPods(policy, surroundings, ledger).charge(document, found)

    results = Reviewer(policy, surroundings, ledger).review(documents)

    assert all(isinstance(result, Result) and "\n" not in result.source for result in results)
    assert all(0 <= result.fits <= result.replicas for result in results)
