r"""How far one record moves all margins and all residuals of a workload: exactly.

Let u_A be the difference of the margin A between neighbouring data sets, for weights
``a_A >= 0`` let

    G(u) = sum over A of  a_A ||P_A u_A||_2**2,

and p_i = 1 - 1 / n_i, p_A their product over A.

**Theorem.** *Add-remove.* G(u) = sum a_A p_A for every pair of neighbours. *Replace-one.* If the
two records differ in exactly the columns D, then

    G(u) = sum over A of  2 a_A [p_A - prod over i in A of (p_i - 1{i in D})].

*Proof.* A record x is the point e_x of every margin, so u_A is ``±e_x`` or ``e_x - e_y``. P_A is a
projection and a product over axes, hence ``<P_A e_x, P_A e_y> = e_x' P_A e_y = prod over i in A of
(1{x_i = y_i} - 1 / n_i)``. With y = x every factor is p_i. A factor with x_i != y_i is -1 / n_i =
p_i - 1. Now ``||P_A (e_x - e_y)||**2 = 2 p_A - 2 <P_A e_x, P_A e_y>``. ∎ All four statements hold
with equality, so the largest G over neighbours is the largest over the sets D. With conditions a
record may be replaced, added or removed, and the larger of both cases counts.

*Plain margins.* A record is in exactly one cell of each margin. So one margin changes by 1 in the
l1 norm and by 1 in the l2 norm squared under add-remove, and by at most 2 in both under
replace-one. That is reached by records that differ in one of the margin's columns.

*Several rows.* If a unit has at most m rows, its change is a sum of at most m such u. By the
triangle inequality every norm is at most m times as large, and G at most ``m**2`` times. Equal rows
of one unit reach it.

*The largest D.* For up to :data:`MOST_SETS_OF_COLUMNS` sets D all are tried: G is a polynomial of
the indicators of D, ``sum over S within D of c_S``, and one pass of additions per column gives all
its values. The c_S are rounded up to whole multiples of one unit, so the result is an upper bound,
larger than the maximum by less than one part in 2**30. For more columns two bounds are certified,
and the smaller one counts:

- *set by set*: ``p_A - prod (p_i - 1{i in D})`` is largest where D holds of A the column with the
  fewest cells n alone. It is then ``p_A n / (n - 1)``;
- *pairs*, for sets of at most two columns: G = sum L_i x_i - sum b_ij x_i x_j, with b_ij = 2 a_ij
  and L_i = 2 a_i + 2 sum_j a_ij p_j. For any beta_i >= 0 and the largest gamma with
  ``gamma beta_i beta_j <= b_ij`` for all pairs, and any number y, since s**2 >= 2 y s - y**2,

      G <= gamma y**2 / 2 + sum over i of max(0, L_i + gamma beta_i**2 / 2 - gamma y beta_i).

  It is nearly reached where b_ij has rank one, as for all pairs of columns
  (:mod:`mechanisms.tables.gaussian`).

The mean of G over two independent uniform records is ``2 sum a_A p_A``, twice that of add-remove,
because the mean of P_A e_x is 0. So no split of a budget makes replace-one cost less than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod, sqrt

import numpy as np

from mechanisms.tables.residuals import diagonal
from mechanisms.tables.workload import ColumnSet, Workload

MOST_SETS_OF_COLUMNS = 1 << 16
_BITS = 50  # of the largest sum, in int64
_ROUNDS = 30  # of searches that need not come to an end
_STEPS = 1 << 40


@dataclass(frozen=True, slots=True)
class Changes:
    """What neighbours differ by: a record that is replaced, one that is added or removed, or both.

    The number of records is public where none is added or removed.
    """

    replaced: bool
    added: bool

    @property
    def records_known(self) -> bool:
        """Return whether the number of records is public."""
        return not self.added

    @property
    def l1(self) -> int:
        """Return the largest change of one margin in the l1 norm."""
        return 2 if self.replaced else 1


def squared_sensitivity(
    workload: Workload, weights: Mapping[ColumnSet, Fraction], changes: Changes
) -> Fraction:
    """Return the largest ``sum a_A ||P_A u_A||**2``, or an upper bound that is certified.

    Parameters
    ----------
    weights
        ``a_A``, not negative, by column set. Sets that are missing weigh 0.
    """
    found = []
    if changes.added:
        found.append(sum((a * diagonal(workload, A) for A, a in weights.items()), Fraction(0)))
    if changes.replaced:
        found.append(_replaced(workload, {A: a for A, a in weights.items() if A and a}))
    return max(found, default=Fraction(0))


def _replaced(workload: Workload, weights: Mapping[ColumnSet, Fraction]) -> Fraction:
    columns = sorted({i for A in weights for i in A})
    if 1 << len(columns) <= MOST_SETS_OF_COLUMNS:
        return _enumerated(workload, weights, columns)
    bounds = [_set_by_set(workload, weights)]
    if max(map(len, weights)) <= 2:
        bounds.append(_by_pairs(workload, weights, columns))
    return min(bounds)


def _enumerated(
    workload: Workload, weights: Mapping[ColumnSet, Fraction], columns: Sequence[int]
) -> Fraction:
    """Return the largest value over all D, by one pass of additions for each column."""
    places = {column: place for place, column in enumerate(columns)}
    terms: dict[int, Fraction] = {}
    for A, a in weights.items():
        for order in range(1, len(A) + 1):
            for part in combinations(A, order):
                rest = diagonal(workload, tuple(i for i in A if i not in part))
                mask = sum(1 << places[i] for i in part)
                terms[mask] = terms.get(mask, Fraction(0)) - 2 * a * rest * (-1) ** order
    unit: Fraction = sum(map(abs, terms.values()), Fraction(0)) / (1 << _BITS)
    if unit == 0:
        return Fraction(0)
    values = np.zeros(1 << len(columns), dtype=np.int64)
    for mask, term in terms.items():
        steps = term / unit
        values[mask] = -(-steps.numerator // steps.denominator)
    for place in range(len(columns)):
        halves = values.reshape(-1, 2, 1 << place)
        halves[:, 1] += halves[:, 0]
    return unit * int(values.max())


def _set_by_set(workload: Workload, weights: Mapping[ColumnSet, Fraction]) -> Fraction:
    total = Fraction(0)
    for A, a in weights.items():
        fewest = min(workload.sizes[i] for i in A)
        total += 2 * a * diagonal(workload, A) * Fraction(fewest, fewest - 1)
    return total


def _by_pairs(
    workload: Workload, weights: Mapping[ColumnSet, Fraction], columns: Sequence[int]
) -> Fraction:
    """Return the bound of pairs; floats choose beta and y, and any choice is a bound."""
    linear = dict.fromkeys(columns, Fraction(0))
    for A, a in weights.items():
        for i in A:
            rest = (diagonal(workload, (j,)) for j in A if j != i)
            linear[i] += 2 * a * prod(rest, start=Fraction(1))
    joint = {pair: 2 * weights.get(pair, Fraction(0)) for pair in combinations(columns, 2)}
    beta = _near_rank_one(joint, columns)
    products = {(i, j): beta[i] * beta[j] for i, j in joint}
    gamma = min(
        (joint[pair] / each for pair, each in products.items() if each), default=Fraction(0)
    )
    lines = [(linear[i] + gamma * beta[i] ** 2 / 2, gamma * beta[i]) for i in columns]

    def bound(y: Fraction) -> Fraction:
        slack = (start - y * slope for start, slope in lines)
        return gamma * y**2 / 2 + sum((max(Fraction(0), each) for each in slack), Fraction(0))

    # convex in y, so thirds of an interval without the minimum are cut off
    low, high = Fraction(0), sum(beta.values(), Fraction(0))
    for _ in range(_ROUNDS):
        third = Fraction(round((high - low) / 3 * _STEPS), _STEPS)
        low, high = (
            (low + third, high) if bound(low + third) > bound(high - third) else (low, high - third)
        )
    return bound(low)


def _near_rank_one(
    joint: Mapping[tuple[int, int], Fraction], columns: Sequence[int]
) -> dict[int, Fraction]:
    """Return beta with ``beta_i beta_j`` near b_ij where these have rank one; any floats will do.

    The row sums of such b are ``beta_i (sum of beta - beta_i)``.
    """
    sums = dict.fromkeys(columns, 0.0)
    for pair, b in joint.items():
        for i in pair:
            sums[i] += float(b)
    beta = {i: each / sqrt(sum(sums.values()) or 1.0) for i, each in sums.items()}
    for _ in range(_ROUNDS):
        total = sum(beta.values())
        beta = {i: each / (total - beta[i]) if each else 0.0 for i, each in sums.items()}
    return {i: Fraction(each) for i, each in beta.items()}
