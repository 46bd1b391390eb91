"""What `tollgate review` says, as the contract of its JSON has it: field names and order are those of the output."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from webhook.domain.budgets import Room
from webhook.domain.outcome import Claim, Verdict


class BudgetNumbers(Struct, frozen=True, gc=False):
    """A budget before this document, in tokens/s."""

    name: str
    nominal: int
    used: int
    """What running pods hold."""
    reserved: int
    """What documents admitted earlier in this call hold."""
    borrowable: int


class Result(Struct, frozen=True, gc=False):
    """The answer for one Pod or workload."""

    source: str
    kind: str
    namespace: str
    name: str
    verdict: Verdict
    reason: str
    message: str
    warnings: tuple[str, ...]
    patch: list[dict[str, Any]]
    object: dict[str, Any] | None
    """The pod after the patch: the document's own, or the one that its controller would create."""
    replicas: int
    fits: int
    """How many of the replicas would be admitted now."""
    claim: Claim | None
    """Of all replicas together."""
    budget: BudgetNumbers | None
    audit: dict[str, str]


class Review(Struct, frozen=True, gc=False, rename="camel"):
    """The whole output."""

    results: tuple[Result, ...]
    denied: int
    policy_warnings: tuple[str, ...]


def review_of(results: Sequence[Result], policy_warnings: Sequence[str]) -> Review:
    """The results with their sum."""
    denied = sum(result.verdict is Verdict.DENY for result in results)
    return Review(tuple(results), denied, tuple(policy_warnings))


def numbers_of(room: Room) -> BudgetNumbers:
    """The part of a budget's numbers that the contract names."""
    return BudgetNumbers(room.name, room.nominal, room.used, room.reserved, room.borrowable)


def plain(review: Review) -> dict[str, Any]:
    """The output as mappings, lists, texts and numbers."""
    builtins: dict[str, Any] = msgspec.to_builtins(review)
    return builtins
