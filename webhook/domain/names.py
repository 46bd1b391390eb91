"""What Kubernetes accepts as names, label keys and label values (apimachinery/pkg/util/validation/validation.go).

Each function returns the reason why a text is refused, or an empty string. Pods repeat the same few keys, so answers
are remembered; the bound keeps a flood of invented keys from growing the process.
"""

import re
from functools import lru_cache

LABEL_LENGTH = 63
"""DNS1123LabelMaxLength, LabelValueMaxLength and the name part of a qualified name."""

SUBDOMAIN_LENGTH = 253
"""DNS1123SubdomainMaxLength."""

_REMEMBERED = 8192

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)


def _fault(text: str, longest: int, grammar: re.Pattern[str], allowed: str) -> str:
    if len(text) > longest:
        return f"{len(text)} characters, at most {longest} are allowed"
    if not grammar.fullmatch(text):
        return f"{text!r} is not {allowed}"
    return ""


@lru_cache(maxsize=_REMEMBERED)
def dns_label_fault(text: str) -> str:
    """A container, namespace or volume name: `[a-z0-9-]`, at most 63 characters."""
    return _fault(text, LABEL_LENGTH, _DNS_LABEL, "a DNS label (lower-case letters, digits and '-', not first or last)")


@lru_cache(maxsize=_REMEMBERED)
def dns_subdomain_fault(text: str) -> str:
    """A pod name: DNS labels joined by dots, at most 253 characters."""
    return _fault(
        text,
        SUBDOMAIN_LENGTH,
        _DNS_SUBDOMAIN,
        "a DNS subdomain (lower-case letters, digits, '-' and '.', starting and ending with a letter or digit)",
    )


@lru_cache(maxsize=_REMEMBERED)
def qualified_name_fault(text: str) -> str:
    """A label key, annotation key, gate or resource name: `name` or `dns.subdomain/name`."""
    prefix, slash, name = text.rpartition("/")
    if slash:
        fault = dns_subdomain_fault(prefix)
        if fault:
            return f"prefix {fault}"
    return _fault(name, LABEL_LENGTH, _NAME, "a name (letters, digits, '-', '_' and '.', letter or digit at both ends)")


@lru_cache(maxsize=_REMEMBERED)
def label_value_fault(text: str) -> str:
    """A label value: empty, or a name of at most 63 characters."""
    if not text:
        return ""
    return _fault(
        text, LABEL_LENGTH, _NAME, "a label value (letters, digits, '-', '_' and '.', letter or digit at both ends)"
    )
