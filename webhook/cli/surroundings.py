"""What the documents say about each other: labels of namespaces, values of priority classes, owners of pods.

It does not matter where in the files they stand. Priorities follow kubernetes plugin/pkg/admission/priority.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from webhook.cli import schema
from webhook.cli.documents import Document
from webhook.cli.workloads import SHAPES, inside
from webhook.domain import keys
from webhook.domain.outcome import Problem, Reason
from webhook.domain.pod import OwnerReference, Pod
from webhook.domain.view import Owner

DEFAULT_NAMESPACE: Final = "default"

_BUILT_IN_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""kubernetes pkg/apis/scheduling/v1/helpers.go."""

MAX_OWNERS: Final = 8
"""Links of the chain of controllers that are followed; Kueue follows ten."""


class NamespaceFlags(Struct, frozen=True, gc=False):
    """What the command line says of namespaces."""

    default: str = DEFAULT_NAMESPACE
    labels: Mapping[str, str] = {}
    labels_only_of: str | None = None
    """The one namespace that the labels are for; None: for each that has no Namespace document."""


class Priority(Struct, frozen=True, gc=False):
    """One PriorityClass."""

    name: str
    value: int
    is_default: bool


class Surroundings:
    """Everything that was learned from all documents. Immutable after construction."""

    def __init__(self, documents: Iterable[Document], flags: NamespaceFlags) -> None:
        self.flags = flags
        self.warnings: list[str] = []
        self._namespaces: dict[str, dict[str, str]] = {}
        self._priorities: dict[str, int] = dict(_BUILT_IN_PRIORITIES)
        self._default_priority: Priority | None = None
        self._owners: dict[tuple[str, str, str, str], Document] = {}
        for document in documents:
            self._learn(document)

    def _learn(self, document: Document) -> None:
        name = inside(document.value, ("metadata",)).get("name")
        if (document.api_version, document.kind) == ("v1", "Namespace"):
            self._learn_namespace(document, name)
        elif (document.group, document.kind) == ("scheduling.k8s.io", "PriorityClass"):
            self._learn_priority(document, name)
        elif isinstance(name, str):
            self._owners.setdefault((document.group, document.kind, self.namespace_of(document), name), document)

    def _learn_namespace(self, document: Document, name: object) -> None:
        checked = schema.check(document.value, "V1Namespace")
        if checked.wrong or not isinstance(name, str):
            self.warnings.append(_ignored(document, checked))
            return
        labels = inside(checked.value, ("metadata", "labels"))
        self._namespaces[name] = {key: str(value) for key, value in labels.items()}

    def _learn_priority(self, document: Document, name: object) -> None:
        checked = schema.check(document.value, "V1PriorityClass")
        if checked.wrong or not isinstance(name, str):
            self.warnings.append(_ignored(document, checked))
            return
        priority = Priority(name, checked.value.get("value", 0), bool(checked.value.get("globalDefault")))
        self._priorities[name] = priority.value
        # Of several defaults the one of the lowest value counts (admission.go, getDefaultPriorityClass).
        known = self._default_priority
        if priority.is_default and (known is None or priority.value < known.value):
            self._default_priority = priority

    def namespace_of(self, document: Document) -> str:
        """The namespace of a document, as kubectl would send it."""
        named = inside(document.value, ("metadata",)).get("namespace")
        return named if isinstance(named, str) and named else self.flags.default

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Labels of a namespace: its document's, else the command line's, and its name as the API server adds it."""
        documented = self._namespaces.get(namespace)
        only = self.flags.labels_only_of
        given = self.flags.labels if only == namespace or (only is None and documented is None) else {}
        return {**given, **(documented or {}), keys.NAMESPACE_NAME_LABEL: namespace}

    def prioritized(self, pod: Pod) -> tuple[Pod, tuple[Problem, ...]]:
        """The pod as the Priority admission plugin leaves it, before any webhook sees it."""
        class_name, value = pod.spec.priority_class_name, None
        if class_name:
            value = self._priorities.get(class_name)
        elif self._default_priority is not None:
            class_name, value = self._default_priority.name, self._default_priority.value
        stated = pod.spec.priority
        if value is None or stated == value:
            return pod, ()
        if stated is not None:
            message = f"{stated} differs from {value}, the value of PriorityClass {class_name}; leave it out"
            return pod, (Problem(Reason.INVALID_POD, "spec.priority", message),)
        spec = msgspec.structs.replace(pod.spec, priority_class_name=class_name, priority=value)
        return msgspec.structs.replace(pod, spec=spec), ()

    def owners_of(self, pod: Pod, namespace: str) -> tuple[Owner, ...]:
        """The controllers above a pod, nearest first, as far as documents describe them."""
        return tuple(self._chain(pod.controller, namespace))

    def _chain(self, reference: OwnerReference | None, namespace: str) -> Iterator[Owner]:
        for _ in range(MAX_OWNERS):
            if reference is None:
                return
            document = self._owners.get((reference.group, reference.kind, namespace, reference.name))
            if document is None:
                yield Owner(reference.kind, reference.group, reference.name, reference.uid)
                return
            owner = _as_pod(document)
            if owner is None:
                return
            yield Owner(
                reference.kind,
                reference.group,
                reference.name,
                reference.uid,
                labels=owner.labels,
                pod=owner if reference.kind_and_group == "Pod" else None,
            )
            reference = owner.controller


def _as_pod(document: Document) -> Pod | None:
    """An owner's metadata (and spec, where it is a pod); None where it cannot be read."""
    shape = SHAPES.get((document.api_version, document.kind))
    is_pod = (document.api_version, document.kind) == ("v1", "Pod")
    value: dict[str, Any] = document.value
    if is_pod or shape is not None:
        value = schema.check(value, schema.POD if shape is None else shape.model).value
    if not is_pod:
        value = {"metadata": value.get("metadata") or {}}
    try:
        return msgspec.convert(value, Pod)
    except msgspec.ValidationError:
        return None


def _ignored(document: Document, checked: schema.Checked) -> str:
    why = f"{checked.wrong[0].field}: {checked.wrong[0].message}" if checked.wrong else "metadata.name is missing"
    return f"{document.source}: {document.kind} is ignored: {why}"
