"""Pods that serve together: who claims for the group."""

import pytest
from msgspec.structs import replace

from tests.domain.sharing_cases import Document, document_of, pod_of
from webhook.domain.decide import mutate, validate
from webhook.domain.outcome import Claim, ClaimSource, Reason, Verdict
from webhook.domain.plan import make_plan
from webhook.domain.pod import Pod
from webhook.domain.view import Owner, Request, Requester, View
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
HOLDING = """
apiVersion: tollgate.dev/v1alpha1
kind: Policy
budgets: [{name: all, selector: {}, tokensPerSecond: 1M, onExceeded: Hold}]
"""
REQUEST = Request("team", "pod", None)
INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


def owned_by(api_version: str, kind: str) -> Document:
    """An owner reference of a controller's."""
    return {"apiVersion": api_version, "kind": kind, "name": "group", "uid": "u", "controller": True}


def member(index: int, scheduler: str, *arguments: str) -> Pod:
    """Half an H100 of a LeaderWorkerSet."""
    owner = owned_by("apps/v1", "StatefulSet")
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


def group_pod(
    index: str | None, claim: str | None, kind: tuple[str, str] = ("apps/v1", "StatefulSet"), gpus: int = 8
) -> Pod:
    """A pod of a LeaderWorkerSet, or one that would like to be taken for it."""
    metadata = {
        "labels": {} if index is None else {INDEX: index},
        "annotations": {} if claim is None else {"tollgate.dev/tokens-per-second": claim},
        "ownerReferences": [owned_by(*kind)],
    }
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return pod_of(document_of({"metadata": metadata, "spec": {"containers": [container]}}))


def chain(leader: Pod) -> View:
    """A worker's owners, nearest first, as LeaderWorkerSet's controller makes them."""
    links = (
        Owner("StatefulSet", "apps", "group-0", "u"),
        Owner("Pod", "", "group-0", "u", leader.labels, leader),
        Owner("StatefulSet", "apps", "group", "u"),
        Owner("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "group", "u"),
    )
    return View(owners=links)


CONTROLLER = "system:serviceaccount:kube-system:statefulset-controller"
WORKER = group_pod("1", None)
LEADER = group_pod("0", "9000")


@pytest.mark.parametrize(
    ("pod", "view", "user", "expected"),
    [
        pytest.param(WORKER, chain(LEADER), CONTROLLER, Claim(0, ClaimSource.DECLARED), id="a worker"),
        pytest.param(WORKER, chain(LEADER), None, Claim(0, ClaimSource.DECLARED), id="a worker, offline"),
        pytest.param(
            group_pod("1", "9000"),
            chain(LEADER),
            CONTROLLER,
            Claim(0, ClaimSource.DECLARED),
            id="one that declares too",
        ),
        pytest.param(
            WORKER, chain(group_pod("0", None)), CONTROLLER, Claim(6400, ClaimSource.DEFAULT), id="a default for each"
        ),
        pytest.param(LEADER, chain(LEADER), CONTROLLER, Claim(9000, ClaimSource.DECLARED), id="the leader itself"),
        pytest.param(WORKER, View(), CONTROLLER, Claim(6400, ClaimSource.DEFAULT), id="no leader known"),
        pytest.param(
            group_pod(None, None),
            chain(LEADER),
            CONTROLLER,
            Claim(6400, ClaimSource.DEFAULT),
            id="no label of a worker",
        ),
        pytest.param(
            WORKER, chain(group_pod("2", "9000")), CONTROLLER, Claim(6400, ClaimSource.DEFAULT), id="led by a worker"
        ),
        pytest.param(
            WORKER, chain(group_pod(None, "1")), CONTROLLER, Claim(6400, ClaimSource.DEFAULT), id="led by any pod"
        ),
        pytest.param(WORKER, chain(LEADER), "alice", Claim(6400, ClaimSource.DEFAULT), id="forged"),
        pytest.param(
            group_pod("1", None, ("v1", "ReplicationController")),
            chain(LEADER),
            "alice",
            Claim(6400, ClaimSource.DEFAULT),
            id="with an owner that is ignored",
        ),
        pytest.param(
            group_pod("1", None, ("v1", "Pod")),
            View(owners=chain(LEADER).owners[1:]),
            "system:serviceaccount:team:default",
            Claim(6400, ClaimSource.DEFAULT),
            id="a pod that names a leader as its owner",
        ),
    ],
)
def test_only_workers_that_their_leaders_controller_made_claim_nothing(
    pod: Pod, view: View, user: str | None, expected: Claim
) -> None:
    request = Request("team", "pod", None if user is None else Requester(user))
    assert make_plan(pod, request, POLICY, view).claim == expected


def test_a_worker_is_labelled_and_neither_gated_nor_charged() -> None:
    request, view = Request("team", "pod", Requester(CONTROLLER)), chain(LEADER)
    policy = load(HOLDING).policy
    first = mutate(WORKER, request, policy, view)

    assert first.edits.set_labels == {"tollgate.dev/budget": "all"}
    assert first.edits.set_annotations == {"tollgate.dev/claim": "0"}
    assert first.edits.add_gate is None
    assert first.reason is Reason.CLAIMED_BY_LEADER
    written = {"labels": {**WORKER.labels, **first.edits.set_labels}, "annotations": dict(first.edits.set_annotations)}
    second = validate(replace(WORKER, metadata=replace(WORKER.metadata, **written)), request, policy, view)
    assert (second.verdict, second.reason, second.charge) == (Verdict.ADMIT, Reason.CLAIMED_BY_LEADER, None)
