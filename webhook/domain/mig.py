"""MIG profiles: which part of a card one is, how much memory it really has, and which one holds what is asked.

Names: `3g.40gb`, with `+me` for the media engines (at most one for each card, and not counted by KAI); the resource of
k8s-device-plugin is `nvidia.com/mig-3g.40gb`, with `.` for `+` and perhaps `.shared`.
"""

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

from msgspec import Struct

from webhook.domain.gpunames import MIG_PREFIX, SHARED_SUFFIX
from webhook.domain.rules import Gpu

COMPUTE_SLICES = 7
"""Of every card but the A30 and its kind, which have four."""

ENOUGH_PERCENT = 98
"""A profile holds what is asked when its real memory is this much of it: `gpu.memory` itself varies by 2 %."""

_UNSOURCED_MIB_PER_100_GB = 88 * 1024
"""A profile without a reported size counts as 0.88 GiB for each GB of its name."""

_WHOLE_CARD_PERCENT = 90
"""The profile with this much of the card's memory is the whole card; its compute slices are all there are."""

_PROFILE = re.compile(r"([1-9][0-9]?)g\.([1-9][0-9]{0,3})gb([.+-][a-z.+]+)?", re.ASCII)


class MigProfile(Struct, frozen=True, gc=False):
    """A profile, by its name."""

    name: str
    """Without attributes: `1g.10gb`."""
    slices: int
    gigabytes: int
    attributes: str = ""
    """`+me`, `+gfx`, `-me` …"""


class Choice(Struct, frozen=True, gc=False):
    """The profile that holds a share, on whichever of the cards it lands."""

    profile: MigProfile
    part: Fraction
    memory_mib: int


@lru_cache(maxsize=512)
def parse_profile(text: str) -> MigProfile | None:
    """A profile such as `1g.10gb`, `1g.10gb+me` or `1g.10gb.me`; None where it is none."""
    match = _PROFILE.fullmatch(text)
    if match is None:
        return None
    slices, gigabytes, attributes = match.groups()
    attributes = (attributes or "").replace(".", "+")
    return MigProfile(f"{slices}g.{gigabytes}gb", int(slices), int(gigabytes), attributes)


def profile_of_resource(resource: str) -> MigProfile | None:
    """The profile of `nvidia.com/mig-1g.10gb`, shared or not."""
    return parse_profile(resource.removeprefix(MIG_PREFIX).removesuffix(SHARED_SUFFIX))


def part_of_card(profile: MigProfile, cards: Iterable[Gpu]) -> Fraction:
    """Compute slices of those that the card has; the smallest part where several cards may be meant."""
    total = max((_compute_slices(card) for card in cards), default=COMPUTE_SLICES)
    return min(Fraction(1), Fraction(profile.slices, total))


def memory_mib(profile: MigProfile, cards: Iterable[Gpu]) -> int:
    """MiB that the driver reports for the profile, the least of the cards that have it."""
    reported = [_memory_on(profile, card) for card in cards if profile.name in card.mig_profiles]
    return min(reported, default=_by_name(profile))


def choose(cards: tuple[Gpu, ...], asked_mib: Callable[[Gpu], Fraction]) -> Choice | None:
    """The plain profile with the fewest compute slices, then the least memory, that holds what is asked on every card.

    None where the cards have no such profile in common.
    """
    fitting: list[tuple[int, int, MigProfile]] = []
    for name in cards[0].mig_profiles:
        profile = parse_profile(name)
        if profile is None or profile.attributes:
            continue
        if all(
            name in card.mig_profiles and _memory_on(profile, card) * 100 >= asked_mib(card) * ENOUGH_PERCENT
            for card in cards
        ):
            fitting.append((profile.slices, memory_mib(profile, cards), profile))
    if not fitting:
        return None
    _, memory, profile = min(fitting, key=lambda one: one[:2])
    return Choice(profile=profile, part=part_of_card(profile, cards), memory_mib=memory)


def largest(cards: Iterable[Gpu]) -> str:
    """Each card's largest plain profile with its memory, for messages."""
    told = []
    for card in cards:
        sizes = [
            (_memory_on(profile, card), profile.name)
            for profile in map(parse_profile, card.mig_profiles)
            if profile is not None and not profile.attributes
        ]
        told.append(f"{card.name}: {max(sizes)[1]} with {max(sizes)[0]} MiB" if sizes else f"{card.name}: no MIG")
    return "; ".join(told)


def _memory_on(profile: MigProfile, card: Gpu) -> int:
    reported = card.mig_profiles.get(profile.name + profile.attributes) or card.mig_profiles.get(profile.name)
    return reported or _by_name(profile)


def _by_name(profile: MigProfile) -> int:
    return profile.gigabytes * _UNSOURCED_MIB_PER_100_GB // 100


def _compute_slices(card: Gpu) -> int:
    for name in card.mig_profiles:
        profile = parse_profile(name)
        if profile is not None and _memory_on(profile, card) * 100 >= card.memory_mib * _WHOLE_CARD_PERCENT:
            return profile.slices
    return COMPUTE_SLICES
