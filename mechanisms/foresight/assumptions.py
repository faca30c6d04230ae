"""What is assumed of rows that nobody may look at: public defaults, or what the asker says."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from mechanisms.contract import InvalidStatisticError, Json, require_column
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency

DEFAULT_ROWS = 1000
"""How many rows are assumed where their number is private, unless fewer are allowed."""

DEFAULT_R_SQUARED = 0.3
_PLACE = "assume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where the values of a number column lie, and how far apart, in its units."""

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
        How often each value of a category column occurs; its shares sum to 1.
    even
        Whether whoever assumes wants all else spread evenly, whatever is known to be typical.
    """

    rows: int | None = None
    population: tuple[tuple[str, Spread], ...] = ()
    r_squared: float = DEFAULT_R_SQUARED
    coefficients: tuple[tuple[str, float], ...] = ()
    shares: tuple[tuple[str, tuple[float, ...]], ...] = ()
    even: bool = False

    def spread_of(self, name: str) -> Spread | None:
        """Return how a column is distributed; None where it is spread evenly."""
        return dict(self.population).get(name)

    def shares_of(self, name: str) -> tuple[float, ...] | None:
        """Return how often each value of a column occurs; None where all are as frequent."""
        return dict(self.shares).get(name)

    def rows_of(self, schema: Schema) -> int:
        """Return how many rows the whole data set has: the public number where there is one."""
        if schema.adjacency is Adjacency.REPLACE_ONE:
            return schema.row_bound
        wanted = DEFAULT_ROWS if self.rows is None else self.rows
        return wanted if schema.max_rows is None else min(wanted, schema.max_rows)

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
        for name, slope in self.coefficients:
            if factors_of(name, schema) is None:
                _require_number(schema, name, f"{_PLACE}.coefficients")
            if not isfinite(slope):
                raise InvalidStatisticError(
                    "must be finite numbers", field_name=f"{_PLACE}.coefficients"
                )

    def to_json(self, schema: Schema) -> Json:
        """Return the assumptions as JSON-ready fields, defaults filled in."""
        told: dict[str, Json] = {
            name: {"mean": spread.mean, "std": spread.std} for name, spread in self.population
        }
        for name, shares in self.shares:
            column = schema.columns[name]
            assert isinstance(column, CategoryColumn)  # whose shares they are
            told[name] = {"shares": dict(zip(column.values, shares, strict=True))}
        return {
            "rows": self.rows_of(schema),
            "population": told or "uniform",
            "r_squared": self.r_squared,
            "coefficients": dict(self.coefficients),
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
            value = name.removeprefix(each)
            if value in column.values:
                return Factor(each, value)
    return None


def _require_number(schema: Schema, name: str, place: str) -> None:
    if not isinstance(require_column(schema, name, place), NumberColumn):
        raise InvalidStatisticError(
            "a number column is wanted here; of a category a coefficient names a value too, as in "
            "sexmale",
            field_name=place,
        )
