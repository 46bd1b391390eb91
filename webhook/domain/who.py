"""Who made a pod: read from the request's user, never from what the pod says (DESIGN section 2).

An owner reference counts only when the request comes from that controller's account. Offline nobody asks, and the pod
is believed.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from webhook.domain import keys
from webhook.domain.pod import OwnerReference, Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Request, Requester

EXEMPT_NAMESPACES: Final = frozenset(
    {
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "kueue-system",
        "kai-scheduler",
        "kai-resource-reservation",
        "kai-scale-adjust",
        "gpu-operator",
        "tollgate-system",
    }
)
"""Administrators decide who may create pods here; KAI's reservation pods would be charged twice."""

KUBE_CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
"""The user of all built-in controllers where they run without accounts of their own."""


def _kube_system(controller: str) -> frozenset[str]:
    return frozenset({f"{keys.SERVICE_ACCOUNT_PREFIX}kube-system:{controller}", KUBE_CONTROLLER_MANAGER})


# kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go names the accounts.
BUILT_IN_ACCOUNTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "ReplicaSet.apps": _kube_system("replicaset-controller"),
        "Deployment.apps": _kube_system("deployment-controller"),
        "StatefulSet.apps": _kube_system("statefulset-controller"),
        "DaemonSet.apps": _kube_system("daemon-set-controller"),
        "ReplicationController": _kube_system("replication-controller"),
        "Job.batch": _kube_system("job-controller"),
        "CronJob.batch": _kube_system("cronjob-controller"),
    }
)


class KueuePods(Enum):
    """What a queue rule does with the pods of an owner kind (facts on Kueue's pod integration, table 1.7)."""

    LABEL = "label the pod"
    LEAVE = "Kueue queues the owner, or its outermost parent"
    NEVER = "a label on the pod would break the group or can never be honoured"


# Every kind that Kueue has an integration for, plus ReplicaSet, through which it walks to the Deployment.
# Integrations that are off in Kueue's own manifests leave their pods to plain-pod queueing.
KUEUE_KINDS: Final[Mapping[str, KueuePods]] = MappingProxyType(
    {
        "Pod": KueuePods.LEAVE,
        "Job.batch": KueuePods.LEAVE,
        "JobSet.jobset.x-k8s.io": KueuePods.LEAVE,
        "RayCluster.ray.io": KueuePods.LEAVE,
        "RayJob.ray.io": KueuePods.LEAVE,
        "RayService.ray.io": KueuePods.LEAVE,
        "MPIJob.kubeflow.org": KueuePods.LEAVE,
        "TrainJob.trainer.kubeflow.org": KueuePods.LEAVE,
        "AppWrapper.workload.codeflare.dev": KueuePods.LEAVE,
        "ReplicaSet.apps": KueuePods.LABEL,
        "Deployment.apps": KueuePods.LABEL,
        "StatefulSet.apps": KueuePods.NEVER,
        "LeaderWorkerSet.leaderworkerset.x-k8s.io": KueuePods.NEVER,
        "PyTorchJob.kubeflow.org": KueuePods.LABEL,
        "TFJob.kubeflow.org": KueuePods.LABEL,
        "JAXJob.kubeflow.org": KueuePods.LABEL,
        "XGBoostJob.kubeflow.org": KueuePods.LABEL,
        "PaddleJob.kubeflow.org": KueuePods.LABEL,
        "SparkApplication.sparkoperator.k8s.io": KueuePods.LABEL,
    }
)

DAEMON_SET: Final = "DaemonSet.apps"
STATEFUL_SET: Final = "StatefulSet.apps"
POD: Final = "Pod"
NODE: Final = "Node"


class Ownership(Struct, frozen=True, gc=False):
    """What an owner reference is worth."""

    owner: OwnerReference | None = None
    """The controller, where it is believed."""
    forged: OwnerReference | None = None
    """A controller of a kind that Kueue manages, written by somebody who is not that controller."""
    warning: str | None = None


_UNOWNED: Final = Ownership()


def is_exempt(namespace: str, policy: Policy) -> bool:
    """Whether everything in this namespace is let alone."""
    return namespace in EXEMPT_NAMESPACES or namespace in policy.exempt_namespaces


def is_mirror(pod: Pod) -> bool:
    """Whether the pod says it is kubelet's copy of a static pod."""
    return pod.metadata.annotations is not None and keys.MIRROR in pod.metadata.annotations


def is_kubelet(requester: Requester | None) -> bool:
    """Whether a node asks; offline the pod is believed."""
    return requester is None or keys.NODES_GROUP in requester.groups


def _accounts(kind_and_group: str, policy: Policy) -> frozenset[str]:
    built_in = BUILT_IN_ACCOUNTS.get(kind_and_group, frozenset())
    return built_in | policy.controller_accounts.get(kind_and_group, frozenset())


def _owns_by_nature(kind_and_group: str, namespace: str, requester: Requester) -> bool:
    """Kinds without one account: pods own pods through any account of their namespace, nodes through kubelet."""
    if kind_and_group == POD:
        return requester.username.startswith(f"{keys.SERVICE_ACCOUNT_PREFIX}{namespace}:")
    return kind_and_group == NODE and is_kubelet(requester)


def ownership(pod: Pod, request: Request, policy: Policy) -> Ownership:
    """Which owner counts for this pod, given who asks."""
    reference = pod.controller
    if reference is None:
        return _UNOWNED
    requester = request.requester
    if requester is None:
        return Ownership(owner=reference)
    kind = reference.kind_and_group
    accounts = _accounts(kind, policy)
    if requester.username in accounts or _owns_by_nature(kind, request.namespace, requester):
        return Ownership(owner=reference)
    if accounts or kind in (POD, NODE):
        return Ownership(forged=reference) if kind in KUEUE_KINDS else _UNOWNED
    return Ownership(
        owner=reference,
        warning=f"owner {kind} {reference.name} is believed: no account is known for it; name one in "
        f"controllerAccounts[{kind}]",
    )


def is_owner_controller(requester: Requester, policy: Policy) -> bool:
    """Whether the account is one that makes pods for some owner kind: it may copy Kueue's keys from a template."""
    if any(requester.username in accounts for accounts in BUILT_IN_ACCOUNTS.values()):
        return True
    return is_added_controller(requester, policy)


def is_added_controller(requester: Requester, policy: Policy) -> bool:
    """Whether the policy's controllerAccounts name the account."""
    return any(requester.username in accounts for accounts in policy.controller_accounts.values())


def forbidden_keys(pod: Pod, request: Request, policy: Policy) -> tuple[str, ...]:
    """Field paths of the keys that Kueue sets itself and this requester must not write; empty where all is well.

    Only before Kueue's webhook can they be told apart from Kueue's own, so only the first entry of our mutating
    configuration (and the offline review) asks; that entry does not reach exempt namespaces.
    """
    if is_exempt(request.namespace, policy):
        return ()
    found = tuple(
        f"metadata.{place}[{key}]"
        for key in keys.KUEUE_OWN_KEYS
        for place, present in (("labels", pod.labels), ("annotations", pod.annotations))
        if key in present
    )
    if not found:
        return ()
    if request.requester is None:
        return found if pod.controller is None else ()
    return () if is_owner_controller(request.requester, policy) else found
