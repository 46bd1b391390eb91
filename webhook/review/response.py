"""A decision as an AdmissionReview v1 response, within the limits that the API server and kubectl set.

Sources: apiserver pkg/admission/plugin/webhook (errors/statuserror.go, mutating/dispatcher.go),
pkg/admission/attributes.go (audit keys), pkg/endpoints/filters/warning.go (warnings); kubectl
pkg/cmd/util/helpers.go (what people see).
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from webhook.domain.decide import Decision
from webhook.domain.outcome import Verdict
from webhook.observe.text import one_line
from webhook.review.wire import API_VERSION, KIND, AdmissionRequest

MAX_WARNING_LENGTH = 256
"""Beyond 4 KiB in all, the API server cuts every warning of a request to 256 characters."""

MAX_WARNINGS_LENGTH = 2048
"""Half of those 4 KiB, so that both of our calls and the webhooks of others have room."""

MAX_MESSAGE_LENGTH = 1024
"""A denial is one line; an Event's message ends at 1024 characters (core/v1 validation of events)."""

MAX_AUDIT_KEY_LENGTH = 63
"""The name part of a qualified name; a longer key is dropped by the API server (checkKeyFormat)."""

MAX_AUDIT_VALUE_LENGTH = 256
"""An audit event above 100 KiB loses its objects, then is dropped whole; ten of these are far below."""

_LEGAL_KEYS = frozenset(
    ("decision", "reason", "budget", "claim", "claim-source", "used", "limit", "share", "policy", "dry-run")
)
"""The keys that decisions write."""

_NOT_IN_AUDIT_KEY = re.compile(r"[^A-Za-z0-9_.-]+")


class _Cause(Struct, frozen=True, gc=False, omit_defaults=True):
    reason: str
    message: str
    field: str = ""


class _Details(Struct, frozen=True, gc=False, omit_defaults=True):
    kind: str
    name: str = ""
    causes: list[_Cause] = []


class _Status(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    status: str
    message: str
    reason: str
    details: _Details
    code: int


class _Response(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    audit_annotations: Mapping[str, str] | None = None
    warnings: list[str] | None = None


class _Review(Struct, frozen=True, gc=False, rename="camel"):
    api_version: str
    kind: str
    response: _Response


_encode = msgspec.json.Encoder().encode


def encode(request: AdmissionRequest, decision: Decision, patch: bytes = b"") -> bytes:
    """The body of the answer. `patch` is mutate's as JSON, empty for validate; a denial never carries one.

    A validating webhook must send no patch, a mutating one patch and patchType together, and none at all rather than an
    empty one, so that no second round of mutation is started.
    """
    denied = decision.verdict is Verdict.DENY
    warnings = decision.warnings
    if decision.verdict is Verdict.HOLD:
        warnings = (*warnings, decision.message)  # a pod that is allowed has no message, and its owner should know
    patched = bool(patch) and not denied
    response = _Response(
        uid=request.uid,
        allowed=not denied,
        status=_status(request, decision) if denied else None,
        patch=patch if patched else None,
        patch_type="JSONPatch" if patched else None,
        audit_annotations=_audit(decision.audit) if decision.audit else None,
        warnings=_warnings(warnings) if warnings else None,
    )
    return _encode(_Review(API_VERSION, KIND, response))


def _status(request: AdmissionRequest, decision: Decision) -> _Status:
    """For reason Invalid kubectl prints `The <kind> "<name>" is invalid:`, one bullet per cause, and no message.

    For Forbidden it prints the message; causes reach programs only. The names of kinds follow api/errors: NewInvalid
    takes the kind, NewForbidden the resource.
    """
    name = request.pod_name
    if decision.code == 422:
        causes = [
            _Cause(problem.reason.value, one_line(problem.message, MAX_MESSAGE_LENGTH), problem.field)
            for problem in decision.problems
        ]
        reason, details = "Invalid", _Details("Pod", name, causes)
    else:
        cause = _Cause(decision.reason.value, one_line(decision.message, MAX_MESSAGE_LENGTH))
        reason, details = "Forbidden", _Details("pods", name, [cause])
    return _Status("Failure", one_line(decision.message, MAX_MESSAGE_LENGTH), reason, details, decision.code)


def _warnings(warnings: Iterable[str]) -> list[str] | None:
    """Control characters would lose the whole header silently; the API server drops what is said twice."""
    kept: list[str] = []
    length = 0
    for warning in dict.fromkeys(one_line(warning, MAX_WARNING_LENGTH) for warning in warnings):
        length += len(warning)
        if length > MAX_WARNINGS_LENGTH:
            kept.append("more warnings are left out")
            break
        kept.append(warning)
    return kept


def _audit(annotations: Mapping[str, str]) -> Mapping[str, str]:
    # One look at all of them together: nearly always there is nothing to mend.
    together = "".join(annotations.values())
    if len(together) <= MAX_AUDIT_VALUE_LENGTH and together.isprintable() and _LEGAL_KEYS.issuperset(annotations):
        return annotations
    return {audit_key(key): one_line(value, MAX_AUDIT_VALUE_LENGTH) for key, value in annotations.items()}


@lru_cache(maxsize=256)
def audit_key(key: str) -> str:
    """A key that the API server accepts after `<webhook name>/`: no slash, at most 63 characters."""
    legal = _NOT_IN_AUDIT_KEY.sub("-", key).strip("-_.")
    return legal[:MAX_AUDIT_KEY_LENGTH].rstrip("-_.") or "unnamed"
