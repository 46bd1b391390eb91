"""`gpus`: cards that the policy adds to the built-in catalogue, or fields of a built-in card that it overrides."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from webhook.domain.rules import Gpu
from webhook.policy import names
from webhook.policy.kinds import Exact, Flag, Named, Nothing, Text, Whole
from webhook.policy.records import Field, Given, ListOf, MappingOf, Record
from webhook.policy.report import At

# Ten terabytes: catches a byte count, or `80Gi`, where MiB are meant.
_MOST_MIB: Final = 10 * 1024 * 1024


class GpuEntry(Struct, frozen=True, gc=False):
    """The fields that one entry of `gpus` gives, before they are laid over a built-in card."""

    given: dict[str, Any]
    at: At

    @property
    def name(self) -> str:
        """The card's name."""
        return str(self.given["name"])


def _entry(**given: Any) -> GpuEntry:
    return GpuEntry(given, given.pop("at"))


def _check_entry(given: Given, at: At) -> None:
    memory = given.get("memory_mib")
    for profile, mib in given.get("mig_profiles", {}).items():
        if memory is not None and mib is not None and mib > memory:
            at.down("migProfiles").down(profile).error(f"found {mib}; must be at most memoryMiB, which is {memory}")
    given["at"] = at


GPU: Final = Record(
    "a GPU",
    Gpu,
    (
        Field("name", Named("gpu"), "The card's name in this policy, such as a100-80gb.", required="name the card"),
        Field(
            "products",
            ListOf(Text(names.PRODUCT), "values of the label nvidia.com/gpu.product", unique=True),
            "Values of nvidia.com/gpu.product that mean this card, without -SHARED and -MIG-….",
            absent="the built-in card's",
        ),
        Field(
            "memoryMiB",
            Whole(maximum=_MOST_MIB),
            "MiB of the whole card as the driver reports it (label nvidia.com/gpu.memory).",
            attribute="memory_mib",
            absent="the built-in card's",
        ),
        Field(
            "migProfiles",
            MappingOf(Text(names.MIG_PROFILE), Nothing(Whole(maximum=_MOST_MIB)), "MIG profiles to MiB"),
            "MiB that the driver reports for each MIG profile; laid over the built-in ones profile by profile.",
            absent="the built-in card's",
        ),
        Field(
            "bandwidthGBs",
            Exact(),
            "Memory bandwidth in GB/s (10^9 bytes), for the roofline.",
            attribute="bandwidth_gbs",
            absent="the built-in card's; unknown: no roofline",
        ),
        Field(
            "fp16TFLOPS",
            Exact(),
            "Dense FP16 and BF16 TFLOPS, without sparsity.",
            attribute="fp16_tflops",
            absent="the built-in card's; unknown: no roofline",
        ),
        Field(
            "fp8TFLOPS",
            Exact(),
            "Dense FP8 TFLOPS, without sparsity.",
            attribute="fp8_tflops",
            absent="the built-in card's; unknown or none: FP8 weights run at fp16TFLOPS",
        ),
        Field(
            "nvlink",
            Flag(),
            "Whether several of these cards talk over NVLink; false: tensor parallelism pays up to four cards.",
            absent="the built-in card's, else true",
        ),
        Field(
            "nodeLabels",
            MappingOf(
                Text(names.QUALIFIED_NAME),
                ListOf(Text(names.LABEL_VALUE), "label values", unique=True),
                "node labels to lists of values",
            ),
            "Values of cloud providers' node labels that mean this card; laid over the built-in ones label by label.",
            absent="the built-in card's",
        ),
        Field("source", Text(names.PROSE), "Where the figures come from, for people.", absent="the built-in card's"),
    ),
    make=_entry,
    finish=_check_entry,
)

GPUS: Final = ListOf(GPU, "GPUs", may_be_empty=True)

# Laid over key by key; every other field replaces the built-in one.
_BY_KEY: Final = ("mig_profiles", "node_labels")


def lay_over(base: Mapping[str, Gpu], entries: tuple[GpuEntry, ...]) -> dict[str, Gpu]:
    """The catalogue with the entries laid over it. A new card without products or memoryMiB is reported."""
    cards = dict(base)
    for entry in entries:
        card = cards.get(entry.name)
        if card is not None:
            given = {
                key: {**getattr(card, key), **value} if key in _BY_KEY else value for key, value in entry.given.items()
            }
            cards[entry.name] = msgspec.structs.replace(card, **given)
        elif _is_whole(entry, base):
            cards[entry.name] = Gpu(**entry.given)
    _report_shared_products(cards, entries)
    return cards


def _is_whole(entry: GpuEntry, base: Mapping[str, Gpu]) -> bool:
    missing = [
        key
        for key, attribute in (("products", "products"), ("memoryMiB", "memory_mib"))
        if attribute not in entry.given
    ]
    for key in missing:
        entry.at.down(key).error(
            f"is missing; a card that is not built in needs it (built in: {', '.join(base) or 'none'})"
        )
    return not missing


def _report_shared_products(cards: Mapping[str, Gpu], entries: tuple[GpuEntry, ...]) -> None:
    at_of = {entry.name: entry.at for entry in entries}
    owners: dict[str, str] = {}
    # Cards of the policy last, so that the error stands at the policy's entry.
    for name in sorted(cards, key=lambda name: name in at_of):
        for product in cards[name].products:
            owner = owners.setdefault(product.casefold(), name)
            if owner != name and (at := at_of.get(name)) is not None:
                at.down("products").error(
                    f"{product} is already a product of {owner}; override {owner} by its name, or leave the product out"
                )
