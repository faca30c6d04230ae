"""From scaled coefficients to terms of an answer, in the columns' units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from mechanisms.contract import Term
from mechanisms.exact.arrays import Floats
from mechanisms.functional.sanitized import answer_slopes
from mechanisms.inference.evidence import term
from mechanisms.statistics.designs.scaling import RegressionScaling

_WIDEST = Fraction(10**6)  # the largest bound that may be asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The coefficients ``origin + slopes theta``, each at most ``reach`` away from its origin."""

    names: tuple[str, ...]
    origin: Floats
    slopes: Floats
    reach: Floats

    @classmethod
    def of(cls, scaling: RegressionScaling, bound: Fraction | None) -> Self:
        """Return the answers of a regression whose theta has an l1 norm within the bound."""
        origin = scaling.unscale([Fraction(0)] * scaling.dimension)
        slopes = answer_slopes(scaling)
        most = float(_WIDEST if bound is None else bound)
        # Enormous units may carry this to infinity, which is cut where terms are made.
        with np.errstate(over="ignore"):
            reach = most * np.abs(slopes).max(axis=1)
        return cls(
            names=scaling.names,
            origin=np.array([float(origin[name]) for name in scaling.names]),
            slopes=slopes,
            reach=reach,
        )

    def terms(
        self,
        coefficients: Mapping[str, float],
        theta: Floats,
        noise: Callable[[str], tuple[float, float] | None],
    ) -> tuple[Term, ...]:
        """Return a term for each coefficient, of simulated theta: shape (replicates, d)."""
        return tuple(
            term(
                name,
                coefficients[name],
                self.at(column, theta),
                self.limits(column),
                noise(name),
                place=("coefficients", name),
            )
            for column, name in enumerate(self.names)
        )

    def at(self, place: int, theta: Floats) -> Floats:
        """Return one coefficient of each theta; NaN where it left the floats."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.origin[place] + theta @ self.slopes[place], dtype=np.float64)

    def limits(self, place: int) -> tuple[float, float]:
        """Return the possible range of a coefficient."""
        start, half = float(self.origin[place]), float(self.reach[place])
        return start - half, start + half


def scaled_theta(scaling: RegressionScaling, coefficients: Mapping[str, float]) -> Floats:
    """Return the theta of an answer, up to the rounding of its numbers."""
    exact = scaling.scaled({name: Fraction(value) for name, value in coefficients.items()})
    return np.array([float(entry) for entry in exact])
