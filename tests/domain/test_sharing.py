"""Shares row by row (tests/cases/sharing.yaml), and what holds for all of them."""

import copy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.sharing_cases import (
    CATALOGUE,
    Document,
    applied,
    document_of,
    expressed,
    gpus,
    pod_of,
    rows,
    rule_of,
    written,
)
from webhook.domain.pod import Quantity
from webhook.domain.rules import Scheme
from webhook.domain.sharing import Share, backed
from webhook.domain.validity import problems_of

ROWS = rows("sharing.yaml")
EDITED = ("limits", "nodeSelector", "affinity", "tolerations", "scheduler", "share")


def resources_of(document: Document) -> list[dict[str, dict[str, Quantity]]]:
    spec = document["spec"]
    return [one.get("resources") or {} for one in (*(spec.get("initContainers") or ()), *spec["containers"])]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_share_becomes_what_the_table_says(row: Document) -> None:
    document = document_of(row["pod"])
    expect = row["expect"]
    share = expressed(document, rule_of(row.get("rule")), row)

    assert written(share) == {key: expect[key] for key in EDITED if key in expect}
    if "problem" in expect:
        reason, field, says = expect["problem"]
        assert [(problem.reason, problem.field) for problem in share.problems] == [(reason, field)]
        assert [text for text in says if str(text) not in share.problems[0].message] == []
        assert "\n" not in share.problems[0].message
    else:
        assert share.problems == ()
        assert [card.name for card in share.gpus.cards] == expect.get("cards", [])
        devices, part, memory_mib, counted = expect.get("gpus", [0, 0, None, 0])
        assert gpus(share) == [devices, Fraction(part), memory_mib, Fraction(counted)]
    expected_warnings = expect.get("warnings", [])
    if "problem" not in expect:
        assert len(share.warnings) == len(expected_warnings)
    assert all(any(text in warning for warning in share.warnings) for text in expected_warnings)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_what_a_problem_pod_asks_for_itself_still_counts(row: Document) -> None:
    if "problem" in row["expect"]:
        share = expressed(document_of(row["pod"]), rule_of(row.get("rule")), row)
        devices, part, memory_mib, counted = row["expect"].get("gpus", [0, 0, None, 0])
        assert gpus(share) == [devices, Fraction(part), memory_mib, Fraction(counted)]
        assert share.scheme is None


@pytest.mark.parametrize(
    ("second", "third"),
    [
        ({"nvidia.com/gpu.shared": 2}, {}),
        ({"nvidia.com/gpu": 1}, {}),
        ({"nvidia.com/gpu.shared": 1}, {"nvidia.com/gpu": 1}),
    ],
    ids=str,
)
def test_no_container_is_named_that_would_be_refused_too(second: dict[str, int], third: dict[str, int]) -> None:
    row = {"rule": {"scheme": "TimeSlicing", "replicas": 4, "resource": "nvidia.com/gpu.shared"}}
    containers = [
        {"name": name, "resources": {"limits": limits}} for name, limits in (("a", {}), ("b", second), ("c", third))
    ]
    pod = {"metadata": {"annotations": {"gpu-fraction": "0.25"}}, "spec": {"containers": containers}}
    (problem,) = expressed(document_of(pod), rule_of(row["rule"]), row).problems
    assert problem.message.endswith("; remove the annotation or the resources")


def holds_always(document: Document, share: Share, again: Share, after: Document) -> None:
    """The invariants of every share that is expressed."""
    assert again.problems == ()
    assert again.edits.empty
    assert (again.text, again.scheme, again.gpus) == (share.text, share.scheme, share.gpus)
    assert problems_of(pod_of(after)) == ()
    limits = share.edits.limits
    changed = [
        index
        for index, (one, other) in enumerate(zip(resources_of(document), resources_of(after), strict=True))
        if one != other
    ]
    assert len(changed) <= 1
    if limits is None:
        assert changed == []
    for one, other in zip(resources_of(document), resources_of(after), strict=True):
        for side in ("limits", "requests"):
            kept = {name: (other.get(side) or {}).get(name) for name in one.get(side) or {}}
            assert kept == (one.get(side) or {}), "a value that was there was changed"
        added = {name for side in ("limits", "requests") for name in (other.get(side) or {})} - {
            name for side in ("limits", "requests") for name in (one.get(side) or {})
        }
        assert added <= ({name for name, _ in limits.quantities} if limits else set())
        for name in added:
            assert other["limits"][name] == other["requests"][name]
    if share.scheme is Scheme.KAI:
        assert not any(
            name.startswith("nvidia.com/")
            for one in resources_of(after)
            for side in ("limits", "requests")
            for name in one.get(side) or {}
        )


@pytest.mark.parametrize("row", [row for row in ROWS if "share" in row["expect"]], ids=lambda row: row["name"])
def test_expressing_the_result_again_changes_nothing(row: Document) -> None:
    document, rule = document_of(row["pod"]), rule_of(row.get("rule"))
    share = expressed(document, rule, row)
    after = applied(copy.deepcopy(document), share)
    holds_always(document, share, expressed(after, rule, row), after)
    target = row["expect"].get("container", "main")
    if share.edits.limits is not None:
        assert document["spec"]["containers"][share.edits.limits.index]["name"] == target


