r"""The measurement of a workload: chosen from public facts, by variances in closed form.

Pure accounts: discrete Laplace noise on margins, or the cube's on characters where every column is
binary. The one with the smaller sum of cell variances, or the smaller largest one, is drawn. zCDP
accounts: discrete Gaussian noise on residuals.

**Privacy.** Every measurement proves its own guarantee, and estimates are post-processing. The
choice of noise is a function of sizes, changes and the budget alone.

*Selected tables.* Which pairs of columns to measure may be drawn, for a part of epsilon: those of a
spanning tree.

    1. measure every column's own margin, and keep the noisy counts m_i, at epsilon_1;
    2. d - 1 times draw a pair (i, j) that joins two components of the tree so far, at
       epsilon_2 / (d - 1) each, by permute-and-flip with the score

           q_ij = || T_ij - E_ij ||_1,      E_ij[x, y] = floor(n m_i[x] m_j[y] / (t_i t_j)).

As in MST (McKenna, Miklau & Sheldon 2021, arXiv 2108.04978): q_ij is how far a pair is from
independent columns, so the tree is about one of the largest total dependence. Negative m_i count as
0, t_i is the sum of the m_i, and n the public number of records, or the mean of the t_i. MST draws
with the exponential mechanism; permute-and-flip never has a larger expected error (McKenna &
Sheldon 2020, Theorem 2). The m_i are :data:`COUNTS` of what the choice costs, because the tables
use them as well: :class:`JoinedMeasurement` combines both.

*Sensitivity.* The m_i are released numbers by step 2, so every E_ij is one fixed array there. A
record is in one cell of T_ij. By the triangle inequality

    |q_ij(D) - q_ij(D')| <= ||T_ij(D) - T_ij(D')||_1 <= Delta,

Delta = 1 where a record is added or removed, and 2 where one is replaced
(:mod:`mechanisms.tables.sensitivities`). q_ij is a whole number. *A draw* visits the candidates in
a random order and takes the first whose coin falls heads, with probability
``exp(-rate (max q - q_ij))``. At ``rate = epsilon' / (2 Delta)`` it is epsilon'-DP (McKenna &
Sheldon 2020, Theorem 1). The candidates follow from public sizes and earlier draws. *Together* the
steps compose adaptively (Dwork & Roth 2014, Theorem 3.14 and Corollary 3.15): epsilon_1 for the
m_i (:mod:`mechanisms.tables.laplace`), epsilon_2 for the tree. For units of at most k rows,
calibrate at epsilon / k.

*In accounts that have a delta* the m_i have Gaussian noise, at rho_1
(:mod:`mechanisms.tables.gaussian`). Pairs are drawn by the exponential mechanism, with a
probability in proportion to ``exp(-rate (max q - q_ij))``. At the rate above its bounded range is
epsilon', and it costs ``epsilon'^2 / 8`` (Cesar & Rogers 2021, Theorem 2), a quarter of what a
draw of permute-and-flip is known to cost. Costs add up (Bun & Steinke 2016, Lemma 1.7, which is
adaptive): ``rho_1 + (d - 1) epsilon'^2 / 8``.

All numbers are whole or rational, and coins are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import fsum
from typing import Protocol

import numpy as np

from mechanisms.geometry.spaces import upper_root
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import draw_by_weight, permute_and_flip
from mechanisms.tables.characters import CubeCharacters, binary
from mechanisms.tables.gaussian import GaussianResiduals
from mechanisms.tables.laplace import LaplaceMargins
from mechanisms.tables.residuals import (
    Estimate,
    Residual,
    cell_variance,
    exact,
    reconstruct,
    summed,
)
from mechanisms.tables.sensitivities import Changes
from mechanisms.tables.workload import ColumnSet, Counts, Criterion, Workload

COUNTS = Fraction(3, 4)
"""The share of what a choice of tables costs that is for the columns' counts."""
_WEIGHT = 1 << 24


