"""Pods that serve together: the workers of a LeaderWorkerSet are claimed for by their leader (DESIGN section 7)."""

from webhook.domain.claims import ClaimOutcome, derive
from webhook.domain.outcome import Claim, ClaimSource
from webhook.domain.pod import Pod
from webhook.domain.rules import Budget, Policy, SharingRule, UnmatchedShare
from webhook.domain.sharing import express
from webhook.domain.view import View
from webhook.domain.who import STATEFUL_SET

WORKER_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
"""Set on every pod of a LeaderWorkerSet; the leader's is 0 (lws api/leaderworkerset/v1)."""


def led_claim(pod: Pod, view: View, rule: SharingRule | None, budget: Budget, policy: Policy) -> ClaimOutcome | None:
    """A claim of 0 for a worker whose leader claims for the group; None where the pod claims for itself.

    A label alone means nothing: the leader must stand in the chain of owners, above the StatefulSet that makes its
    workers (a pod that only names a leader as its owner is none). With a default claim (so much for each GPU) every pod
    counts its own GPUs.
    """
    if pod.labels.get(WORKER_INDEX_LABEL, "0") == "0":
        return None
    controller = pod.controller
    if controller is None or controller.kind_and_group != STATEFUL_SET:
        return None
    leader = next((link.pod for link in view.owners if link.pod is not None), None)
    if leader is None or leader.labels.get(WORKER_INDEX_LABEL) != "0":
        return None
    share = express(
        leader,
        rule,
        kai_queue=False,
        unmatched=UnmatchedShare.WARN,
        catalogue=policy.gpus,
        extra_resources=policy.extra_gpu_resources,
        kai_schedulers=policy.kai_schedulers,
    )
    claim = derive(leader, share.gpus, budget, policy).claim
    if claim is None or claim.source is ClaimSource.DEFAULT:
        return None
    return ClaimOutcome(claim=Claim(tokens_per_second=0, source=claim.source))
