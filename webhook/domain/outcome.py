"""What a decision is made of: verdicts, reasons, problems of a pod, and the edits that mutate asks for."""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct

from webhook.domain.pod import NodeSelectorRequirement, Toleration


class Verdict(StrEnum):
    """What happens to the pod."""

    ADMIT = "Admit"
    HOLD = "Hold"
    DENY = "Deny"
    UNTOUCHED = "Untouched"


class Reason(StrEnum):
    """Why, in one word; a bounded set, since it labels metrics and audit annotations. Members are never renamed."""

    # Admit
    FITS = "Fits"
    METERED = "Metered"
    GATED = "Gated"
    CLAIM_UNKNOWN = "ClaimUnknown"
    CLAIMED_BY_LEADER = "ClaimedByLeader"
    UNMETERED = "Unmetered"
    CHECKED = "Checked"
    OBSERVED = "Observed"
    # Hold
    WAITING = "Waiting"
    # Untouched
    NOT_GPU = "NotGPU"
    EXEMPT_NAMESPACE = "ExemptNamespace"
    MIRROR_POD = "MirrorPod"
    LEFT_ALONE = "LeftAlone"
    NOT_HANDLED = "NotHandled"
    # Deny, the pod is wrong (422)
    INVALID_POD = "InvalidPod"
    INVALID_ANNOTATION = "InvalidAnnotation"
    INVALID_SHARE = "InvalidShare"
    CONTRADICTORY_SHARE = "ContradictoryShare"
    SHARE_TOO_LARGE = "ShareTooLarge"
    UNMATCHED_SHARE = "UnmatchedShare"
    UNBACKED_SHARE = "UnbackedShare"
    NO_MATCHING_PROFILE = "NoMatchingProfile"
    UNKNOWN_GPU = "UnknownGPU"
    SCHEDULER_CONFLICT = "SchedulerConflict"
    QUEUE_CONFLICT = "QueueConflict"
    MODEL_DOES_NOT_FIT = "ModelDoesNotFit"
    DECLARED_ABOVE_CEILING = "DeclaredAboveCeiling"
    RESERVED_KEY = "ReservedKey"
    # Deny, not now or not allowed (403)
    TOKEN_BUDGET_EXCEEDED = "TokenBudgetExceeded"  # noqa: S105 - a reason, not a secret
    NEVER_FITS = "NeverFits"
    UNKNOWN_CLAIM = "UnknownClaim"
    UNMATCHED_GPUS = "UnmatchedGPUs"
    FORGED_OWNER = "ForgedOwner"
    FORGED_MIRROR = "ForgedMirror"
    FORBIDDEN_KEY = "ForbiddenKey"
    NOT_MUTATED = "NotMutated"
    CHANGED_AFTER_MUTATE = "ChangedAfterMutate"
    KUEUE_GATE_MISSING = "KueueGateMissing"


class Problem(Struct, frozen=True, gc=False):
    """Something wrong with the pod: becomes a 422 with one cause (reason, field path, message)."""

    reason: Reason
    field: str
    """A field path as the API server prints it, e.g. `metadata.annotations[gpu-fraction]`."""
    message: str
    """One line: what was found, what is allowed, what to do."""


class ClaimSource(StrEnum):
    """Where a claim's number comes from, in order of trust."""

    DECLARED = "Declared"
    PROFILE = "Profile"
    ROOFLINE = "Roofline"
    DEFAULT = "Default"


class Claim(Struct, frozen=True, gc=False, rename="camel"):
    """Output tokens/s that one pod is charged, rounded up."""

    tokens_per_second: int
    source: ClaimSource


class ContainerLimits(Struct, frozen=True, gc=False):
    """Extended resources to write into one container's limits and requests, equal in both."""

    index: int
    """Position in spec.containers."""
    quantities: tuple[tuple[str, int], ...]


class Edits(Struct, frozen=True, gc=False):
    """What mutate changes in a pod. Every part that is already so is left out; all empty means no patch."""

    set_labels: Mapping[str, str] = {}
    remove_labels: tuple[str, ...] = ()
    set_annotations: Mapping[str, str] = {}
    remove_annotations: tuple[str, ...] = ()
    add_gate: str | None = None
    """Appended: the gates of others keep their place."""
    remove_gates: tuple[int, ...] = ()
    """Positions in spec.schedulingGates, ascending."""
    scheduler_name: str | None = None
    limits: ContainerLimits | None = None
    set_node_selector: Mapping[str, str] = {}
    require_node_affinity: tuple[NodeSelectorRequirement, ...] = ()
    """Added to every required node selector term (terms are ORed)."""
    add_tolerations: tuple[Toleration, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to patch."""
        return self == _NO_EDITS


_NO_EDITS = Edits()


def field_of_annotation(key: str) -> str:
    """`metadata.annotations[key]`."""
    return f"metadata.annotations[{key}]"


def field_of_label(key: str) -> str:
    """`metadata.labels[key]`."""
    return f"metadata.labels[{key}]"


def fraction_text(value: Fraction) -> str:
    """A share of a GPU for people: `1/4`, `3/7`, `1`."""
    return str(value)