class Measurement(Protocol):
    """Calibrated noise: what is measured, and what follows from it. A frozen value."""

    @property
    def workload(self) -> Workload: ...

    @property
    def changes(self) -> Changes: ...

    def draw(
        self, counts: Mapping[ColumnSet, Counts], randomness: Randomness
    ) -> tuple[Counts, ...]:
        """Return the noisy measurements of the exact maximal margins: the private step."""

    def residuals(
        self, measured: Sequence[Counts], records: int | None
    ) -> dict[ColumnSet, Residual]:
        """Return unbiased estimates of all residuals, from what was drawn and public facts."""

    def spreads(self) -> dict[ColumnSet, float]:
        """Return s_A: the covariance of the error of r_A is ``s_A P_A``, none among others."""

    def nominal(self) -> dict[ColumnSet, Fraction]:
        """Return rational s_A near these, the same on every machine, for what decides anything."""


@dataclass(frozen=True, slots=True)
class WeighedMeasurement:
    """A measurement of records that count in parts of the largest weight W.

    Attributes
    ----------
    whole
        Calibrated for records that come, go and are replaced, at epsilon over the number of parts
        P: then it costs epsilon for records that count for s in {0, ..., P} units each.
    part
        The weight of a part, W / P.

    Notes
    -----
    *Privacy.* Of neighbours the counts in parts differ by ``s e_x``, or by ``s e_x - s' e_y =
    s' (e_x - e_y) + (s - s') e_x`` for s >= s'. In a norm in which no change of a whole record is
    larger than Delta that is at most ``s' Delta + (s - s') Delta <= P Delta``, so noise that costs
    epsilon / P for Delta costs at most epsilon for it. Gaussian noise costs the square of such a
    norm (:mod:`mechanisms.tables.gaussian`), so that rho / P**2 for a whole record is at most rho
    here. What follows from it is post-processing.
    """

    whole: Measurement
    part: Fraction

    @property
    def workload(self) -> Workload:
        """Return that of the measurement."""
        return self.whole.workload

    @property
    def changes(self) -> Changes:
        """Return those of whole records."""
        return self.whole.changes

    def draw(
        self, counts: Mapping[ColumnSet, Counts], randomness: Randomness
    ) -> tuple[Counts, ...]:
        """Return the noisy measurements of counts in parts: the private step."""
        return self.whole.draw(counts, randomness)

    def residuals(
        self, measured: Sequence[Counts], records: int | None
    ) -> dict[ColumnSet, Residual]:
        """Return unbiased estimates of the residuals of sums of weights."""
        unit = self.part
        return {
            A: Residual(exact(each.values * unit.numerator), each.scale * unit.denominator)
            for A, each in self.whole.residuals(measured, records).items()
        }

    def spreads(self) -> dict[ColumnSet, float]:
        """Return s_A of these."""
        return {A: each * float(self.part) ** 2 for A, each in self.whole.spreads().items()}

    def nominal(self) -> dict[ColumnSet, Fraction]:
        """Return rational s_A near these."""
        return {A: each * self.part**2 for A, each in self.whole.nominal().items()}


