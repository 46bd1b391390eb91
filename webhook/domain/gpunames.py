"""The resource names and node labels that mean GPUs, each written once, and who counts them how.

Only these names are GPUs: `nvidia.com/mlnxnics` is none. A new vendor is one row.
"""

from enum import Enum
from typing import Final

from msgspec import Struct

NVIDIA_GPU: Final = "nvidia.com/gpu"
SHARED_GPU: Final = "nvidia.com/gpu.shared"
"""k8s-device-plugin with `renameByDefault`: the resource's name and `.shared`."""
SHARED_SUFFIX: Final = ".shared"
MIG_PREFIX: Final = "nvidia.com/mig-"
"""MIG strategy mixed: `nvidia.com/mig-3g.40gb` (k8s-device-plugin internal/rm, `+me` is written `.me`)."""
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""DRA under a class's implicit name; validation counts it as native, so only admission sees fractions of it."""
DRA_MIG: Final = DEVICE_CLASS_PREFIX + "mig.nvidia.com"
"""A MIG device of any profile (DeviceClasses of the NVIDIA DRA driver)."""
AWS_VGPU: Final = "k8s.amazonaws.com/vgpu"

WHOLE_DEVICES: Final = frozenset(
    {
        NVIDIA_GPU,
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "microsoft.com/directx",
        DEVICE_CLASS_PREFIX + "gpu.nvidia.com",
        DEVICE_CLASS_PREFIX + "vfio.gpu.nvidia.com",
        DRA_MIG,
    }
)
"""One unit is one device."""

OTHER_VENDORS: Final = frozenset({"amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"})
"""Devices that no card of the catalogue is."""

SLICES: Final = frozenset({SHARED_GPU, AWS_VGPU})
"""One unit is one part of a device; how large a part the name does not say."""

KOORDINATOR_GPU: Final = "koordinator.sh/gpu"
"""Percent of a device: 50 is half of one, 200 two whole ones."""


class MemoryUnit(Enum):
    """What one unit of a memory resource is, in bytes."""

    BYTES = 1
    MIB = 1 << 20
    GIB = 1 << 30


class Sharer(Struct, frozen=True, gc=False):
    """How one scheduler names a share: a count of devices, and memory or percent of memory or cores of each."""

    count: str
    memory: str
    unit: MemoryUnit
    percentage: str | None = None
    cores: str | None = None
    totals: bool = False
    """Amounts are for all devices together, not for each."""

    @property
    def names(self) -> frozenset[str]:
        """All its names but the count."""
        return frozenset(name for name in (self.memory, self.percentage, self.cores) if name is not None)


HAMI: Final = Sharer(
    NVIDIA_GPU, "nvidia.com/gpumem", MemoryUnit.MIB, "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
)
VOLCANO: Final = Sharer(
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    MemoryUnit.MIB,
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
)
VOLCANO_OLD: Final = Sharer("volcano.sh/gpu-number", "volcano.sh/gpu-memory", MemoryUnit.MIB)
ALIYUN: Final = Sharer("aliyun.com/gpu-count", "aliyun.com/gpu-mem", MemoryUnit.GIB)
KOORDINATOR: Final = Sharer(
    "koordinator.sh/gpu.shared",
    "koordinator.sh/gpu-memory",
    MemoryUnit.BYTES,
    "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu-core",
    totals=True,
)
SHARERS: Final = (HAMI, VOLCANO, VOLCANO_OLD, ALIYUN, KOORDINATOR)

SHARER_OF_AMOUNT: Final = {name: sharer for sharer in SHARERS for name in sharer.names}
"""By the names that say how large a share is."""

COUNTED: Final = WHOLE_DEVICES | SLICES | {KOORDINATOR_GPU} | {sharer.count for sharer in SHARERS}
"""Names whose units are devices or parts of devices."""

NAMES: Final = COUNTED.union(SHARER_OF_AMOUNT)
"""Every name that asks for a GPU; MIG profiles beside these by MIG_PREFIX."""


def is_gpu_name(name: str, extra: frozenset[str] = frozenset()) -> bool:
    """Whether a resource is a GPU, or a part or amount of one; `extra` are names that the policy's rules give."""
    return name in NAMES or name.startswith(MIG_PREFIX) or name in extra


# Node labels. gpu-feature-discovery (k8s-device-plugin internal/lm).
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
"""MiB, as the driver reports it."""
REPLICAS_LABEL: Final = "nvidia.com/gpu.replicas"
SHARING_STRATEGY_LABEL: Final = "nvidia.com/gpu.sharing-strategy"
TIME_SLICING: Final = "time-slicing"
MPS: Final = "mps"
PRODUCT_SHARED_SUFFIX: Final = "-SHARED"
"""On the product where devices are shared under their own name."""
PRODUCT_MIG_INFIX: Final = "-MIG-"
"""Between product and profile under MIG strategy single."""

# GKE.
GKE_ACCELERATOR_LABEL: Final = "cloud.google.com/gke-accelerator"
GKE_STRATEGY_LABEL: Final = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_CLIENTS_LABEL: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_PARTITION_LABEL: Final = "cloud.google.com/gke-gpu-partition-size"
