"""What Kubernetes accepts as names, label keys and label values (apimachinery/pkg/util/validation/validation.go).

Each function returns the reason why a text is refused, or an empty string. Pods repeat the same few names, so those
that were right are remembered; what was wrong is not, so that nobody can fill the memory with it.
"""

import re
from typing import Final, Generic, TypeVar

LABEL_LENGTH: Final = 63
"""DNS1123LabelMaxLength, LabelValueMaxLength and the name part of a qualified name."""

SUBDOMAIN_LENGTH: Final = 253
"""DNS1123SubdomainMaxLength."""

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)

_PLAIN: Final = "abcdefghijklmnopqrstuvwxyz0123456789-"

T = TypeVar("T")


class Remembered(Generic[T]):
    """A bounded set of things known to be right; when it is full it starts anew."""

    __slots__ = ("members",)

    MOST: Final = 8192

    def __init__(self) -> None:
        self.members: set[T] = set()

    def add(self, thing: T) -> None:
        """One more; the caller has seen that it is short."""
        if len(self.members) >= self.MOST:
            self.members.clear()
        self.members.add(thing)


_LABELS = Remembered[str]()
QUALIFIED_NAMES: Final = Remembered[str]()
LABEL_VALUES: Final = Remembered[str]()


def _fault(text: str, longest: int, grammar: re.Pattern[str], allowed: str) -> str:
    if len(text) > longest:
        return f"{len(text)} characters, at most {longest} are allowed"
    if not grammar.fullmatch(text):
        return f"{text!r} is not {allowed}"
    return ""


def dns_label_fault(text: str) -> str:
    """A container, namespace or volume name: `[a-z0-9-]`, at most 63 characters."""
    if text in _LABELS.members:
        return ""
    allowed = "a DNS label (lower-case letters, digits and '-', not first or last)"
    fault = _fault(text, LABEL_LENGTH, _DNS_LABEL, allowed)
    if not fault:
        _LABELS.add(text)
    return fault


def dns_subdomain_fault(text: str) -> str:
    """A pod name: DNS labels joined by dots, at most 253 characters."""
    if 0 < len(text) <= SUBDOMAIN_LENGTH and not text.strip(_PLAIN) and text[0] != "-" != text[-1]:
        return ""  # nearly all: every pod has a name of its own, so remembering names would not help
    allowed = "a DNS subdomain (lower-case letters, digits, '-' and '.', starting and ending with a letter or digit)"
    return _fault(text, SUBDOMAIN_LENGTH, _DNS_SUBDOMAIN, allowed)


def qualified_name_fault(text: str) -> str:
    """A label key, annotation key, gate or resource name: `name` or `dns.subdomain/name`."""
    if text in QUALIFIED_NAMES.members:
        return ""
    prefix, slash, name = text.rpartition("/")
    if slash and (fault := dns_subdomain_fault(prefix)):
        return f"prefix {fault}"
    allowed = "a name (letters, digits, '-', '_' and '.', letter or digit at both ends)"
    fault = _fault(name, LABEL_LENGTH, _NAME, allowed)
    if not fault:
        QUALIFIED_NAMES.add(text)
    return fault


def label_value_fault(text: str) -> str:
    """A label value: empty, or a name of at most 63 characters."""
    if not text or text in LABEL_VALUES.members:
        return ""
    allowed = "a label value (letters, digits, '-', '_' and '.', letter or digit at both ends)"
    fault = _fault(text, LABEL_LENGTH, _NAME, allowed)
    if not fault:
        LABEL_VALUES.add(text)
    return fault
