"""Public constants of a record's loss: what objective perturbation is calibrated with.

On Theta, at any theta and for any two records z, z':

- ``||grad l(theta; z) - grad l(theta; z')||_K <= Delta_K`` (replace-one), or
  ``||grad l(theta; z)||_K <= Delta_K`` (add-remove);
- the Hessian of l has rank one and its eigenvalue is at most lambda, or it has a spectrum
  (:mod:`mechanisms.objectives.several`).

*The check loss smoothed by a logistic kernel, over private rows.* With u = y - theta'x and Z
standard logistic, a record's loss is

    E rho_tau(u + h Z) = tau u + h log(1 + exp(-u / h)),

the convolution of the check loss rho_tau(u) = u (tau - 1{u < 0}) with a logistic
kernel of scale h: E max(0, -u - h Z) = h log(1 + exp(-u / h)). Its gradient is
``(sigmoid(-u / h) - tau) x`` and its Hessian ``s (1 - s) x x' / h``, continuous, of
rank one and with an eigenvalue of at most ||x||_2^2 / (4 h) <= d / (4 h): what Theorem
5.1 of Awan & Slavkovic asks for and the check loss itself lacks (as does a uniform
kernel, whose Hessian jumps).

*Conventions.* Rows are ``zeta_i = (1, a_i1/F, ..., a_ik/F, b_i/F)``, the target's
code last, and y_i = o + s b_i/F; so -u/h = zeta_i'w with
``w = (W'theta - o e_0, -s) / h``, an affine function of theta:
:class:`~mechanisms.objectives.sigmoid.SigmoidObjective` with scale h, steepness 1/h
and the linear part c = -tau sum x_i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, cast

import numpy as np

from mechanisms.exact.balls import above, rational
from mechanisms.exact.continuous import BallNorm
from mechanisms.exact.floats import Floats
from mechanisms.objectives.affine import AffineMap, Rows
from mechanisms.objectives.design import Design
from mechanisms.objectives.sigmoid import SigmoidObjective
from mechanisms.privacy import Adjacency
from mechanisms.samplers.bodies import InterceptHull, Joined

Norm = BallNorm | Literal["optimal"]
"""A norm's name; "optimal" is the hull's, which is the cube's where there is no smaller hull."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The public constants of a record's loss on Theta.

    Attributes
    ----------
    dimension
        d.
    largest_difference, squared_length, absolute_sum
        Delta_inf, Delta_2 squared and Delta_1, exactly.
    eigenvalue
        lambda: the largest eigenvalue of a record's Hessian.
    slope_norm, curvature
        A typical l2 norm of the scaled coefficients, and a typical record's share
        of the smallest curvature; only ``q="auto"`` uses them.
    hull
        The hull of all differences where it is smaller than the cube of Delta_inf;
        its own norm, "optimal", has Delta = 1.
    joined
        Where a record's gradient is F z, z in few blocks of several: the constants are then those
        of z, d its largest number of entries that are not 0, norms are summed over blocks, and
        ridge and tilt are of F'theta.
    spectrum
        Where a Hessian has a rank above one: eigenvalues lambda_j and multiplicities r_j with
        ``det(I + A / gamma) <= prod (1 + lambda_j / gamma)^(r_j)`` for each record's Hessian A.
    """

    dimension: int
    largest_difference: Fraction
    squared_length: Fraction
    absolute_sum: Fraction
    eigenvalue: Fraction
    slope_norm: float
    curvature: float
    hull: InterceptHull | None = None
    joined: Joined | None = None
    spectrum: tuple[tuple[Fraction, int], ...] = ()

    @classmethod
    def of_a_cube(
        cls,
        *,
        dimension: int,
        largest_difference: Fraction,
        eigenvalue: Fraction,
        slope_norm: float,
        curvature: float,
    ) -> Loss:
        """Return the constants where only Delta_inf is known: Delta_2^2 = d, Delta_1 = d times."""
        return cls(
            dimension=dimension,
            largest_difference=largest_difference,
            squared_length=dimension * largest_difference**2,
            absolute_sum=dimension * largest_difference,
            eigenvalue=eigenvalue,
            slope_norm=slope_norm,
            curvature=curvature,
        )

    def shape(self, norm: Norm) -> BallNorm | InterceptHull | Joined:
        """Return the ball of a norm's name: for "optimal" the hull, if it is smaller."""
        named = "linf" if norm == "optimal" else norm
        if self.joined is not None:
            return replace(self.joined, norm=named)
        return self.hull or "linf" if norm == "optimal" else norm

    def quietest(self, offered: Sequence[str]) -> Norm:
        """Return the norm for "auto": the hull's where offered, else that of the least tilt.

        In a cube that is linf: a gradient's entries can all change by Delta_inf at once.
        """
        if "optimal" in offered:
            return "optimal"
        if self.squared_length >= self.dimension * self.largest_difference**2 or self.joined:
            return "linf"
        return min(cast(Sequence[Norm], offered), key=lambda norm: self.tilt_std(norm, 1.0))

    @property
    def stiffest(self) -> tuple[float, float]:
        """Return the largest curvature of a record, and of ridge 1, in any direction of theta."""
        if self.joined is None:
            return float(self.eigenvalue), 1.0
        rows = np.array(self.joined.matrix, dtype=np.float64)
        # |x_j| <= 1, so no record has a longer x than d entries of 1
        return float(len(rows)), float((rows**2).sum())

    @property
    def parts(self) -> int:
        """Return how many blocks there are: each has about as many of the records."""
        return 1 if self.joined is None else len(self.joined.blocks)

    def sensitivity_squared(self, norm: Norm) -> Fraction:
        """Return Delta_K squared, exactly."""
        return self.squared_length if norm == "l2" else self._exact_sensitivity(norm) ** 2

    def _exact_sensitivity(self, norm: Norm) -> Fraction:
        if norm == "optimal" and self.hull is not None:
            return Fraction(1)
        return self.absolute_sum if norm == "l1" else self.largest_difference

    def sensitivity_text(self, norm: Norm) -> str:
        """Return Delta_K as exact text."""
        if norm != "l2":
            return str(self._exact_sensitivity(norm))
        entries = self.squared_length / self.largest_difference**2
        if entries.denominator == 1:
            return f"{self.largest_difference}*sqrt({entries})"
        return f"sqrt({self.squared_length})"

    def tilt_std(self, norm: Norm, budget: float) -> float:
        """Return the standard deviation of a coordinate of V at epsilon q = budget.

        For a hull, whose coordinates differ, the root of the mean variance.
        """
        d = self.dimension
        if self.joined is not None:
            own = (max(self.joined.blocks), *((self.joined.shared,) if self.joined.shared else ()))
            stds = self._stds(norm, budget, own)
            return math.sqrt(float(np.mean(stds**2)))
        scale = math.sqrt(self.sensitivity_squared(norm)) / budget
        if norm == "optimal" and self.hull is not None:
            return scale * math.sqrt((d + 1) * (d + 2) * self.hull.spread)
        return scale * _unit_std(norm, d)

    def joined_stds(self, norm: Norm, budget: float) -> Floats:
        """Return the standard deviation of each entry of V, by blocks."""
        assert self.joined is not None
        return self._stds(norm, budget, self.joined.every)

    def _stds(self, norm: Norm, budget: float, blocks: Sequence[int]) -> Floats:
        scale = math.sqrt(self.sensitivity_squared(norm)) / budget
        return scale * np.repeat([_unit_std(norm, size) for size in blocks], blocks)


