r"""Discrete Laplace noise on whole margins, combined by least squares: for pure accounts.

Every maximal margin C gets a share ``epsilon_C`` of epsilon, the shares add up, and

    y_C = T_C + V_C,   P(V_C = v) ∝ exp(-rate_C ||v||),   v whole.

The residual r_A is the weighted mean of ``P_A y_C``, summed over the columns outside A, over the C
that hold A (:mod:`mechanisms.tables.residuals`): no other linear unbiased estimate has less
variance anywhere, up to the rounding of the weights to 24 bits.

*Noise.* A record is in one cell of C. *Add-remove*: ||v|| is the l1 norm, the change is 1, rate_C =
epsilon_C. *Replace-one*: the change is ``e_x - e_y``. Up to :data:`MOST_HULL_CELLS` cells the norm
is that of the hull of these changes, in which the change is 1
(:mod:`mechanisms.geometry.histograms`): the noise sums to 0, as the number of records is public. If
records may be added and removed as well, one more cell is drawn, for those that are not counted,
and dropped. For more cells the hull saves less than 2% of variance, and ||v|| is the l1 norm with
rate_C = epsilon_C / 2.

**Privacy.** Each y_C is epsilon_C-DP by Proposition 2.10 of Awan & Slavkovic (2021), because the
change has norm at most ``epsilon_C / rate_C`` in every case. Independent draws add up to epsilon.
The rest is post-processing. For units of at most m rows, calibrate at epsilon / m.

*Split.* With the variance ``alpha_C`` in proportion to ``1 / epsilon_C**2``, the sum over margins
of ``w_C alpha_C`` under ``sum epsilon_C = epsilon`` is least for ``epsilon_C`` in proportion to the
cube root of w_C, by the method of Lagrange. For the sum of variances w_C is the number of cells
times ``p_C``: residuals of C itself are measured by C alone. For the largest variance the shares
are equal. *Largest* and *sum* are both tried, and the closed-form variances decide.

*Why not on residuals.* Pure noise is charged in the l1 norm, and ``||P_A e_x||_1 = prod 2 (1 -
1/n_i)`` grows with the columns, where the margin's own change stays 1. Binary columns are the
exception: see :mod:`mechanisms.tables.characters`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor, fsum
from typing import TypeVar

from mechanisms.geometry.laws import histogram_law, noise_law
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_hull, draw_l1
from mechanisms.tables.residuals import Residual, centred, diagonal, exact, summed
from mechanisms.tables.sensitivities import Changes
from mechanisms.tables.workload import ColumnSet, Counts, Criterion, Workload

MOST_HULL_CELLS = 64
Number = TypeVar("Number", float, Fraction)

_WEIGHT = 1 << 24  # least squares weights are whole numbers that add up to this
_SHARES = 1 << 20  # shares of epsilon are whole numbers, the largest about this


@dataclass(frozen=True, slots=True)
class LaplaceMargins:
    """Calibrated noise on margins.

    Attributes
    ----------
    sets
        The maximal margins, which are measured.
    shares
        Whole numbers in proportion to every margin's share of epsilon.
    """

    workload: Workload
    changes: Changes
    sets: tuple[ColumnSet, ...]
    shares: tuple[int, ...]
    epsilon: Fraction

    @classmethod
    def calibrated(
        cls, workload: Workload, changes: Changes, epsilon: Fraction, criterion: Criterion = "sum"
    ) -> LaplaceMargins:
        """Return noise that costs epsilon under these changes, by the split of the criterion.

        Raises
        ------
        ValueError
            Epsilon is not positive.
        """
        if epsilon <= 0:
            raise ValueError("epsilon must be positive")
        sets = workload.maximal()
        if criterion == "largest":
            return cls(workload, changes, sets, (1,) * len(sets), epsilon)
        worth = [workload.size(C) * max(float(diagonal(workload, C)), 0.01) for C in sets]
        roots = [_cube_root(each / max(worth)) for each in worth]
        shares = tuple(max(round(root * _SHARES), 1) for root in roots)
        return cls(workload, changes, sets, shares, epsilon)

    def _own_epsilons(self) -> list[Fraction]:
        """Return the epsilon of each margin."""
        unit = self.epsilon / sum(self.shares)
        return [unit * each for each in self.shares]

    def _by_hull(self, cells: int) -> bool:
        return self.changes.replaced and 2 <= cells <= MOST_HULL_CELLS

    def draw(
        self, counts: Mapping[ColumnSet, Counts], randomness: Randomness
    ) -> tuple[Counts, ...]:
        """Return y_C for every margin: the private step, all of it."""
        measured = []
        for C, share in zip(self.sets, self._own_epsilons(), strict=True):
            own = exact(counts[C])
            if self._by_hull(own.size):
                noise = draw_hull(randomness, own.size + self.changes.added, share)[: own.size]
            else:
                noise = draw_l1(randomness, own.size, share / self.changes.l1)
            measured.append(exact(own + exact(noise).reshape(own.shape)))
        return tuple(measured)

    def residuals(
        self, measured: Sequence[Counts], records: int | None
    ) -> dict[ColumnSet, Residual]:
        """Return the estimates of all r_A; ``records`` is their number, where it is public."""
        found: dict[ColumnSet, Counts] = {}
        weights = self._weights()
        for C, y in zip(self.sets, measured, strict=True):
            for A in self.workload.parts(C):
                if A or records is None:
                    more = exact(weights[A][C] * centred(summed(y, C, A)))
                    found[A] = exact(found[A] + more if A in found else more)
        residuals = {A: Residual(values, _WEIGHT) for A, values in found.items()}
        if records is not None:
            residuals[()] = Residual(exact(records), 1)
        return residuals

    def spreads(self) -> dict[ColumnSet, float]:
        """Return s_A of every set; 0 for a public number of records."""
        return dict(_spreads_of(self))

    def nominal(self) -> dict[ColumnSet, Fraction]:
        """Return rational s_A, of fine lattices, which are at least the variances.

        Laplace noise of rate r has the variance 2 / r**2 there, and hull noise on c cells that sum
        to 0 has ``(2c - 1) / (2c + 2)`` of that of l1 noise with sensitivity 2.
        """
        terms = self._terms(self._nominal())
        return {
            A: sum((Fraction(w) ** 2 * each for w, each in found), Fraction(0))
            for A, found in terms.items()
        }

    def _terms(
        self, laws: Sequence[tuple[Number, Number]]
    ) -> dict[ColumnSet, list[tuple[float, Number]]]:
        """Return, for each set, the weights of margins and their variances of its residual."""
        own = dict(zip(self.sets, laws, strict=True))
        found: dict[ColumnSet, list[tuple[float, Number]]] = {(): []}
        for A, weights in self._weights().items():
            for C, weight in weights.items():
                each, total = own[C]
                spread = each * (self.workload.size(C) // self.workload.size(A)) if A else total
                found.setdefault(A, []).append((weight / _WEIGHT, spread))
        return found

    def noise_variances(self, place: int) -> tuple[float, float]:
        """Return alpha_C, and the variance of the sum of all its noise."""
        return self.variances_of(self.sets[place], self._own_epsilons()[place])

    def laws(self) -> list[tuple[float, float]]:
        """Return :meth:`noise_variances` of every margin."""
        return list(map(self.variances_of, self.sets, self._own_epsilons()))

    def variances_of(self, C: ColumnSet, share: Fraction) -> tuple[float, float]:
        """Return the same of a margin that is drawn with this epsilon."""
        cells = self.workload.size(C)
        if not self._by_hull(cells):
            own = noise_law("l1", 1, float(share / self.changes.l1)).std ** 2
            return own, own * cells
        drawn = cells + self.changes.added
        own = histogram_law(drawn, float(share)).std ** 2
        # of cells that sum to 0: one cell's variance over the projection's diagonal 1 - 1/c
        return own * drawn / (drawn - 1), own if self.changes.added else 0.0

    def _nominal(self) -> list[tuple[Fraction, Fraction]]:
        """Return what :meth:`laws` returns, on fine lattices."""
        return list(map(self._nominal_of, self.sets, self._own_epsilons()))

    def _nominal_of(self, C: ColumnSet, share: Fraction) -> tuple[Fraction, Fraction]:
        cells = self.workload.size(C)
        own = 2 * (self.changes.l1 / share) ** 2
        if not self._by_hull(cells):
            return own, own * cells
        drawn = cells + self.changes.added
        own *= Fraction(2 * drawn - 1, 2 * drawn + 2)
        return own, own * Fraction(drawn - 1, drawn) if self.changes.added else Fraction(0)

    def _weights(self) -> dict[ColumnSet, dict[ColumnSet, int]]:
        """Return the least squares weights of the margins that hold each set.

        They follow from :meth:`nominal`'s variances, so that they are the same on every machine;
        near the optimum any weights are about optimal.
        """
        precise: dict[ColumnSet, dict[ColumnSet, Fraction]] = {}
        for C, (each, total) in zip(self.sets, self._nominal(), strict=True):
            for A in self.workload.parts(C):
                if A:
                    worth = Fraction(self.workload.size(A), self.workload.size(C)) / each
                    precise.setdefault(A, {})[C] = worth
                elif self.changes.added:
                    precise.setdefault(A, {})[C] = 1 / total
        return {A: _whole(each) for A, each in precise.items()}


@lru_cache(maxsize=4)  # of 4,950 margins they take longer than all the rest of a plan
def _spreads_of(margins: LaplaceMargins) -> dict[ColumnSet, float]:
    terms = margins._terms(margins.laws())
    return {A: fsum(w * w * float(each) for w, each in found) for A, found in terms.items()}


def _whole(weights: Mapping[ColumnSet, Fraction]) -> dict[ColumnSet, int]:
    """Return whole weights that add up to their unit; what rounding leaves goes to the largest."""
    total = sum(weights.values(), Fraction(0))
    found = {C: floor(each / total * _WEIGHT) for C, each in weights.items()}
    found[max(found, key=found.__getitem__)] += _WEIGHT - sum(found.values())
    return found


def _cube_root(number: float) -> float:
    """Return the cube root of a number in (0, 1] by Newton's steps, the same on every machine."""
    root = 1.0
    for _ in range(60):
        root = (2 * root + number / (root * root)) / 3
    return root
