"""`selector`: which pods a rule takes. Source of the label part: apimachinery/pkg/apis/meta/v1/validation."""

from typing import Final

from webhook.domain.keys import BUDGET_LABEL
from webhook.domain.selectors import Expression, LabelSelector, Operator, Selector
from webhook.policy import names
from webhook.policy.kinds import Choice, Custom, Text
from webhook.policy.records import Field, Given, ListOf, MappingOf, Record, SetOf
from webhook.policy.report import At

_WITH_VALUES: Final = (Operator.IN, Operator.NOT_IN)

_LABELS: Final = MappingOf(Text(names.QUALIFIED_NAME), Text(names.LABEL_VALUE), "labels to values")


def _parse_labels(value: object, at: At) -> tuple[tuple[str, str], ...]:
    return tuple(_LABELS.parse(value, at).items())


def _check_expression(given: Given, at: At) -> None:
    operator = given.get("operator")
    values = given.get("values")
    if operator is None:
        return
    wrong_already = values is None and "values" in given.written
    if operator in _WITH_VALUES and not values and not wrong_already:
        at.down("values").error(f"operator {operator} needs a list of at least one value")
    elif operator not in _WITH_VALUES and values:
        at.down("values").error(f"operator {operator} takes no values; leave the key out")


EXPRESSION: Final = Record(
    "a requirement on one label",
    Expression,
    (
        Field("key", Text(names.QUALIFIED_NAME), "The label.", required="name the label"),
        Field(
            "operator",
            Choice(Operator),
            "How the label's value relates to `values`; NotIn and DoesNotExist also hold where the label is absent.",
            required="write one of " + ", ".join(Operator),
        ),
        Field(
            "values",
            SetOf(Text(names.LABEL_VALUE), "label values", may_be_empty=True),
            "For In and NotIn, at least one; for Exists and DoesNotExist none.",
            absent="none",
        ),
    ),
    finish=_check_expression,
)

LABEL_SELECTOR: Final = Record(
    "a label selector",
    LabelSelector,
    (
        Field(
            "matchLabels",
            Custom(_LABELS.allowed, _parse_labels, _LABELS.render, _LABELS),
            "Labels that must all have these values.",
            absent="none is asked for",
        ),
        Field(
            "matchExpressions",
            ListOf(EXPRESSION, "requirements"),
            "Requirements that must all hold, with Kubernetes' operators.",
            absent="none is asked for",
        ),
    ),
    may_be_empty=False,
)


def _check_pod_labels(given: Given, at: At) -> None:
    selector = given.get("pod_selector")
    if not isinstance(selector, LabelSelector):
        return
    if BUDGET_LABEL in selector.keys:
        at.down("podSelector").error(
            f"selects by {BUDGET_LABEL}, which Tollgate writes itself by this policy; select by namespaces or by other "
            "labels"
        )


SELECTOR: Final = Record(
    "a selector",
    Selector,
    (
        Field(
            "namespaces",
            SetOf(Text(names.DNS_LABEL), "namespaces"),
            "Names of namespaces, one of which must be the pod's.",
            absent="every namespace",
        ),
        Field("namespaceSelector", LABEL_SELECTOR, "Labels of the pod's namespace.", absent="any labels"),
        Field(
            "podSelector",
            LABEL_SELECTOR,
            "Labels of the pod. As the only part it is no fence: tenants write these labels.",
            absent="any labels",
        ),
        Field(
            "priorityClassNames",
            SetOf(Text(names.DNS_SUBDOMAIN), "names of PriorityClasses"),
            "Names of PriorityClasses, one of which must be the pod's.",
            absent="every class, or none",
        ),
    ),
    finish=_check_pod_labels,
)


def selector_field(taker: str) -> Field:
    """The `selector` key of a rule; it must be written, since a forgotten one would take every pod."""
    return Field(
        "selector",
        SELECTOR,
        f"Which pods {taker} takes; all given parts must match, the first match in the list counts. `{{}}` takes all.",
        required="write selector: {} if every pod is meant",
    )
