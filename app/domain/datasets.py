"""What a curator declares about the columns of a data set: all of it public.

Bounds, category values and the treatment of missing cells are declared before
a row is read. Nothing here is ever inferred from the data.

*Missing cells.* A number's cell is missing when it is empty, null, not finite
or not a number; a boolean's or a category's when it is empty, null or none of
the known values. ``missing`` says what then happens: ``"reject"`` refuses the
upload, a :class:`Fill` replaces the cell by a public value, ``"drop"`` leaves
the row out. Dropping is for add-remove only, because under replace-one the row
count is public and must not depend on what the cells hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from app.domain.units import UnitSpec, parse_unit
from mechanisms.privacy import Adjacency

MAX_NAME_LENGTH = 100
MAX_CATEGORIES = 10_000
MAX_CATEGORY_LENGTH = 1_000
MAX_BOUND = 10**100
"""Largest magnitude of a bound, and the inverse of the smallest width: squares stay floats."""


class InvalidSpecError(ValueError):
    """The declaration contradicts itself.

    Attributes
    ----------
    field_name
        The place in the spec, e.g. ``"columns.lower"``. A column's own name is
        public too, and :func:`parse_columns` puts it in the place.
    detail
        What is wrong there; never a value.
    """

    def __init__(self, field_name: str, detail: str) -> None:
        super().__init__(detail)
        self.field_name = field_name
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Fill:
    """A public value that takes the place of every missing cell; numbers are clamped."""

    value: Fraction | bool | str


Missing = Literal["reject", "drop"] | Fill


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSpec:
    """A number with declared bounds [lower, upper]; values outside are clamped."""

    lower: Fraction
    upper: Fraction
    missing: Missing = "reject"

    def __post_init__(self) -> None:
        if max(abs(self.lower), abs(self.upper)) > MAX_BOUND:
            raise InvalidSpecError("lower", "bounds must be finite and at most 1e100 in magnitude")
        if self.upper - self.lower < Fraction(1, MAX_BOUND):
            raise InvalidSpecError("lower", "lower must be below upper")
        if isinstance(self.missing, Fill) and not isinstance(self.missing.value, Fraction):
            raise InvalidSpecError("missing", 'missing must be "reject", "drop" or a number')


@dataclass(frozen=True, slots=True, kw_only=True)
class CategorySpec:
    """One of a closed list of texts, matched exactly."""

    values: tuple[str, ...]
    missing: Missing = "reject"

    def __post_init__(self) -> None:
        if not 1 <= len(self.values) <= MAX_CATEGORIES:
            raise InvalidSpecError("values", f"declare 1 to {MAX_CATEGORIES} values")
        if len(set(self.values)) != len(self.values):
            raise InvalidSpecError("values", "a value is declared twice")
        if not all(_is_text(value, MAX_CATEGORY_LENGTH) for value in self.values):
            raise InvalidSpecError(
                "values", f"a value must be printable text of 1 to {MAX_CATEGORY_LENGTH} characters"
            )
        if isinstance(self.missing, Fill) and self.missing.value not in self.values:
            raise InvalidSpecError(
                "missing", 'missing must be "reject", "drop" or one of the declared values'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanSpec:
    """True or false, written true, false, 1 or 0 in any case."""

    missing: Missing = "reject"

    def __post_init__(self) -> None:
        if isinstance(self.missing, Fill) and not isinstance(self.missing.value, bool):
            raise InvalidSpecError("missing", 'missing must be "reject", "drop", true or false')


ColumnSpec = NumberSpec | CategorySpec | BooleanSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedSpec:
    """A column that is computed from others of its row while a file is read.

    ``expression`` is its canonical text, and the bounds are those that follow from it, or
    narrower ones; a ``boolean`` one has 0 and 1.
    """

    expression: str
    lower: Fraction
    upper: Fraction
    boolean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsSpec:
    """The declared columns, in order, with the adjacency and the public row bound.

    ``derived`` are those computed from them, each from columns before it. ``unit`` says who a
    person is, where one may have several rows.

    Raises
    ------
    InvalidSpecError
        No columns, a name that is not printable text of at most 100
        characters, ``"drop"`` under replace-one, a ``max_rows`` that is
        absent under add-remove or not positive, or a unit that does not fit.
    """

    columns: Mapping[str, ColumnSpec]
    adjacency: Adjacency
    max_rows: int | None = None
    derived: Mapping[str, DerivedSpec] = field(default_factory=dict)
    unit: UnitSpec | None = None

    @property
    def in_file(self) -> Mapping[str, ColumnSpec]:
        """Return the columns that are read from the file: all but counts of a person's rows."""
        counted = frozenset() if self.unit is None else self.unit.counted
        return {name: column for name, column in self.columns.items() if name not in counted}

    @property
    def read(self) -> tuple[str, ...]:
        """Return the names of what is read from the file: those columns, and whose a row is."""
        return (*self.in_file, *(() if self.unit is None else (self.unit.column,)))

    @property
    def stored(self) -> Mapping[str, ColumnSpec | DerivedSpec]:
        """Return every column that rows are stored with, those that were declared first."""
        return {**self.columns, **self.derived}

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidSpecError("columns", "declare at least one column")
        if not all(_is_text(name, MAX_NAME_LENGTH) for name in self.stored):
            raise InvalidSpecError(
                "columns", f"a name must be printable text of 1 to {MAX_NAME_LENGTH} characters"
            )
        if self.max_rows is not None and self.max_rows < 1:
            raise InvalidSpecError("max_rows", "must be at least 1")
        if self.adjacency is Adjacency.ADD_REMOVE:
            if self.max_rows is None:
                raise InvalidSpecError("max_rows", "is required under add_remove")
        else:
            for name, column in self.columns.items():
                if column.missing == "drop":
                    raise InvalidSpecError(
                        f"columns.{name}.missing", '"drop" is offered under add_remove only'
                    )
        self._check_unit()

    def _check_unit(self) -> None:
        if self.unit is None:
            return
        kinds = {name: str(body["type"]) for name, body in columns_json(self).items()}
        if not _is_text(self.unit.column, MAX_NAME_LENGTH):
            raise InvalidSpecError("unit.column", "must be the name of a column of the file")
        for place, detail in self.unit.faults(kinds, self.adjacency):
            raise InvalidSpecError(place, detail)


