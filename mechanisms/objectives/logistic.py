"""The logistic loss of private rows.

``L(theta) = sum_i log(1 + exp(theta'x_i)) - y_i theta'x_i``, y in {0, 1},
|x_ij| <= 1 (Awan & Slavkovic, equation (4), as a sum).

*Conventions.* With s_i = 1 - 2 y_i a record's loss is log(1 + exp(s_i theta'x_i)),
so labels are folded into the rows. Rows are stored in *code units*
``zeta_i = s_i (1, a_i1/F, ..., a_ik/F)``, whose entries are exact in float64,
and x_i = W (1, a_i/F) for a public rational d x (k+1) matrix W (see
:class:`~mechanisms.objectives.design.Design`). This is
:class:`~mechanisms.objectives.sigmoid.SigmoidObjective` with A = W and nothing else.
"""

from __future__ import annotations

from fractions import Fraction

from mechanisms.objectives.design import Design
from mechanisms.objectives.sigmoid import AffineMap, Rows, SigmoidObjective


class LogisticObjective(SigmoidObjective):
    """The logistic loss of some rows; implements :class:`~mechanisms.samplers.objective.Objective`.

    Parameters
    ----------
    rows : Rows
        The signed rows zeta, of k + 1 entries that are multiples of 1/F in [-1, 1].
    design : Design
        The public map W.
    weighted : bool
        Whether each row has one entry more, its weight.
    """

    __slots__ = ()

    def __init__(self, rows: Rows, design: Design, *, weighted: bool = False) -> None:
        matrix = tuple(tuple(row) for row in design.matrix())
        public = AffineMap(
            matrix=matrix,
            offset=(Fraction(0),) * (len(design.slopes) + 1),
            scale=Fraction(1),
            steepness=Fraction(1),
        )
        super().__init__(rows, public, (Fraction(0),) * design.dimension, weighted=weighted)
