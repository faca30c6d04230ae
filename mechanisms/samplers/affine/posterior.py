"""The law to draw from, its enclosures at any precision, and its floating-point copy.

The law of theta in R^d has density, with h = ||A theta - b||_inf and
rho = ||theta||_1,

    f(theta) proportional to exp(-k h / D(theta)) (1 + rho)^-p   on rho <= B,

for exact rationals A (symmetric, positive definite), b, k > 0, B > 0 and an
integer p >= 0. With k = eps / (2 Delta_0) and Delta(theta) = Delta_0 D(theta)
this is the K-norm gradient mechanism of Reimherr & Awan, Theorem 3.1, with the
base measure (1 + rho)^-p (Lebesgue measure for p = 0).

*D* is 1 + rho. With one coefficient, where a record may be replaced (``replaced``), it is smaller:
1 for rho <= 1/2 and (1 + rho) / 2 + 1 / (8 rho) beyond, which
:mod:`mechanisms.objectives.quadratic` derives. That law has a sampler of its own
(:mod:`mechanisms.samplers.affine.radial`).

*Conventions.* c = k / (1 + B), the smallest rate on Theta. theta_hat = A^-1 b.
V = A theta - b, so that h = ||V||_inf. Vectors of balls are lists of arb or
(d, 1) arb_mat; floats are numpy arrays with one row per try.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat

from mechanisms.exact.balls import norm_one, rational
from mechanisms.exact.floats import Floats, working_precision
from mechanisms.exact.fractions import once

FLOAT_SLACK = 2.0**-40
"""Relative error granted to a chain of float operations: some 4,000 times its true bound."""


@dataclass(frozen=True, kw_only=True)
class AffinePosterior:
    """The exact parameters of the law.

    Parameters
    ----------
    matrix : d rows of d Fractions, symmetric positive definite: A.
    vector : d Fractions: b.
    rate, bound : Fraction
        k and B, both positive.
    power : int
        p >= 0, the exponent of the base measure.
    replaced : bool
        Whether D is the smaller one; only with one coefficient.
    """

    matrix: tuple[tuple[Fraction, ...], ...]
    vector: tuple[Fraction, ...]
    rate: Fraction
    bound: Fraction
    power: int = 0
    replaced: bool = False
    _enclosures: dict[int, Enclosure] = field(default_factory=dict, repr=False, compare=False)

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.vector)

    @property
    def floor_rate(self) -> Fraction:
        """Return c = k / (1 + B)."""
        return self.rate / (1 + self.bound)

    @once
    def guard_bits(self) -> int:
        """Return how many bits a product with A or its inverse may cancel.

        About the logarithm of A's condition number when A carries the public
        ridge, which is of the order of 1 / (c B). Only a hint: too little
        precision means another round, never another law.
        """
        largest = max(abs(entry) for row in self.matrix for entry in row)
        spread = max(abs(entry) for entry in self.vector) + largest * self.bound
        smallest = min(1 / self.floor_rate, self.bound * largest)
        return max(0, int(spread / smallest).bit_length()) + 4 * self.dimension.bit_length() + 8

    def enclose(self, bits: int) -> Enclosure:
        """Return enclosures of everything derived from A and b, at ``bits`` plus the guard."""
        known = self._enclosures.get(bits)
        if known is None:
            known = self._enclosures[bits] = _enclose(self, bits + 2 * self.guard_bits)
        return known

    @once
    def shadow(self) -> Shadow:
        """Return the float hints."""
        return _shadow(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """Balls around the exact parameters; ``inverse`` and ``centre`` are A^-1 and theta_hat."""

    matrix: arb_mat
    vector: arb_mat
    rate: arb
    floor_rate: arb
    bound: arb
    power: int
    replaced: bool
    inverse: arb_mat
    centre: arb_mat
    determinant: arb

    def log_density(self, height: arb, theta: Sequence[arb]) -> arb:
        """Return log f up to its constant: -k h / D(theta) - p log(1 + rho)."""
        length = norm_one(theta)
        value = -self.rate * height / (_replaced(length) if self.replaced else 1 + length)
        return value - self.power * (1 + length).log() if self.power else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """Float copies of the exact parameters: hints and screens, never a decision.

    ``spread`` is kappa = sum |A^-1_ij|, at least the largest ||A^-1 v||_1 over
    the cube, and ``reach`` an upper bound on h over Theta; both rounded up.
    """

    matrix: Floats
    vector: Floats
    inverse: Floats
    centre: Floats
    rate: float
    floor_rate: float
    bound: float
    power: int
    log_determinant: float
    centre_norm: float
    spread: float
    reach: float


def _replaced(length: arb) -> arb:
    """Return D of one coefficient where a record is replaced, for ``length`` = rho."""
    beyond = (1 + length) / 2 + 1 / (8 * length)
    if length <= 0.5:
        return arb(1)
    # A ball around 1/2 holds the values of both branches.
    return beyond if length >= 0.5 else beyond.union(arb(1))


def _enclose(law: AffinePosterior, precision: int) -> Enclosure:
    size = law.dimension
    with working_precision(precision):
        matrix = arb_mat(size, size, [rational(entry) for row in law.matrix for entry in row])
        vector = arb_mat(size, 1, [rational(entry) for entry in law.vector])
        try:
            inverse = matrix.inv()
        except ZeroDivisionError:  # not yet certainly invertible
            return _enclose(law, 2 * precision)
        return Enclosure(
            matrix=matrix,
            vector=vector,
            rate=rational(law.rate),
            floor_rate=rational(law.floor_rate),
            bound=rational(law.bound),
            power=law.power,
            replaced=law.replaced,
            inverse=inverse,
            centre=inverse * vector,
            determinant=matrix.det(),
        )


def _shadow(law: AffinePosterior) -> Shadow:
    size, bits = law.dimension, 64
    exact = law.enclose(bits)
    while not (_sharp(exact.inverse.entries()) and _sharp(exact.centre.entries())):
        bits *= 2
        exact = law.enclose(bits)
    with working_precision(bits + 2 * law.guard_bits):
        inverse_norm = norm_one(exact.inverse.entries())
        centre_norm = norm_one(exact.centre.entries())
        log_determinant = float(exact.determinant.log())
    matrix = np.array([[float(entry) for entry in row] for row in law.matrix])
    vector = np.array([float(entry) for entry in law.vector])
    reach = np.abs(matrix).max() * float(law.bound) + np.abs(vector).max()
    return Shadow(
        matrix=matrix,
        vector=vector,
        inverse=floats(exact.inverse.entries()).reshape(size, size),
        centre=floats(exact.centre.entries()),
        rate=float(law.rate),
        floor_rate=float(law.floor_rate),
        bound=float(law.bound),
        power=law.power,
        log_determinant=log_determinant,
        centre_norm=float(centre_norm.upper()) * (1 + FLOAT_SLACK),
        spread=float(inverse_norm.upper()) * (1 + FLOAT_SLACK),
        reach=float(reach) * (1 + FLOAT_SLACK),
    )


def _sharp(balls: Sequence[arb]) -> bool:
    """Return whether every radius is far below a float's last place in the largest entry."""
    largest = max(abs(float(entry.mid())) for entry in balls)
    return all(float(entry.rad()) <= 2.0**-60 * largest for entry in balls)


def floats(balls: Sequence[arb]) -> Floats:
    """Return the midpoints as floats."""
    return np.array([float(entry.mid()) for entry in balls], dtype=np.float64)


def radii(balls: Sequence[arb]) -> Floats:
    """Return the radii as floats, or above them."""
    return np.array([float(entry.rad()) * (1 + FLOAT_SLACK) for entry in balls], dtype=np.float64)


def magnitudes(balls: Sequence[arb]) -> Floats:
    """Return floats whose product with FLOAT_SLACK bounds the error of :func:`floats`."""
    sizes = [abs(float(entry.mid())) + 2 / FLOAT_SLACK * float(entry.rad()) for entry in balls]
    return np.array(sizes, dtype=np.float64)
