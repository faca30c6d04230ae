"""What a preview is told to assume of rows that nobody may look at."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.web.requests.base import Request
from app.web.requests.values import Name
from mechanisms.foresight.assumptions import DEFAULT_R_SQUARED, Assumptions, Spread

_MAX_NUMBER = 1e300  # sums and differences of such numbers are still floats


class SpreadSpec(Request):
    """Where the values of a number column lie: normally distributed, clamped to the bounds."""

    mean: float = Field(ge=-_MAX_NUMBER, le=_MAX_NUMBER, examples=[980])
    """Their mean, in the column's units. Of a boolean column: which share is true."""
    std: float = Field(gt=0, le=_MAX_NUMBER, examples=[520])
    """Their standard deviation, in the column's units."""


class AssumeSpec(Request):
    """The people that a preview imagines, since it may not look at the real ones."""

    rows: int | None = Field(default=None, ge=1, le=10**12, examples=[1000])
    """How many rows the data set has, under add_remove: 1000, or `max_rows` if that is less,
    unless told otherwise. Under replace_one the public row count is taken."""
    population: Literal["typical", "uniform"] | dict[Name, SpreadSpec] = Field(
        default="typical", examples=[{"income": {"mean": 980, "std": 520}}]
    )
    """How values are distributed. Columns that are not named, and all by `typical`, are as their
    curator states in the data set's spec. Where nothing is stated, and by `uniform`, they are
    spread evenly: numbers over their bounds, categories over their values."""
    r_squared: float = Field(default=DEFAULT_R_SQUARED, gt=0, lt=1, examples=[0.3])
    """Which share of the target's variance a regression's features explain."""
    coefficients: dict[Name, Annotated[float, Field(ge=-_MAX_NUMBER, le=_MAX_NUMBER)]] = Field(
        default={}, examples=[{"income": 0.5}]
    )
    """How much a regression's target changes with one unit of a number column, or with what an
    answer calls its coefficient, such as `sexmale` or `educ:sexmale`; without them all features
    weigh equally."""

    @property
    def assumptions(self) -> Assumptions:
        """Return them as the mechanisms know them."""
        spreads = self.population if isinstance(self.population, dict) else {}
        return Assumptions(
            rows=self.rows,
            population=tuple(
                (name, Spread(mean=spread.mean, std=spread.std)) for name, spread in spreads.items()
            ),
            r_squared=self.r_squared,
            coefficients=tuple(self.coefficients.items()),
            even=self.population == "uniform",
        )
