"""AdmissionReview v1 as it comes and goes: bytes to the few fields that decisions need, and a decision to bytes.

Two families of errors part here. The *call* is bad: `BadCall`, for an HTTP 400; no API server sends such a body. The
*pod* is wrong: `WrongPod`, which carries the denial that names the fields. A request that we do not handle is neither:
`AdmissionRequest.handled` is False and the answer is to let it pass untouched.
"""

from decimal import Decimal
from typing import Final

import msgspec
from msgspec import Struct

from webhook.domain.decide import Decision
from webhook.domain.outcome import Reason, Verdict
from webhook.domain.pod import Pod
from webhook.domain.view import Request, Requester
from webhook.observe.text import one_line
from webhook.review.shape import problems_of, unlocated

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

MAX_COMPLAINT_LENGTH = 300
"""Characters of the one line that answers a bad call."""


class BadCall(ValueError):  # noqa: N818 - one of the three families of errors
    """The body is no AdmissionReview v1 request: one line for an HTTP 400."""


class GroupVersionKind(Struct, frozen=True, gc=False):
    """request.kind."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(Struct, frozen=True, gc=False):
    """request.userInfo, without what nobody reads."""

    username: str = ""
    groups: frozenset[str] | None = None


class _OldMetadata(Struct, frozen=True, gc=False):
    uid: str | None = None


class _OldObject(Struct, frozen=True, gc=False):
    metadata: _OldMetadata | None = None


class _Envelope(Struct, frozen=True, gc=False, rename="camel"):
    uid: str = ""
    kind: GroupVersionKind | None = None
    sub_resource: str | None = None
    operation: str = ""
    name: str | None = None
    namespace: str | None = None
    user_info: UserInfo | None = None
    dry_run: bool | None = None

    @property
    def is_pod(self) -> bool:
        """Whether the request is about a core/v1 Pod itself, not about a subresource of one."""
        kind = self.kind
        return (
            kind is not None and kind.kind == "Pod" and kind.version == "v1" and not (kind.group or self.sub_resource)
        )

    @property
    def handled(self) -> bool:
        """Whether there is a pod to decide about: only its creation is asked about."""
        return self.operation == "CREATE" and self.is_pod


class AdmissionRequest(_Envelope, frozen=True, gc=False, rename="camel"):
    """request, as far as it is read."""

    object: Pod | None = None
    old_object: _OldObject | None = None

    @property
    def pod(self) -> Pod:
        """The pod of a handled request, on which `decode` insists."""
        if self.object is None:
            raise BadCall("request.object is missing")
        return self.object

    @property
    def pod_name(self) -> str:
        """How the pod is called, or, before it has a name, the prefix of the name it will get."""
        metadata = self.object.metadata if self.object is not None else None
        return self.name or (metadata and (metadata.name or metadata.generate_name)) or ""

    @property
    def deleted_uid(self) -> str | None:
        """The uid of the pod that a DELETE removes; None for any other request."""
        if self.operation != "DELETE" or not self.is_pod or self.old_object is None:
            return None
        return self.old_object.metadata.uid if self.old_object.metadata else None

    def asked(self) -> Request:
        """The call around the pod, as the deciding functions take it."""
        user = self.user_info
        return Request(
            namespace=self.namespace or (self.object and self.object.metadata.namespace) or "",
            name=self.name or "",
            requester=Requester(user.username, user.groups or frozenset()) if user is not None else None,
            dry_run=bool(self.dry_run),
        )


class _Review(Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class _UndecodedRequest(_Envelope, frozen=True, gc=False, rename="camel"):
    object: msgspec.Raw = msgspec.Raw()


class _UndecodedReview(Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _UndecodedRequest | None = None


class WrongPod(Exception):  # noqa: N818 - one of the three families of errors
    """The object is no Pod: the request as far as it was read, and the denial that names the fields."""

    def __init__(self, request: AdmissionRequest, decision: Decision) -> None:
        super().__init__(decision.message)
        self.request = request
        self.decision = decision


_decode_review = msgspec.json.Decoder(_Review).decode
_decode_undecoded_review = msgspec.json.Decoder(_UndecodedReview).decode
_decode_anything = msgspec.json.Decoder(float_hook=Decimal).decode


def decode(body: bytes) -> AdmissionRequest:
    """The request in a body. Raises BadCall or WrongPod."""
    try:
        review = _decode_review(body)
    except msgspec.ValidationError as error:
        return _explain(body, str(error))
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise _unreadable(body, error) from None
    request = review.request
    if review.api_version != API_VERSION or review.kind != KIND or request is None or not request.uid:
        raise _not_a_review(review)
    if request.object is None and request.handled:
        raise BadCall("request.object is missing or null in a CREATE; send the pod that is to be created")
    if request.kind is None or not request.operation:
        raise BadCall(f"request.{'operation' if request.kind else 'kind'} is missing")
    return request


def _not_a_review(review: _Review | _UndecodedReview) -> BadCall:
    if review.kind != KIND or review.api_version != API_VERSION:
        found = one_line(
            f"{review.api_version or '(no apiVersion)'} {review.kind or '(no kind)'}", MAX_COMPLAINT_LENGTH
        )
        return BadCall(f"found {found}; only {API_VERSION} {KIND} is answered")
    if review.request is None:
        return BadCall(f"the {KIND} has no request")
    return BadCall("request.uid is missing or empty; the answer must repeat it")


def _unreadable(body: bytes, error: Exception) -> BadCall:
    if not body:
        return BadCall(f"the body is empty; send an {KIND} as JSON")
    if isinstance(error, RecursionError):
        return BadCall(f"the body of {len(body)} bytes is nested too deeply to be an {KIND}")
    return BadCall(one_line(f"the body of {len(body)} bytes is not JSON: {error}", MAX_COMPLAINT_LENGTH))


def _explain(body: bytes, complaint: str) -> AdmissionRequest:
    """The slow path after a wrong type: whose fault it is, and in which field.

    Returns the request only where we do not handle it: then the shape of its object is none of our business.
    """
    try:
        review = _decode_undecoded_review(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise BadCall(one_line(f"not an {KIND}: {error}", MAX_COMPLAINT_LENGTH)) from None
        raise _unreadable(body, error) from None
    undecoded = review.request
    if review.api_version != API_VERSION or review.kind != KIND or undecoded is None or not undecoded.uid:
        raise _not_a_review(review)
    request = AdmissionRequest(*(getattr(undecoded, name) for name in _Envelope.__struct_fields__))
    if not request.handled:
        return request
    try:
        problems = problems_of(_decode_anything(undecoded.object))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        problems = ()
    problems = problems or (unlocated(complaint),)
    first, others = problems[0], len(problems) - 1
    more = f" (and {others} more)" if others else ""
    audit = {"decision": Verdict.DENY.value, "reason": Reason.INVALID_POD.value}
    message = f"{first.field} {first.message}{more}"
    raise WrongPod(request, Decision(Verdict.DENY, Reason.INVALID_POD, message=message, problems=problems, audit=audit))
