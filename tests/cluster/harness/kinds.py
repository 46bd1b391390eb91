"""Kinds of objects by their names, so that a test can write `api.get(POD, "chat-0", "team-a")`."""

from typing import NamedTuple


class Kind(NamedTuple):
    """apiVersion and kind."""

    api_version: str
    kind: str


POD = Kind("v1", "Pod")
NODE = Kind("v1", "Node")
NAMESPACE = Kind("v1", "Namespace")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount")
CONFIG_MAP = Kind("v1", "ConfigMap")
SECRET = Kind("v1", "Secret")
EVENT = Kind("v1", "Event")
RESOURCE_QUOTA = Kind("v1", "ResourceQuota")
DEPLOYMENT = Kind("apps/v1", "Deployment")
REPLICA_SET = Kind("apps/v1", "ReplicaSet")
STATEFUL_SET = Kind("apps/v1", "StatefulSet")
DAEMON_SET = Kind("apps/v1", "DaemonSet")
JOB = Kind("batch/v1", "Job")
PRIORITY_CLASS = Kind("scheduling.k8s.io/v1", "PriorityClass")
ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding")
CLUSTER_ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
CUSTOM_RESOURCE_DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
MUTATING_WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
VALIDATING_WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
VALIDATING_POLICY = Kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
WORKLOAD = Kind("kueue.x-k8s.io/v1beta2", "Workload")
CLUSTER_QUEUE = Kind("kueue.x-k8s.io/v1beta2", "ClusterQueue")
LOCAL_QUEUE = Kind("kueue.x-k8s.io/v1beta2", "LocalQueue")
RESOURCE_FLAVOR = Kind("kueue.x-k8s.io/v1beta2", "ResourceFlavor")
WORKLOAD_PRIORITY_CLASS = Kind("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass")
NODE_POOL = Kind("karpenter.sh/v1", "NodePool")
NODE_CLAIM = Kind("karpenter.sh/v1", "NodeClaim")
KWOK_NODE_CLASS = Kind("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass")


def kind_of(document: "dict[str, object]") -> Kind:
    """Of an object as it is written."""
    return Kind(str(document["apiVersion"]), str(document["kind"]))
