"""The part of a Pod that decisions need, as frozen values; everything else in the object is never decoded.

Field names are those of core/v1 (camelCase on the wire). Null is absent, as the API server reads it.
"""

from msgspec import Struct, field

Quantity = str | int | float
"""A resource quantity as JSON carries it; `domain.quantity` gives its value."""


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """metadata.ownerReferences[]."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def group(self) -> str:
        """The API group: `batch` of `batch/v1`, empty for core/v1."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def kind_and_group(self) -> str:
        """`Job.batch`, or `Pod` for the core group: how the policy's controllerAccounts name a kind."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class Metadata(Struct, frozen=True, gc=False, rename="camel"):
    """metadata."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class EnvVar(Struct, frozen=True, gc=False, rename="camel"):
    """spec.containers[].env[]; a value from elsewhere (valueFrom) is not visible here."""

    name: str = ""
    value: str | None = None


class ResourceRequirements(Struct, frozen=True, gc=False):
    """spec.containers[].resources."""

    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class Container(Struct, frozen=True, gc=False, rename="camel"):
    """spec.containers[] and spec.initContainers[]."""

    name: str = ""
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None

    @property
    def is_sidecar(self) -> bool:
        """An init container that keeps running (restartPolicy Always) counts like a container."""
        return self.restart_policy == "Always"


class SchedulingGate(Struct, frozen=True, gc=False):
    """spec.schedulingGates[]."""

    name: str = ""


class Toleration(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """spec.tolerations[]; also the form in which a sharing rule lists what to add."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class NodeSelectorRequirement(Struct, frozen=True, gc=False):
    """One `key operator values` of a node selector term."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(Struct, frozen=True, gc=False, rename="camel"):
    """Terms are ORed, the requirements inside one are ANDed; a term without any matches no node."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct, frozen=True, gc=False, rename="camel"):
    """requiredDuringSchedulingIgnoredDuringExecution of a node affinity."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(Struct, frozen=True, gc=False):
    """Only what is required; preferences decide nothing here."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Struct, frozen=True, gc=False, rename="camel"):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None


class PodResourceClaim(Struct, frozen=True, gc=False, rename="camel"):
    """spec.resourceClaims[] (dynamic resource allocation)."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class Spec(Struct, frozen=True, gc=False, rename="camel"):
    """spec."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    resource_claims: list[PodResourceClaim] | None = None


class Status(Struct, frozen=True, gc=False):
    """status, of pods that are there already."""

    phase: str | None = None


class Pod(Struct, frozen=True, gc=False):
    """A Pod, as far as we look at it."""

    metadata: Metadata = Metadata()
    spec: Spec = Spec()
    status: Status | None = None

    @property
    def labels(self) -> dict[str, str]:
        """metadata.labels, empty where absent."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """metadata.annotations, empty where absent."""
        return self.metadata.annotations or {}

    @property
    def containers(self) -> list[Container]:
        """spec.containers, empty where absent."""
        return self.spec.containers or []

    @property
    def init_containers(self) -> list[Container]:
        """spec.initContainers, empty where absent."""
        return self.spec.init_containers or []

    @property
    def gates(self) -> list[str]:
        """The names of the scheduling gates, in their order."""
        return [gate.name for gate in self.spec.scheduling_gates or ()]

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner reference with `controller: true`; the others never count (Kueue agrees)."""
        for reference in self.metadata.owner_references or ():
            if reference.controller:
                return reference
        return None
