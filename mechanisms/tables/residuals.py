r"""The residual basis of margins: what each column set adds to the margins of its subsets.

For a column set A let ``T_A`` be its margin and

    P_A = prod over i in A of (I - J / n_i),      r_A = P_A T_A,

one factor per axis, J all ones (Xiao, He, Zhang & Kifer 2023, arXiv 2305.08175, whose residual
queries span the same space). ``P_A`` is the orthogonal projection on arrays whose sums along every
axis are 0.

*Decomposition.* Along each axis ``I = (I - J / n_i) + J / n_i``. Multiplied out over the axes of
B, with sums of T_B over the axes of ``B \ A`` being T_A,

    T_B = sum over A within B of  r_A / prod over i in B \ A of n_i          (spread over B \ A).

So all margins follow from the residuals of their subsets, and margins that are made of the same
residuals agree on shared columns: the sum of T_B over ``B \ A`` is made of those within A alone.

*Variance.* Let the estimates of r_A have independent or uncorrelated errors with covariance
``s_A P_A``. Every diagonal entry of P_A is ``p_A = prod over i in A of (1 - 1 / n_i)``, so every
cell of the margin B has the error variance

    sum over A within B of  s_A p_A / prod over i in B \ A of n_i**2.

*Least squares.* Let margins C be measured with errors uncorrelated among margins, of covariance
``alpha_C I + beta_C J`` inside one. Summed over the axes of ``C \ A`` and projected by P_A, margin
C estimates r_A with covariance ``alpha_C N_C / N_A P_A`` for A not empty. Errors for different A
are uncorrelated, because the projections are orthogonal and commute with that covariance. So the
generalized least squares estimate of r_A is the mean over the C that hold A, with weights in
proportion to ``N_A / (alpha_C N_C)``, and no other measurement matters to it. Any other weights
that add up to 1 are unbiased too.

All arithmetic is in Python's integers over common denominators: exact, and the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import fsum, lcm, prod
from typing import Any

import numpy as np

from mechanisms.tables.workload import ColumnSet, Counts, Workload


def exact(numbers: Any) -> Counts:
    """Return whole numbers as an array of Python's integers, which cannot overflow.

    numpy returns a bare integer where an operation on such an array has one number; here it is an
    array without axes.
    """
    return np.asarray(numbers, dtype=object)


def summed(table: Counts, of: ColumnSet, to: ColumnSet) -> Counts:
    """Return the margin ``to`` of a margin ``of`` that holds it."""
    axes = tuple(place for place, column in enumerate(of) if column not in to)
    return np.asarray(table.sum(axis=axes), dtype=table.dtype) if axes else table


def centred(table: Counts) -> Counts:
    """Return ``N_A P_A table``: whole numbers whose sums along every axis are 0.

    >>> centred(np.array([3, 1])).tolist()
    [2, -2]
    """
    for axis, size in enumerate(table.shape):
        table = size * table - table.sum(axis=axis, keepdims=True)
    return table


def spread(table: Counts, of: ColumnSet, to: ColumnSet, workload: Workload) -> Counts:
    """Return an array of the set ``of`` with axes of length 1 for the rest of ``to``."""
    return table.reshape([workload.sizes[i] if i in of else 1 for i in to])


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """An estimate of r_A: ``values / (N_A scale)``, whole numbers over a whole number."""

    values: Counts
    scale: int


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """An unbiased estimate of a margin: ``values / denominator``, in exact whole numbers."""

    values: Counts
    denominator: int

    def floats(self) -> Counts:
        """Return the estimates as floats, each the nearest one to its exact value."""
        return np.asarray(self.values / self.denominator, dtype=np.float64)


def reconstruct(
    workload: Workload, residuals: Mapping[ColumnSet, Residual], margin: ColumnSet
) -> Estimate:
    """Return the margin that these residuals make, by the decomposition above."""
    parts = [(part, residuals[part]) for part in workload.parts(margin)]
    common = lcm(*(residual.scale for _, residual in parts))
    values = np.zeros(workload.shape(margin), dtype=object)
    for part, residual in parts:
        more = exact(residual.values * (common // residual.scale))
        values = values + spread(more, part, margin, workload)
    return Estimate(exact(values), common * workload.size(margin))


def diagonal(workload: Workload, part: ColumnSet) -> Fraction:
    """Return p_A, the diagonal entry of P_A."""
    return prod(
        (Fraction(workload.sizes[i] - 1, workload.sizes[i]) for i in part), start=Fraction(1)
    )


def cell_variance(
    workload: Workload, spreads: Mapping[ColumnSet, float], margin: ColumnSet
) -> float:
    """Return the error variance of every cell of a margin.

    Parameters
    ----------
    spreads
        ``s_A`` by column set, 0 where a residual is known.
    """
    size = workload.size(margin)
    return fsum(
        spreads[part] * float(diagonal(workload, part)) * (workload.size(part) / size) ** 2
        for part in workload.parts(margin)
    )