RULES: list[Document] = [
    {"scheme": "KAI"},
    {"scheme": "KAI", "gpu": "a100-80gb", "shadowResource": "tollgate.dev/milligpu"},
    {"scheme": "TimeSlicing", "replicas": 2},
    {"scheme": "TimeSlicing", "replicas": 4, "gpu": "l4"},
    {"scheme": "TimeSlicing", "replicas": 4, "gpu": "a100-80gb", "resource": "nvidia.com/gpu.shared"},
    {"scheme": "MPS", "replicas": 3, "resource": "example.com/slice"},
    {"scheme": "MIG", "gpu": "a100-80gb"},
    {"scheme": "MIG", "gpu": "h100-80gb", "migStrategy": "single"},
    {"scheme": "HAMi"},
    {"scheme": "HAMi", "gpu": "h100-80gb"},
    {"scheme": "Volcano", "gpu": "a10g"},
    {"scheme": "Aliyun", "gpu": "l40s"},
    {"scheme": "GKE", "gpu": "h100-80gb", "replicas": 8},
    {"scheme": "WholeGPU", "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
]
LABELS = st.sampled_from(
    [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3-SHARED"),
        ("nvidia.com/gpu.product", "Tesla-V100-SXM2-32GB"),
        ("nvidia.com/gpu.memory", "81559"),
        ("cloud.google.com/gke-accelerator", "nvidia-l4"),
        ("karpenter.k8s.aws/instance-gpu-name", "a100"),
        ("topology.kubernetes.io/zone", "a"),
    ]
)
REQUIREMENTS = st.one_of(
    LABELS.map(lambda label: {"key": label[0], "operator": "In", "values": [label[1]]}),
    st.sampled_from(["7999", "20000", "45000"]).map(
        lambda mib: {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": [mib]}
    ),
    st.just({"key": "nvidia.com/gpu.product", "operator": "Exists"}),
)
TERMS = st.lists(st.builds(lambda some: {"matchExpressions": some}, st.lists(REQUIREMENTS, max_size=2)), max_size=2)
RESOURCES = st.sampled_from(
    [
        None,
        {},
        {"limits": {"cpu": "2"}},
        {"requests": {"cpu": "1"}, "limits": None},
        {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": 1}},
        {"limits": {"nvidia.com/gpu.shared": 1}},
        {"limits": {"nvidia.com/gpu": 0}},
        {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "40779"}},
    ]
)


@st.composite
def shared_pods(draw: st.DrawFn) -> Document:
    annotations = {
        **draw(
            st.one_of(
                st.integers(1, 99).map(lambda percent: {"gpu-fraction": f"0.{percent:02d}"}),
                st.sampled_from([1, 8000, 8001, 20000, 40000, 81559]).map(lambda mib: {"gpu-memory": str(mib)}),
            )
        ),
        **draw(st.sampled_from([{}, {}, {"gpu-fraction-num-devices": "2"}])),
        **draw(
            st.sampled_from([{}, {}, {"gpu-fraction-container-name": "side"}, {"gpu-fraction-container-name": "warm"}])
        ),
    }
    spec: dict[str, Any] = {
        "containers": [
            {"name": "main", "resources": draw(RESOURCES)},
            {"name": "side", "resources": draw(st.sampled_from([None, {"limits": {"memory": "1Gi"}}]))},
        ],
        "initContainers": [{"name": "warm", "restartPolicy": draw(st.sampled_from([None, "Always"]))}],
        "nodeSelector": dict(draw(st.lists(LABELS, max_size=2))) or None,
        "schedulerName": draw(st.sampled_from([None, None, "default-scheduler", "kai-scheduler", "volcano"])),
    }
    terms = draw(TERMS)
    if terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": annotations}, "spec": spec}


PARSED_RULES = [rule_of(rule) for rule in RULES]


@settings(deadline=None)
@given(document=shared_pods(), rule=st.sampled_from(PARSED_RULES))
def test_twice_is_once_and_only_the_target_is_touched(document: Document, rule: Any) -> None:
    share = expressed(document, rule)
    if share.problems:
        assert share.edits.empty
        assert share.text == ""
        return
    after = applied(copy.deepcopy(document), share)
    holds_always(document, share, expressed(after, rule), after)


@settings(deadline=None)
@given(document=shared_pods(), rule=st.sampled_from(PARSED_RULES))
def test_a_share_that_is_backed_needs_no_resources_written(document: Document, rule: Any) -> None:
    share = expressed(document, rule)
    after = applied(copy.deepcopy(document), share)
    again = expressed(after, rule)
    expected = not share.problems and share.scheme is not Scheme.KAI
    assert backed(pod_of(after), again) is expected


@settings(deadline=None)
@given(document=shared_pods(), text=st.text(max_size=60), key=st.sampled_from(["gpu-fraction", "gpu-memory"]))
def test_any_text_is_a_share_or_a_problem_that_names_its_field(document: Document, text: str, key: str) -> None:
    document["metadata"]["annotations"] = {key: text}
    share = expressed(document, rule_of({"scheme": "WholeGPU"}))
    assert share.text or share.problems
    assert all("\n" not in problem.message and len(problem.message) < 600 for problem in share.problems)


def test_every_card_of_the_catalogue_can_be_cut_by_mig_or_says_that_it_cannot() -> None:
    for card in CATALOGUE.values():
        share = expressed(
            document_of({"metadata": {"annotations": {"gpu-fraction": "0.1"}}}),
            rule_of({"scheme": "MIG", "gpu": card.name}),
        )
        if card.mig_profiles:
            assert share.gpus.containers[0].part in (Fraction(1, 7), Fraction(1, 4))
        else:
            assert "no MIG" in share.problems[0].message
