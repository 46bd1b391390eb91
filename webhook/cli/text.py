"""`tollgate review` for people: a table to see at a glance, then every message in full.

On a terminal the table wraps to its width; into a pipe or a file nothing is coloured, wrapped or cut.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.cli.results import Result, Review
from webhook.domain.outcome import Verdict
from webhook.observe.text import one_line

_STYLES: Final = {
    Verdict.ADMIT: "green",
    Verdict.HOLD: "yellow",
    Verdict.DENY: "bold red",
    Verdict.UNTOUCHED: "dim",
}
_SUMS: Final = {
    Verdict.ADMIT: "admitted",
    Verdict.HOLD: "held",
    Verdict.DENY: "denied",
    Verdict.UNTOUCHED: "untouched",
}

_PATCHED: Final = (
    ("/metadata/labels", "labels"),
    ("/metadata/annotations", "annotations"),
    ("/spec/schedulingGates", "gate"),
    ("/spec/schedulerName", "scheduler"),
    ("/spec/containers", "resources"),
    ("/spec/nodeSelector", "node selector"),
    ("/spec/affinity", "affinity"),
    ("/spec/tolerations", "tolerations"),
)

_UNWRAPPED_WIDTH = 100_000
"""Characters, for output that nobody sees on a terminal."""

_ROOM_FOR_PATCHES = 110
"""Columns, below which what is patched stands beside the messages, so that names in the table are not cut to pieces."""

_LONGEST_LINE = 100_000


def print_review(review: Review, out: TextIO | None = None) -> None:
    """Writes the table, the messages and the sum."""
    file = out or sys.stdout
    console = Console(file=file, highlight=False, width=None if file.isatty() else _UNWRAPPED_WIDTH)
    if not review.results:
        console.print("No Pod and no known workload in these documents.")
        return
    narrow = console.width < _ROOM_FOR_PATCHES
    console.print(_table(review.results, patches=not narrow))
    for result in review.results:
        _print_messages(console, result, patches=narrow)
    console.print()
    console.print(_sum(review))


def _table(results: Iterable[Result], *, patches: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("VERDICT", "REASON"):
        table.add_column(heading, no_wrap=True)  # single words, which no terminal should break
    for heading in ("OBJECT", "CLAIM", "BUDGET (tokens/s)", *(["PATCHED"] if patches else [])):
        table.add_column(heading, overflow="fold")
    for result in results:
        table.add_row(
            Text(result.verdict, style=_STYLES[result.verdict]),
            Text(result.reason),
            Text(_object(result)),
            Text(_claim(result)),
            Text(_budget(result)),
            *([Text(_patched(result))] if patches else []),
        )
    return table


def _object(result: Result) -> str:
    times = f" ×{result.replicas}" if result.replicas != 1 else ""
    return _clean(f"{result.kind} {result.namespace}/{result.name}{times}")


def _claim(result: Result) -> str:
    return f"{result.claim.tokens_per_second} ({result.claim.source})" if result.claim is not None else "-"


def _budget(result: Result) -> str:
    """What is held before this document, and after it where it is admitted."""
    budget = result.budget
    if budget is None:
        return "-"
    before = budget.used + budget.reserved
    admitted = result.verdict is Verdict.ADMIT and result.claim is not None
    after = f" → {before + result.claim.tokens_per_second}" if admitted and result.claim is not None else ""
    return _clean(f"{budget.name}: {before}{after} of {budget.nominal}")


def _patched(result: Result) -> str:
    paths = [str(operation["path"]) for operation in result.patch]
    return ", ".join(name for prefix, name in _PATCHED if any(path.startswith(prefix) for path in paths)) or "-"


def _print_messages(console: Console, result: Result, *, patches: bool) -> None:
    patched = patches and bool(result.patch)
    if not (result.message or result.warnings or patched):
        return
    console.print()
    title = Text(result.verdict, style=_STYLES[result.verdict])
    title.append(_clean(f" {_object(result)} ({result.source})"), style="default")
    console.print(title, soft_wrap=True)
    if result.message:
        console.print(Text(f"  {_clean(result.message)}"), soft_wrap=True)
    for warning in result.warnings:
        console.print(Text(f"  warning: {_clean(warning)}", style="yellow"), soft_wrap=True)
    if patched:
        console.print(f"  patched: {_patched(result)}", soft_wrap=True)


def _sum(review: Review) -> str:
    counts = Counter(result.verdict for result in review.results)
    return ", ".join(f"{counts[verdict]} {word}" for verdict, word in _SUMS.items() if counts[verdict])


def _clean(text: str) -> str:
    """Text of documents, without anything that a terminal would act on."""
    return one_line(text, _LONGEST_LINE)
