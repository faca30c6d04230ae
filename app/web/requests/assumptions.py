"""The assumptions of a preview about rows, which it may not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

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


class SharesSpec(Request):
    """How often the values of a category column occur."""

    shares: dict[Name, Annotated[float, Field(ge=0, le=1)]] = Field(
        min_length=1, examples=[{"f": 0.1, "m": 0.9}]
    )
    """A share for each value, which add up to 1. Values that are not named share what is left."""


def _form_of(value: object) -> str:
    shares = isinstance(value, SharesSpec) or (isinstance(value, Mapping) and "shares" in value)
    return "Shares" if shares else "Spread"


ColumnAssumption = Annotated[
    Annotated[SpreadSpec, Tag("Spread")] | Annotated[SharesSpec, Tag("Shares")],
    Discriminator(_form_of),
]
"""What is assumed of one column. Whichever form it has, it is refused for what that form lacks."""


class AssumeSpec(Request):
    """The people that a preview imagines, since it may not look at the real ones."""

    rows: int | None = Field(default=None, ge=1, le=10**12, examples=[1000])
    """How many rows the data set has, under add_remove: 1000, or `max_rows` if that is less,
    by default. Under replace_one the public row count is taken."""
    population: Literal["typical", "uniform"] | dict[Name, ColumnAssumption] = Field(
        default="typical",
        examples=[{"income": {"mean": 980, "std": 520}, "sex": {"shares": {"f": 0.1, "m": 0.9}}}],
    )
    """How values are distributed: a number column by its mean and standard deviation, a category
    by the shares of its values. Columns that are not named, and all by `typical`, are as their
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

    missing: dict[Name, Annotated[float, Field(ge=0, lt=1)]] = Field(
        default={}, examples=[{"income": 0.2}]
    )
    """Which share of a column's cells is missing, of columns that keep theirs
    (`"missing": "keep"`); without it none is."""

    @property
    def assumptions(self) -> Assumptions:
        """Return them as the mechanisms know them."""
        named = self.population if isinstance(self.population, dict) else {}
        return Assumptions(
            rows=self.rows,
            population=tuple(
                (name, Spread(mean=spec.mean, std=spec.std))
                for name, spec in named.items()
                if isinstance(spec, SpreadSpec)
            ),
            shares=tuple(
                (name, tuple(spec.shares.items()))
                for name, spec in named.items()
                if isinstance(spec, SharesSpec)
            ),
            r_squared=self.r_squared,
            coefficients=tuple(self.coefficients.items()),
            missing=tuple(self.missing.items()),
            even=self.population == "uniform",
        )
