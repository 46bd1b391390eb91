"""Which pods are ours, how their resources count, and which cards they may get."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.sharing_cases import CATALOGUE, Document, document_of, expressed, pod_of, rows, rule_of
from webhook.domain.cards import cards_of
from webhook.domain.gpus import asks_for_gpus, is_gpu_pod
from webhook.domain.mig import choose, parse_profile
from webhook.domain.pod import Pod
from webhook.domain.rules import Gpu

ROWS = rows("sharing-explicit.yaml")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_resources_count_as_kubernetes_and_the_vendors_count(row: Document) -> None:
    expect = row["expect"]
    share = expressed(document_of(row["pod"]), rule_of(row.get("rule")))

    found = [(one.name, one.devices, one.part, one.memory_mib) for one in share.gpus.containers]
    assert found == [(name, devices, Fraction(part), mib) for name, devices, part, mib in expect.get("gpus", [])]
    assert share.gpus.counted == Fraction(expect["counted"])
    assert share.gpus.claims_unknown is expect.get("claimsUnknown", False)
    assert [card.name for card in share.gpus.cards] == expect.get("cards", [])
    assert share.edits.empty
    assert (share.scheme, share.text) == (None, "")
    assert len(share.warnings) == len(expect.get("warnings", []))
    assert all(any(text in warning for warning in share.warnings) for text in expect.get("warnings", []))
    if "problem" in expect:
        reason, field, says = expect["problem"]
        assert [(problem.reason, problem.field) for problem in share.problems] == [(reason, field)]
        assert [text for text in says if text not in share.problems[0].message] == []
    else:
        assert share.problems == ()


def with_resources(resources: Document, place: str = "containers", side: str = "limits") -> Pod:
    spec: Document = {"containers": [{"name": "main"}]}
    spec[place] = [
        {"name": "one", "resources": {side: resources}},
        *(spec["containers"] if place != "containers" else ()),
    ]
    return pod_of({"metadata": {}, "spec": spec})


@pytest.mark.parametrize("place", ["containers", "initContainers"])
@pytest.mark.parametrize("side", ["limits", "requests"])
@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/gpumem",
        "volcano.sh/vgpu-memory",
        "volcano.sh/gpu-memory",
        "aliyun.com/gpu-mem",
        "koordinator.sh/gpu-core",
        "amd.com/gpu",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
    ],
)
def test_every_name_makes_a_gpu_pod_wherever_it_stands(resource: str, place: str, side: str) -> None:
    assert asks_for_gpus(with_resources({resource: "1"}, place, side))
    assert asks_for_gpus(with_resources({resource: 2}, place, side))
    assert not asks_for_gpus(with_resources({resource: "0"}, place, side))
    assert not is_gpu_pod(with_resources({resource: 0}, place, side))


@pytest.mark.parametrize("resource", ["cpu", "nvidia.com/mlnxnics", "rdma/hca", "nvidia.com/gpux", "example.com/slice"])
def test_other_resources_are_no_gpus(resource: str) -> None:
    assert not is_gpu_pod(with_resources({resource: "1"}))


def test_a_name_of_the_policys_rules_is_a_gpu() -> None:
    assert asks_for_gpus(with_resources({"example.com/slice": "1"}), frozenset({"example.com/slice"}))


def test_what_is_no_quantity_is_a_gpu_pod_so_that_it_is_refused_by_name() -> None:
    assert asks_for_gpus(with_resources({"nvidia.com/gpu": "one"}))
    assert asks_for_gpus(with_resources({"nvidia.com/gpu": "-1"}))
    assert asks_for_gpus(with_resources({"nvidia.com/gpu": "0.5"}))


@pytest.mark.parametrize(
    ("metadata", "asks", "ours"),
    [
        ({}, False, False),
        ({"annotations": {"gpu-fraction": "0.5"}}, True, True),
        ({"annotations": {"gpu-memory": ""}}, True, True),
        ({"annotations": {"gpu-fraction-num-devices": "2"}}, False, True),
        ({"annotations": {"gpu-fraction-container-name": "x"}}, False, True),
        ({"annotations": {"tollgate.dev/model": "x"}}, False, True),
        ({"labels": {"tollgate.dev/budget": "x"}}, False, True),
        ({"labels": {"gpu-fraction": "0.5"}, "annotations": {"nvidia.com/gpu.memory": "8000Mi"}}, False, False),
    ],
)
def test_keys_alone_make_a_pod_ours_and_shares_ask(metadata: Document, asks: bool, ours: bool) -> None:
    pod = pod_of(document_of({"metadata": metadata}))
    assert (asks_for_gpus(pod), is_gpu_pod(pod)) == (asks, ours)


def test_a_resource_claim_asks() -> None:
    pod = pod_of(document_of({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}}))
    assert asks_for_gpus(pod)


PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"


def term(*requirements: tuple[str, str, list[str] | None]) -> Document:
    return {"matchExpressions": [{"key": key, "operator": how, "values": some} for key, how, some in requirements]}


def cards(node_selector: Document | None = None, *terms: Document, preferred: bool = False) -> list[str]:
    spec: Document = {"nodeSelector": node_selector}
    if preferred:
        weighted = [{"weight": 1, "preference": one} for one in terms]
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    elif terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        spec["affinity"] = {"nodeAffinity": required}
    return [card.name for card in cards_of(pod_of(document_of({"spec": spec})), None, CATALOGUE).known]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (PRODUCT, "NVIDIA-A100-SXM4-80GB", ["a100-80gb"]),
        (PRODUCT, "A100-SXM4-40GB", ["a100-40gb"]),
        (PRODUCT, "NVIDIA-A100-80GB-PCIe-SHARED", ["a100-80gb"]),
        (PRODUCT, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", ["h100-80gb"]),
        (PRODUCT, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", ["h100-80gb"]),
        (PRODUCT, "Tesla-T4", ["t4"]),
        (PRODUCT, "nvidia-l4", []),
        (PRODUCT, "NVIDIA-GeForce-RTX-4090", []),
        (MEMORY, "81559", ["a100-80gb", "h100-80gb"]),
        (MEMORY, "15109", ["t4"]),
        (MEMORY, "24000", []),
        (MEMORY, "80GB", []),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-t4", ["t4"]),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb", ["h100-80gb"]),
        ("cloud.google.com/gke-accelerator", "nvidia-h200-141gb", ["h200"]),
        ("karpenter.k8s.aws/instance-gpu-name", "a100", ["a100-40gb", "a100-80gb"]),
        ("eks.amazonaws.com/instance-gpu-name", "l40s", ["l40s"]),
        ("k8s.amazonaws.com/accelerator", "nvidia-a10g", ["a10g"]),
        ("kubernetes.azure.com/accelerator", "nvidia", []),
        ("gpu.nvidia.com/class", "A100_PCIE_80GB", ["a100-80gb"]),
        ("gpu.nvidia.com/model", "H200", ["h200"]),
        ("kubernetes.io/arch", "amd64", []),
    ],
)
def test_node_labels_name_cards(key: str, value: str, expected: list[str]) -> None:
    assert cards({key: value}) == expected
    assert cards(None, term((key, "In", [value]))) == expected


T4, L4, A100 = "Tesla-T4", "NVIDIA-L4", "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([term((PRODUCT, "In", [T4, L4]))], ["t4", "l4"]),
        ([term((PRODUCT, "In", [T4])), term((PRODUCT, "In", [A100]))], ["t4", "a100-80gb"]),
        ([term((PRODUCT, "In", [T4, L4]), (MEMORY, "Gt", ["16000"]))], ["l4"]),
        ([term((PRODUCT, "In", [T4, "Tesla-V100"]))], []),
        ([term((PRODUCT, "In", [T4, "Tesla-V100"]), ("gpu.nvidia.com/class", "In", ["L4"]))], []),
        ([term((PRODUCT, "In", ["my-own-name"]), ("gpu.nvidia.com/class", "In", ["L4"]))], ["l4"]),
        ([term((PRODUCT, "In", [T4])), term(("zone", "In", ["a"]))], []),
        ([term((PRODUCT, "NotIn", [T4]))], []),
        ([term((PRODUCT, "Exists", None))], []),
        ([term((MEMORY, "Gt", ["150000"]))], ["b200", "gb200", "b300"]),
        ([term((MEMORY, "Gt", ["20000"]), (MEMORY, "Lt", ["24000"]))], ["l4", "a10g"]),
        ([term((MEMORY, "Gt", ["999999"]))], []),
        ([term((MEMORY, "Gt", ["40Gi"]))], []),
        ([term((MEMORY, "In", ["23034", "15360"]))], ["t4", "l4", "a10g"]),
        ([{}, term((PRODUCT, "In", [T4]))], ["t4"]),
        ([{}], []),
        (
            [term((PRODUCT, "In", [T4]), ("gpu.nvidia.com/class", "In", ["L4"])), term((PRODUCT, "In", [A100]))],
            ["a100-80gb"],
        ),
        ([term((PRODUCT, "In", [T4]), (PRODUCT, "In", [A100]))], []),
    ],
)
def test_terms_are_ored_and_requirements_anded(terms: list[Document], expected: list[str]) -> None:
    assert cards(None, *terms) == expected


def test_selector_and_affinity_hold_together() -> None:
    assert cards({"karpenter.k8s.aws/instance-gpu-name": "a100"}, term((MEMORY, "Gt", ["50000"]))) == ["a100-80gb"]


def test_preferences_say_nothing() -> None:
    assert cards(None, term((PRODUCT, "In", [T4])), preferred=True) == []


def test_a_mig_profile_is_read_with_its_attributes() -> None:
    plain, media = parse_profile("1g.10gb"), parse_profile("1g.10gb.me")
    assert plain is not None
    assert media is not None
    assert (plain.name, plain.slices, plain.gigabytes, plain.attributes) == ("1g.10gb", 1, 10, "")
    assert (media.name, media.attributes) == ("1g.10gb", "+me")
    assert [parse_profile(text) for text in ("", "1g", "10gb", "1g.10gbx", "0g.5gb", "１g.5gb")] == [None] * 6


@settings(deadline=None)
@given(
    asked=st.integers(1, 200_000),
    card=st.sampled_from([card for card in CATALOGUE.values() if card.mig_profiles]),
)
def test_the_chosen_profile_holds_what_is_asked_and_none_with_fewer_slices_does(asked: int, card: Gpu) -> None:
    choice = choose((card,), lambda _: Fraction(asked))
    sizes: dict[str, Any] = {
        name: (parse_profile(name), mib or int(Fraction(88, 100) * 1024 * parsed.gigabytes))
        for name, mib in card.mig_profiles.items()
        if (parsed := parse_profile(name)) is not None
    }
    holding = [(profile.slices, mib) for profile, mib in sizes.values() if mib * 100 >= asked * 98]
    if choice is None:
        assert holding == []
    else:
        assert (choice.profile.slices, choice.memory_mib) == min(holding)
