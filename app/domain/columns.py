"""One column of a data set as a curator declares it: all of it public.

*Cells without a value.* A cell is *missing* when it is empty or null, or one of the
column's declared NA markers. ``missing`` says what then happens: ``"reject"`` refuses the
upload, ``"keep"`` stores that there is no value, a :class:`Fill` replaces the cell by a public
value, ``"drop"`` leaves the row out. Dropping is for add-remove only, because under replace-one
the row count is public and must not depend on what the cells hold. Any other cell that cannot be
read as its column's type is *unreadable*, which refuses the upload unless the column says to take
it as missing.
Numbers that count days or seconds since 1970 are dates and moments, as ISO 8601 text in JSON.

*What is typical of a column, as a curator may state it from public knowledge.* It shapes synthetic
rows. Of a number it is the scale of a quantile's base measure, too. No bound, no noise and no
guarantee depends on it. Like all of a declaration it is public, and never read off the rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from mechanisms.domain import NumberKind, zone_named
from mechanisms.words import spelling, trimmed, value_text, worded

DIRECTIVES: Mapping[str, str] = {
    "Y": "year", "y": "year", "m": "month", "b": "month", "B": "month", "d": "day",
    "j": "day of the year", "a": "weekday", "A": "weekday", "H": "hour", "I": "hour of twelve",
    "p": "half of the day", "M": "minute", "S": "second", "f": "fraction", "z": "offset", "%": "",
}  # fmt: skip
"""The letters that may follow a ``%``, and what each stands for."""
_TIMES = {"hour", "hour of twelve", "minute", "second", "fraction", "offset"}
_PARTS = re.compile(r"%(.?)", re.DOTALL)
_LONGEST = 100


def parts_of(pattern: str) -> frozenset[str]:
    """Return the letters of a pattern's directives."""
    return frozenset(_PARTS.findall(pattern))


def has_time(pattern: str) -> bool:
    """Say whether a pattern has a time of day."""
    return bool(parts_of(pattern) & set("HIMSfpz"))


def has_offset(pattern: str) -> bool:
    """Say whether a pattern has an offset from UTC."""
    return "z" in parts_of(pattern)


def format_fault(pattern: str) -> str | None:
    """Return what is wrong with a pattern, or None.

    >>> format_fault("%d.%m.%Y"), format_fault("%d.%m")
    (None, 'a pattern needs a year, a month and a day, as "%d.%m.%Y" or "%Y-%m-%d %H:%M:%S" has')
    """
    if not 1 <= len(pattern) <= _LONGEST or not pattern.isprintable():
        return worded("a pattern must be printable text of 1 to %(most)s characters", most=_LONGEST)
    found = parts_of(pattern)
    if not found <= DIRECTIVES.keys():
        names = " ".join(f"%{each}" for each in DIRECTIVES)
        return worded("a pattern has these directives only: %(names)s", names=names)
    named = {DIRECTIVES[each] for each in found}
    dated = "year" in named and ({"month", "day"} <= named or "day of the year" in named)
    clocked = "minute" in named and named & {"hour", "hour of twelve"}
    rules = (
        (not dated, worded('a pattern needs a year, a month and a day, as "%d.%m.%Y" or '
                           '"%Y-%m-%d %H:%M:%S" has')),
        (("I" in found) != ("p" in found),
         worded("a pattern needs %I and %p together, as in %I:%M %p")),
        (bool(named & _TIMES) and not clocked,
         worded("a pattern with a time needs its hour and minute: %H:%M")),
        ("%f" in pattern.replace("%S.%f", ""),
         worded("a pattern has %f only after seconds and a point: %S.%f")),
    )  # fmt: skip
    return next((said for broken, said in rules if broken), None)


# What is typical of a column, as a curator may state it from public knowledge

