"""Distances to many private records: the law of the geometric median at any number of rows.

    N(theta; D) = || sum_i (theta - x_i) / ||theta - x_i||_2 ||_2,   terms with theta = x_i being 0

:mod:`cells` groups points into a bounded number of cells, and :mod:`field` approximates the sum of
unit vectors on a ball. :mod:`bounds` bounds the sum on boxes and far from the minimum,
:mod:`passes` makes the passes over the rows that a field needs, and :mod:`source` decides when to
make them. :mod:`search` finds where the sum is about 0. :mod:`law` is the law of the box engine,
bounded near a heavy point too, and says whether the law is long and thin, or is that of one column.
For few rows :mod:`mechanisms.objectives.geometric_median` has the same law, which reads each row
for every box.

May enter: what bounds sums of unit vectors. May import: the box engine and ``exact``.
"""

from mechanisms.objectives.points.cells import MOST_CELLS
from mechanisms.objectives.points.law import LineLaw, PointsLaw
from mechanisms.objectives.points.passes import Points
from mechanisms.objectives.points.source import held, survey

__all__ = ["MOST_CELLS", "LineLaw", "Points", "PointsLaw", "held", "survey"]
