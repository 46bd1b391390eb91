"""What one unit of nvidia.com/gpu is on the nodes that a pod requires: a whole device, a slice of it, a MIG device."""

from msgspec import Struct

from webhook.domain import gpunames as names
from webhook.domain.cards import required_values
from webhook.domain.mig import MigProfile, parse_profile
from webhook.domain.pod import Pod
from webhook.domain.rules import Scheme, SharingRule

_SLICING_SCHEMES = (Scheme.TIME_SLICING, Scheme.MPS)
MAX_REPLICAS_DIGITS = 4


class Devices(Struct, frozen=True, gc=False):
    """How the nodes divide their devices."""

    sliced: bool = False
    """Each device is shared among several pods under its own name."""
    replicas: int | None = None
    """Among how many; None: not told."""
    profile: MigProfile | None = None
    """Each device is a MIG device of this profile (strategy single, GKE partitions)."""
    renamed: str | None = None
    """The resource that the pod's sharing rule gives in place of nvidia.com/gpu."""
    renamed_replicas: int | None = None
    one_slice_only: bool = False
    """More than one slice is refused on these nodes, not only useless."""

    def replicas_of(self, resource: str) -> int | None:
        """Among how many pods a device of a renamed resource is shared; None: not told."""
        if resource == self.renamed:
            return self.renamed_replicas
        return self.replicas


WHOLE = Devices()


def devices_of_nodes(pod: Pod, rule: SharingRule | None) -> Devices:
    """What the pod's required node labels say, and what its sharing rule says of the renamed resource."""
    slicing = rule is not None and rule.scheme in _SLICING_SCHEMES
    if not slicing and pod.spec.node_selector is None and pod.spec.affinity is None:
        return WHOLE
    replicas_by_rule = rule.replicas if rule is not None and slicing else None
    clients = _number(required_values(pod, names.GKE_CLIENTS_LABEL))
    gke = bool(clients) or bool(required_values(pod, names.GKE_STRATEGY_LABEL))
    strategies = required_values(pod, names.SHARING_STRATEGY_LABEL)
    products = required_values(pod, names.PRODUCT_LABEL)
    sliced = (
        gke
        or (bool(strategies) and all(one in (names.TIME_SLICING, names.MPS) for one in strategies))
        or (bool(products) and all(one.endswith(names.PRODUCT_SHARED_SUFFIX) for one in products))
    )
    labelled = clients or _number(required_values(pod, names.REPLICAS_LABEL))
    renamed = (rule.resource or names.SHARED_GPU) if rule is not None and slicing else None
    return Devices(
        sliced=sliced,
        replicas=labelled or replicas_by_rule,
        profile=_profile(products, required_values(pod, names.GKE_PARTITION_LABEL)),
        renamed=renamed,
        renamed_replicas=replicas_by_rule or labelled,
        one_slice_only=gke or slicing or names.MPS in strategies,
    )


def _number(values: tuple[str, ...]) -> int | None:
    """One positive number that all values agree on."""
    if len(set(values)) != 1 or not values[0].isascii() or not values[0].isdigit():
        return None
    return int(values[0]) or None if len(values[0]) <= MAX_REPLICAS_DIGITS else None


def _profile(products: tuple[str, ...], partitions: tuple[str, ...]) -> MigProfile | None:
    """The one MIG profile that all values name."""
    texts = set(partitions) or {
        product.partition(names.PRODUCT_MIG_INFIX)[2].removesuffix(names.PRODUCT_SHARED_SUFFIX) for product in products
    }
    return parse_profile(texts.pop()) if len(texts) == 1 else None
