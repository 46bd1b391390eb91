"""The grammars of names that a policy may hold, each with the words that say what is allowed."""

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from webhook.domain.gpunames import PRODUCT_LABEL, PRODUCT_MIG_INFIX, PRODUCT_SHARED_SUFFIX
from webhook.domain.mig import parse_profile
from webhook.domain.names import dns_label_fault, dns_subdomain_fault, label_value_fault, qualified_name_fault

# `requests.` stands before the name of an extended resource in a ResourceQuota and must still fit.
_QUOTA_PREFIX: Final = "requests."

_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*", re.ASCII)
_PLAIN_WORD: Final = re.compile(r"[A-Za-z][-A-Za-z0-9_./+]*", re.ASCII)
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


class Grammar(Struct, frozen=True, gc=False):
    """A kind of name: whether a text is one, and how to say what is."""

    allowed: str
    accepts: Callable[[str], bool]


def is_dns_label(text: str) -> bool:
    """What namespaces and our own names are."""
    return not dns_label_fault(text)


def is_dns_subdomain(text: str) -> bool:
    """Labels with dots between."""
    return not dns_subdomain_fault(text)


def is_qualified_name(text: str) -> bool:
    """A label or annotation key."""
    return not qualified_name_fault(text)


def is_label_value(text: str) -> bool:
    """A label's value, which may be empty."""
    return not label_value_fault(text)


def is_mig_profile(text: str) -> bool:
    """A profile as catalogues list it: media engines and the like change nothing in its memory and are left out."""
    profile = parse_profile(text)
    return profile is not None and profile.name == text


def is_extended_resource(text: str) -> bool:
    """A resource that a node may offer (pkg/apis/core/v1/helper, IsExtendedResourceName)."""
    _, slash, _ = text.rpartition("/")
    if not slash or text.startswith(_QUOTA_PREFIX) or "kubernetes.io/" in text:
        return False
    return is_qualified_name(_QUOTA_PREFIX + text)


def is_product(text: str) -> bool:
    """A card's product; what the device plugin adds for shared and divided cards is taken off before comparing."""
    divided = text.endswith(PRODUCT_SHARED_SUFFIX) or PRODUCT_MIG_INFIX in text
    return bool(text) and is_label_value(text) and not divided


def is_kind_and_group(text: str) -> bool:
    """`RayCluster.ray.io`, `Job.batch`, or a bare kind of the core group."""
    kind, dot, group = text.partition(".")
    return _KIND.fullmatch(kind) is not None and (not dot or is_dns_subdomain(group))


def is_user_name(text: str) -> bool:
    """A user as userInfo gives it; a service account's must be complete."""
    if not text or len(text) > 1024 or text != text.strip() or "*" in text or not text.isprintable():
        return False
    if not text.startswith(_SERVICE_ACCOUNT):
        return True
    namespace, colon, name = text.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return bool(colon) and is_dns_label(namespace) and is_dns_subdomain(name)


def is_plain_word(text: str) -> bool:
    """Whether YAML reads the bare text as text everywhere; used only to write values for people."""
    return _PLAIN_WORD.fullmatch(text) is not None


def is_model_name(text: str) -> bool:
    """A model as engines name it: a repository id, a path, a served name."""
    return 0 < len(text) <= 512 and text.isprintable() and not any(character.isspace() for character in text)


DNS_LABEL: Final = Grammar("a DNS label (a-z, 0-9 and - between, at most 63 characters)", is_dns_label)
DNS_SUBDOMAIN: Final = Grammar(
    "a DNS subdomain (DNS labels with dots between, at most 253 characters)", is_dns_subdomain
)
QUALIFIED_NAME: Final = Grammar(
    "a label key (an optional domain and /, then letters, digits, - _ . inside, at most 63 characters)",
    is_qualified_name,
)
LABEL_VALUE: Final = Grammar("a label value (letters, digits, - _ . inside, at most 63 characters)", is_label_value)
PRODUCT: Final = Grammar(
    f"a value of the label {PRODUCT_LABEL} without {PRODUCT_SHARED_SUFFIX} and {PRODUCT_MIG_INFIX}…, such as NVIDIA-L4",
    is_product,
)
EXTENDED_RESOURCE: Final = Grammar(
    "an extended resource name (domain/name, domain outside kubernetes.io)", is_extended_resource
)
KIND_AND_GROUP: Final = Grammar("Kind.group, such as RayCluster.ray.io or Job.batch", is_kind_and_group)
USER_NAME: Final = Grammar(
    "a user name in full, such as system:serviceaccount:NAMESPACE:NAME (no wildcards)", is_user_name
)
MODEL_NAME: Final = Grammar("a model name without spaces, at most 512 characters", is_model_name)
MIG_PROFILE: Final = Grammar("a MIG profile without attributes, such as 3g.40gb", is_mig_profile)
PROSE: Final = Grammar(
    "text of one line, at most 1000 characters",
    lambda text: 0 < len(text.strip()) <= 1000 and text.strip().isprintable(),
)
