"""Remembered answers are the answers that would be computed: for any pods, in any order, whatever is forgotten."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.domain.decide_pods import asked, documents, policies, seen, views
from tests.domain.sharing_cases import Document, pod_of
from webhook.domain import memo
from webhook.domain.decide import Decision, mutate, validate
from webhook.domain.memo import Memo, for_this_pod
from webhook.domain.pod import Metadata, Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Request, View
from webhook.policy.load import load
from webhook.review.patch import Operation, operations

POLICY = load(
    """
apiVersion: tollgate.dev/v1alpha1
kind: Policy
budgets: [{name: all, selector: {}, tokensPerSecond: 1M, unknownClaim: {tokensPerSecondPerGPU: 800}}]
"""
).policy
REQUEST = Request("team")


def document(name: str = "pod", uid: str = "u", gpus: int = 1, **metadata: object) -> Document:
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    return {"metadata": {"name": name, "uid": uid, **metadata}, "spec": {"containers": containers}}


def patch(pod: Pod, request: Request, policy: Policy, view: View) -> list[Operation]:
    return operations(pod, mutate(pod, request, policy, view).edits)


class Counting:
    """A question that counts how often it is computed."""

    def __init__(self, ask: Callable[[Pod, Request, Policy, View], Decision] = validate) -> None:
        self.ask = ask
        self.times = 0

    def __call__(self, pod: Pod, request: Request, policy: Policy, view: View) -> Decision:
        self.times += 1
        return self.ask(pod, request, policy, view)


@given(data=st.data(), policy=policies())
def test_answers_are_those_of_the_bare_functions_for_any_pods_in_any_order(data: st.DataObject, policy: Policy) -> None:
    patches, mutations, validations = Memo(patch, policy), Memo(mutate, policy), Memo(validate, policy, for_this_pod)
    few = data.draw(st.lists(documents(), min_size=1, max_size=3))
    requests = data.draw(st.lists(asked(), min_size=1, max_size=2))
    view = data.draw(views())
    for number in range(data.draw(st.integers(2, 8))):
        pod = pod_of(seen(data.draw(st.sampled_from(few)), name=f"pod-{number % 3}", uid=f"uid-{number}"))
        request = data.draw(st.sampled_from(requests))
        assert mutations(pod, request, view) == mutate(pod, request, policy, view)
        assert patches(pod, request, view) == patch(pod, request, policy, view)
        assert validations(pod, request, view) == validate(pod, request, policy, view)


def test_the_pods_of_one_template_are_decided_once_and_charged_each_under_its_own_name() -> None:
    counting = Counting()
    remembered = Memo(counting, POLICY, for_this_pod)
    written: Document = {"annotations": {"tollgate.dev/claim": "800"}, "labels": {"tollgate.dev/budget": "all"}}
    pods = [pod_of(document(f"web-{number}", f"uid-{number}", **written)) for number in range(3)]

    charges = [remembered(pod, REQUEST, View()).charge for pod in pods]

    assert counting.times == 1
    assert [(charge.name, charge.uid) for charge in charges if charge is not None] == [
        ("web-0", "uid-0"),
        ("web-1", "uid-1"),
        ("web-2", "uid-2"),
    ]


@pytest.mark.parametrize(
    ("other", "request_", "view"),
    [
        (document(gpus=2), REQUEST, View()),
        (document(labels={"a": "b"}), REQUEST, View()),
        (document(annotations={"a": "b"}), REQUEST, View()),
        (document(generateName="a-"), REQUEST, View()),
        (document(), Request("other"), View()),
        (document(), replace(REQUEST, dry_run=True), View()),
        (document(), REQUEST, View({"team": "a"})),
        (document(), REQUEST, View(kueue_present=True)),
    ],
)
def test_whatever_may_decide_is_asked_anew(other: Document, request_: Request, view: View) -> None:
    counting = Counting()
    remembered = Memo(counting, POLICY, for_this_pod)
    remembered(pod_of(document()), REQUEST, View())
    remembered(pod_of(other), request_, view)
    assert counting.times == 2


@pytest.mark.parametrize("pod", [document(name="No Name"), document(annotations={"long": "x" * memo.MAX_KEY_BYTES})])
def test_wrong_names_and_long_texts_are_not_kept(pod: Document) -> None:
    counting = Counting()
    remembered = Memo(counting, POLICY, for_this_pod)
    remembered(pod_of(pod), REQUEST, View())
    remembered(pod_of(pod), REQUEST, View())
    assert counting.times == 2


def test_a_pod_without_metadata_leaves_no_patch_that_would_empty_anothers() -> None:
    remembered = Memo(patch, POLICY)
    bare = {"spec": document()["spec"]}
    assert remembered(pod_of(bare), REQUEST, View())[0] == {"op": "add", "path": "/metadata", "value": {}}
    named = remembered(pod_of(document()), REQUEST, View())
    assert [operation["path"] for operation in named] == ["/metadata/labels", "/metadata/annotations"]


def test_no_more_answers_are_kept_than_are_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MAX_ANSWERS", 2)
    counting = Counting()
    remembered = Memo(counting, POLICY, for_this_pod)
    for label in ("a", "b", "a", "c", "c", "a"):
        remembered(Pod(Metadata(labels={"x": label})), REQUEST, View())
    assert counting.times == 4
