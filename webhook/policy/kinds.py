"""The kinds of single values in a policy: each says what is allowed, parses, and writes a value back for people.

`allowed` serves error messages and `tollgate config explain` alike; `parse` reports to `at` and raises Rejected.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from webhook.domain import dtypes, quantity
from webhook.policy import durations, names
from webhook.policy.report import At, did_you_mean, found, quoted
from webhook.policy.yaml12 import Number

EnumT = TypeVar("EnumT", bound=StrEnum)
ValueT_co = TypeVar("ValueT_co", covariant=True)

LARGEST: Final = 2**53 - 1
"""What every JSON reader keeps exactly."""


_SHOWN_DIGITS: Final = 40


class Kind(Protocol[ValueT_co]):
    """One kind of value."""

    @property
    def allowed(self) -> str:
        """What is allowed, to follow `must be`."""
        ...

    def parse(self, value: object, at: At) -> ValueT_co:
        """The value itself. Reports to `at` and raises Rejected where it is wrong."""
        ...

    def render(self, value: Any) -> str:
        """The value as one would write it."""
        ...


class Text(Struct, frozen=True, gc=False):
    """Text of one grammar. Numbers and booleans are never converted to text."""

    grammar: names.Grammar

    @property
    def allowed(self) -> str:
        """The grammar in words."""
        return self.grammar.allowed

    def parse(self, value: object, at: At) -> str:
        """The text."""
        if not isinstance(value, str) or not self.grammar.accepts(value):
            at.reject_value(value, self.allowed)
        return str(value)

    def render(self, value: str) -> str:
        """The text, in quotes where YAML needs them."""
        return value if names.is_plain_word(value) else f'"{value}"'


class Named(Struct, frozen=True, gc=False):
    """Text that gives a name to something, unique in its space (`budget`, `gpu`)."""

    space: str
    grammar: names.Grammar = names.DNS_LABEL

    @property
    def allowed(self) -> str:
        """The grammar in words."""
        return self.grammar.allowed

    def parse(self, value: object, at: At) -> str:
        """The name; noted, since others may refer to it."""
        name = Text(self.grammar).parse(value, at)
        at.define(self.space, name)
        return name

    def render(self, value: str) -> str:
        """The name."""
        return Text(self.grammar).render(value)


class Reference(Struct, frozen=True, gc=False):
    """Text that names something defined elsewhere; whether it exists is checked once the whole file is read."""

    space: str
    what: str

    @property
    def allowed(self) -> str:
        """What it must name."""
        return self.what

    def parse(self, value: object, at: At) -> str:
        """The name; noted for the check at the end."""
        if not isinstance(value, str):
            at.reject_value(value, self.allowed)
        at.refer(self.space, str(value))
        return str(value)

    def render(self, value: str) -> str:
        """The name."""
        return value


class Choice(Struct, Generic[EnumT], frozen=True, gc=False):
    """One member of an enum, by its exact value."""

    enum: type[EnumT]

    @property
    def allowed(self) -> str:
        """The members."""
        return ("one of " if len(self.enum) > 1 else "") + ", ".join(self.enum)

    def parse(self, value: object, at: At) -> EnumT:
        """The member; another spelling is an error that names the nearest."""
        if not isinstance(value, str):
            at.reject_value(value, self.allowed)
        members = {member.value: member for member in self.enum}
        if value not in members:
            at.reject(f"found {quoted(value)}; must be {self.allowed}{did_you_mean(value, members)}")
        return members[value]

    def render(self, value: EnumT) -> str:
        """The member; structs that a pod decodes hold it as plain text."""
        return str(value)


class Flag(Struct, frozen=True, gc=False):
    """A boolean."""

    @property
    def allowed(self) -> str:
        """The two."""
        return "true or false"

    def parse(self, value: object, at: At) -> bool:
        """The boolean."""
        if not isinstance(value, bool):
            at.reject_value(value, self.allowed)
        return value

    def render(self, value: bool) -> str:  # noqa: FBT001 - the value itself
        """The boolean as YAML writes it."""
        return str(value).lower()


def exact_number(value: object, at: At, allowed: str) -> Fraction:
    """The exact value of a YAML number or of a Kubernetes quantity in text."""
    if isinstance(value, Number):
        return value.value
    if not isinstance(value, str):
        at.reject_value(value, allowed)
    try:
        return quantity.parse(value)
    except ValueError:
        at.reject(
            f"found {quoted(value)}; must be {allowed}, as a number or a Kubernetes quantity (24000, 24k, 70.6e9)"
        )


class Whole(Struct, frozen=True, gc=False):
    """A whole number within bounds. A string may be a Kubernetes quantity."""

    minimum: int = 1
    maximum: int = LARGEST

    @property
    def allowed(self) -> str:
        """The bounds in words."""
        if self.maximum == LARGEST:
            return f"a whole number of at least {self.minimum}"
        return f"a whole number from {self.minimum} to {self.maximum}"

    def parse(self, value: object, at: At) -> int:
        """The number."""
        exact = exact_number(value, at, self.allowed)
        if exact.denominator != 1 or not self.minimum <= exact <= self.maximum:
            most = f", at most {LARGEST}" if exact > LARGEST else ""
            at.reject(f"found {found(value)}; must be {self.allowed}{most}")
        return exact.numerator

    def render(self, value: int) -> str:
        """The number."""
        return str(value)


class Exact(Struct, frozen=True, gc=False):
    """An exact number above or from a bound on, never rounded."""

    above: Fraction | None = Fraction(0)
    at_least: Fraction | None = None
    at_most: Fraction | None = None

    @property
    def allowed(self) -> str:
        """The bounds in words."""
        low = f"above {decimal(self.above)}" if self.above is not None else ""
        if self.at_least is not None:
            low = f"of at least {decimal(self.at_least)}"
        return f"a number {low}" + (f" and at most {decimal(self.at_most)}" if self.at_most is not None else "")

    def parse(self, value: object, at: At) -> Fraction:
        """The number."""
        exact = exact_number(value, at, self.allowed)
        low = self.above is None or exact > self.above
        if self.at_least is not None:
            low = exact >= self.at_least
        if not low or exact > (self.at_most if self.at_most is not None else LARGEST):
            at.reject(f"found {found(value)}; must be {self.allowed}")
        return exact

    def render(self, value: Fraction) -> str:
        """The number as a decimal."""
        return decimal(value)


def decimal(value: Fraction) -> str:
    """A number for people, exact where it has a decimal form, as all have that come from YAML."""
    if value.denominator == 1:
        return str(value.numerator)
    with localcontext(prec=_SHOWN_DIGITS):
        return str((Decimal(value.numerator) / Decimal(value.denominator)).normalize()).lower()


class Duration(Struct, frozen=True, gc=False):
    """A duration in Go's form, zero or more; in seconds."""

    @property
    def allowed(self) -> str:
        """The form in words."""
        return "a duration of zero or more with its unit, such as 10m, 60s, 1h30m or 0s"

    def parse(self, value: object, at: At) -> Fraction:
        """The seconds."""
        if isinstance(value, Number):
            at.reject(f"found the number {value.text} without a unit; must be {self.allowed}")
        if not isinstance(value, str):
            at.reject_value(value, self.allowed)
        try:
            return durations.parse(value)
        except ValueError:
            at.reject_value(value, self.allowed)

    def render(self, value: Fraction) -> str:
        """The shortest Go form."""
        return durations.text_of(value)