def column_named(name: str) -> str:
    """Return which column a message is about, to be put behind it; a name is public if it is one.

    >>> column_named("income"), column_named("in\\ncome")
    (' (column "income")', '')
    """
    return f' (column "{name}")' if _is_text(name, MAX_NAME_LENGTH) else ""


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


def parse_columns(
    columns: Mapping[str, Mapping[str, object]],
    *,
    adjacency: Adjacency,
    max_rows: int | None,
    derived: Mapping[str, Mapping[str, object]] | None = None,
    unit: Mapping[str, object] | None = None,
) -> ColumnsSpec:
    """Read the ``columns`` of a data set spec, as they stand in JSON.

    ``derived`` are those computed from them, as :func:`derived_json` returns them, and ``unit``
    is as :func:`app.domain.units.unit_json` returns it.

    Raises
    ------
    InvalidSpecError
        Anything that is not a sound declaration; the place names the column.
    """
    parsed: dict[str, ColumnSpec] = {}
    for name, column in columns.items():
        try:
            parsed[name] = _parse_column(column)
        except InvalidSpecError as error:
            place = ".".join(part for part in ("columns", name, error.field_name) if part)
            raise InvalidSpecError(place, error.detail) from None
    made = {name: _parse_derived(column) for name, column in (derived or {}).items()}
    return ColumnsSpec(
        columns=parsed,
        adjacency=adjacency,
        max_rows=max_rows,
        derived=made,
        unit=None if unit is None else parse_unit(unit),
    )


def columns_json(spec: ColumnsSpec) -> dict[str, dict[str, object]]:
    """Return the inverse of :func:`parse_columns`, ready for JSON; those derived are apart."""
    return {name: _column_json(column) for name, column in spec.columns.items()}


def derived_json(spec: ColumnsSpec) -> dict[str, dict[str, object]]:
    """Return the derived columns, ready for JSON."""
    return {
        name: {"type": "boolean", "expr": column.expression}
        if column.boolean
        else {
            "type": "number",
            "lower": _json_number(column.lower),
            "upper": _json_number(column.upper),
            "expr": column.expression,
        }
        for name, column in spec.derived.items()
    }


def _parse_derived(column: Mapping[str, object]) -> DerivedSpec:
    boolean = column["type"] == "boolean"
    return DerivedSpec(
        expression=str(column["expr"]),
        lower=Fraction(0) if boolean else _number("lower", column["lower"]),
        upper=Fraction(1) if boolean else _number("upper", column["upper"]),
        boolean=boolean,
    )


def _parse_column(column: Mapping[str, object]) -> ColumnSpec:
    members = dict(column)
    kind = members.pop("type", None)
    missing = members.pop("missing", "reject")
    match kind, members:
        case "number", {"lower": lower, "upper": upper, **rest} if not rest:
            return NumberSpec(
                lower=_number("lower", lower),
                upper=_number("upper", upper),
                missing=_missing(missing, number=True),
            )
        case "category", {"values": list() | tuple() as values, **rest} if not rest:
            return CategorySpec(values=tuple(map(_text, values)), missing=_missing(missing))
        case "boolean", {**rest} if not rest:
            return BooleanSpec(missing=_missing(missing))
    raise InvalidSpecError(
        "", "must be a number with lower and upper, a category with values, or a boolean"
    )


def _number(place: str, value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidSpecError(place, "must be a number")
    try:
        return exact(value)
    except InvalidSpecError as error:
        raise InvalidSpecError(place, error.detail) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSpecError("values", "must be texts")
    return value


def _missing(value: object, *, number: bool = False) -> Missing:
    if value == "reject":
        return "reject"
    if value == "drop":
        return "drop"
    if number:
        return Fill(_number("missing", value))
    if isinstance(value, str | bool):
        return Fill(value)
    raise InvalidSpecError("missing", "must be a policy or a value of the column")


def _column_json(column: ColumnSpec) -> dict[str, object]:
    body: dict[str, object]
    match column:
        case NumberSpec():
            body = {
                "type": "number",
                "lower": _json_number(column.lower),
                "upper": _json_number(column.upper),
            }
        case CategorySpec():
            body = {"type": "category", "values": list(column.values)}
        case BooleanSpec():
            body = {"type": "boolean"}
    fill = column.missing.value if isinstance(column.missing, Fill) else column.missing
    return body | {"missing": _json_number(fill) if isinstance(fill, Fraction) else fill}


def _json_number(value: Fraction) -> float | int:
    return value.numerator if value.denominator == 1 else float(value)


def _is_text(value: str, longest: int) -> bool:
    return 1 <= len(value) <= longest and value.isprintable()
