"""Algorithm 2 of Awan & Slavkovic, calibrated: its public constants, and one exact draw.

The constants (the ridge, the tilt's share of epsilon, the smoothing width, the
grid) are functions of public numbers alone, and under add-remove of none that
depends on the row count. :class:`Perturbation` draws for any loss, norm and region;
its theorem and the argument for regions are in :mod:`mechanisms.perturbation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.balls import above, rational
from mechanisms.exact.continuous import BallNorm, LazyVector, knorm_vector
from mechanisms.exact.floats import Floats, working_precision
from mechanisms.objectives.losses import Loss, Norm
from mechanisms.randomness import Randomness
from mechanisms.samplers.bodies import Body, BodyVector, Joined
from mechanisms.samplers.minimiser import Objective, Problem, certified_minimiser
from mechanisms.samplers.regions import Region

THEOREM = "Awan & Slavkovic 2021, Theorem 5.1 (extended objective perturbation)"

# More ridge is still private; with less, separable data have no finite answer.
SMALLEST_RIDGE = Fraction(1, 2**20)

OWN_RIDGE = Fraction(1, 256)
"""What part of the ridge of blocks is one of theta itself: no direction is then without."""

_FINEST_STEP, _COARSEST_STEP = -32, -16  # the range of the public grid's exponent
_FINER_THAN_NOISE = 10  # bits
_HALVINGS, _ROUGHLY = 60, 20  # of an interval that holds gamma
_NARROWEST, _WIDEST = -10, -2  # the range of the kernel width's exponent
NARROWEST = Fraction(1, 2**9)
"""A kernel's width that hardly smooths."""
_SHARES = np.arange(1, 200) / 200
_ASSUMED_ROWS = 10**4  # where the row count is private, the width is chosen for this many


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """Extended objective perturbation of one objective; every field is public.

    >>> from mechanisms.objectives.losses import logistic_loss
    >>> from mechanisms.privacy import Adjacency
    >>> from mechanisms.samplers.regions import Box
    >>> loss = logistic_loss(2, Adjacency.REPLACE_ONE)
    >>> draw = Perturbation.calibrate(
    ...     loss, epsilon=Fraction(1), row_bound=1000, region=Box.cube(Fraction(3), 2)
    ... )
    >>> float(draw.q), draw.sensitivity_squared
    (0.72, Fraction(4, 1))

    Attributes
    ----------
    dimension : int
        d.
    norm : {"linf", "l2", "l1"}, Body or Joined
        The norm of the tilt, by name or as its unit ball; or the blocks that have one each. The
        ridge is then ``gamma (||F'theta||^2 + ||theta||^2 / 256) / 2``, and the objective holds
        the first part of it.
    sensitivity_squared : Fraction
        Delta_K squared: of the difference of two records' gradients (one record's under
        add-remove) at any theta of the region.
    epsilon, q, ridge : Fraction
        The privacy loss, the tilt's share of it, and gamma.
    region : Region
        Theta.
    step_exponent : int
        theta is rounded to the grid of step 2**step_exponent.
    """

    dimension: int
    norm: BallNorm | Body | Joined
    sensitivity_squared: Fraction
    epsilon: Fraction
    q: Fraction
    ridge: Fraction
    region: Region
    step_exponent: int

    @classmethod
    def calibrate(
        cls,
        loss: Loss,
        *,
        epsilon: Fraction,
        row_bound: int,
        region: Region,
        norm: Norm = "linf",
        body: tuple[Body, Fraction] | None = None,
        q: Fraction | None = None,
        rows: int | None = None,
    ) -> Perturbation:
        """Return the draw for a loss.

        Parameters
        ----------
        loss : Loss
            Its constants, valid on the region.
        row_bound, rows : int
            The public bound on the rows (for the grid), and the row count where it
            is public (for q), None under add-remove.
        body : pair of Body and Fraction
            Any K with Delta_K, instead of ``norm``. A bound: Delta_inf times the largest
            norm of a point of [-1, 1]^d.
        q : Fraction
            The tilt's share, strictly between 0 and 1; None for the public rule.

        Notes
        -----
        **Privacy.** Pure epsilon-DP by Theorem 5.1, if Delta_K and lambda bound
        what they should on the region.
        """
        share = automatic_q(epsilon, loss, norm, rows) if q is None else q
        gamma = ridge_of(loss, epsilon, share)
        spread = loss.tilt_std(norm, float(epsilon * share))
        return cls(
            dimension=loss.dimension,
            norm=loss.shape(norm) if body is None else body[0],
            sensitivity_squared=loss.sensitivity_squared(norm) if body is None else body[1] ** 2,
            epsilon=epsilon,
            q=share,
            ridge=gamma,
            region=region,
            step_exponent=step_exponent(spread, gamma, loss, row_bound, region),
        )

    def indices(self, objective: Objective, randomness: Randomness) -> tuple[int, ...]:
        """Return theta on the public grid, as integers."""
        rate_squared = (self.epsilon * self.q) ** 2 / self.sensitivity_squared
        tilt: LazyVector
        own = self.ridge
        if isinstance(self.norm, Joined):
            tilt = self.norm.vector(rate_squared, randomness)
            own *= OWN_RIDGE
        elif isinstance(self.norm, str):
            tilt = knorm_vector(
                norm=self.norm,
                dimension=self.dimension,
                rate_squared=rate_squared,
                randomness=randomness,
            )
        else:
            tilt = BodyVector(self.norm, rate_squared, randomness)
        return certified_minimiser(Problem(objective, own, tilt, self.region, self.step_exponent))

    def draw(self, objective: Objective, randomness: Randomness) -> tuple[Fraction, ...]:
        """Return theta, rounded to the public grid."""
        return tuple(self.step * index for index in self.indices(objective, randomness))

    @property
    def step(self) -> Fraction:
        """Return the public grid's step in scaled units."""
        return Fraction(2) ** self.step_exponent


