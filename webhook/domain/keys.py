"""Every label, annotation, gate and group name that Tollgate reads or writes, each written once."""

from typing import Final

PREFIX: Final = "tollgate.dev/"

# Written by tenants (or by their templates).
TOKENS_PER_SECOND: Final = PREFIX + "tokens-per-second"
MODEL: Final = PREFIX + "model"
MODEL_DTYPE: Final = PREFIX + "model-dtype"
TRAFFIC_MIX: Final = PREFIX + "traffic-mix"
DEADLINE: Final = PREFIX + "deadline"
TENANT_ANNOTATIONS: Final = (TOKENS_PER_SECOND, MODEL, MODEL_DTYPE, TRAFFIC_MIX, DEADLINE)

# Written by us alone; a tenant's copy means nothing and is overwritten.
BUDGET_LABEL: Final = PREFIX + "budget"
CLAIM_ANNOTATION: Final = PREFIX + "claim"
SHARE_ANNOTATION: Final = PREFIX + "share"
GATE: Final = PREFIX + "budget"

# KAI scheduler, pkg/common/constants/constants.go.
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
GPU_FRACTION_NUM_DEVICES: Final = "gpu-fraction-num-devices"
GPU_FRACTION_CONTAINER_NAME: Final = "gpu-fraction-container-name"
KAI_SHARE_ANNOTATIONS: Final = (GPU_FRACTION, GPU_MEMORY, GPU_FRACTION_NUM_DEVICES, GPU_FRACTION_CONTAINER_NAME)
KAI_QUEUE: Final = "kai.scheduler/queue"
KAI_SCHEDULER: Final = "kai-scheduler"
DEFAULT_SCHEDULER: Final = "default-scheduler"

# Kueue, pkg/controller/constants and pkg/controller/jobs/pod/constants.
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
KUEUE_PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
KUEUE_MANAGED: Final = "kueue.x-k8s.io/managed"
KUEUE_GATE: Final = "kueue.x-k8s.io/admission"
KUEUE_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
KUEUE_ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
KUEUE_FAST_ADMISSION: Final = "kueue.x-k8s.io/pod-group-fast-admission"
KUEUE_SUSPENDING_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"
# Keys that Kueue sets itself; from a tenant they bypass its quota (facts of Kueue's pod integration, getRoleHash and
# ConstructComposableWorkload). The first is a label, the others are annotations; either place is refused.
KUEUE_OWN_KEYS: Final = (KUEUE_MANAGED, KUEUE_ROLE_HASH, KUEUE_FAST_ADMISSION, KUEUE_SUSPENDING_PARENT)

# Kubernetes itself.
MIRROR: Final = "kubernetes.io/config.mirror"
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
NODES_GROUP: Final = "system:nodes"
SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
