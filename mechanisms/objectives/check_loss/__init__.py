"""The check loss over private records, as laws of the box engine.

    l(theta) = sum_i rho_tau(y_i - x_i'theta),   rho_tau(r) = r (tau - 1{r <= 0})

:mod:`records` keeps the data as integers, :mod:`law` what its two laws share (which records are
decided on a box), :mod:`narrowing` starts a draw near the minimiser. The laws themselves, of the
K-norm gradient mechanism and of the exponential mechanism, are in :mod:`gradient`;
:mod:`layers` has them on polytopes, the gradient's for few distinct rows and for many.
:mod:`search` says where the loss is least.

May enter: what bounds this loss or its gradient on boxes and polytopes. May import: their engines,
``exact``, and the other objectives.
"""

from mechanisms.objectives.check_loss.gradient import GradientLaw, LossLaw
from mechanisms.objectives.check_loss.law import CheckLossLaw, Undecided
from mechanisms.objectives.check_loss.layers import GradientCells, GradientLayers, LossCells, trials
from mechanisms.objectives.check_loss.passes import MakeLaw, Reader
from mechanisms.objectives.check_loss.records import Grid, Records
from mechanisms.objectives.check_loss.stored import Limits, Run, StoredRows, survey
from mechanisms.objectives.check_loss.stored_law import StoredLaw

__all__ = [
    "CheckLossLaw",
    "GradientCells",
    "GradientLaw",
    "GradientLayers",
    "Grid",
    "Limits",
    "LossCells",
    "LossLaw",
    "MakeLaw",
    "Reader",
    "Records",
    "Run",
    "StoredLaw",
    "StoredRows",
    "Undecided",
    "survey",
    "trials",
]
