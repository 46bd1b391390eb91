"""Bodies in: what is read, whose fault a bad one is, and which field is named."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.review.reviews import body, nested, pod, review
from webhook.domain.outcome import Problem, Reason, Verdict
from webhook.domain.pod import Pod
from webhook.domain.view import Request, Requester
from webhook.review.shape import MAX_PROBLEMS, WrongShape, pod_of
from webhook.review.wire import BadCall, WrongPod, decode


def test_a_create_gives_the_pod_and_who_asks() -> None:
    request = decode(body(dryRun=True))
    assert request.uid == "705ab4f5-6393-11e8-b7cc-42010a800002"
    assert request.handled
    assert request.asked() == Request(
        namespace="prod-models",
        name="chat-0",
        requester=Requester("alice", frozenset({"system:authenticated", "ml"})),
        dry_run=True,
    )
    assert request.pod.containers[0].resources is not None
    assert request.pod.containers[0].resources.limits == {"nvidia.com/gpu": "1"}


def test_without_user_info_nobody_asks() -> None:
    assert decode(body(userInfo=None)).asked().requester is None


def test_the_last_of_repeated_keys_counts_as_in_go() -> None:
    text = body().replace(b'"labels":{"app":"chat"}', b'"labels":{"app":"first","app":"last"}')
    assert decode(text).pod.labels == {"app": "last"}


@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"operation": "CONNECT", "object": {"kind": "PodExecOptions"}},
        {"subResource": "ephemeralcontainers"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "object": {"spec": {"containers": "x"}}},
        {"kind": {"group": "", "version": "v1", "kind": "Binding"}},
        {"kind": {"group": "example.com", "version": "v1", "kind": "Pod"}, "object": {"metadata": {"labels": 5}}},
        {"operation": "UPDATE", "object": {"spec": {"containers": "x"}}},
    ],
)
def test_what_is_not_the_creation_of_a_pod_is_not_handled_whatever_its_shape(changes: dict[str, Any]) -> None:
    request = decode(body(**changes))
    assert not request.handled
    assert request.uid == "705ab4f5-6393-11e8-b7cc-42010a800002"


def test_a_delete_gives_the_uid_of_the_pod_and_reads_no_more_of_it() -> None:
    old = {"metadata": {"uid": "pod-uid", "labels": 5}, "spec": "x"}
    assert decode(body(operation="DELETE", object=None, oldObject=old)).deleted_uid == "pod-uid"
    assert decode(body(operation="DELETE", object=None, oldObject=None)).deleted_uid is None
    assert decode(body(operation="DELETE", object=None, oldObject=old, subResource="x")).deleted_uid is None
    assert decode(body(oldObject=old)).deleted_uid is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "the body is empty"),
        (b"{", "the body of 1 bytes is not JSON"),
        (body()[:-40], "is not JSON"),
        (b"not json", "is not JSON"),
        (b"null", "Expected `object`, got `null`"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "found (no apiVersion) (no kind); only admission.k8s.io/v1 AdmissionReview is answered"),
        (msgspec.json.encode(pod()), "found v1 Pod; only"),
        (
            msgspec.json.encode({**review(), "apiVersion": "admission.k8s.io/v1beta1"}),
            "found admission.k8s.io/v1beta1 AdmissionReview; only admission.k8s.io/v1 AdmissionReview is answered",
        ),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "the AdmissionReview has no request"),
        (msgspec.json.encode({**review(), "request": None}), "the AdmissionReview has no request"),
        (msgspec.json.encode({**review(), "request": "x"}), "Expected `object | null`, got `str` - at `$.request`"),
        (body(uid=""), "request.uid is missing or empty"),
        (body(uid=None), "$.request.uid"),
        (body(uid=5), "Expected `str`, got `int` - at `$.request.uid`"),
        (body(uid="", object="x"), "request.uid is missing or empty"),
        (body(object=None), "request.object is missing or null in a CREATE"),
        (body(kind=None), "request.kind is missing"),
        (body(operation=""), "request.operation is missing"),
        (body(userInfo="root"), "$.request.userInfo"),
        (body().replace(b"chat-0", b"\xff\xfe"), "is not JSON: Invalid UTF-8"),
        (body().decode().encode("utf-16"), "is not JSON"),
        (body(priority=1).replace(b'"dryRun":false', b'"dryRun":NaN'), "is not JSON"),
        (nested(100_000), "bytes is nested too deeply to be an AdmissionReview"),
        (b"[" * 100_000, "Expected `object`, got `array`"),
        (b'{"request":' * 100_000, "is nested too deeply|not an AdmissionReview"),
        (body() + b"{}", "trailing characters"),
    ],
)
def test_a_bad_call_is_answered_in_one_line(text: bytes, complaint: str) -> None:
    with pytest.raises(BadCall) as caught:
        decode(text)
    assert any(part in str(caught.value) for part in complaint.split("|"))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def with_spec(**changes: Any) -> dict[str, Any]:
    return pod(spec={**pod()["spec"], **changes})


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        (
            pod(metadata={"annotations": {"gpu-fraction": 5, "other": "x"}}),
            "metadata.annotations[gpu-fraction]",
            "must be a string, found the number 5; put it in quotes",
        ),
        (
            pod(metadata={"annotations": {"gpu-fraction": 0.5}}),
            "metadata.annotations[gpu-fraction]",
            "must be a string, found the number 0.5; put it in quotes",
        ),
        (
            pod(metadata={"labels": {"a": True}}),
            "metadata.labels[a]",
            "must be a string, found true; put it in quotes",
        ),
        (pod(metadata={"labels": {"a": None}}), "metadata.labels[a]", "must be a string, found null"),
        (pod(metadata=[]), "metadata", "must be an object, found a list of 0"),
        (pod(spec=None), "spec", "must be an object, found null"),
        (with_spec(containers="x"), "spec.containers", "must be a list, found the string 'x'"),
        (with_spec(containers=["x"]), "spec.containers[0]", "must be an object, found the string 'x'"),
        (
            with_spec(containers=[{"args": [8000]}]),
            "spec.containers[0].args[0]",
            "must be a string, found the number 8000",
        ),
        (
            with_spec(containers=[{"resources": {"limits": {"nvidia.com/gpu": [1]}}}]),
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
            "must be a quantity, found a list of 1",
        ),
        (
            with_spec(containers=[{"env": [{"name": "A", "value": 1}]}]),
            "spec.containers[0].env[0].value",
            "must be a string, found the number 1; put it in quotes",
        ),
        (with_spec(priority="high"), "spec.priority", "must be a whole number, found the string 'high'"),
        (with_spec(priority=1.5), "spec.priority", "must be a whole number, found the number 1.5"),
        (with_spec(tolerations={"key": "a"}), "spec.tolerations", "must be a list, found an object of 1 keys"),
        (
            pod(metadata={"ownerReferences": [{"controller": "true"}]}),
            "metadata.ownerReferences[0].controller",
            "must be true or false, found the string 'true'",
        ),
        ("a string", "object", "must be an object, found the string 'a string'"),
    ],
)
def test_a_wrong_pod_is_denied_with_the_exact_field(document: Any, field: str, message: str) -> None:
    with pytest.raises(WrongPod) as caught:
        decode(body(object=document))
    decision = caught.value.decision
    assert (decision.verdict, decision.reason, decision.code) == (Verdict.DENY, Reason.INVALID_POD, 422)
    (problem,) = decision.problems
    assert problem.field == field
    assert problem.message.startswith(message)
    assert caught.value.request.uid == "705ab4f5-6393-11e8-b7cc-42010a800002"
    assert field in decision.message


def test_every_wrong_field_is_named_at_once_up_to_a_limit() -> None:
    with pytest.raises(WrongPod) as two:
        decode(body(object=pod(metadata={"labels": {"a": 1, "b": "x", "c": 2}})))
    assert [problem.field for problem in two.value.decision.problems] == ["metadata.labels[a]", "metadata.labels[c]"]
    assert "(and 1 more)" in two.value.decision.message
    with pytest.raises(WrongPod) as many:
        decode(body(object=pod(metadata={"labels": {f"k{number}": 1 for number in range(100)}})))
    assert len(many.value.decision.problems) == MAX_PROBLEMS


@pytest.mark.parametrize("number", ["1e999", "1" * 5000])
def test_a_number_beyond_all_bounds_is_a_wrong_pod(number: str) -> None:
    text = body(object=pod()).replace(b'"nvidia.com/gpu":"1"', b'"nvidia.com/gpu":' + number.encode())
    with pytest.raises(WrongPod) as caught:
        decode(text)
    assert caught.value.decision.problems[0].field.startswith("spec.containers[0].resources.limits[")


def test_a_hostile_key_is_escaped_and_cut() -> None:
    with pytest.raises(WrongPod) as caught:
        decode(body(object=pod(metadata={"labels": {"\x1b[2J\n" + "k" * 1000: 5}})))
    field = caught.value.decision.problems[0].field
    assert field.isprintable()
    assert len(field) < 200


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
FIELDS = [
    "metadata",
    "spec",
    "status",
    "labels",
    "annotations",
    "containers",
    "resources",
    "limits",
    "affinity",
    "name",
]
pod_like = st.recursive(
    json_values, lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4) | st.lists(inner, max_size=2)
)


def problems_on_the_wire(document: Any) -> tuple[Problem, ...] | Pod:
    try:
        return decode(body(object=document)).pod
    except WrongPod as error:
        return error.decision.problems


def problems_of_a_document(document: Any) -> tuple[Problem, ...] | Pod:
    try:
        return pod_of(document)
    except WrongShape as error:
        return error.problems


@given(pod_like.filter(lambda document: document is not None))
def test_the_walk_finds_a_field_exactly_where_the_decoder_refuses(document: Any) -> None:
    outcome = problems_on_the_wire(document)
    assert outcome != ()
    assert outcome == problems_of_a_document(document)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_bad_call_at_worst(text: bytes) -> None:
    with pytest.raises(BadCall):
        decode(text)


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=4))
def test_a_review_with_bytes_overwritten_never_fails_otherwise(position: int, noise: bytes) -> None:
    text = bytearray(body())
    text[position % len(text) : position % len(text) + len(noise)] = noise
    try:
        decode(bytes(text))
    except (BadCall, WrongPod):
        return
