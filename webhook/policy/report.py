"""Where a parser of the policy stands and what it has found wrong: every error of a file in one report.

A parser calls `at.reject(...)`, which records the error and raises `Rejected`; the collection around it goes on with
its other parts. So one wrong value costs its own record and nothing else, and all errors are told together.
"""

import difflib
import re
from collections.abc import Iterable
from typing import Final, NoReturn

from msgspec import Struct

from webhook.policy.yaml12 import Number, Unclear

Path = tuple[str | int, ...]

MAX_ERRORS: Final = 1000
"""A file with more is not a policy; keeps a hostile one from costing time in search of nearest names."""

_PLAIN_STEP: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN_CHARACTERS: Final = 60


class PolicyError(Struct, frozen=True, gc=False):
    """One error: where, what was found, what is allowed. `str()` is one line."""

    path: str
    """As in `budgets[1].mix.input`; empty where the file itself is meant."""
    message: str
    line: int | None = None
    """From 1, in the file that was read; None where it has no line of its own."""

    def __str__(self) -> str:
        where = [f"line {self.line}"] if self.line is not None else []
        return ": ".join([*where, *([self.path] if self.path else []), self.message])


class PolicyErrors(ValueError):  # noqa: N818 - several errors in one
    """A file that is no policy, with all that is wrong in it, in the order of its lines."""

    def __init__(self, errors: Iterable[PolicyError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


class Rejected(Exception):  # noqa: N818 - not an error of its own: what it stands for is in the report already
    """The value at hand is wrong and has been reported."""


class Mention(Struct, frozen=True, gc=False):
    """A name that the file gives to something, or by which it refers to something."""

    space: str
    name: str
    at: "At"


class Report:
    """What parsing has found so far: errors, and the names given and used, for the checks that come at the end."""

    def __init__(self) -> None:
        self.errors: list[tuple[Path, str]] = []
        self.left_out = 0
        self.definitions: list[Mention] = []
        self.references: list[Mention] = []

    def add(self, path: Path, message: str) -> None:
        """One more error."""
        if len(self.errors) < MAX_ERRORS:
            self.errors.append((path, message))
        else:
            self.left_out += 1

    @property
    def full(self) -> bool:
        """Whether further errors are only counted."""
        return len(self.errors) >= MAX_ERRORS


class At(Struct, frozen=True, gc=False):
    """A place in the file, and the report to write to."""

    report: Report
    path: Path = ()

    def down(self, step: str | int) -> "At":
        """A member of the collection here."""
        return At(self.report, (*self.path, step))

    def define(self, space: str, name: str) -> None:
        """Notes that the value here gives this name to something."""
        self.report.definitions.append(Mention(space, name, self))

    def refer(self, space: str, name: str) -> None:
        """Notes that the value here must name something that exists."""
        self.report.references.append(Mention(space, name, self))

    def error(self, message: str) -> None:
        """Reports and goes on."""
        self.report.add(self.path, message)

    def reject(self, message: str) -> NoReturn:
        """Reports, and gives up the value at hand."""
        self.error(message)
        raise Rejected

    def reject_value(self, value: object, allowed: str) -> NoReturn:
        """Reports a value of the wrong type or outside its bounds, and gives it up."""
        self.reject(wrong(value, allowed))


def wrong(value: object, allowed: str) -> str:
    """`found 0; must be …`, with a hint where quotes were forgotten or a value is missing."""
    if isinstance(value, Unclear):
        return f"{value.reason}; must be {allowed}"
    hint = ""
    if value is None:
        hint = "; leave the key out or give it a value"
    elif isinstance(value, (Number, bool)) and "number" not in allowed and "true" not in allowed:
        hint = "; put it in quotes if it is meant as text"
    return f"found {found(value)}; must be {allowed}{hint}"


def found(value: object) -> str:
    """A value for people, short and on one line."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return f"the boolean {str(value).lower()}"
        case Number():
            return f"the number {value.text}"
        case str():
            return quoted(value)
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return quoted(str(value))


def quoted(text: str) -> str:
    """The text in quotes, cut where it is long."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "...")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody who wrote `name` most likely meant, or None."""
    # Sorted, for names often come as a set: the same file gets the same hint every time.
    by_folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    folded = name[:_SHOWN_CHARACTERS].casefold()
    # `h100` means h100-80gb, though h200 differs from it by fewer letters.
    longer = [candidate for candidate in by_folded if len(folded) > 2 and candidate.startswith(folded)]
    close = longer[:1] or difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?`, or nothing."""
    close = nearest(name, known)
    return f"; did you mean {close}?" if close else ""


def path_text(path: Path) -> str:
    """`budgets[1].mix.input`; keys that are no plain words stand in brackets: `gpus[0].migProfiles[3g.40gb]`."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, str) and _PLAIN_STEP.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            # quoted() cuts and escapes; brackets are quotes enough.
            parts.append(f"[{step if isinstance(step, int) else quoted(step)[1:-1]}]")
    return "".join(parts)
