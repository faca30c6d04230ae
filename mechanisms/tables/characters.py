r"""Noise of a cube on the characters of binary columns: for pure accounts.

For a set A of columns with two cells each, the character ``chi_A(x) = prod over i in A of
(-1)**x_i`` is 1 or -1, and its sum over all records is ``S_A``. The projection P_A is ``chi_A
chi_A' / N_A`` there, so ``r_A = chi_A S_A / N_A`` (:mod:`mechanisms.tables.residuals`): one number
for each set (Barak et al. 2007 add Laplace noise to them). All S_A of the closure of a workload, K
of them, are released together, on a lattice of step 1 / f, with

    P(V = v) ∝ exp(-(epsilon / Delta) ||v||_inf).

**Privacy.** A record adds 1 or -1 to every S_A: under add-remove each changes by exactly 1, and
under replace-one by 0 or 2, also if records may be added and removed as well. So the change is at
most 1, or 2, in the norm of the cube, which is ``Delta = f`` or ``2 f`` steps, and the release is
epsilon-DP by Proposition 2.10 of Awan & Slavkovic (2021). Replacing a record by one that differs in
one column reaches it. For units of at most m rows, calibrate at epsilon / m. The lattice is fine
enough for the sampler if ``f >= 4 K max(1, epsilon)``.

*Variance.* S_A has the variance ``(K + 1)(K + 2) / 3 (Delta / (f epsilon))**2`` (their Proposition
4.13), and the s_A of the residual is that over N_A. Laplace noise on M margins of two columns has
6 times the variance of a cell, if M is large: each record changes M cells by 1, and the l1 norm
charges for M.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.geometry.laws import noise_law
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_linf
from mechanisms.tables.residuals import Residual, exact, summed
from mechanisms.tables.sensitivities import Changes
from mechanisms.tables.workload import ColumnSet, Counts, Workload


@dataclass(frozen=True, slots=True)
class CubeCharacters:
    """Calibrated noise on characters.

    Attributes
    ----------
    sets
        The column sets whose characters are measured; the empty one unless the records are known.
    refinement
        f: lattice steps per record.
    """

    workload: Workload
    changes: Changes
    sets: tuple[ColumnSet, ...]
    refinement: int
    epsilon: Fraction

    @classmethod
    def calibrated(cls, workload: Workload, changes: Changes, epsilon: Fraction) -> CubeCharacters:
        """Return noise that costs epsilon under these changes.

        Raises
        ------
        ValueError
            Epsilon is not positive, or a column has more than two cells.
        """
        if epsilon <= 0:
            raise ValueError("epsilon must be positive")
        if not binary(workload):
            raise ValueError("characters are of columns with at most two cells")
        sets = tuple(A for A in workload.closure() if A or not changes.records_known)
        refinement = 1
        while refinement < 4 * len(sets) * max(Fraction(1), epsilon):
            refinement *= 2
        return cls(workload, changes, sets, refinement, epsilon)

    @property
    def rate(self) -> Fraction:
        """Return epsilon / Delta, per lattice step."""
        return self.epsilon / (self.changes.l1 * self.refinement)

    def draw(
        self, counts: Mapping[ColumnSet, Counts], randomness: Randomness
    ) -> tuple[Counts, ...]:
        """Return ``f S_A + V_A`` for every set: the private step, all of it."""
        holders = self.workload.holders()
        noise = draw_linf(randomness, len(self.sets), self.rate) if self.sets else []
        measured = []
        for A, v in zip(self.sets, noise, strict=True):
            own = exact(summed(counts[holders[A]], holders[A], A))
            signed = int(np.sum(own * _character(len(A))))
            measured.append(exact(self.refinement * signed + v))
        return tuple(measured)

    def residuals(
        self, measured: Sequence[Counts], records: int | None
    ) -> dict[ColumnSet, Residual]:
        """Return the estimates of all r_A; ``records`` is their number, where it is public."""
        found = {
            A: Residual(exact(_character(len(A)) * value), self.refinement)
            for A, value in zip(self.sets, measured, strict=True)
        }
        if records is not None:
            found[()] = Residual(exact(records), 1)
        return found

    def spreads(self) -> dict[ColumnSet, float]:
        """Return s_A of every set; 0 for a public number of records."""
        found: dict[ColumnSet, float] = {(): 0.0}
        if self.sets:
            own = noise_law("linf", len(self.sets), float(self.rate)).std / self.refinement
            found.update((A, own**2 / self.workload.size(A)) for A in self.sets)
        return found

    def nominal(self) -> dict[ColumnSet, Fraction]:
        """Return rational s_A: the variance above, free of the lattice."""
        own = Fraction((len(self.sets) + 1) * (len(self.sets) + 2), 3)
        own /= (self.rate * self.refinement) ** 2
        return {(): Fraction(0), **{A: own / self.workload.size(A) for A in self.sets}}


def binary(workload: Workload) -> bool:
    """Return whether every column of a margin has at most two cells."""
    return all(workload.sizes[i] <= 2 for margin in workload.margins for i in margin)


def _character(columns: int) -> Counts:
    """Return chi_A as an array with an axis of two cells for each column."""
    signs = exact(1)
    for _ in range(columns):
        signs = exact(np.multiply.outer(signs, exact([1, -1])))
    return signs
