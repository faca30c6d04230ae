"""The style of figures over epsilon that compare norms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from studies.figures import plots

SHOWN = {"l1": "l1", "l2": "l2", "linf": "l\N{INFINITY}", "optimal": "optimal K"}
COLOURS = {"l1": plots.RED, "l2": plots.GREEN, "linf": plots.BLUE, "optimal": plots.PURPLE}


def epsilon_axis(axes: Axes, epsilons: Sequence[str]) -> None:
    """Mark the values of epsilon that were tried, as fractions."""
    axes.set_xscale("log")
    axes.set_xlabel("epsilon")
    axes.set_xticks([float(each) for each in epsilons], [str(Fraction(each)) for each in epsilons])
    axes.xaxis.set_minor_locator(NullLocator())


def level(axes: Axes, height: float, label: str, *, dashes: str = "-") -> None:
    """Draw a height that no epsilon changes."""
    axes.axhline(height, color=plots.BLACK, linewidth=1.0, linestyle=dashes, label=label)