Fault = tuple[str, str]
"""A place within ``typical``, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class TypicalNumber:
    """Where the values of a number column usually lie, and how far apart, in its units."""

    mean: Fraction
    std: Fraction

    def faults(self, lower: Fraction, upper: Fraction) -> Iterator[Fault]:
        """Yield what is wrong with it in a column of these bounds."""
        if not lower <= self.mean <= upper:
            yield "mean", "must lie between the bounds"
        if not 0 < self.std <= upper - lower:
            yield "std", "must be above 0, and at most what the bounds are apart"


@dataclass(frozen=True, slots=True)
class TypicalShares:
    """How often each value of a category occurs; shares are of their sum, and 0 if not named."""

    shares: tuple[tuple[str, Fraction], ...]

    def faults(self, values: Sequence[str]) -> Iterator[Fault]:
        """Yield what is wrong with it in a column of these values."""
        named = [name for name, _ in self.shares]
        if not {*named} <= {*values}:
            yield "", "may name declared values only"
        elif len({*named}) < len(named):
            yield "", "a value has two shares"
        numbers = [share for _, share in self.shares]
        if any(share < 0 for share in numbers) or not sum(numbers) > 0:
            yield "", "must be shares of 0 or more, and not all 0"

    def of(self, values: Sequence[str]) -> tuple[Fraction, ...]:
        """Return the share of each of these values; they sum to 1."""
        known: Mapping[str, Fraction] = dict(self.shares)
        whole = sum(known.values())
        return tuple(known.get(value, Fraction(0)) / whole for value in values)


MAX_NAME_LENGTH = 100
MAX_CATEGORIES = 10_000
MAX_CATEGORY_LENGTH = 1_000
MAX_MARKERS = 100
MAX_LABEL_LENGTH = 200
DECIMALS = (".", ",")
THOUSANDS = (".", ",", " ", "'", "\u2019", "\u00a0", "\u202f", "\u2009")
"""Signs between groups of three digits; those of one kind stand for one another."""
MAX_FORMATS = 20
MAX_FORMAT_LENGTH = 100
MAX_SPELLINGS = 100
TRUE, FALSE = ("true", "1"), ("false", "0")
"""How booleans are spelt that do not say how."""
NO_ZONE = 'must be an IANA time zone, such as "Europe/Berlin" or "UTC"'
MAX_WHOLE = 2**63 - 1
"""Largest magnitude of a whole number: that of a 64-bit integer."""
MAX_BOUND = 10**100
"""Largest magnitude of a bound, and the inverse of the smallest width: squares stay floats."""


class InvalidSpecError(ValueError):
    """The declaration contradicts itself.

    Attributes
    ----------
    field_name
        The place in the spec, e.g. ``"columns.lower"``. A column's own name is
        public too, and :func:`app.domain.datasets.parse_columns` puts it in the place.
    detail
        What is wrong there; never a value.
    more
        What else is wrong, elsewhere.
    """

    def __init__(self, field_name: str, detail: str, more: Iterable[InvalidSpecError] = ()) -> None:
        super().__init__(detail)
        self.field_name = field_name
        self.detail = detail
        self.more = tuple(more)

    @property
    def faults(self) -> tuple[InvalidSpecError, ...]:
        """Return this and everything else that is wrong."""
        return (self, *self.more)

    def within(self, *places: str) -> list[InvalidSpecError]:
        """Return all that is wrong, seen from further out."""
        return [
            InvalidSpecError(".".join(filter(None, (*places, each.field_name))), each.detail)
            for each in self.faults
        ]


def refuse(faults: Iterable[InvalidSpecError]) -> None:
    """Raise all of these as one, if there are any.

    Raises
    ------
    InvalidSpecError
        There are.
    """
    found = list(faults)
    if found:
        raise InvalidSpecError(found[0].field_name, found[0].detail, found[1:])


@dataclass(frozen=True, slots=True)
class Fill:
    """A public value that takes the place of every missing cell; numbers are clamped."""

    value: Fraction | bool | str


Missing = Literal["reject", "keep", "drop"] | Fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a column is found in a file, and how its cells are read.

    ``na`` are the texts that stand for a missing cell. In a column of numbers they are
    numbers where they read as such: ``"-99"`` is ``-99.0`` too. ``unreadable`` says what
    becomes of a cell that is neither missing nor of the column's type. ``decimal`` is the sign
    before a number's decimals, ``thousands`` the one between groups of three digits, if any. With
    ``bare_number`` False letters, currency and percent signs around a number do not count.
    ``source`` is the header's text in the file, where it is not the column's name. ``true`` and
    ``false`` are a boolean's spellings. ``format`` are strptime patterns of dates and moments, and
    ``timezone`` names the zone of texts without an offset and of an instant's calendar day.
    """

    na: tuple[str, ...] = ()
    unreadable: Literal["reject", "missing"] = "reject"
    decimal: str = "."
    thousands: str | None = None
    bare_number: bool = True
    source: str | None = None
    true: tuple[str, ...] = TRUE
    false: tuple[str, ...] = FALSE
    format: tuple[str, ...] = ()
    timezone: str | None = None

    def faults(self) -> Iterator[InvalidSpecError]:
        """Yield what is wrong with it."""
        if len(self.na) > MAX_MARKERS:
            yield InvalidSpecError("na", f"declare at most {MAX_MARKERS} markers")
        elif not all(is_text(marker, MAX_CATEGORY_LENGTH) for marker in self.na):
            yield InvalidSpecError(
                "na", f"a marker must be printable text of 1 to {MAX_CATEGORY_LENGTH} characters"
            )
        if self.decimal not in DECIMALS:
            yield InvalidSpecError("decimal", 'must be "." or ","')
        elif self.thousands == self.decimal or self.thousands not in (None, *THOUSANDS):
            yield InvalidSpecError(
                "thousands",
                "must be a point, a comma, a space or an apostrophe, and not the decimal mark",
            )
        yield from self._spelling_faults()
        if len(self.format) > MAX_FORMATS:
            yield InvalidSpecError("format", f"declare at most {MAX_FORMATS} patterns")
        for pattern in self.format:
            if (fault := format_fault(pattern)) is not None:
                yield InvalidSpecError("format", fault)
        if self.timezone is not None and zone_named(self.timezone) is None:
            yield InvalidSpecError("timezone", NO_ZONE)

    def _spelling_faults(self) -> Iterator[InvalidSpecError]:
        for place, texts in (("true", self.true), ("false", self.false)):
            if not 1 <= len(texts) <= MAX_SPELLINGS:
                yield InvalidSpecError(place, f"declare 1 to {MAX_SPELLINGS} spellings")
            elif not all(is_text(trimmed(text), MAX_CATEGORY_LENGTH) for text in texts):
                yield InvalidSpecError(
                    place,
                    f"a spelling must be printable text of 1 to {MAX_CATEGORY_LENGTH} characters",
                )
        if not {*map(spelling, self.true)}.isdisjoint(map(spelling, self.false)):
            yield InvalidSpecError("false", "a spelling stands for true and for false")

    @property
    def plain_numbers(self) -> bool:
        """Return whether numbers are spelt as programs do."""
        return self.decimal == "." and self.thousands is None and self.bare_number


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The public description of a column, in addition to its name."""

    label: str | None = None
    unit_of_measure: str | None = None

    def faults(self) -> Iterator[InvalidSpecError]:
        """Yield what is wrong with it."""
        for place, text in (("label", self.label), ("unit_of_measure", self.unit_of_measure)):
            if text is not None and not is_text(text, MAX_LABEL_LENGTH):
                yield InvalidSpecError(
                    place, f"must be printable text of 1 to {MAX_LABEL_LENGTH} characters"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSpec:
    """A number with declared bounds [lower, upper]; values outside are clamped.

    ``kind`` says what it counts: days or seconds since 1970, or anything. All kinds but
    ``number`` are whole.
    """

    lower: Fraction
    upper: Fraction
    missing: Missing = "reject"
    kind: NumberKind = "number"
    reading: Reading = Reading()
    about: About = About()
    typical: TypicalNumber | None = None

    def __post_init__(self) -> None:
        refuse(self._faults())

    def _faults(self) -> Iterator[InvalidSpecError]:
        bounds = (("lower", self.lower), ("upper", self.upper))
        if max(abs(self.lower), abs(self.upper)) > MAX_BOUND:
            yield InvalidSpecError("lower", "bounds must be finite and at most 1e100 in magnitude")
        elif self.upper - self.lower < Fraction(1, MAX_BOUND):
            yield InvalidSpecError("lower", "lower must be below upper")
        elif self.kind != "number":
            for place, bound in bounds:
                if bound.denominator > 1 or abs(bound) > MAX_WHOLE:
                    yield InvalidSpecError(place, f"must be whole, and at most {MAX_WHOLE}")
        if isinstance(self.missing, Fill):
            fill = self.missing.value
            if not isinstance(fill, Fraction):
                yield InvalidSpecError(
                    "missing", 'missing must be "keep", "reject", "drop" or a number'
                )
            elif self.kind != "number" and fill.denominator > 1:
                yield InvalidSpecError("missing", "must be whole")
        if self.typical is not None:
            yield from _typical(self.typical.faults(self.lower, self.upper))
        zoned = self.kind != "date" or self.reading.timezone is not None
        if not zoned and any(map(has_offset, self.reading.format)):
            yield InvalidSpecError(
                "timezone", "is required: a pattern with %z is of instants, not of days"
            )
        yield from self.reading.faults()
        yield from self.about.faults()


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """What a category's values belong to: a value of another column, the level above, for each.

    ``of`` holds pairs of a value and what it belongs to. Like all of a declaration it is public.
    """

    column: str
    of: tuple[tuple[str, str], ...]

    @property
    def values(self) -> tuple[str, ...]:
        """Return the values of the level above, each once."""
        return tuple(dict.fromkeys(above for _, above in self.of))

    def faults(self, values: Sequence[str]) -> Iterator[InvalidSpecError]:
        """Yield what is wrong with it in a column of these values."""
        named = [value for value, _ in self.of]
        if not is_text(self.column, MAX_NAME_LENGTH):
            yield InvalidSpecError(
                "column", f"must be printable text of 1 to {MAX_NAME_LENGTH} characters"
            )
        if {*named} != {*values} or len(named) != len(values):
            yield InvalidSpecError(
                "of", "must name what each declared value belongs to, and nothing else"
            )
        elif not all(is_text(above, MAX_CATEGORY_LENGTH) for _, above in self.of):
            yield InvalidSpecError(
                "of", f"a value must be printable text of 1 to {MAX_CATEGORY_LENGTH} characters"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CategorySpec:
    """One of a closed list of texts; ``other`` stands for all texts that are not in it.

    With ``trim`` cells and values are compared without white space around them and in Unicode's
    composed form, and values are stored so. ``labels`` say what values mean, by value. ``within``
    says what values belong to.
    """

    values: tuple[str, ...]
    missing: Missing = "reject"
    other: str | None = None
    trim: bool = True
    labels: tuple[tuple[str, str], ...] = ()
    reading: Reading = Reading()
    about: About = About()
    typical: TypicalShares | None = None
    within: Within | None = None

    def __post_init__(self) -> None:
        refuse(self._faults())

    def _faults(self) -> Iterator[InvalidSpecError]:
        if not 1 <= len(self.values) <= MAX_CATEGORIES:
            yield InvalidSpecError("values", f"declare 1 to {MAX_CATEGORIES} values")
        elif len({value_text(value, trim=self.trim) for value in self.values}) < len(self.values):
            yield InvalidSpecError("values", self._same_twice())
        elif not all(is_text(value, MAX_CATEGORY_LENGTH) for value in self.values):
            yield InvalidSpecError(
                "values", f"a value must be printable text of 1 to {MAX_CATEGORY_LENGTH} characters"
            )
        elif isinstance(self.missing, Fill) and self.missing.value not in self.values:
            yield InvalidSpecError(
                "missing", 'missing must be "keep", "reject", "drop" or one of the declared values'
            )
        if not {marker.strip() for marker in self.reading.na}.isdisjoint(self.values):
            yield InvalidSpecError("na", "a marker is a declared value too")
        yield from self._label_faults()
        if self.typical is not None:
            yield from _typical(self.typical.faults(self.values))
        if self.within is not None:
            for fault in self.within.faults(self.values):
                yield InvalidSpecError(f"within.{fault.field_name}", fault.detail)
        yield from self.reading.faults()
        yield from self.about.faults()

    def _same_twice(self) -> str:
        if len(set(self.values)) < len(self.values) and not self.trim:
            return worded("a value is declared twice")
        if self.trim:
            return worded(
                "two values are one: white space around them does not count, nor the Unicode form, "
                'and "1.0" is "1"; declare one of them, or "trim": false where they differ by '
                "white space"
            )
        return worded(
            "two values are one: white space around them does not count, nor the Unicode form, and "
            '"1.0" is "1"; declare one of them'
        )

    def _label_faults(self) -> Iterator[InvalidSpecError]:
        if not {value for value, _ in self.labels} <= {*self.values}:
            yield InvalidSpecError("labels", "a label is for one of the declared values")
        elif len({value for value, _ in self.labels}) < len(self.labels):
            yield InvalidSpecError("labels", "a value has two labels")
        elif not all(is_text(label, MAX_LABEL_LENGTH) for _, label in self.labels):
            yield InvalidSpecError(
                "labels", f"a label must be printable text of 1 to {MAX_LABEL_LENGTH} characters"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanSpec:
    """True or false, in the spellings that it declares, in any case."""

    missing: Missing = "reject"
    reading: Reading = Reading()
    about: About = About()
    typical: Fraction | None = None
    """Which share is usually true."""

    def __post_init__(self) -> None:
        refuse(self._faults())

    def _faults(self) -> Iterator[InvalidSpecError]:
        if isinstance(self.missing, Fill) and not isinstance(self.missing.value, bool):
            yield InvalidSpecError(
                "missing", 'missing must be "keep", "reject", "drop", true or false'
            )
        if self.typical is not None and not 0 <= self.typical <= 1:
            yield InvalidSpecError("typical", "must be a share, between 0 and 1")
        yield from self.reading.faults()
        yield from self.about.faults()


ColumnSpec = NumberSpec | CategorySpec | BooleanSpec


def _typical(faults: Iterator[Fault]) -> Iterator[InvalidSpecError]:
    for place, detail in faults:
        yield InvalidSpecError(".".join(filter(None, ("typical", place))), detail)


def type_of(column: ColumnSpec) -> str:
    """Return a column's type, as the spec has it."""
    match column:
        case NumberSpec():
            return column.kind
        case CategorySpec():
            return "category"
    return "boolean"


def is_text(value: str, longest: int) -> bool:
    """Say whether a text is printable, not empty and not too long."""
    return 1 <= len(value) <= longest and value.isprintable()


def exact(number: float) -> Fraction:
    """Return the decimal that a JSON number was written as, exactly.

    Raises
    ------
    InvalidSpecError
        The number is not finite.
    """
    if isinstance(number, int):
        return Fraction(number)
    if not math.isfinite(number):
        raise InvalidSpecError("", "must be a finite number")
    return Fraction(str(number))


def number_at(place: str, value: object) -> Fraction:
    """Return the number at a place of a spec.

    Raises
    ------
    InvalidSpecError
        It is none, or not finite.
    """
    # To Python true is an int.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidSpecError(place, "must be a number")
    try:
        return exact(value)
    except InvalidSpecError as error:
        raise InvalidSpecError(place, error.detail) from None


def json_number(value: Fraction) -> float | int:
    """Return a number ready for JSON."""
    return value.numerator if value.denominator == 1 else float(value)
