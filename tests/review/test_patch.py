"""The patch against an independent model of what the edits mean, and the fine points one by one."""

import copy
from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.domain.outcome import ContainerLimits, Edits
from webhook.domain.pod import NodeSelectorRequirement, Pod, Toleration
from webhook.review.patch import operations

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
H100 = NodeSelectorRequirement("nvidia.com/gpu.product", "In", ["H100"])
GPU_EXISTS = Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")


def pod_of(document: dict[str, Any]) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def applied(document: dict[str, Any], edits: Edits) -> dict[str, Any]:
    result: dict[str, Any] = jsonpatch.apply_patch(document, operations(pod_of(document), edits))
    return result


def written(one: NodeSelectorRequirement) -> dict[str, Any]:
    return {"key": one.key, "operator": one.operator, **({"values": one.values} if one.values is not None else {})}


def parent(document: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        if document.get(name) is None:
            document[name] = {}
        document = document[name]
    return document


def expect_metadata(document: dict[str, Any], place: str, put: Mapping[str, str], remove: tuple[str, ...]) -> None:
    for key in remove:
        (document["metadata"].get(place) or {}).pop(key, None)
    if put:
        parent(document, "metadata", place).update(put)


def expect_affinity(spec: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
    required = parent(spec, "affinity", "nodeAffinity", REQUIRED)
    terms = required.get("nodeSelectorTerms") or []
    for term in terms:
        present = term.get("matchExpressions") or []
        missing = [one for one in wanted if one not in present]
        if missing and (present or term.get("matchFields")):
            term["matchExpressions"] = present + missing
    required["nodeSelectorTerms"] = terms or [{"matchExpressions": wanted}]


def expected(original: dict[str, Any], edits: Edits) -> dict[str, Any]:
    """What the edits mean, said with plain dictionaries."""
    document = copy.deepcopy(original)
    expect_metadata(document, "labels", edits.set_labels, edits.remove_labels)
    expect_metadata(document, "annotations", edits.set_annotations, edits.remove_annotations)
    spec = document["spec"]
    if edits.remove_gates or edits.add_gate:
        gates = spec.get("schedulingGates") or []
        kept = [gate for index, gate in enumerate(gates) if index not in edits.remove_gates]
        spec["schedulingGates"] = kept + ([{"name": edits.add_gate}] if edits.add_gate else [])
    if edits.scheduler_name is not None:
        spec["schedulerName"] = edits.scheduler_name
    if edits.limits is not None:
        container = spec["containers"][edits.limits.index]
        for kind in ("limits", "requests"):
            parent(container, "resources", kind).update({name: str(count) for name, count in edits.limits.quantities})
    if edits.set_node_selector:
        parent(spec, "nodeSelector").update(edits.set_node_selector)
    if edits.require_node_affinity:
        expect_affinity(spec, [written(one) for one in edits.require_node_affinity])
    if edits.add_tolerations:
        spec["tolerations"] = (spec.get("tolerations") or []) + [msgspec.to_builtins(t) for t in edits.add_tolerations]
    return document


keys = st.sampled_from(["a", "b", "tollgate.dev/budget", "x~1y/z~0", "", "ключ"])
texts = st.sampled_from(["", "1", "v/~"])
maps = st.dictionaries(keys, texts, max_size=4)


def absent_or(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def sparse(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object of which every member may be there, null, or absent."""
    return st.fixed_dictionaries({}, optional={name: absent_or(member) for name, member in members.items()})


requirements = st.sampled_from(
    [H100, NodeSelectorRequirement("zone", "Exists"), NodeSelectorRequirement("z", "Gt", ["1"])]
)
requirement_documents = requirements.map(written)
terms = sparse(
    matchExpressions=st.lists(requirement_documents, max_size=2),
    matchFields=st.lists(requirement_documents, max_size=1),
)
affinities = sparse(nodeAffinity=sparse(**{REQUIRED: sparse(nodeSelectorTerms=st.lists(terms, max_size=3))}))
quantities = st.dictionaries(
    st.sampled_from(["cpu", "nvidia.com/gpu", "a~b/c"]), st.sampled_from(["1", "2"]), max_size=2
)
containers = st.builds(
    lambda rest: {"name": "c", **rest}, sparse(resources=sparse(limits=quantities, requests=quantities))
)
gates = st.lists(st.sampled_from([{"name": "a"}, {"name": "b"}, {"name": "tollgate.dev/budget"}]), max_size=4)
specs = st.builds(
    lambda rest, some: {**rest, "containers": some},
    sparse(
        schedulingGates=gates,
        schedulerName=texts,
        nodeSelector=maps,
        affinity=affinities,
        tolerations=st.lists(st.just({"key": "k", "operator": "Exists"}), max_size=2),
    ),
    st.lists(containers, min_size=1, max_size=3),
)
documents = st.fixed_dictionaries({"metadata": sparse(labels=maps, annotations=maps), "spec": specs})


@st.composite
def documents_and_edits(draw: st.DrawFn) -> tuple[dict[str, Any], Edits]:
    document = draw(documents)
    put_labels, put_annotations = draw(maps), draw(maps)
    present_gates = document["spec"].get("schedulingGates") or []
    container = draw(st.integers(0, len(document["spec"]["containers"]) - 1))
    names = draw(st.lists(st.sampled_from(["nvidia.com/gpu", "a~b/c", "d"]), unique=True, max_size=3))
    edits = Edits(
        set_labels=put_labels,
        remove_labels=tuple(key for key in draw(st.lists(keys, unique=True)) if key not in put_labels),
        set_annotations=put_annotations,
        remove_annotations=tuple(key for key in draw(st.lists(keys, unique=True)) if key not in put_annotations),
        add_gate=draw(absent_or(st.just("tollgate.dev/budget"))),
        remove_gates=tuple(sorted(draw(st.sets(st.sampled_from(range(len(present_gates))))))) if present_gates else (),
        scheduler_name=draw(absent_or(st.just("kai-scheduler"))),
        limits=ContainerLimits(container, tuple((name, draw(st.integers(1, 8))) for name in names)) if names else None,
        set_node_selector=draw(maps),
        require_node_affinity=tuple(draw(st.lists(requirements, max_size=2, unique_by=lambda one: one.key))),
        add_tolerations=tuple(draw(st.lists(st.just(GPU_EXISTS), max_size=1))),
    )
    return document, edits


@given(documents_and_edits())
def test_the_patch_makes_exactly_the_edits(case: tuple[dict[str, Any], Edits]) -> None:
    document, edits = case
    assert applied(document, edits) == expected(document, edits)


@given(documents)
def test_no_edits_give_no_operations(document: dict[str, Any]) -> None:
    assert operations(pod_of(document), Edits()) == []


@given(documents, st.lists(requirements, min_size=1, max_size=2, unique_by=lambda one: one.key))
def test_requiring_the_same_affinity_again_gives_no_operations(
    document: dict[str, Any], wanted: list[NodeSelectorRequirement]
) -> None:
    edits = Edits(require_node_affinity=tuple(wanted))
    once = applied(document, edits)
    assert operations(pod_of(once), edits) == []


BARE: dict[str, Any] = {"metadata": {}, "spec": {"containers": [{"name": "main"}, {"name": "side"}]}}


@pytest.mark.parametrize(
    ("edits", "operation"),
    [
        (
            Edits(set_labels={"tollgate.dev/budget": "b"}),
            {"op": "add", "path": "/metadata/labels", "value": {"tollgate.dev/budget": "b"}},
        ),
        (
            Edits(add_gate="tollgate.dev/budget"),
            {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "tollgate.dev/budget"}]},
        ),
        (
            Edits(limits=ContainerLimits(1, (("nvidia.com/gpu.shared", 1),))),
            {
                "op": "add",
                "path": "/spec/containers/1/resources",
                "value": {"limits": {"nvidia.com/gpu.shared": "1"}, "requests": {"nvidia.com/gpu.shared": "1"}},
            },
        ),
        (
            Edits(add_tolerations=(GPU_EXISTS,)),
            {
                "op": "add",
                "path": "/spec/tolerations",
                "value": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            },
        ),
    ],
)
def test_an_absent_parent_is_created_with_what_goes_into_it(edits: Edits, operation: dict[str, Any]) -> None:
    assert operations(pod_of(BARE), edits) == [operation]


def test_a_slash_and_a_tilde_in_a_key_are_escaped() -> None:
    document = {"metadata": {"annotations": {}}, "spec": {"containers": []}}
    (operation,) = operations(pod_of(document), Edits(set_annotations={"a/b~c": "1"}))
    assert operation["path"] == "/metadata/annotations/a~1b~0c"


def test_gates_are_removed_from_the_end_so_that_indices_stay_true() -> None:
    names = ["a", "tollgate.dev/budget", "b", "tollgate.dev/budget"]
    document = {"metadata": {}, "spec": {"containers": [], "schedulingGates": [{"name": name} for name in names]}}
    paths = [one["path"] for one in operations(pod_of(document), Edits(remove_gates=(1, 3)))]
    assert paths == ["/spec/schedulingGates/3", "/spec/schedulingGates/1"]


def test_a_term_that_matches_no_node_stays_so() -> None:
    node_terms: list[dict[str, Any]] = [{}, {"matchExpressions": []}, {"matchFields": [{"key": "f", "operator": "In"}]}]
    document = {
        "metadata": {},
        "spec": {"containers": [], "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": node_terms}}}},
    }
    result = applied(document, Edits(require_node_affinity=(H100,)))
    after = result["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert after[:2] == node_terms[:2]
    assert after[2]["matchExpressions"] == [written(H100)]


def test_a_pod_without_metadata_gets_it() -> None:
    assert applied({"spec": {"containers": []}}, Edits(set_labels={"a": "b"}))["metadata"] == {"labels": {"a": "b"}}


def test_removing_what_is_not_there_is_no_operation() -> None:
    assert operations(pod_of(BARE), Edits(remove_labels=("a",), remove_annotations=("b",))) == []
