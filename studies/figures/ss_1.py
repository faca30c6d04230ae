"""SS Figure 1: the adjacent output space of Example 3.1, and the norm balls around it.

T(X) = (sum x, sum 2 x^2), |x| <= 1. One record against another changes it by
u = (x - x', 2 x^2 - 2 x'^2). A ball's radius is T's sensitivity in its norm: exactly, or by the
bounds of equation (2), which add up coordinates one by one. In the CSV the columns of errors hold
that radius, and n is the one record that is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
from matplotlib.figure import Figure as Picture
from numpy.typing import NDArray

from mechanisms.geometry.smooth import Ball
from mechanisms.statistics.second_order import Layout
from studies.figures import plots
from studies.figures.cells import Cell, Measured, Result
from studies.figures.figure import Figure, Finding

Values = NDArray[np.float64]

NAME = "ss-1"
NORMS: tuple[Ball, ...] = ("l1", "l2", "linf")
PRINTED = {"l1": 3.125, "l2": sqrt(71 + 8 * sqrt(2)) / 4, "linf": 2.0}
"""Equation (1)."""

SHIPPED, SEARCH, BOUND = "stated by the library", "largest found", "equation (2)"
EXACT, APPROXIMATE = "exact", "approximate"
_RECORDS = 4001
_ORDER = {"l1": 1.0, "l2": 2.0, "linf": np.inf}
_COLOURS = {"l1": plots.RED, "l2": plots.GREEN, "linf": plots.BLUE}
_SHOWN = {"l1": "l1 ball", "l2": "l2 ball", "linf": "l\N{INFINITY} ball"}
_ATTAINED = 1e-4
_DIGITS = 1e-5  # of the numbers in a CSV


def cells(_quick: bool) -> tuple[Cell, ...]:
    """Return a radius for each norm, three times: as stated, as found by search, as bounded."""
    wanted = ((EXACT, SHIPPED), (EXACT, SEARCH), (APPROXIMATE, BOUND))
    return tuple(
        Cell(
            figure=NAME, panel=panel, method=method, norm=norm, n=1, replicate_count=1,
            measure=radius, cost_s=0.3,
        )
        for panel, method in wanted
        for norm in NORMS
    )  # fmt: skip


def radius(cell: Cell) -> Measured:
    """Return the radius of one ball."""
    by_method = {SHIPPED: _shipped, SEARCH: _searched, BOUND: _bounded}
    return Measured(errors=[by_method[cell.method](cell.norm)])


def _shipped(norm: str) -> float:
    space = Layout(("x",), cross=False, rows=1).space()
    return sqrt(space.squared({each: each for each in NORMS}[norm]))  # type: ignore[index]


def _searched(norm: str) -> float:
    """Return the largest change over all pairs of records on a fine grid."""
    x = np.linspace(-1, 1, _RECORDS)
    t = np.column_stack([x, 2 * x**2])
    return max(float(np.linalg.norm(t - row, _ORDER[norm], axis=1).max()) for row in t)


def _bounded(norm: str) -> float:
    """Return equation (2): each coordinate changes by 2 at most, taken by itself."""
    return float(np.linalg.norm([2.0, 2.0], _ORDER[norm]))


def outline() -> Values:
    """Return the boundary of S_T: ``|u_2| <= 2 - 2 (1 - |u_1|)^2``."""
    u = np.linspace(-2, 2, 161)
    height = 2 - 2 * (1 - np.abs(u)) ** 2
    return np.vstack([np.column_stack([u, height]), np.column_stack([u, -height])[::-1]])


def ball(norm: str, size: float) -> Values:
    """Return the boundary of a ball."""
    turn = np.linspace(0, 2 * np.pi, 361)
    way = np.column_stack([np.cos(turn), np.sin(turn)])
    return np.asarray(size * way / np.linalg.norm(way, _ORDER[norm], axis=1)[:, None])


def draw(rows: Sequence[Result]) -> Picture:
    """Draw both panels: the shaded space, and three balls around it."""
    made, axes = plots.picture(2)
    for place, (panel, method, title) in enumerate(
        ((EXACT, SHIPPED, "exact sensitivities, equation (1)"),
         (APPROXIMATE, BOUND, "approximate ones, equation (2)"))
    ):  # fmt: skip
        each, sizes = axes[place], _sizes(rows, panel, method)
        each.fill(*outline().T, color=plots.SKY, alpha=0.6, label="$S_T$")
        for norm in NORMS:
            each.plot(
                *ball(norm, sizes[norm]).T,
                color=_COLOURS[norm],
                label=f"{_SHOWN[norm]}, radius {sizes[norm]:.4g}",
            )
        each.set(title=title, xlim=(-4.2, 4.2), ylim=(-4.2, 4.2), aspect="equal")
        each.set_xlabel("change of the sum of x")
        each.set_ylabel("change of the sum of 2 x²")
        each.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return made


def findings(rows: Sequence[Result]) -> tuple[Finding, ...]:
    """Return equation (1), and which ball lies in which."""
    stated, found = _sizes(rows, EXACT, SHIPPED), _sizes(rows, EXACT, SEARCH)
    loose = _sizes(rows, APPROXIMATE, BOUND)
    return (
        Finding(
            claim="SS (1): the sensitivities are 3.125, sqrt(71 + 8 sqrt 2) / 4 and 2.",
            measured="Stated "
            + ", ".join(f"{stated[norm]:.5g}" for norm in NORMS)
            + f"; the largest change over {_RECORDS:,}² pairs of records: "
            + ", ".join(f"{found[norm]:.5g}" for norm in NORMS)
            + ".",
            holds=all(
                abs(stated[norm] - PRINTED[norm]) < _ATTAINED
                and 0 <= stated[norm] + _ATTAINED - found[norm] <= 2 * _ATTAINED
                for norm in NORMS
            ),
        ),
        Finding(
            claim="SS Example 4.6: with exact sensitivities no ball lies inside another.",
            measured=_inclusions(stated),
            holds=not any(_held(stated).values()),
        ),
        Finding(
            claim="SS Example 4.6: with the approximations the l∞ ball lies inside the l2 ball, "
            "and that inside the l1 ball.",
            measured=_inclusions(loose),
            holds=_held(loose) == {pair: pair in _NESTED for pair in _pairs()},
        ),
        Finding(
            claim="SS 3: the balls hold S_T.",
            measured="Largest share of a radius that S_T takes: "
            + ", ".join(f"{_reach(norm) / stated[norm]:.4f}" for norm in NORMS)
            + " for l1, l2, l∞.",
            holds=all(_reach(norm) <= stated[norm] + _ATTAINED for norm in NORMS),
        ),
    )


_NESTED = {("linf", "l2"), ("linf", "l1"), ("l2", "l1")}


def _sizes(rows: Sequence[Result], panel: str, method: str) -> Mapping[str, float]:
    return {row.norm: row.error_mean for row in rows if (row.panel, row.method) == (panel, method)}


def _pairs() -> list[tuple[str, str]]:
    return [(inner, outer) for inner in NORMS for outer in NORMS if inner != outer]


def _share(sizes: Mapping[str, float], inner: str, outer: str) -> float:
    """Return how far the inner ball reaches, in radii of the outer one."""
    reached = np.linalg.norm(ball(inner, sizes[inner]), _ORDER[outer], axis=1).max()
    return float(reached) / sizes[outer]


def _held(sizes: Mapping[str, float]) -> dict[tuple[str, str], bool]:
    return {pair: _share(sizes, *pair) <= 1 + _DIGITS for pair in _pairs()}


def _inclusions(sizes: Mapping[str, float]) -> str:
    inclusions = ", ".join(
        f"{inner} in {outer} {_share(sizes, inner, outer):.3f}" for inner, outer in _pairs()
    )
    return f"How far one reaches, in radii of the other (1 or less is inside): {inclusions}."


def _reach(norm: str) -> float:
    return float(np.linalg.norm(outline(), _ORDER[norm], axis=1).max())


FIGURE = Figure(
    name=NAME,
    title="what one record can change, and the balls around it",
    claim="SS Figure 1 shows the adjacent output space of Example 3.1, T(X) = (sum x, sum 2 x²), "
    "with the norm balls under exact and under approximate sensitivities.",
    method="The radii are those that the library states.",
    cells=cells,
    draw=draw,
    findings=findings,
)