def ridge(epsilon: Fraction, q: Fraction, eigenvalue: Fraction) -> Fraction:
    """Return gamma: lambda / (exp(epsilon (1 - q)) - 1) rounded up, at least 2**-20."""
    with working_precision(128):
        exponent = epsilon * (1 - q)
        growth = rational(exponent).expm1()
        # More ridge is still private, so the ball's upper end will do.
        exact = rational(eigenvalue) / growth
        return max(above(exact), SMALLEST_RIDGE)


def ridge_of(loss: Loss, epsilon: Fraction, q: Fraction) -> Fraction:
    """Return gamma of a loss: of a spectrum the least that is enough.

    That is ``prod (1 + lambda_j / gamma)^(r_j) <= exp(epsilon (1 - q))``. As log(1 + x) <= x,
    ``sum r_j lambda_j / (epsilon (1 - q))`` is enough; halving finds less, and each step is
    certified. The result is rounded up, and at least 2**-20.
    """
    if not loss.spectrum:
        return ridge(epsilon, q, loss.eigenvalue)
    budget = epsilon * (1 - q)
    with working_precision(128):

        def is_enough(gamma: Fraction) -> bool:
            spent = sum(
                (times * rational(value / gamma).log1p() for value, times in loss.spectrum), arb(0)
            )
            return above(spent) <= budget

        total = sum((value * times for value, times in loss.spectrum), Fraction(0))
        high = max(above(rational(total / budget)), SMALLEST_RIDGE)
        low = Fraction(0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
    return max(high, SMALLEST_RIDGE)


def automatic_q(epsilon: Fraction, loss: Loss, norm: Norm, rows: int | None) -> Fraction:
    """Return the public choice of q: it balances tilt and ridge for typical slopes.

    The minimiser is off by about ``(n h + gamma)^-1 (gamma theta + V)`` with n h
    the curvature of the data. q = k / 200 minimises

        (d sd(V_j)^2 + gamma^2 T^2) / (n h + gamma)^2,

    T the loss' typical slope norm and h its typical curvature (1/16 for the
    logistic loss); under add-remove, where ``rows`` is None, the denominator is
    left out. Only public numbers enter.

    ``studies/tilt_share.py`` compares its errors with those of fixed shares, and
    ``studies/long_answers.py`` justifies the choice of T.
    """

    rows = None if rows is None else rows // loss.parts

    gamma = np.maximum(_about_ridge(loss, float(epsilon) * (1 - _SHARES)), float(SMALLEST_RIDGE))
    spread = loss.dimension * (loss.tilt_std(norm, 1.0) / (float(epsilon) * _SHARES)) ** 2
    total = spread + (gamma * loss.slope_norm) ** 2
    if rows is not None:
        total = total / (rows * loss.curvature + gamma) ** 2
    # A public rule in floats: it chooses among few exact numbers, and every one of them is private.
    return Fraction(1 + int(np.argmin(total)), 200)


def _about_ridge(loss: Loss, budgets: Floats) -> Floats:
    """Return about gamma, in floats, where exp(budget) is the largest ratio of determinants."""
    if not loss.spectrum:
        # exp(700) is about as large as floats go, and the least ridge takes over long before.
        return np.asarray(float(loss.eigenvalue) / np.expm1(np.minimum(budgets, 700.0)))
    spectrum = [(float(value), times) for value, times in loss.spectrum]
    high = sum(value * times for value, times in spectrum) / budgets
    low = np.zeros_like(high)
    for _ in range(_ROUGHLY):
        middle = (low + high) / 2
        spent = sum(times * np.log1p(value / middle) for value, times in spectrum)
        low, high = (
            np.where(spent <= budgets, low, middle),
            np.where(spent <= budgets, middle, high),
        )
    return np.asarray(high)


def step_exponent(spread: float, gamma: Fraction, loss: Loss, rows: int, region: Region) -> int:
    """Return the grid's exponent: 2**10 times finer than the least noise theta can have.

    That noise is the tilt's over the largest curvature, rows lambda + gamma;
    between 2**-32 and 2**-16 in scaled units.
    """
    of_record, of_ridge = loss.stiffest
    least = spread / (rows * of_record + float(gamma) * of_ridge)
    wanted = math.floor(math.log2(least)) - _FINER_THAN_NOISE
    # The region has the last word: a bound halfway between two points could never be rounded.
    return region.exponent(min(max(wanted, _FINEST_STEP), _COARSEST_STEP))


def smoothing_width(epsilon: Fraction, dimension: int, rows: int | None) -> Fraction:
    """Return h, the scale of the kernel that smooths the check loss, in scaled units.

    The power of two nearest to ``(d / (n epsilon))^(1/3) / 4``, between 2**-10 and
    1/4; under add-remove, where ``rows`` is None, n is replaced by 10**4.

    Smoothing shifts a quantile by about h^2, the ridge lambda / (exp(epsilon (1 - q)) - 1),
    lambda = d / (4 h), shrinks the slopes by about d / (h epsilon n): the two balance at
    h^3 ~ d / (epsilon n). The factor 1/4 is for residuals that are narrow compared with
    the target's public bounds. Mean l2 error of the scaled coefficients, 12 random
    slopes of l1 norm 1/2, columns uniform on [-1, 1], normal residuals of standard
    deviation s, l-infinity tilt (h as a power of two):

    =====  ==  ====  ===  ====  ======  ======  ======  ======  ======  ======  =====
    n      d   s     tau  eps   2**-8   2**-7   2**-6   2**-5   2**-4   2**-3   rule
    =====  ==  ====  ===  ====  ======  ======  ======  ======  ======  ======  =====
    1e3    3   0.05  0.5  1     0.019   0.011   0.011   0.009   0.008   0.010   2**-5
    1e3    3   0.05  0.9  1     0.076   0.055   0.030   0.041   0.094   0.215   2**-5
    1e3    3   0.2   0.9  1     0.139   0.099   0.062   0.085   0.055   0.126   2**-5
    1e3    7   0.2   0.9  4     0.080   0.071   0.059   0.052   0.063   0.132   2**-5
    1e4    3   0.05  0.5  1/4   0.011   0.008   0.005   0.004   0.003   0.005   2**-5
    1e4    3   0.05  0.9  1     0.006   0.005   0.010   0.031   0.089   0.218   2**-6
    1e4    3   0.2   0.9  1     0.029   0.017   0.014   0.013   0.037   0.124   2**-6
    1e4    7   0.2   0.9  1/4   0.133   0.129   0.076   0.079   0.072   0.148   2**-5
    1e4    7   0.2   0.9  4     0.018   0.018   0.016   0.018   0.038   0.123   2**-6
    =====  ==  ====  ===  ====  ======  ======  ======  ======  ======  ======  =====
    """
    public = _ASSUMED_ROWS if rows is None else max(rows, 1)
    # A power of two: the kernel's width is then an exact rational of few digits.
    balance = (dimension / (public * float(epsilon))) ** (1 / 3) / 4
    return Fraction(2) ** min(max(round(math.log2(balance)), _NARROWEST), _WIDEST)
