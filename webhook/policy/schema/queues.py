"""`queues`: which queue the pods of a selector belong to."""

from typing import Final

from webhook.domain.keys import KAI_QUEUE, KUEUE_PRIORITY_CLASS, KUEUE_QUEUE
from webhook.domain.rules import KaiQueue, KueueQueue, OnOther, QueueRule
from webhook.domain.selectors import Selector
from webhook.policy import names
from webhook.policy.kinds import Choice, Text
from webhook.policy.records import Field, Given, Record
from webhook.policy.report import At
from webhook.policy.schema.selectors import selector_field

KUEUE: Final = Record(
    "a Kueue queue",
    KueueQueue,
    (
        Field(
            "localQueue",
            Text(names.DNS_LABEL),
            "The LocalQueue in the pod's namespace (label kueue.x-k8s.io/queue-name).",
            required="name the LocalQueue",
        ),
        Field(
            "priorityClass",
            Text(names.DNS_SUBDOMAIN),
            "The WorkloadPriorityClass (label kueue.x-k8s.io/priority-class).",
            absent="none",
        ),
    ),
)

KAI: Final = Record(
    "a KAI queue",
    KaiQueue,
    (
        Field(
            "queue",
            Text(names.DNS_LABEL),
            "The KAI queue (label kai.scheduler/queue).",
            required="name the KAI queue",
        ),
        Field("schedulerName", Text(names.DNS_SUBDOMAIN), "The name under which KAI schedules in this cluster."),
    ),
)


_WRITTEN: Final = frozenset({KUEUE_QUEUE, KUEUE_PRIORITY_CLASS, KAI_QUEUE})
"""Labels that queue rules write. Were they selected by too, another rule might take a pod once its label is written."""


def _check_rule(given: Given, at: At) -> None:
    selector = given.get("selector")
    if isinstance(selector, Selector) and selector.pod_selector is not None:
        for key in sorted(_WRITTEN & selector.pod_selector.keys):
            at.down("selector").down("podSelector").error(
                f"selects by {key}, which queue rules write themselves; select by namespaces or by other labels (what "
                "becomes of a queue that the tenant wrote is said by onOther)"
            )
    if given.written.isdisjoint(("kueue", "kai")):
        at.error("names no queue; add kueue: {localQueue: NAME} or kai: {queue: NAME}")


QUEUE_RULE: Final = Record(
    "a queue rule",
    QueueRule,
    (
        selector_field("the rule"),
        Field("kueue", KUEUE, "Where Kueue queues the pods.", absent="no Kueue queue"),
        Field("kai", KAI, "Where KAI queues the pods.", absent="no KAI queue"),
        Field(
            "onOther",
            Choice(OnOther),
            "What becomes of another queue label that the tenant wrote: kept with a warning, replaced, or denied.",
        ),
    ),
    finish=_check_rule,
)
