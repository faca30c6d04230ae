"""The housing data of SS section 6.3, as they can be had: California, 1990, 20,640 block groups.

The paper has 348,189 houses of the Bay Area, of which it keeps 235,760 by their prices and sizes;
they are not public. It takes logarithms of rent and of areas, and cuts columns at quantiles of the
data. Here bounds are public numbers, and no row is dropped: values outside are clamped.

Values and incomes are cut where the census cut them. Twelve predictors of a house become ten of a
block group: rooms and persons per household stand for sizes, three flags for the counties. Bedrooms
are left out, as 207 block groups lack them. Five blocks on islands count as the coast.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData
from studies.figures.sanitized import Summed

PATH = Path(__file__).parents[2] / "app" / "demo_data" / "california_housing.csv"
TARGET = "value"
Table = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number of a block group: how it is read, its public bounds, whether by its logarithm."""

    read: Callable[[Table], Floats]
    lower: float
    upper: float
    logarithm: bool = False

    @property
    def column(self) -> NumberColumn:
        """Return the public facts of the column as it is used."""
        ends = (self.lower, self.upper)
        lower, upper = (float(np.log(end)) if self.logarithm else end for end in ends)
        return NumberColumn(lower=Fraction(lower), upper=Fraction(upper))

    def values(self, table: Table) -> Floats:
        """Return the column as it is used."""
        read = self.read(table)
        return np.log(read) if self.logarithm else read


def _of(name: str) -> Callable[[Table], Floats]:
    return lambda table: np.array(table[name], dtype=np.float64)


def _per_household(name: str) -> Callable[[Table], Floats]:
    return lambda table: _of(name)(table) / _of("households")(table)


def _among(*values: str) -> Callable[[Table], Floats]:
    return lambda table: np.isin(table["ocean_proximity"], values).astype(np.float64)


MEASURES = {
    "longitude": Measure(read=_of("longitude"), lower=-124.5, upper=-114),
    "latitude": Measure(read=_of("latitude"), lower=32, upper=42),
    "age": Measure(read=_of("housing_median_age"), lower=0, upper=60),
    "income": Measure(read=_of("median_income"), lower=0.5, upper=15, logarithm=True),
    "rooms": Measure(read=_per_household("total_rooms"), lower=1, upper=16, logarithm=True),
    "persons": Measure(read=_per_household("population"), lower=1, upper=8, logarithm=True),
    "households": Measure(read=_of("households"), lower=16, upper=4096, logarithm=True),
    "inland": Measure(read=_among("INLAND"), lower=0, upper=1),
    "bay": Measure(read=_among("NEAR BAY"), lower=0, upper=1),
    "coast": Measure(read=_among("NEAR OCEAN", "ISLAND"), lower=0, upper=1),
    TARGET: Measure(read=_of("median_house_value"), lower=15_000, upper=500_001, logarithm=True),
}
ALL = tuple(name for name in MEASURES if name != TARGET)
FEW = ("latitude", "age", "income", "rooms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Housing:
    """The block groups, and their least squares without noise.

    ``fit`` is in scaled units, the intercept first.
    """

    schema: Schema
    data: Summed
    fit: Floats


@cache
def table() -> Table:
    """Return the columns of the file as text."""
    with PATH.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


@cache
def housing(predictors: tuple[str, ...]) -> Housing:
    """Return the regression of the value on these predictors."""
    names = (*predictors, TARGET)
    columns = {name: MEASURES[name].column for name in names}
    values = {name: list(MEASURES[name].values(table())) for name in names}
    schema = Schema(columns, Adjacency.REPLACE_ONE, len(values[TARGET]))
    data = ArrayData.from_values(schema, values)
    scaled = {name: data.codes[name] / CODE_MAX for name in names}
    ones = np.ones(len(values[TARGET]))
    design = np.column_stack([ones, *(scaled[name] for name in predictors)])
    fit = np.linalg.lstsq(design, scaled[TARGET], rcond=None)[0]
    return Housing(schema=schema, data=Summed.of(data, names), fit=np.asarray(fit))
