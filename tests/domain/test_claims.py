"""The claim of a pod, case by case (tests/cases/claims.yaml), and what holds for every pod."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.domain import keys
from webhook.domain.claims import ClaimOutcome, derive
from webhook.domain.gpus import ContainerGpus, PodGpus
from webhook.domain.outcome import ClaimSource
from webhook.domain.pod import Container, Metadata, Pod, Spec
from webhook.domain.rules import Budget, Policy
from webhook.policy.load import load

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "claims.yaml").read_text())["cases"]
SERVER = {
    "name": "main",
    "image": "vllm/vllm-openai:v0.9.0",
    "args": ["--model", "meta-llama/Llama-3.1-8B-Instruct"],
}


def policy_of(budget: dict[str, Any], models: list[dict[str, Any]]) -> tuple[Policy, Budget]:
    stated = {"name": "b", "selector": {"namespaces": ["n"]}, "tokensPerSecond": 100_000, **budget}
    head = {"apiVersion": "tollgate.dev/v1alpha1", "kind": "Policy"}
    policy = load(yaml.safe_dump({**head, "budgets": [stated], "models": models})).policy
    return policy, policy.budgets.rules[0]


def gpus_of(stated: dict[str, Any], names: list[str], policy: Policy) -> PodGpus:
    devices, part = stated.get("devices", 1), Fraction(stated.get("part", 1))
    return PodGpus(
        cards=tuple(policy.gpus[name] for name in stated.get("cards", ["h100-80gb"])),
        containers=tuple(ContainerGpus(name, devices, part, stated.get("memoryMiB")) for name in names if devices),
        counted=devices * part * len(names),
        claims_unknown=stated.get("claimsUnknown", False),
    )


def outcome_of(case: dict[str, Any]) -> ClaimOutcome:
    policy, budget = policy_of(case.get("budget", {}), case.get("models", []))
    stated = case.get("containers") or [{**SERVER, **case.get("container", {})}]
    containers = msgspec.convert(stated, list[Container])
    pod = Pod(
        metadata=Metadata(annotations=case.get("annotations"), labels=case.get("labels")),
        spec=Spec(containers=containers),
    )
    return derive(pod, gpus_of(case.get("gpus", {}), [one.name for one in containers], policy), budget, policy)


def missing(parts: list[str], text: str) -> list[str]:
    return [part for part in parts if part not in text]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_claim_of_a_pod(case: dict[str, Any]) -> None:
    outcome = outcome_of(case)

    problems = " ".join(problem.message for problem in outcome.problems)
    if "problem" in case:
        expected = case["problem"]
        assert [problem.reason for problem in outcome.problems] == [expected["reason"]]
        assert expected.get("field", outcome.problems[0].field) == outcome.problems[0].field
        assert missing(expected["says"], problems) == []
    else:
        assert problems == ""
    if "claim" in case:
        claim = outcome.claim
        assert case["claim"] == (None if claim is None else [claim.tokens_per_second, claim.source])
    if "source" in case:
        assert outcome.claim is not None
        assert outcome.claim.source == case["source"]
    assert missing(case.get("unknown", []), outcome.unknown or "") == []
    assert (outcome.unknown is None) is ("unknown" not in case)
    assert missing(case.get("warns", []), " ".join(outcome.warnings)) == []
    if case.get("quiet"):
        assert outcome.warnings == ()
    for line in (*(problem.message for problem in outcome.problems), *outcome.warnings, outcome.unknown or ""):
        assert "\n" not in line


def test_equal_pods_are_computed_once_and_other_policies_anew() -> None:
    policy, budget = policy_of({}, [])
    other, other_budget = policy_of({"utilization": 1}, [])
    pods = [
        Pod(metadata=Metadata(name=name), spec=Spec(containers=[msgspec.convert(SERVER, Container)])) for name in "ab"
    ]
    gpus = [gpus_of({}, ["main"], policy) for _ in pods]

    assert derive(pods[0], gpus[0], budget, policy) is derive(pods[1], gpus[1], budget, policy)
    assert derive(pods[0], gpus[0], budget, policy) != derive(pods[0], gpus[0], other_budget, other)


def test_a_sidecar_serves_like_a_container_and_an_init_container_does_not() -> None:
    policy, budget = policy_of({}, [])
    gpus = gpus_of({}, ["main"], policy)
    server = msgspec.convert(SERVER, Container)
    sidecar = msgspec.structs.replace(server, restart_policy="Always")

    assert derive(Pod(spec=Spec(init_containers=[sidecar])), gpus, budget, policy).claim is not None
    assert derive(Pod(spec=Spec(init_containers=[server])), gpus, budget, policy).claim is None


WORDS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        (
            *(
                "vllm",
                "serve",
                "sh",
                "-c",
                "--model",
                "meta-llama/Llama-3.1-8B-Instruct",
                "--max-model-len",
                "-tp",
                "-dp",
            ),
            *(
                "1",
                "0",
                "-1",
                "4",
                "1e9",
                "99999999",
                "0.01",
                "--gpu-memory-utilization",
                "--quantization",
                "fp8",
                "gguf",
            ),
            *("--kv-cache-dtype", "nf4", "-pp", "--nnodes", "openai/gpt-oss-120b", "--data-parallel-size-local"),
        )
    ),
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(keys.TENANT_ANNOTATIONS),
    st.one_of(st.text(max_size=20), st.sampled_from(["1", "10k", "1/1", "9999999/1", "fp8", "llama-3.1-70b", "auto"])),
)


@given(
    image=st.sampled_from(
        ["vllm/vllm-openai", "x/nim/meta/llama-3.1-8b-instruct", "text-generation-inference", "acme"]
    ),
    command=st.one_of(st.none(), st.lists(WORDS, max_size=3)),
    args=st.lists(WORDS, max_size=10),
    annotations=ANNOTATIONS,
    gpus=st.fixed_dictionaries(
        {
            "cards": st.lists(st.sampled_from(["t4", "l40s", "h100-80gb", "b200"]), max_size=2, unique=True),
            "devices": st.integers(0, 8),
            "part": st.sampled_from(["1", "1/7", "1/100"]),
            "memoryMiB": st.one_of(st.none(), st.integers(0, 200_000)),
            "claimsUnknown": st.booleans(),
        }
    ),
    budget=st.fixed_dictionaries(
        {"unknownClaim": st.sampled_from(["Deny", "Admit", {"tokensPerSecondPerGPU": 3}])},
        optional={"mix": st.fixed_dictionaries({"input": st.integers(1, 10**6), "output": st.integers(1, 10**6)})},
    ),
)
def test_any_pod_has_a_whole_claim_of_at_least_one_or_a_reason_why_not(
    image: str,
    command: list[str] | None,
    args: list[str],
    annotations: dict[str, str],
    gpus: dict[str, Any],
    budget: dict[str, Any],
) -> None:
    policy, found = policy_of(budget, [])
    container = Container(name="main", image=image, command=command, args=args)
    pod = Pod(metadata=Metadata(annotations=annotations), spec=Spec(containers=[container]))

    outcome = derive(pod, gpus_of(gpus, ["main"], policy), found, policy)

    if outcome.claim is not None:
        assert isinstance(outcome.claim.tokens_per_second, int)
        assert outcome.claim.tokens_per_second >= 1
        assert outcome.unknown is None
    else:
        assert outcome.problems or outcome.unknown or outcome.warnings


@given(declared=st.integers(1, 8284))
def test_a_declared_claim_is_charged_as_stated_or_at_half_of_what_is_derived(declared: int) -> None:
    outcome = outcome_of({"annotations": {keys.TOKENS_PER_SECOND: str(declared)}})

    assert outcome.problems == ()
    assert outcome.claim is not None
    assert outcome.claim.tokens_per_second == max(declared, 1624)
    assert outcome.claim.source is ClaimSource.DECLARED


@given(replicas=st.integers(1, 8))
def test_replicas_claim_in_proportion_and_round_up_once(replicas: int) -> None:
    claims = [
        outcome_of({"container": {"args": [*SERVER["args"], "-dp", str(count)]}, "gpus": {"devices": count}}).claim
        for count in (1, replicas)
    ]
    alone, together = (claim.tokens_per_second for claim in claims if claim is not None)

    assert replicas * (alone - 1) < together <= replicas * alone
