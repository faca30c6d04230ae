"""Distances to many private records: the law of the geometric median at any number of rows.

    N(theta; D) = || sum_i (theta - x_i) / ||theta - x_i||_2 ||_2,   terms with theta = x_i being 0

:mod:`cells` keeps points in so many cells, :mod:`field` is what is known of the sum of unit vectors
on a ball, :mod:`bounds` what that says of boxes, :mod:`passes` are the passes over the rows that
make it, :mod:`source` knows when to make them. :mod:`search` says where the sum is about 0,
:mod:`needle` whether the law is long and thin there, :mod:`heavy` what bounds it beside a heavy
point, :mod:`outside` what is far from there. :mod:`law` is the law of the box engine, and
:mod:`line` that of one column. For few rows
:mod:`mechanisms.objectives.geometric_median` has the same law, which reads each of them for every
box.

May enter: what bounds sums of unit vectors. May import: the box engine and ``exact``.
"""

from mechanisms.objectives.points.cells import MOST_CELLS
from mechanisms.objectives.points.law import PointsLaw
from mechanisms.objectives.points.line import LineLaw
from mechanisms.objectives.points.passes import Points
from mechanisms.objectives.points.source import held, survey

__all__ = ["MOST_CELLS", "LineLaw", "Points", "PointsLaw", "held", "survey"]
