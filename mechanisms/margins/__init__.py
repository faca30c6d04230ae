"""Tables by noise on their margins: all tables of a workload in one draw; ordered cells by blocks.

:mod:`release`: the plan, the draw and the noise that a release of tables states; :mod:`ranges`:
those of the ordered cells of one column, measured in blocks. The mathematics is in
:mod:`mechanisms.tables`.

May enter: how noise on sums of cells is planned and drawn. May import: statistics, and all below
them.
"""

from mechanisms.margins.release import THEOREM, calibrate

__all__ = ["THEOREM", "calibrate"]