class WeightDtype(Struct, frozen=True, gc=False):
    """A dtype of weights; every spelling that engines use, kept as the canonical name."""

    @property
    def allowed(self) -> str:
        """The canonical names."""
        return "one of " + ", ".join(dtypes.Dtype)

    def parse(self, value: object, at: At) -> str:
        """The canonical name."""
        if not isinstance(value, str):
            at.reject_value(value, self.allowed)
        dtype = dtypes.find(value)
        if dtype is None:
            known = [*dtypes.Dtype, *dtypes.ALIASES]
            at.reject(f"found {quoted(value)}; must be {self.allowed}{did_you_mean(value, known)}")
        return dtype.value

    def render(self, value: str) -> str:
        """The name."""
        return value


class Nothing(Struct, frozen=True, gc=False):
    """A kind that also takes null, where not to know is a statement of its own."""

    kind: Kind[Any]

    @property
    def allowed(self) -> str:
        """The kind in words, or null."""
        return f"{self.kind.allowed}, or null where no source gives it"

    def parse(self, value: object, at: At) -> Any:
        """The value, or None."""
        return None if value is None else self.kind.parse(value, at)

    def render(self, value: Any) -> str:
        """The value, or null."""
        return "null" if value is None else self.kind.render(value)


class Custom(Struct, frozen=True, gc=False):
    """A kind of which there is one."""

    allowed: str
    parser: Callable[[object, At], Any]
    renderer: Callable[[Any], str]
    members: Kind[Any] | None = None
    """The kind of collection that it can be, for people who ask about its members."""

    def parse(self, value: object, at: At) -> Any:
        """What the parser makes of it."""
        return self.parser(value, at)

    def render(self, value: Any) -> str:
        """What the renderer makes of it."""
        return self.renderer(value)
