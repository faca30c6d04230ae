"""Assumptions about private rows: public defaults, or those that a request states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import cast

from mechanisms.contract import InvalidStatisticError, Json, require_column
from mechanisms.domain import (
    CENTRE,
    NARROW,
    PART_ASSUMED,
    CategoryColumn,
    NumberColumn,
    Schema,
)
from mechanisms.privacy import Adjacency
from mechanisms.words import no_value

DEFAULT_ROWS = 1000
"""How many rows are assumed where their number is private and nothing bounds it."""

DEFAULT_R_SQUARED = 0.3
_ROUNDING = 1e-6
"""How far from 1 the sum of shares may be, since they are written with a few decimals."""
_PLACE = "assume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The mean and standard deviation of a number column, in its units."""

    mean: float
    std: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """A population to simulate.

    Attributes
    ----------
    rows
        How many rows; None for the default.
    population
        Columns that are normally distributed and clamped to their bounds. All others are spread
        evenly: numbers over their bounds, categories over their values.
    r_squared
        Which share of a target's variance the features explain.
    coefficients
        What a target changes with one unit of a number column, or with what an answer calls its
        coefficient: ``sexmale``, ``educ:sexmale``. Without them the features weigh equally.
    shares
        How often values of a category column occur. Those that are not named share what is left.
    missing
        Which share of a column's cells is missing, of columns that keep theirs; 0 of all others.
    even
        Whether all other columns are spread evenly, even those with known typical values.
    """

    rows: int | None = None
    population: tuple[tuple[str, Spread], ...] = ()
    r_squared: float = DEFAULT_R_SQUARED
    coefficients: tuple[tuple[str, float], ...] = ()
    shares: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    missing: tuple[tuple[str, float], ...] = ()
    even: bool = False

    def spread_of(self, name: str) -> Spread | None:
        """Return how a column is distributed; None where it is spread evenly."""
        return dict(self.population).get(name)

    def shares_of(self, name: str, column: CategoryColumn) -> tuple[float, ...] | None:
        """Return how often each of a column's values occurs; None where all are as frequent."""
        stated = dict(self.shares).get(name)
        return None if stated is None else _in_order(dict(stated), column)

    def rows_of(self, schema: Schema) -> int:
        """Return how many rows the whole data set has: the public number where there is one."""
        if schema.adjacency is Adjacency.REPLACE_ONE:
            return schema.row_bound
        if schema.max_rows is None:
            return DEFAULT_ROWS if self.rows is None else self.rows
        if self.rows is None:
            return -(-schema.max_rows // PART_ASSUMED)
        return min(self.rows, schema.max_rows)

    def unstated(self, names: Iterable[str], schema: Schema) -> list[str]:
        """Return those number columns of which nothing is stated; a boolean's bounds say enough."""
        known = {} if self.even else dict(self.population)
        return [
            name
            for name in names
            if isinstance(column := schema.columns[name], NumberColumn)
            and not (column.boolean or self.even or name in known)
        ]

    def narrowed(self, names: Iterable[str], schema: Schema) -> Assumptions:
        """Return a population in which these columns spread over a fifth of their bounds.

        Near the lower bound, as amounts often do.
        """
        columns = cast(Mapping[str, NumberColumn], schema.columns)
        widths = {name: float(columns[name].upper - columns[name].lower) for name in names}
        own = (
            (name, Spread(mean=float(columns[name].lower) + CENTRE * width, std=NARROW * width))
            for name, width in widths.items()
        )
        return replace(self, population=(*self.population, *own))

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when they do not fit the schema."""
        if not 0 < self.r_squared < 1:
            raise InvalidStatisticError(
                "must lie between 0 and 1", field_name=f"{_PLACE}.r_squared"
            )
        for name, spread in self.population:
            _require_number(schema, name, f"{_PLACE}.population")
            if not (isfinite(spread.mean) and isfinite(spread.std) and spread.std > 0):
                raise InvalidStatisticError(
                    "a standard deviation must be above 0", field_name=f"{_PLACE}.population"
                )
        for name, stated in self.shares:
            _require_shares(schema, name, dict(stated))
        for name, share in self.missing:
            _require_missing(schema, name, share)
        for name, slope in self.coefficients:
            if factors_of(name, schema) is None:
                _require_number(schema, name, f"{_PLACE}.coefficients")
            if not isfinite(slope):
                raise InvalidStatisticError(
                    "must be finite numbers", field_name=f"{_PLACE}.coefficients"
                )

    def to_json(self, schema: Schema) -> Json:
        """Return the assumptions as JSON-ready fields, defaults filled in."""
        stated_columns: dict[str, Json] = {
            name: {"mean": spread.mean, "std": spread.std} for name, spread in self.population
        }
        for name, _ in self.shares:
            column = schema.columns[name]
            assert isinstance(column, CategoryColumn)  # whose shares they are
            shares = self.shares_of(name, column) or ()
            stated_columns[name] = {"shares": dict(zip(column.values, shares, strict=True))}
        return {
            "rows": self.rows_of(schema),
            "population": stated_columns or "uniform",
            "r_squared": self.r_squared,
            "coefficients": dict(self.coefficients),
            **({"missing": dict(self.missing)} if self.missing else {}),
        }


@dataclass(frozen=True, slots=True)
class Factor:
    """A number column, or the indicator of a category's value."""

    column: str
    value: str | None = None


def factors_of(name: str, schema: Schema) -> tuple[Factor, ...] | None:
    """Return the product that a coefficient belongs to, by its name; None where there is none.

    A column's own name goes before one that is put together.
    """
    whole = _factor(name, schema)
    if whole is not None:
        return (whole,)
    found = tuple(factor for part in name.split(":") if (factor := _factor(part, schema)))
    # Every part must name something: a value may hold a colon itself, and is then not taken apart.
    return found if len(found) == name.count(":") + 1 else None


def _factor(name: str, schema: Schema) -> Factor | None:
    if name in schema.columns:
        return Factor(name) if isinstance(schema.columns[name], NumberColumn) else None
    for each, column in schema.columns.items():
        if isinstance(column, CategoryColumn) and name.startswith(each):
            value = column.value_of(name.removeprefix(each))
            if value is not None:
                return Factor(each, value)
    return None


def _in_order(stated: Mapping[str, float], column: CategoryColumn) -> tuple[float, ...]:
    """Return the shares of values in order; those not stated have what is left, in equal parts."""
    others = len(column.values) - len(stated)
    rest = max(1 - sum(stated.values()), 0.0) / max(others, 1)
    known = dict(zip(column.places_of([*stated]), stated.values(), strict=True))
    found = [known.get(place, rest) for place in range(len(column.values))]
    return tuple(share / sum(found) for share in found)


def _require_shares(schema: Schema, name: str, stated: Mapping[str, float]) -> None:
    place = f"{_PLACE}.population"
    column = require_column(schema, name, place)
    if not isinstance(column, CategoryColumn):
        raise InvalidStatisticError(
            f"shares are of a category's values; of {name} state a mean and a std",
            field_name=place,
        )
    read = dict(zip(stated, column.places_of([*stated]), strict=True))
    for value, found in read.items():
        if found is None:
            raise InvalidStatisticError(no_value(name, column.values, value), field_name=place)
    if len(set(read.values())) < len(read):
        raise InvalidStatisticError(f"a value of {name} has two shares", field_name=place)
    total, whole = sum(stated.values()), len(stated) == len(column.values)
    within = total <= 1 + _ROUNDING and (not whole or total >= 1 - _ROUNDING)
    if not stated or min(stated.values()) < 0 or not within:
        raise InvalidStatisticError(
            f"the shares of {name} must be 0 or more and add up to 1; those given add up to "
            f"{total:.6g}",
            field_name=place,
        )


def _require_missing(schema: Schema, name: str, share: float) -> None:
    place = f"{_PLACE}.missing"
    require_column(schema, name, place)
    if name not in schema.optional:
        raise InvalidStatisticError(
            f'{name} has no missing cells: its data set does not declare "missing": "keep" for it',
            field_name=place,
        )
    if not 0 <= share < 1:
        raise InvalidStatisticError(
            f"the share of {name} that is missing must be 0 or more, and below 1", field_name=place
        )


def _require_number(schema: Schema, name: str, place: str) -> None:
    if not isinstance(require_column(schema, name, place), NumberColumn):
        raise InvalidStatisticError(
            "a number column is wanted here; of a category a coefficient names a value too, as in "
            "sexmale",
            field_name=place,
        )
