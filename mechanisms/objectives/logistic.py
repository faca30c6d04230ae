"""The logistic loss of private rows.

``L(theta) = sum_i log(1 + exp(theta'x_i)) - y_i theta'x_i``, y in {0, 1},
|x_ij| <= 1 (Awan & Slavkovic, equation (4), as a sum).

*Conventions.* With s_i = 1 - 2 y_i a record's loss is log(1 + exp(s_i theta'x_i)),
so labels are folded into the rows. Rows are kept in *code units*
``zeta_i = s_i (1, a_i1/F, ..., a_ik/F)``, whose entries are exact in float64,
and x_i = W (1, a_i/F) for a public rational d x (k+1) matrix W (see
:class:`Design`). This is :class:`~mechanisms.objectives.sigmoid.SigmoidObjective`
with A = W and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.objectives.sigmoid import CHUNK_ROWS, AffineMap, SigmoidObjective

__all__ = ["CHUNK_ROWS", "Design", "LogisticObjective"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Design:
    """The public map from codes to scaled columns: x = W (1, a_1/F, ..., a_k/F).

    Without an intercept x_j = offset_j + slope_j a_j / F. With one, x starts
    with the constant 1.
    """

    offsets: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    intercept: bool

    @property
    def dimension(self) -> int:
        """Return d, the intercept included."""
        return len(self.slopes) + self.intercept

    def pull(self, theta: Sequence[Fraction]) -> list[Fraction]:
        """Return w = W' theta, exactly."""
        slopes = theta[1:] if self.intercept else theta
        constant = sum((o * t for o, t in zip(self.offsets, slopes, strict=True)), Fraction(0))
        first = constant + (theta[0] if self.intercept else 0)
        return [first, *(s * t for s, t in zip(self.slopes, slopes, strict=True))]

    def matrix(self) -> list[list[Fraction]]:
        """Return W, d rows of k + 1."""
        size = len(self.slopes)
        rows = [[Fraction(1)] + [Fraction(0)] * size] if self.intercept else []
        for j, (offset, slope) in enumerate(zip(self.offsets, self.slopes, strict=True)):
            rows.append([offset] + [slope if j == k else Fraction(0) for k in range(size)])
        return rows


class LogisticObjective(SigmoidObjective):
    """The logistic loss of some rows; implements :class:`~mechanisms.samplers.objective.Objective`.

    Parameters
    ----------
    chunks : callable
        Returns an iterable of signed rows zeta, each float64 of shape
        (at most ``CHUNK_ROWS``, k + 1) with entries that are multiples of 1/F
        in [-1, 1]. Called once per pass over the data.
    design : Design
        The public map W.
    """

    __slots__ = ()

    def __init__(self, chunks: Callable[[], Iterable[Floats]], design: Design) -> None:
        matrix = tuple(tuple(row) for row in design.matrix())
        public = AffineMap(
            matrix=matrix,
            offset=(Fraction(0),) * (len(design.slopes) + 1),
            scale=Fraction(1),
            steepness=Fraction(1),
        )
        super().__init__(chunks, public, (Fraction(0),) * design.dimension)