def _unit_std(norm: Norm, dimension: int) -> float:
    """Return the standard deviation of a coordinate of K-norm noise at rate 1."""
    if norm == "l1":
        return math.sqrt(2)
    if norm == "l2":
        return math.sqrt(dimension + 1)
    return math.sqrt((dimension + 1) * (dimension + 2) / 3)


def largest_weight(tau: Fraction) -> Fraction:
    """Return M = max(tau, 1 - tau), the largest |a| of the check loss's gradient ``a x``."""
    return max(tau, 1 - tau)


def gradient_sensitivity(tau: Fraction, adjacency: Adjacency) -> Fraction:
    """Return Delta_inf of the check loss's gradient: 2 M under replace-one, M under add-remove."""
    weight = largest_weight(tau)
    return 2 * weight if adjacency is Adjacency.REPLACE_ONE else weight


def logistic_loss(dimension: int, adjacency: Adjacency, bound: Fraction | None = None) -> Loss:
    r"""Return Delta_inf = 2 sigmoid(B) (add-remove half) and lambda = d/4 of the logistic loss.

    A record's gradient is ``(sigmoid(t) - y) x`` with t = theta'x, and |t| <= B where
    ||theta||_1 <= B; sigmoid(B) is 1 without a bound.

    *One coefficient.* Two gradients at the same theta differ by less, 1.052. By symmetry let
    theta be positive. Then they lie between

        -max_x x sigmoid(-theta x)    and    sigmoid(theta),    0 <= x <= 1.

    The maximum is at the end, sigmoid(-theta), where theta <= 1.278, and both sum to 1. Beyond,
    it is max_u u sigmoid(-u) / theta < 0.27847 / theta, and the sum is largest near theta = 4.
    """
    each = Fraction(1) if bound is None else _sigmoid_above(bound)
    difference = each * records_changed(adjacency)
    return Loss.of_a_cube(
        dimension=dimension,
        largest_difference=min(difference, _ONE_COEFFICIENT) if dimension == 1 else difference,
        eigenvalue=Fraction(dimension, 4),
        slope_norm=3.0,
        curvature=1 / 16,
    )


