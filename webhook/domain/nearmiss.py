"""Keys that look like one of KAI's share annotations, or of ours, but are not: such a pod silently gets nothing.

Seen in the field: `nvidia.com/gpu.memory: "8000Mi"` as an annotation, ignored without a word (KAI-Scheduler issue 257).
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches

from webhook.domain import keys
from webhook.domain.gpunames import MIG_PREFIX
from webhook.domain.pod import Pod

_KAI_NAMES = keys.KAI_SHARE_ANNOTATIONS
_OUR_ANNOTATIONS = frozenset((*keys.TENANT_ANNOTATIONS, keys.CLAIM_ANNOTATION, keys.SHARE_ANNOTATION))
_OUR_NAMES = tuple(key.removeprefix(keys.PREFIX) for key in keys.TENANT_ANNOTATIONS)
_OUR_DOMAIN = keys.PREFIX.rstrip("/")
_CUTOFF = 0.85
"""difflib's ratio: one letter missing, doubled or swapped in these names is above it, their neighbours are below."""

_DOMAIN_CUTOFF = 0.75
"""`tollgate.io` and `tolgate.dev` are above it; the name must resemble one of ours as well."""

_NAME_CUTOFF = 0.6
"""Within our own domain every unknown name is a mistake, so a distant resemblance helps too."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[._\s]+")
_LONGEST_KEY = 80
"""Nothing longer resembles a name of ours; keeps difflib cheap."""


_MOST_KEYS = 64
"""So many suspicious keys are looked at, no more: each costs difflib a while, and labels have no limit in number."""


def near_misses(pod: Pod) -> tuple[str, ...]:
    """One warning for each such key, naming the key that was probably meant."""
    found: list[str] = []
    if pod.metadata.annotations:
        _look(pod.metadata.annotations, found, label=False)
    if pod.metadata.labels:
        _look(pod.metadata.labels, found, label=True)
    return tuple(found)


def _look(entries: Mapping[str, str], found: list[str], *, label: bool) -> None:
    looked_at = 0
    for key in entries:
        # Substring tests keep every other key at no cost.
        if "toll" in key or "gate" in key or "gpu" in key or "GPU" in key or "Gpu" in key or key.startswith(MIG_PREFIX):
            warning = _warning(key, label=label)
            if warning is not None:
                found.append(warning)
            looked_at += 1
            if looked_at == _MOST_KEYS:
                break


def _warning(key: str, *, label: bool) -> str | None:
    kind = "label" if label else "annotation"
    if len(key) > _LONGEST_KEY:
        return None
    if label and (key in _KAI_NAMES or key in keys.TENANT_ANNOTATIONS):
        return f"label {key} is not read; write it as an annotation"
    if key in _KAI_NAMES or key in _OUR_ANNOTATIONS or (label and key == keys.BUDGET_LABEL):
        return None
    if not label and key.startswith(MIG_PREFIX):
        return f"annotation {key} is not read by any scheduler today; ask for limits {key}: 1"
    domain, slash, name = key.rpartition("/")
    if slash and get_close_matches(domain, (_OUR_DOMAIN,), 1, _DOMAIN_CUTOFF):
        return _ours(kind, key, domain, name)
    meant = _close(name, _KAI_NAMES)
    return None if meant is None else f"{kind} {key} is not read; did you mean the annotation {meant}?"


def _ours(kind: str, key: str, domain: str, name: str) -> str | None:
    meant = _close(name, _OUR_NAMES, cutoff=_NAME_CUTOFF if domain == _OUR_DOMAIN else _CUTOFF)
    if meant is not None:
        return f"{kind} {key} is not read; did you mean the annotation {keys.PREFIX}{meant}?"
    if domain == _OUR_DOMAIN:
        return f"{kind} {key} is not read; known annotations: {', '.join(keys.TENANT_ANNOTATIONS)}"
    return None


def _close(name: str, known: tuple[str, ...], cutoff: float = _CUTOFF) -> str | None:
    """The known name that this one resembles, whatever its case and separators."""
    plain = _SEPARATORS.sub("-", _CAMEL.sub("-", name)).lower()
    if plain in known:
        return plain
    close = get_close_matches(plain, known, 1, cutoff)
    return close[0] if close else None
