"""A policy file to a Policy: `load(text)`. Strict; on any error there is no policy, and all errors are told."""

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from webhook.domain.rules import Gpu, Model, Policy
from webhook.domain.selectors import FirstMatch
from webhook.policy import checks, sources
from webhook.policy.catalogue import Catalogue, built_in
from webhook.policy.records import Given
from webhook.policy.report import MAX_ERRORS, At, PolicyError, PolicyErrors, Report
from webhook.policy.schema import gpus, models
from webhook.policy.schema.policy import POLICY
from webhook.policy.yaml12 import Number, Unclear

DIGEST_LENGTH: Final = 12

_HEAD: Final = ("api_version", "kind")
_FIRST_MATCH: Final = ("budgets", "queues", "sharing")


class Loaded(Struct, frozen=True, gc=False):
    """A policy that is right, and what is doubtful about it (one line each, with its path)."""

    policy: Policy
    warnings: tuple[str, ...] = ()


def load(text: str | bytes, catalogue: Catalogue | None = None) -> Loaded:
    """The policy of a file: a bare Policy, or a ConfigMap with the key `config.yaml`.

    It is laid over the built-in catalogue, or over another. Raises PolicyErrors with every error of the file.
    """
    base = catalogue or built_in()
    source = sources.find(text)
    report = Report()
    given = Given(source.value)
    # Not POLICY.parse: a wrong section costs only itself, and the others are still checked against each other.
    POLICY.parse_into(given, source.value, At(report))
    cards = gpus.lay_over(base.gpus, given.get("gpus", ()))
    checks.report_names(report, frozenset(cards))
    if report.errors or source.problems:
        raise PolicyErrors(_errors(source, report))
    policy = _policy(given, cards, base.models, digest(source.value))
    return Loaded(policy, tuple(checks.warnings(policy)))


def _policy(given: Given, cards: Mapping[str, Gpu], base: Mapping[str, Model], short_hash: str) -> Policy:
    fields = {key: value for key, value in given.items() if key not in _HEAD}
    fields.update({key: FirstMatch(fields[key]) for key in _FIRST_MATCH if key in fields})
    fields["gpus"] = MappingProxyType(dict(cards))
    fields["models"] = MappingProxyType(models.lay_over(base, given.get("models", ())))
    return Policy(**fields, digest=short_hash)


def _errors(source: sources.Source, report: Report) -> list[PolicyError]:
    errors = [*source.problems, *(source.error(path, message) for path, message in report.errors)]
    errors.sort(key=lambda error: error.line or 0)
    left_out = report.left_out + max(0, len(errors) - MAX_ERRORS)
    more = [PolicyError(source.prefix, f"and {left_out} more errors")] if left_out else []
    return errors[:MAX_ERRORS] + more


def digest(value: object) -> str:
    """A short hash of what the policy says: comments, order of keys and layout change nothing."""
    canonical = json.dumps(_canonical(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_LENGTH]


def _canonical(value: object) -> Any:
    match value:
        case Number():
            return {"number": str(value.value)}
        case Unclear():
            return {"text": value.text}
        case dict():
            return {key: _canonical(member) for key, member in value.items()}
        case list():
            return [_canonical(member) for member in value]
        case _:
            return value