@dataclass(frozen=True, slots=True)
class JoinedMeasurement:
    """Columns' own counts and tables, measured apart, and combined by least squares.

    Attributes
    ----------
    singles
        Of every column of the workload.
    tables
        Of the wanted tables.

    Notes
    -----
    Of a residual that both measure the estimate is the mean, weighted by the inverse variances. The
    choice of the tables depends on the noise of the counts and the weights depend on the choice, so
    that variances are those of a given choice. *Privacy.* Both compose.
    """

    singles: LaplaceMargins | GaussianResiduals
    tables: Measurement

    @property
    def workload(self) -> Workload:
        """Return the wanted tables."""
        return self.tables.workload

    @property
    def changes(self) -> Changes:
        """Return what neighbours differ by."""
        return self.tables.changes

    def draw(
        self, counts: Mapping[ColumnSet, Counts], randomness: Randomness
    ) -> tuple[Counts, ...]:
        """Return the noisy counts of columns, then of tables: the private step."""
        holders = self.workload.holders()
        own = {
            each: summed(counts[holders[each]], holders[each], each)
            for each in self.singles.workload.margins
        }
        return (*self.singles.draw(own, randomness), *self.tables.draw(counts, randomness))

    def residuals(
        self, measured: Sequence[Counts], records: int | None
    ) -> dict[ColumnSet, Residual]:
        """Return the combined estimates."""
        many = len(self.singles.sets)
        singles = self.singles.residuals(measured[:many], records)
        found = self.tables.residuals(measured[many:], records)
        for A, weight in self._weights().items():
            one, other = singles[A], found[A]
            values = weight * other.scale * one.values
            values = values + (_WEIGHT - weight) * one.scale * other.values
            found[A] = Residual(exact(values), _WEIGHT * one.scale * other.scale)
        return found

    def spreads(self) -> dict[ColumnSet, float]:
        """Return s_A of these."""
        singles, found = self.singles.spreads(), self.tables.spreads()
        for A, weight in self._weights().items():
            share = weight / _WEIGHT
            found[A] = share**2 * singles[A] + (1 - share) ** 2 * found[A]
        return found

    def nominal(self) -> dict[ColumnSet, Fraction]:
        """Return rational s_A near these."""
        singles, found = self.singles.nominal(), self.tables.nominal()
        for A, weight in self._weights().items():
            share = Fraction(weight, _WEIGHT)
            found[A] = share**2 * singles[A] + (1 - share) ** 2 * found[A]
        return found

    def _weights(self) -> dict[ColumnSet, int]:
        """Return the weights of the columns' counts, of :data:`_WEIGHT`."""
        singles, tables = self.singles.nominal(), self.tables.nominal()
        return {
            A: round(tables[A] / (each + tables[A]) * _WEIGHT)
            for A, each in singles.items()
            if each and tables.get(A)
        }


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Unbiased estimates of all wanted margins, and of every margin inside them."""

    workload: Workload
    residuals: Mapping[ColumnSet, Residual]

    def margin(self, columns: ColumnSet) -> Estimate:
        """Return a margin's estimate, exactly."""
        return reconstruct(self.workload, self.residuals, columns)


@lru_cache(maxsize=4)  # a preview plans a question, and so does its estimate
def pure_measurement(
    workload: Workload, changes: Changes, epsilon: Fraction, criterion: Criterion = "sum"
) -> Measurement:
    """Return the best measurement that is epsilon-DP under these changes."""
    offered: list[Measurement] = [
        LaplaceMargins.calibrated(workload, changes, epsilon, each) for each in ("sum", "largest")
    ]
    if binary(workload):
        offered.append(CubeCharacters.calibrated(workload, changes, epsilon))
    scores = [score(each, criterion) for each in offered]
    return offered[scores.index(min(scores))]


def score(measurement: Measurement, criterion: Criterion) -> float:
    """Return the sum of all cells' error variances, or the largest one."""
    workload, spreads = measurement.workload, measurement.spreads()
    found = [(cell_variance(workload, spreads, each), each) for each in workload.margins]
    if criterion == "largest":
        return max(variance for variance, _ in found)
    return fsum(variance * workload.size(margin) for variance, margin in found)


# Tables that are selected where they are drawn


