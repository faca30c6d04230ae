"""Linear regressions from sanitized moments, as the functional mechanism draws them.

The private step, the equations and their solution are the shipped ones. This module leaves out the
bootstrap that describes an answer's noise: it takes most of a draw's time, and does not affect it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.catalog import calibrate
from mechanisms.contract import Plan
from mechanisms.domain import Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import FunctionalDraw, coordinate_noise
from mechanisms.functional.sanitized import SanitizedEquations, shrunk, solve
from mechanisms.privacy import PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression

NORMS = ("l1", "linf", "optimal")
LOOSE = 1e6
"""The largest bound of coefficients that may be asked for: the paper has none."""


@dataclass(frozen=True)
class Summed(ArrayData):
    """Rows stored only as sums of products: T(X) reads nothing else."""

    kept: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, data: ArrayData, columns: Sequence[str]) -> Summed:
        """Sum up rows, of these columns in this order."""
        return cls(
            columns=data.columns,
            codes={name: codes[:0] for name, codes in data.codes.items()},
            kept=tuple(tuple(row) for row in data.gram(columns)),
        )

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the exact Gram matrix of (1, codes of the named columns).

        Raises
        ------
        ValueError
            Others are asked for than were summed up.
        """
        if len(columns) + 1 != len(self.kept):
            raise ValueError("only the sums of all columns are stored")
        return [list(row) for row in self.kept]


def planned(
    schema: Schema, target: str, epsilon: PrivacyLoss, norm: str, *, ridge: float | None
) -> Plan:
    """Return the plan of a regression on all other columns; ``ridge`` is twice SS' lambda."""
    names = tuple(name for name in schema.columns if name != target)
    asked = LinearRegression(target=target, features=names, bound=LOOSE, ridge=ridge)
    return calibrate(asked, schema, epsilon, mechanism="functional", norm=norm)


@dataclass(frozen=True, slots=True)
class Estimator:
    """Draws coefficients by one plan.

    The equations' entries are linear in the noisy moments, so their offsets and slopes are read
    once, in the place of exact fractions for each draw.
    """

    drawn: FunctionalDraw
    blank: SanitizedEquations
    offsets: Floats
    slopes: Floats
    edge: float
    spread: Floats

    @classmethod
    def of(cls, plan: Plan) -> Estimator:
        """Return a function that draws with this plan.

        Raises
        ------
        TypeError
            It is not one of the functional mechanism.
        """
        drawn = plan.draw
        if not isinstance(drawn, FunctionalDraw):
            raise TypeError("this is not a plan of the functional mechanism")
        dimension = drawn.moments.space.dimension
        blank = drawn.moments.equations([Fraction(0)] * dimension)
        jets = blank.jets()
        slopes = np.zeros((len(jets), dimension))
        for row, jet in enumerate(jets):
            for place, slope in jet.slopes.items():
                slopes[row, place] = float(slope)
        noise = coordinate_noise(drawn.noise, drawn.fineness)
        return cls(
            drawn=drawn,
            blank=blank,
            offsets=np.array([float(jet.value) for jet in jets]),
            slopes=slopes,
            edge=blank.noise_edge(noise),
            spread=blank.spread(noise),
        )

    def theta(self, data: ArrayData, randomness: Randomness) -> Floats:
        """Return coefficients in scaled units, the intercept first, before shrinkage."""
        return self._solved(data, randomness)[0]

    def released(self, data: ArrayData, randomness: Randomness) -> Floats:
        """Return them as they are released: the papers have no shrinkage."""
        theta, xx = self._solved(data, randomness)
        return shrunk(theta, xx, self.drawn.rule, edge=self.edge, spread=self.spread)

    def _solved(self, data: ArrayData, randomness: Randomness) -> tuple[Floats, Floats]:
        coordinates = self.drawn.coordinates(data, randomness)
        entries = self.offsets + self.slopes @ np.array([float(each) for each in coordinates])
        xx, xy = self.blank.matrices(entries[None, :])
        return np.asarray(solve(xx, xy, self.drawn.rule, self.edge)[0]), xx[0]
