"""The check loss smoothed by a logistic kernel, over private rows.

With u = y - theta'x and Z standard logistic, a record's loss is

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

from collections.abc import Sequence
from fractions import Fraction

from mechanisms.objectives.design import Design
from mechanisms.objectives.sigmoid import AffineMap, Rows, SigmoidObjective


class SmoothedCheckObjective(SigmoidObjective):
    """The smoothed check loss; implements :class:`~mechanisms.samplers.objective.Objective`.

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