@dataclass(frozen=True, slots=True)
class TreeChoice:
    """A calibrated draw of d - 1 pairs of d columns.

    Attributes
    ----------
    singles
        What measures every column's own margin.
    rate
        Of every draw of a pair, per record.
    flips
        Whether pairs are drawn by permute-and-flip, or else by the exponential mechanism.
    """

    singles: LaplaceMargins | GaussianResiduals
    rate: Fraction
    flips: bool = True

    @classmethod
    def calibrated(cls, sizes: Sequence[int], changes: Changes, epsilon: Fraction) -> TreeChoice:
        """Return a choice that is epsilon-DP: :data:`COUNTS` of it for the columns.

        Raises
        ------
        ValueError
            Epsilon is not positive, or there are fewer than two columns.
        """
        singles = LaplaceMargins.calibrated(_columns(sizes), changes, epsilon * COUNTS)
        pair = epsilon * (1 - COUNTS) / (len(sizes) - 1)
        return cls(singles, pair / (2 * changes.l1))

    @classmethod
    def in_zcdp(cls, sizes: Sequence[int], changes: Changes, rho: Fraction) -> TreeChoice:
        """Return a choice that costs rho at most: :data:`COUNTS` of it for the columns.

        Raises
        ------
        ValueError
            rho is not positive, or there are fewer than two columns.
        """
        singles = GaussianResiduals.calibrated(_columns(sizes), changes, rho * COUNTS)
        # each costs pair**2 / 8, rounded down
        pair = 1 / upper_root((len(sizes) - 1) / (8 * rho * (1 - COUNTS)))
        return cls(singles, pair / (2 * changes.l1), flips=False)

    @property
    def rho(self) -> Fraction:
        """Return what it costs in zCDP with Gaussian noise."""
        if isinstance(self.singles, LaplaceMargins):
            raise TypeError("a pure choice has an epsilon")
        pair = self.rate * 2 * self.singles.changes.l1
        return self.singles.rho + (len(self.singles.workload.sizes) - 1) * pair**2 / 8

    def draw(
        self, counts: Mapping[ColumnSet, Counts], people: int | None, randomness: Randomness
    ) -> tuple[tuple[ColumnSet, ...], tuple[Counts, ...]]:
        """Return the pairs of a tree, sorted, and the measured columns: the private step.

        Parameters
        ----------
        counts
            The exact margins of all pairs.
        people
            The number of records, where it is public.
        """
        margins = self.singles.workload.margins
        pairs = [(0, i) if i else (0, 1) for (i,) in margins]
        own = {
            each: summed(counts[pair], pair, each)
            for each, pair in zip(margins, pairs, strict=True)
        }
        measured = self.singles.draw(own, randomness)
        estimates = Estimates(self.singles.workload, self.singles.residuals(measured, people))
        made = [estimates.margin(each) for each in margins]
        noisy = [(2 * each.values + each.denominator) // (2 * each.denominator) for each in made]
        return self.tree(scores(counts, noisy, people), randomness), measured

    def tree(
        self, quality: Mapping[ColumnSet, int], randomness: Randomness
    ) -> tuple[ColumnSet, ...]:
        """Draw the pairs of a tree by their scores; they are returned sorted."""
        draw = permute_and_flip if self.flips else draw_by_weight
        component = {i: i for pair in quality for i in pair}
        found: list[ColumnSet] = []
        while joining := [pair for pair in quality if len({component[i] for i in pair}) > 1]:
            best = max(quality[pair] for pair in joining)
            exponents = [self.rate * (best - quality[pair]) for pair in joining]
            i, j = joining[draw(exponents, randomness)]
            found.append((i, j))
            old, new = component[j], component[i]
            component = {k: new if each == old else each for k, each in component.items()}
        return tuple(sorted(found))


def _columns(sizes: Sequence[int]) -> Workload:
    if len(sizes) < 2:
        raise ValueError("a tree has at least two columns")
    return Workload.of_order(sizes, 1)


def scores(
    counts: Mapping[ColumnSet, Counts], noisy: Sequence[Counts], people: int | None
) -> dict[ColumnSet, int]:
    """Return q_ij of every pair of columns: private, of sensitivity Delta for fixed ``noisy``.

    >>> table = np.array([[2, 0], [0, 2]])
    >>> scores({(0, 1): table}, [np.array([2, 2]), np.array([2, 2])], 4)
    {(0, 1): 4}
    """
    positive = [np.maximum(exact(each), 0) for each in noisy]
    totals = [int(each.sum()) for each in positive]
    n = sum(totals) // len(totals) if people is None else people
    found: dict[ColumnSet, int] = {}
    for i, j in combinations(range(len(noisy)), 2):
        product = n * np.multiply.outer(positive[i], positive[j])
        expected = product // max(totals[i] * totals[j], 1)
        found[i, j] = int(abs(exact(counts[i, j]) - expected).sum())
    return found
