"""`sharing`: how a share of a GPU is expressed in resources that schedulers and autoscalers see."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from webhook.domain.pod import Toleration
from webhook.domain.rules import GkeStrategy, MigStrategy, Scheme, SharingRule
from webhook.policy import names
from webhook.policy.kinds import Choice, Reference, Text, Whole
from webhook.policy.records import Field, Given, ListOf, Record
from webhook.policy.report import At
from webhook.policy.schema.selectors import selector_field


class TolerationOperator(StrEnum):
    """core/v1 Toleration.operator."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """core/v1 TaintEffect."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


_NVIDIA: Final = "nvidia.com/"
_LARGEST_INT64: Final = 2**63 - 1

# NVIDIA k8s-device-plugin api/config/v1 (replicas of 2 and more); GKE's gke-max-shared-clients-per-gpu is 2 to 48.
_FEWEST_REPLICAS: Final = 2
_MOST_GKE_CLIENTS: Final = 48

_SLICED: Final = (Scheme.TIME_SLICING, Scheme.MPS, Scheme.GKE)
_SCHEMES_OF_FIELD: Final[Mapping[str, tuple[Scheme, ...]]] = {
    "replicas": _SLICED,
    "resource": (Scheme.TIME_SLICING, Scheme.MPS),
    "migStrategy": (Scheme.MIG,),
    "strategy": (Scheme.GKE,),
    "shadowResource": (Scheme.KAI,),
}


def _check_toleration(given: Given, at: At) -> None:
    exists = given.get("operator") is TolerationOperator.EXISTS
    if given.written.isdisjoint(("key", "operator")) or (
        given.get("operator") is TolerationOperator.EQUAL and "key" not in given.written
    ):
        at.error("has no key; name the taint's key, or write operator: Exists to tolerate every taint")
    if exists and given.get("value"):
        at.down("value").error("operator Exists takes no value; leave it out, or write operator: Equal")
    if "toleration_seconds" in given and given.get("effect") is not TaintEffect.NO_EXECUTE:
        at.down("tolerationSeconds").error("only effect NoExecute has tolerationSeconds; leave it out")
    for attribute in ("operator", "effect"):
        if attribute in given:
            given[attribute] = given[attribute].value


# pkg/apis/core/validation ValidateTolerations.
TOLERATION: Final = Record(
    "a toleration as in a pod",
    Toleration,
    (
        Field("key", Text(names.QUALIFIED_NAME), "The taint's key.", absent="every key, with operator Exists"),
        Field("operator", Choice(TolerationOperator), "How key and value match the taint.", absent="Equal"),
        Field("value", Text(names.LABEL_VALUE), "The taint's value, with operator Equal.", absent="empty"),
        Field("effect", Choice(TaintEffect), "The taint's effect.", absent="every effect"),
        Field(
            "tolerationSeconds",
            Whole(minimum=-_LARGEST_INT64, maximum=_LARGEST_INT64),
            "How long a NoExecute taint is tolerated; zero and less evict at once.",
            absent="for ever",
        ),
    ),
    finish=_check_toleration,
)


def _check_rule(given: Given, at: At) -> None:
    scheme = given.get("scheme")
    if scheme is None:
        return
    for key, schemes in _SCHEMES_OF_FIELD.items():
        if key in given.written and scheme not in schemes:
            at.down(key).error(f"belongs to scheme {' or '.join(schemes)}, not to {scheme}; leave it out")
    if scheme in _SLICED and "replicas" not in given.written:
        at.down("replicas").error(f"is missing; scheme {scheme} needs the number of slices per GPU, 2 or more")
    replicas = given.get("replicas")
    if scheme is Scheme.GKE and replicas is not None and replicas > _MOST_GKE_CLIENTS:
        at.down("replicas").error(f"found {replicas}; GKE shares a GPU among {_FEWEST_REPLICAS} to {_MOST_GKE_CLIENTS}")
    shadow = given.get("shadow_resource")
    if shadow is not None and shadow.startswith(_NVIDIA):
        at.down("shadowResource").error(
            f"found {shadow}; must be outside {_NVIDIA}, whose resources KAI counts as GPUs; "
            "write another domain, such as tollgate.dev/milligpu"
        )


SHARING_RULE: Final = Record(
    "a sharing rule",
    SharingRule,
    (
        selector_field("the rule"),
        Field(
            "scheme",
            Choice(Scheme),
            "How shares are made on the nodes that these pods run on.",
            required="write one of " + ", ".join(Scheme),
        ),
        Field(
            "gpu",
            Reference("gpu", "the name of a GPU of the catalogue or of gpus"),
            "The card these pods get, where the pod itself does not say.",
            absent="unknown unless the pod says",
        ),
        Field(
            "replicas",
            Whole(minimum=_FEWEST_REPLICAS),
            "TimeSlicing, MPS: slices per GPU. GKE: clients per GPU, at most 48.",
            absent="required by TimeSlicing, MPS and GKE",
        ),
        Field(
            "resource",
            Text(names.EXTENDED_RESOURCE),
            "TimeSlicing, MPS: the resource's name after the device plugin's rename.",
            absent="nvidia.com/gpu, without a rename",
        ),
        Field("migStrategy", Choice(MigStrategy), "MIG: the device plugin's strategy on the nodes."),
        Field("strategy", Choice(GkeStrategy), "GKE: the sharing strategy of the node pools."),
        Field(
            "shadowResource",
            Text(names.EXTENDED_RESOURCE),
            "KAI: a resource outside nvidia.com/ in which a share counts thousandths of a GPU for autoscalers.",
            absent="none",
        ),
        Field("tolerations", ListOf(TOLERATION, "tolerations"), "Added to the pods that get a share.", absent="none"),
    ),
    finish=_check_rule,
)
