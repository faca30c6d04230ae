"""One column of a data set as a curator declares it: all of it public.

*Cells without a value.* A cell is *missing* when it is empty or null, or one of the
column's declared NA markers. ``missing`` says what then happens: ``"reject"`` refuses the
upload, a :class:`Fill` replaces the cell by a public value, ``"drop"`` leaves the row out.
Dropping is for add-remove only, because under replace-one the row count is public and
must not depend on what the cells hold. Any other cell that cannot be read as its column's
type is *unreadable*, which refuses the upload unless the column says to take it as missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

MAX_NAME_LENGTH = 100
MAX_CATEGORIES = 10_000
MAX_CATEGORY_LENGTH = 1_000
MAX_MARKERS = 100
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


Missing = Literal["reject", "drop"] | Fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How cells without a value are told.

    ``na`` are the texts that stand for a missing cell. In a column of numbers they are
    numbers where they read as such: ``"-99"`` is ``-99.0`` too. ``unreadable`` says what
    becomes of a cell that is neither missing nor of the column's type.
    """

    na: tuple[str, ...] = ()
    unreadable: Literal["reject", "missing"] = "reject"

    def faults(self) -> Iterator[InvalidSpecError]:
        """Yield what is wrong with it."""
        if len(self.na) > MAX_MARKERS:
            yield InvalidSpecError("na", f"declare at most {MAX_MARKERS} markers")
        elif not all(is_text(marker, MAX_CATEGORY_LENGTH) for marker in self.na):
            yield InvalidSpecError(
                "na", f"a marker must be printable text of 1 to {MAX_CATEGORY_LENGTH} characters"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSpec:
    """A number with declared bounds [lower, upper]; values outside are clamped."""

    lower: Fraction
    upper: Fraction
    missing: Missing = "reject"
    reading: Reading = Reading()

    def __post_init__(self) -> None:
        refuse(self._faults())

    def _faults(self) -> Iterator[InvalidSpecError]:
        if max(abs(self.lower), abs(self.upper)) > MAX_BOUND:
            yield InvalidSpecError("lower", "bounds must be finite and at most 1e100 in magnitude")
        elif self.upper - self.lower < Fraction(1, MAX_BOUND):
            yield InvalidSpecError("lower", "lower must be below upper")
        if isinstance(self.missing, Fill) and not isinstance(self.missing.value, Fraction):
            yield InvalidSpecError("missing", 'missing must be "reject", "drop" or a number')
        yield from self.reading.faults()


@dataclass(frozen=True, slots=True, kw_only=True)
class CategorySpec:
    """One of a closed list of texts, matched exactly."""

    values: tuple[str, ...]
    missing: Missing = "reject"
    reading: Reading = Reading()

    def __post_init__(self) -> None:
        refuse(self._faults())

    def _faults(self) -> Iterator[InvalidSpecError]:
        if not 1 <= len(self.values) <= MAX_CATEGORIES:
            yield InvalidSpecError("values", f"declare 1 to {MAX_CATEGORIES} values")
        elif len(set(self.values)) != len(self.values):
            yield InvalidSpecError("values", "a value is declared twice")
        elif not all(is_text(value, MAX_CATEGORY_LENGTH) for value in self.values):
            yield InvalidSpecError(
                "values", f"a value must be printable text of 1 to {MAX_CATEGORY_LENGTH} characters"
            )
        elif isinstance(self.missing, Fill) and self.missing.value not in self.values:
            yield InvalidSpecError(
                "missing", 'missing must be "reject", "drop" or one of the declared values'
            )
        if not {marker.strip() for marker in self.reading.na}.isdisjoint(self.values):
            yield InvalidSpecError("na", "a marker is a declared value too")
        yield from self.reading.faults()


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanSpec:
    """True or false, written true, false, 1 or 0 in any case."""

    missing: Missing = "reject"
    reading: Reading = Reading()

    def __post_init__(self) -> None:
        refuse(self._faults())

    def _faults(self) -> Iterator[InvalidSpecError]:
        if isinstance(self.missing, Fill) and not isinstance(self.missing.value, bool):
            yield InvalidSpecError("missing", 'missing must be "reject", "drop", true or false')
        yield from self.reading.faults()


ColumnSpec = NumberSpec | CategorySpec | BooleanSpec


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
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidSpecError(place, "must be a number")
    try:
        return exact(value)
    except InvalidSpecError as error:
        raise InvalidSpecError(place, error.detail) from None


def json_number(value: Fraction) -> float | int:
    """Return a number ready for JSON."""
    return value.numerator if value.denominator == 1 else float(value)


def parse_column(column: Mapping[str, object]) -> ColumnSpec:
    """Read one column of a spec, as it stands in JSON.

    Raises
    ------
    InvalidSpecError
        Anything that is not a sound declaration.
    """
    members = dict(column)
    kind = members.pop("type", None)
    missing = members.pop("missing", "reject")
    reading = _reading(members.pop("na", ()), members.pop("unreadable", "reject"))
    match kind, members:
        case "number", {"lower": lower, "upper": upper, **rest} if not rest:
            return NumberSpec(
                lower=number_at("lower", lower),
                upper=number_at("upper", upper),
                missing=_missing(missing, number=True),
                reading=reading,
            )
        case "category", {"values": list() | tuple() as values, **rest} if not rest:
            texts = tuple(_text("values", value) for value in values)
            return CategorySpec(values=texts, missing=_missing(missing), reading=reading)
        case "boolean", {**rest} if not rest:
            return BooleanSpec(missing=_missing(missing), reading=reading)
    raise InvalidSpecError(
        "", "must be a number with lower and upper, a category with values, or a boolean"
    )


def column_json(column: ColumnSpec) -> dict[str, object]:
    """Return the inverse of :func:`parse_column`, ready for JSON."""
    body: dict[str, object]
    match column:
        case NumberSpec():
            body = {
                "type": "number",
                "lower": json_number(column.lower),
                "upper": json_number(column.upper),
            }
        case CategorySpec():
            body = {"type": "category", "values": list(column.values)}
        case BooleanSpec():
            body = {"type": "boolean"}
    fill = column.missing.value if isinstance(column.missing, Fill) else column.missing
    body["missing"] = json_number(fill) if isinstance(fill, Fraction) else fill
    if column.reading.na:
        body["na"] = list(column.reading.na)
    if column.reading.unreadable != "reject":
        body["unreadable"] = column.reading.unreadable
    return body


def _reading(na: object, unreadable: object) -> Reading:
    if not isinstance(na, list | tuple):
        raise InvalidSpecError("na", "must be a list of texts")
    if unreadable not in ("reject", "missing"):
        raise InvalidSpecError("unreadable", 'must be "reject" or "missing"')
    markers = tuple(map(_marker, na))
    return Reading(na=markers, unreadable="missing" if unreadable == "missing" else "reject")


def _marker(value: object) -> str:
    return value if isinstance(value, str) else str(json_number(number_at("na", value)))


def _text(place: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSpecError(place, "must be texts")
    return value


def _missing(value: object, *, number: bool = False) -> Missing:
    if value == "reject":
        return "reject"
    if value == "drop":
        return "drop"
    if number:
        return Fill(number_at("missing", value))
    if isinstance(value, str | bool):
        return Fill(value)
    raise InvalidSpecError("missing", "must be a policy or a value of the column")
