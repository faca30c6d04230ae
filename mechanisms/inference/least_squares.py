"""Least squares of many simulated sums at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.functional.sanitized import SanitizedEquations
from mechanisms.inference.evidence import Simulation

_LEAST_EIGENVALUE = 1e-12  # of the largest: less is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectra:
    """Eigenvalues (k, d) and -vectors (k, d, d) of symmetric matrices.

    Values are NaN for a matrix that is not positive definite: nothing follows from it.
    """

    values: Floats
    vectors: Floats

    @classmethod
    def of(cls, matrices: Floats) -> Self:
        """Return the spectra of matrices of shape (k, d, d)."""
        values, vectors = np.linalg.eigh(matrices)
        clear = values[:, :1] > _LEAST_EIGENVALUE * np.abs(values[:, -1:])
        return cls(values=np.where(clear, values, np.nan), vectors=vectors)

    def times(self, points: Floats, power: float) -> Floats:
        """Return each matrix to a power times a vector: (k, d) to (k, d)."""
        along = np.einsum("kji,kj->ki", self.vectors, points)
        return np.asarray(np.einsum("kij,kj->ki", self.vectors, along * self.values**power))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """X'X, X'y, y'y and n in scaled units, of several sets of sums: the first axis of each."""

    xx: Floats
    xy: Floats
    yy: Floats
    counts: Floats

    @classmethod
    def of(cls, sanitized: SanitizedEquations, rows: Floats) -> Self:
        """Return the sums of rows of entries: the equations', then y'y and n."""
        xx, xy = sanitized.matrices(rows[:, :-2])
        return cls(xx=xx, xy=xy, yy=rows[:, -2], counts=rows[:, -1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """Per set of sums: theta_0 = (X'X)^-1 X'y, and possible residual variances."""

    spectra: Spectra
    theta: Floats
    variance: Floats

    @classmethod
    def of(cls, sums: Sums, simulated: Simulation) -> Self:
        """Return the fits; NaN where sums do not determine theta."""
        spectra = Spectra.of(sums.xx)
        theta = spectra.times(sums.xy, -1)
        left = sums.yy - np.sum(theta * sums.xy, axis=1)
        degrees = np.maximum(sums.counts - theta.shape[1], 1.0)
        # Noise may carry it below 0, or above what n targets within [-1, 1] have.
        squares = np.clip(left, 0.0, np.maximum(sums.counts, 0.0))
        variance = squares / simulated.chi_squares("residuals", degrees)
        return cls(spectra=spectra, theta=theta, variance=variance)
