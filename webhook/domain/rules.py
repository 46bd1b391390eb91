"""The policy as values: what the ConfigMap says once `webhook.policy` has read it. Valid by construction, immutable.

Units are in the names: tokens per second, MiB, seconds. Amounts are integers, ratios are Fractions, never floats.
"""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import force_setattr

from webhook.domain.keys import KAI_SCHEDULER
from webhook.domain.pod import Toleration
from webhook.domain.selectors import FirstMatch, Selector


class Mode(StrEnum):
    """How far a decision goes: refuse, say, or only record."""

    ENFORCE = "Enforce"
    WARN = "Warn"
    AUDIT = "Audit"


class OnExceeded(StrEnum):
    """What happens to a pod for which a budget has no room."""

    HOLD = "Hold"
    DENY = "Deny"


class Queueing(StrEnum):
    """Whether held pods that fit may pass a head that does not (Kueue's words)."""

    BEST_EFFORT_FIFO = "BestEffortFIFO"
    STRICT_FIFO = "StrictFIFO"


class OnOther(StrEnum):
    """What a queue rule does with another queue label that the tenant wrote."""

    KEEP = "Keep"
    REPLACE = "Replace"
    DENY = "Deny"


class Scheme(StrEnum):
    """How a share of a GPU becomes something that schedulers and autoscalers see."""

    KAI = "KAI"
    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"
    MIG = "MIG"
    HAMI = "HAMi"
    VOLCANO = "Volcano"
    ALIYUN = "Aliyun"
    GKE = "GKE"
    WHOLE_GPU = "WholeGPU"


class MigStrategy(StrEnum):
    """The device plugin's MIG strategy on the nodes."""

    MIXED = "mixed"
    SINGLE = "single"


class GkeStrategy(StrEnum):
    """GKE's cloud.google.com/gke-gpu-sharing-strategy."""

    TIME_SHARING = "time-sharing"
    MPS = "mps"


class UnmatchedShare(StrEnum):
    """A share that no rule covers and no KAI scheduler will honour."""

    DENY = "Deny"
    WARN = "Warn"


class UnmatchedGPUs(StrEnum):
    """A GPU pod that no budget takes."""

    ADMIT = "Admit"
    WARN = "Warn"
    DENY = "Deny"


class UnknownClaimAction(StrEnum):
    """A metered pod whose tokens per second nobody can tell."""

    DENY = "Deny"
    ADMIT = "Admit"
    PER_GPU = "PerGPU"


class UnknownClaim(Struct, frozen=True, gc=False):
    """`unknownClaim`: Deny, Admit (charges nothing), or so many tokens/s for each GPU."""

    action: UnknownClaimAction = UnknownClaimAction.DENY
    tokens_per_second_per_gpu: int | None = None


class Mix(Struct, frozen=True, gc=False):
    """Tokens per request at which a throughput is stated."""

    input: int = 1000
    output: int = 1000


class Gpu(Struct, frozen=True, gc=False):
    """One card of the catalogue. Throughput figures are dense, without sparsity; None where no source gives one."""

    name: str
    products: tuple[str, ...]
    memory_mib: int
    mig_profiles: Mapping[str, int | None] = {}
    """MIG profile name -> MiB that the driver reports; None where no table gives it (0.88 GiB per GB of its name)."""
    bandwidth_gbs: Fraction | None = None
    fp16_tflops: Fraction | None = None
    fp8_tflops: Fraction | None = None
    nvlink: bool = True
    """False: tensor parallelism runs over PCIe and stops paying beyond four cards (roofline rule)."""
    node_labels: Mapping[str, tuple[str, ...]] = {}
    """Values of cloud providers' node labels that mean this card, by label key."""
    source: str = ""


class Profile(Struct, frozen=True, gc=False):
    """Measured throughput of one model on one set of GPUs; `domain.models` gives the formula."""

    gpu: str
    devices: int
    dtype: str
    prefill_tokens_per_second: Fraction
    decode_tokens_per_second: Fraction
    context_seconds_per_token2: Fraction
    source: str = ""
    built_in: bool = False
    """Built-in figures are those of one engine and are multiplied by the pod's engine factor."""


class Model(Struct, frozen=True, gc=False):
    """One model of the catalogue. What is None is not derived from."""

    name: str
    aliases: tuple[str, ...] = ()
    parameters: int | None = None
    active_parameters: int | None = None
    native_dtype: str | None = None
    kv_bytes_per_token: Fraction | None = None
    """At a 2-byte KV dtype, for all layers."""
    kv_heads: int | None = None
    context_length: int | None = None
    weight_bytes: Mapping[str, int] = {}
    """Bytes of the weights at a dtype where a source states them; otherwise parameters times the dtype's width."""
    profiles: tuple[Profile, ...] = ()
    source: str = ""


