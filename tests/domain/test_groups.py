"""Pods that serve together: who claims for the group."""

import pytest

from tests.domain.sharing_cases import document_of, pod_of
from webhook.domain.outcome import Claim
from webhook.domain.plan import make_plan
from webhook.domain.pod import Pod
from webhook.domain.view import Owner, Request, View
from webhook.policy.load import load

POLICY = load(
    """
apiVersion: tollgate.dev/v1alpha1
kind: Policy
budgets:
- {name: all, selector: {}, tokensPerSecond: 1M, unknownClaim: {tokensPerSecondPerGPU: 800}}
queues:
- {selector: {namespaces: [elsewhere]}, kai: {queue: team-a, schedulerName: runai-scheduler}}
"""
).policy
REQUEST = Request("team", "pod", None)
INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


def member(index: int, scheduler: str, *arguments: str) -> Pod:
    """Half an H100 of a LeaderWorkerSet."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "group", "uid": "u", "controller": True}
    metadata = {"labels": {INDEX: str(index)}, "annotations": {"gpu-fraction": "0.5"}, "ownerReferences": [owner]}
    container = {"name": "main", "image": "vllm/vllm-openai:v0.10.0", "args": [*arguments]}
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    spec = {"schedulerName": scheduler, "nodeSelector": selector, "containers": [container]}
    return pod_of(document_of({"metadata": metadata, "spec": spec}))


@pytest.mark.parametrize("scheduler", ["kai-scheduler", "runai-scheduler"])
def test_workers_claim_nothing_where_their_leader_has_a_share_of_kai_under_any_of_its_names(scheduler: str) -> None:
    leader = member(0, scheduler, "--model", "meta-llama/Llama-3.1-8B-Instruct")
    view = View(owners=(Owner("Pod", "", "leader", "u", pod=leader),))

    led = make_plan(member(1, scheduler), REQUEST, POLICY, view).claim
    leading = make_plan(leader, REQUEST, POLICY, View()).claim

    assert leading is not None
    assert led == Claim(0, leading.source)
