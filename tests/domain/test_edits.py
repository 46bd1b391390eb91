"""What mutate writes into the lists that others write into as well."""

import pytest

from tests.domain.sharing_cases import document_of, pod_of
from webhook.domain.edits import edits_of, gated_by
from webhook.domain.keys import GATE, KUEUE_GATED_BY, KUEUE_QUEUE
from webhook.domain.outcome import Edits
from webhook.domain.plan import make_plan
from webhook.domain.pod import Pod
from webhook.domain.view import Request, View
from webhook.policy.load import load

POLICY = load(
    """
apiVersion: tollgate.dev/v1alpha1
kind: Policy
budgets:
- {name: held, selector: {namespaces: [held]}, tokensPerSecond: 1M, onExceeded: Hold}
- {name: deny, selector: {namespaces: [deny]}, tokensPerSecond: 1M}
"""
).policy
OTHERS = "a.example.com/x,b.example.com/y"


def pod(listed: str | None, gates: tuple[str, ...] = (), **spec: object) -> Pod:
    """A pod with a claim and a queue."""
    annotations = {"tollgate.dev/tokens-per-second": "1"} | ({} if listed is None else {KUEUE_GATED_BY: listed})
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    metadata = {"labels": {KUEUE_QUEUE: "main"}, "annotations": annotations}
    scheduling_gates = [{"name": gate} for gate in gates]
    return pod_of(
        document_of(
            {"metadata": metadata, "spec": {"containers": [container], "schedulingGates": scheduling_gates, **spec}}
        )
    )


def edits(pod: Pod, namespace: str) -> Edits:
    return edits_of(pod, make_plan(pod, Request(namespace), POLICY, View()))


@pytest.mark.parametrize(
    ("listed", "held", "denied"),
    [
        (None, GATE, None),
        ("", GATE, ""),
        (GATE, GATE, None),
        (OTHERS, f"{OTHERS},{GATE}", OTHERS),
        ("a.example.com/x, b.example.com/y", f"{OTHERS},{GATE}", "a.example.com/x, b.example.com/y"),
        (f"{GATE},{OTHERS}", f"{GATE},{OTHERS}", OTHERS),
        (f"a.example.com/x, {GATE} ,b.example.com/y", f"a.example.com/x,{GATE},b.example.com/y", OTHERS),
        (f"{GATE},,{GATE}", GATE, None),
        ("tollgate.dev/budget2", f"tollgate.dev/budget2,{GATE}", "tollgate.dev/budget2"),
    ],
)
def test_our_entry_for_kueue_is_there_once_or_not_at_all(listed: str | None, held: str, denied: str | None) -> None:
    for namespace, expected in (("held", held), ("deny", denied)):
        one = edits(pod(listed), namespace)
        gone = KUEUE_GATED_BY in one.remove_annotations
        assert (None if gone else one.set_annotations.get(KUEUE_GATED_BY, listed)) == expected


@pytest.mark.parametrize(
    ("gates", "add", "remove"),
    [
        ((), GATE, ()),
        (("a.example.com/x",), GATE, ()),
        ((GATE, "a.example.com/x"), None, (0,)),
        (("a.example.com/x", GATE), None, (1,)),
        (("a.example.com/x", GATE, GATE), None, (1, 2)),
    ],
)
def test_our_gate_is_added_in_a_hold_budget_and_removed_in_others(
    gates: tuple[str, ...], add: str | None, remove: tuple[int, ...]
) -> None:
    held, denied = edits(pod(None, gates), "held"), edits(pod(None, gates), "deny")
    assert (held.add_gate, held.remove_gates) == (add, ())
    assert (denied.add_gate, denied.remove_gates) == (None, remove)


def test_nothing_is_written_into_a_bound_pod() -> None:
    assert edits(pod(GATE, (GATE,), nodeName="n1"), "held").empty


def test_entries_are_read_without_the_spaces_around_them() -> None:
    assert gated_by(pod(f" a.example.com/x ,{GATE}")) == ["a.example.com/x", GATE]