class Budget(Struct, frozen=True, gc=False):
    """How many tokens/s of claims the pods of a selector may hold. Words and arithmetic are Kueue's."""

    name: str
    selector: Selector
    tokens_per_second: int
    mix: Mix = Mix()
    utilization: Fraction = Fraction(7, 10)
    cohort: str | None = None
    borrowing_limit: int | None = None
    """None: unlimited in a cohort, nothing without one."""
    lending_limit: int | None = None
    """None: all of the nominal."""
    weight: Fraction = Fraction(1)
    mode: Mode | None = None
    on_exceeded: OnExceeded = OnExceeded.DENY
    queueing: Queueing = Queueing.BEST_EFFORT_FIFO
    max_bypass_seconds: Fraction = Fraction(600)
    replacement_grace_seconds: Fraction = Fraction(60)
    unknown_claim: UnknownClaim = UnknownClaim()
    guaranteed: int = 0
    """Follows: what is never lent, nominal less the lending limit."""
    ceiling: int | None = None
    """Follows: nominal plus borrowingLimit; None where nothing but the cohort's pool limits it."""

    def __post_init__(self) -> None:
        lent = self.tokens_per_second if self.lending_limit is None else self.lending_limit
        force_setattr(self, "guaranteed", max(0, self.tokens_per_second - lent))
        if self.cohort is None:
            force_setattr(self, "ceiling", self.tokens_per_second)
        elif self.borrowing_limit is not None:
            force_setattr(self, "ceiling", self.tokens_per_second + self.borrowing_limit)


class KueueQueue(Struct, frozen=True, gc=False):
    """Where Kueue is to queue the pods."""

    local_queue: str
    priority_class: str | None = None


class KaiQueue(Struct, frozen=True, gc=False):
    """Where KAI is to queue the pods."""

    queue: str
    scheduler_name: str = KAI_SCHEDULER


class QueueRule(Struct, frozen=True, gc=False):
    """Which queue the pods of a selector belong to."""

    selector: Selector
    kueue: KueueQueue | None = None
    kai: KaiQueue | None = None
    on_other: OnOther = OnOther.KEEP


class SharingRule(Struct, frozen=True, gc=False):
    """How the pods of a selector get their shares. Fields that do not belong to the scheme are None."""

    selector: Selector
    scheme: Scheme
    gpu: str | None = None
    replicas: int | None = None
    resource: str | None = None
    mig_strategy: MigStrategy = MigStrategy.MIXED
    strategy: GkeStrategy = GkeStrategy.TIME_SHARING
    shadow_resource: str | None = None
    tolerations: tuple[Toleration, ...] = ()


class Policy(Struct, frozen=True, gc=False):
    """A whole policy with the catalogues merged in. `digest` is a short hash of the text it came from."""

    mode: Mode = Mode.ENFORCE
    gpus: Mapping[str, Gpu] = {}
    models: Mapping[str, Model] = {}
    """By lower-case name and alias."""
    budgets: FirstMatch[Budget] = FirstMatch(())
    queues: FirstMatch[QueueRule] = FirstMatch(())
    sharing: FirstMatch[SharingRule] = FirstMatch(())
    unmatched_share: UnmatchedShare = UnmatchedShare.DENY
    unmatched_gpus: UnmatchedGPUs = UnmatchedGPUs.ADMIT
    exempt_namespaces: frozenset[str] = frozenset()
    """The policy's own additions; the built-in list is in `domain.who`."""
    controller_accounts: Mapping[str, frozenset[str]] = {}
    """`Kind.group` -> user names that may create pods owned by it; adds to the built-in table in `domain.who`."""
    digest: str = ""
    budgets_by_name: Mapping[str, Budget] = {}
    """Follows from `budgets`."""
    extra_gpu_resources: frozenset[str] = frozenset()
    """Follows from `sharing`: names that a device plugin's rename gives, beyond the catalogue of `domain.gpus`."""
    kai_schedulers: frozenset[str] = frozenset()
    """Follows from `queues`: the names under which KAI schedules in this cluster (Run:ai's is runai-scheduler)."""

    def __post_init__(self) -> None:
        force_setattr(self, "budgets_by_name", {budget.name: budget for budget in self.budgets.rules})
        named = frozenset(rule.resource for rule in self.sharing.rules if rule.resource is not None)
        force_setattr(self, "extra_gpu_resources", named)
        kai = frozenset(rule.kai.scheduler_name for rule in self.queues.rules if rule.kai is not None)
        force_setattr(self, "kai_schedulers", kai | {KAI_SCHEDULER})
