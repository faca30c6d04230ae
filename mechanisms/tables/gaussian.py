r"""Discrete Gaussian noise on the residuals of a workload: for accounts kept in zCDP.

For every column set A of the closure of the workload, measure the whole numbers

    Y_A = N_A P_A T_A + Z_A,   Z_A of N_A independent discrete Gaussian variables,

of variance parameter ``sigma_A**2`` (:mod:`mechanisms.samplers.knorm`), and estimate
r_A by ``P_A Y_A / N_A`` (:mod:`mechanisms.tables.residuals`). The estimate is unbiased, its
covariance is ``s_A P_A`` with ``s_A = Var(Z) / N_A**2``, and those of different A are independent.

**Privacy.** N_A P_A T_A is an integer vector, because ``n_i I - J`` is an integer matrix for each
axis. Between neighbours it changes by ``N_A P_A u_A``. So all Y_A together are rho-zCDP
(:mod:`mechanisms.samplers.knorm`) for every rho with

    rho >= sum over A of  ||N_A P_A u_A||**2 / (2 sigma_A**2) = G(u) / 2

under every change u, with ``a_A = N_A**2 / sigma_A**2`` in G.
:func:`mechanisms.tables.sensitivities.squared_sensitivity` bounds G exactly for add-remove,
replace-one, and both. The rest is post-processing. *Calibration.* Let G be that bound for the
optimal split, below. All variances are multiplied by G / (2 rho), and rounded up to whole steps.
Every summand above falls as its variance grows, so rho is kept. For units of at most m rows,
calibrate at ``rho / m**2``.

*Why this basis.* A cell of the margin itself changes by 1, P_A T_A by ``p_A < 1`` in squared norm:
for two binary columns by 1/4. Noise on N_A P_A T_A, not on T_A, is what charges p_A, and the
lattice of step 1 / N_A is finer than that of counts, so whole noise costs nothing against real
noise. Under add-remove the split is optimal among all Gaussian mechanisms (Xiao et al. 2023).
Under replace-one no split can cost less than twice as much
(:mod:`mechanisms.tables.sensitivities`), and the calibration is within some percent of it.

*The split.* Let ``s_A P_A`` be the covariance of the error of r_A
(:mod:`mechanisms.tables.residuals`). One record costs ``sum p_A / s_A``, up to a factor that is the
same for all splits (:mod:`mechanisms.tables.sensitivities`), and a weighted sum of cell variances
is ``sum v_A s_A`` with

    v_A = p_A sum over wanted B that hold A of  w_B (N_A / N_B)**2,

w_B the weight of margin B. *The sum of all cell variances* has w_B = N_B. By the Cauchy-Schwarz
inequality ``(sum v_A s_A)(sum p_A / s_A) >= (sum sqrt(p_A v_A))**2``, with equality for

    s_A in proportion to sqrt(p_A / v_A).                                                      (*)

So (*) is the optimal split for a given weighted sum (Xiao et al. 2023). If all pairs of
columns and nothing else are wanted, then v_A = p_A N_A for a pair A, and ``1 / s_A`` is in
proportion to ``sqrt(n_i n_j)``: of rank one.

*The largest variance* of a cell, over all margins. For any w >= 0 with sum 1 the optimum of the
weighted sum is a lower bound of it. The largest such bound is reached, by convexity, at a w whose
split (*) has the same variance wherever w_B > 0. From equal weights on, every w_B is multiplied by
margin B's variance, in proportion to their mean, until the largest one is within 0.1% of the bound
or for :data:`ROUNDS` rounds. The best split is returned. So its distance from the optimum is known,
whatever the floats did. Where a symmetry exchanges all margins, equal weights are the optimum.

These numbers are public. Draws use them as exact rationals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum, sqrt

from mechanisms.geometry.laws import discrete_gaussian_law
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_discrete_gaussian
from mechanisms.tables.residuals import (
    Residual,
    cell_variance,
    centred,
    diagonal,
    exact,
    summed,
)
from mechanisms.tables.sensitivities import Changes, squared_sensitivity
from mechanisms.tables.workload import ColumnSet, Counts, Criterion, Workload

ROUNDS = 100
_NEAR = 1e-3
_STEPS = 1 << 10  # of a variance: the rounding up costs at most a thousandth where it is above 1


@dataclass(frozen=True, slots=True)
class GaussianResiduals:
    """Calibrated noise on residuals.

    Attributes
    ----------
    sets
        The column sets whose residuals are measured; the empty one unless the records are known.
    variances
        ``sigma_A**2`` of every set.
    rho
        What a draw costs, at most.
    """

    workload: Workload
    changes: Changes
    sets: tuple[ColumnSet, ...]
    variances: tuple[Fraction, ...]
    rho: Fraction

    @classmethod
    def calibrated(
        cls, workload: Workload, changes: Changes, rho: Fraction, criterion: Criterion = "sum"
    ) -> GaussianResiduals:
        """Return noise that costs rho under these changes, by the optimal split.

        Raises
        ------
        ValueError
            rho is not positive.
        """
        if rho <= 0:
            raise ValueError("rho must be positive")
        spreads = optimal_spreads(
            workload, records_known=changes.records_known, criterion=criterion
        )
        shares = {A: Fraction(s) for A, s in spreads.items()}
        squared = squared_sensitivity(workload, {A: 1 / s for A, s in shares.items()}, changes)
        scale = squared / (2 * rho)
        variances = (_rounded_up(s * scale * workload.size(A) ** 2) for A, s in shares.items())
        return cls(workload, changes, tuple(shares), tuple(variances), rho)

    def draw(
        self, counts: Mapping[ColumnSet, Counts], randomness: Randomness
    ) -> tuple[Counts, ...]:
        """Return Y_A for every set: the private step, all of it.

        Parameters
        ----------
        counts
            The exact maximal margins (:func:`mechanisms.tables.workload.count_margins`).
        """
        holders = self.workload.holders()
        measured = []
        for A, variance in zip(self.sets, self.variances, strict=True):
            own = centred(exact(summed(counts[holders[A]], holders[A], A)))
            noise = draw_discrete_gaussian(randomness, own.size, variance)
            measured.append(exact(own + exact(noise).reshape(own.shape)))
        return tuple(measured)

    def residuals(
        self, measured: Sequence[Counts], records: int | None
    ) -> dict[ColumnSet, Residual]:
        """Return the estimates of all r_A; ``records`` is their number, where it is public."""
        found = {
            A: Residual(centred(Y), self.workload.size(A))
            for A, Y in zip(self.sets, measured, strict=True)
        }
        if records is not None:
            found[()] = Residual(exact(records), 1)
        return found

    def spreads(self) -> dict[ColumnSet, float]:
        """Return s_A of every set; 0 for a public number of records."""
        found = {
            A: (discrete_gaussian_law(float(variance)).std / self.workload.size(A)) ** 2
            for A, variance in zip(self.sets, self.variances, strict=True)
        }
        return found if () in found else {(): 0.0, **found}

    def nominal(self) -> dict[ColumnSet, Fraction]:
        """Return rational s_A, from sigma**2, which is at least the variance."""
        return {
            (): Fraction(0),
            **{
                A: variance / self.workload.size(A) ** 2
                for A, variance in zip(self.sets, self.variances, strict=True)
            },
        }


def _rounded_up(variance: Fraction) -> Fraction:
    steps = variance * _STEPS
    return Fraction(max(-(-steps.numerator // steps.denominator), 1), _STEPS)


# The optimal split

Spreads = dict[ColumnSet, float]


def optimal_spreads(workload: Workload, *, records_known: bool, criterion: Criterion) -> Spreads:
    """Return s_A by residual, up to a common factor: the optimal split of a zCDP budget.

    The empty set is left out where the number of records is public.
    """
    if criterion == "sum":
        weights = {margin: float(workload.size(margin)) for margin in workload.margins}
        return _split(workload, weights, records_known=records_known)
    weights = dict.fromkeys(workload.margins, 1 / len(workload.margins))
    best: tuple[float, Spreads] | None = None
    for _ in range(ROUNDS):
        spreads = _split(workload, weights, records_known=records_known)
        cost = fsum(float(diagonal(workload, A)) / s for A, s in spreads.items())
        known = {**spreads, (): spreads.get((), 0.0)}
        found = {each: cell_variance(workload, known, each) for each in workload.margins}
        largest = max(found.values()) * cost
        if best is None or largest < best[0]:
            best = largest, spreads
        mean = fsum(weights[each] * found[each] for each in workload.margins)
        if mean * cost >= largest * (1 - _NEAR):
            break
        weights = {each: weights[each] * found[each] / mean for each in workload.margins}
    assert best is not None
    return best[1]


def _split(
    workload: Workload, weights: Mapping[ColumnSet, float], *, records_known: bool
) -> Spreads:
    """Return (*): the split for a weighted sum."""
    worth: dict[ColumnSet, list[float]] = {}
    for margin, weight in weights.items():
        size = workload.size(margin)
        for part in workload.parts(margin):
            worth.setdefault(part, []).append(weight * (workload.size(part) / size) ** 2)
    return {
        part: 1 / sqrt(fsum(terms))  # p_A / v_A: p_A cancels
        for part, terms in sorted(worth.items(), key=lambda each: (len(each[0]), each[0]))
        if part or not records_known
    }