_ONE_COEFFICIENT = Fraction(1052, 1000)
_THOUSANDTHS = 1000


def _sigmoid_above(bound: Fraction) -> Fraction:
    """Return 1 / (1 + exp(-B)), rounded up to a thousandth."""
    found = above(1 / (1 + (-rational(bound)).exp()))
    return min(Fraction(math.ceil(found * _THOUSANDTHS), _THOUSANDTHS), Fraction(1))


def squared_loss(dimension: int, bound: Fraction, adjacency: Adjacency) -> Loss:
    """Return Delta_inf = 4 (1 + B) (add-remove half) and lambda = 2 d of (y - x'theta)^2.

    On ||theta||_1 <= B a record's gradient -2 (y - x'theta) x has entries of at
    most 2 (1 + B) in absolute value.
    """
    return Loss.of_a_cube(
        dimension=dimension,
        largest_difference=2 * (1 + bound) * records_changed(adjacency),
        eigenvalue=Fraction(2 * dimension),
        slope_norm=1.0,
        curvature=1 / 2,
    )


def smoothed_check_loss(
    dimension: int, tau: Fraction, width: Fraction, *, intercept: bool, adjacency: Adjacency
) -> Loss:
    """Return the constants of the check loss smoothed by a logistic kernel of scale h.

    A record's gradient is a x with a in (-tau, 1 - tau), as the check loss' own but
    for the ends, which are reached as h shrinks; with M = max(tau, 1 - tau) every entry
    lies in [-M, M]. Without an intercept two records differ by at most

        Delta_inf = 2 M,    Delta_2 = 2 M sqrt(d),    Delta_1 = 2 M d,

    and one contributes at most half of each (with an intercept too). With an
    intercept the first entry of x is 1, so the difference is (a - a', a x - a' x'):
    |a - a'| + (d - 1)(|a| + |a'|) and (a - a')^2 + (d - 1)(|a| + |a'|)^2 are convex
    in (a, a') and therefore largest where both are ends of [-tau, 1 - tau]: the same
    end (2 M in every feature, 0 in the intercept) or opposite ones (1 everywhere):

        Delta_inf = 2 M (1 if d = 1),
        Delta_2^2 = max(4 M^2 (d - 1), d),    Delta_1 = max(2 M (d - 1), d).

    The Hessian's only eigenvalue is at most ||x||_2^2 / (4 h) <= d / (4 h) = lambda.
    """
    features = dimension - intercept
    same = gradient_sensitivity(tau, adjacency)
    if intercept and adjacency is Adjacency.REPLACE_ONE:
        largest = same if features else Fraction(1)
        squared = max(same**2 * features, Fraction(dimension))
        absolute = max(same * features, Fraction(dimension))
    else:
        largest, squared, absolute = same, same**2 * dimension, same * dimension
    return Loss(
        dimension=dimension,
        largest_difference=largest,
        squared_length=squared,
        absolute_sum=absolute,
        eigenvalue=dimension / (4 * width),
        slope_norm=1.0,
        curvature=1 / 2,
        hull=InterceptHull(gradient_sensitivity(tau, Adjacency.ADD_REMOVE), dimension)
        # with 2 M = 1 the hull is the cube
        if intercept and features and same > 1 and adjacency is Adjacency.REPLACE_ONE
        else None,
    )


def records_changed(adjacency: Adjacency) -> int:
    """Return how many records' gradients differ between neighbours: 2 where one is replaced."""
    return 2 if adjacency is Adjacency.REPLACE_ONE else 1


# The check loss smoothed by a logistic kernel, over private rows


class SmoothedCheckObjective(SigmoidObjective):
    """The smoothed check loss; implements :class:`~mechanisms.samplers.minimiser.Objective`.

    Parameters
    ----------
    rows : Rows
        The rows zeta, of k + 2 entries that are multiples of 1/F in [-1, 1].
    design : Design
        The public map W of the features.
    target : pair of Fraction
        (o, s): y = o + s b / F.
    tau, width : Fraction
        The level and h > 0.
    totals : sequence of Fraction
        sum x_i, length d, exactly: with weights, sum p_i x_i.
    weighted : bool
        Whether each row has one entry more, its weight p_i.
    """

    __slots__ = ()

    def __init__(
        self,
        rows: Rows,
        design: Design,
        *,
        target: tuple[Fraction, Fraction],
        tau: Fraction,
        width: Fraction,
        totals: Sequence[Fraction],
        weighted: bool = False,
    ) -> None:
        offset, slope = target
        middle = (Fraction(0),) * len(design.slopes)
        public = AffineMap(
            matrix=tuple(
                (*(entry / width for entry in row), Fraction(0)) for row in design.matrix()
            ),
            offset=(-offset / width, *middle, -slope / width),
            scale=width,
            steepness=1 / width,
        )
        super().__init__(rows, public, [-tau * total for total in totals], weighted=weighted)
