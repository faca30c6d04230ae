"""SS Figure 3: linear regression from sanitized moments (Algorithm 4), norm by norm.

p = 5 features uniform on [-1, 1], beta = (0, -1.5, -0.75, 0, 0.75, 1.5), normal errors of standard
deviation 1, the pseudoinverse (SS equation (5)). Coverage is the share of the five slopes that lie
in the 95% confidence intervals of least squares on the same rows; for least squares itself, how
often those hold the true slopes. The error is the l2 distance to beta.

The target's public bounds are -8 and 8, 4.7 of its standard deviations: the paper leaves open how
it scales the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from scipy.stats import t as student

from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import FunctionalDraw
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from studies.figures import plots
from studies.figures.budgets import budget_ratios, described, typical
from studies.figures.cells import Cell, Measured, Result, seed_of
from studies.figures.figure import Figure, Finding
from studies.figures.norms import COLOURS, SHOWN, epsilon_axis, level
from studies.figures.sanitized import NORMS, Estimator, Summed, planned
from studies.figures.slopes import of_method

NAME = "ss-3"
FEATURES = 5
BETA = np.concatenate([[0.0], np.linspace(-1.5, 1.5, FEATURES)])
TARGET_BOUND = 8
COLUMNS = (*(f"x{place}" for place in range(1, FEATURES + 1)), "y")
EPSILONS = ("0.0625", "0.125", "0.25", "0.5", "1", "2", "4")
FUNCTIONAL, NON_PRIVATE = "functional, pseudoinverse", "non-private"

_HALF = (0.4, 0.6)  # "about half"
_SIMILAR = (0.8, 1.1)  # "very similarly"
_ALIKE = 0.1

Ratios = dict[str, dict[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The quantity that a line shows, and the least rise of a readable stretch."""

    height: Callable[[Result], float]
    least_change: float


ERROR = Reading(height=lambda row: float(np.log(row.error_median)), least_change=float(np.log(1.2)))
COVERAGE = Reading(height=lambda row: row.coverage or 0.0, least_change=0.03)


def cells(quick: bool) -> tuple[Cell, ...]:
    """Return three norms at two sizes."""
    sizes = ((10**4, 200), (10**6, 60 if quick else 200))
    return tuple(cell for rows, count in sizes for cell in _panel(rows, count))


def _panel(rows: int, count: int) -> list[Cell]:
    panel = f"n = {rows:,}"
    reference = Cell(
        figure=NAME, panel=panel, method=NON_PRIVATE, n=rows, replicate_count=count,
        measure=non_private, cost_s=5e-7 * rows * count,
    )  # fmt: skip
    drawn = [
        Cell(
            figure=NAME, panel=panel, method=FUNCTIONAL, norm=norm, n=rows, epsilon=epsilon,
            replicate_count=count, measure=private, cost_s=2e-3 * count,
        )
        for norm in NORMS
        for epsilon in EPSILONS
    ]  # fmt: skip
    return [reference, *drawn]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicate:
    """The summary of one data set: the sums of its moments, and its least squares."""

    data: Summed
    fit: Floats
    half_widths: Floats


def schema(rows: int) -> Schema:
    """Return the public facts."""
    columns = dict.fromkeys(COLUMNS, _bounded(1)) | {"y": _bounded(TARGET_BOUND)}
    return Schema(columns, Adjacency.REPLACE_ONE, rows)


def _bounded(size: int) -> NumberColumn:
    return NumberColumn(lower=Fraction(-size), upper=Fraction(size))


@lru_cache(maxsize=512)
def replicate(rows: int, seed: int) -> Replicate:
    """Return one data set, which all norms and epsilons share."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (rows, FEATURES))
    target = BETA[0] + features @ BETA[1:] + rng.standard_normal(rows)
    facts, values = schema(rows), dict(zip(COLUMNS, (*features.T, target), strict=True))
    fit, half_widths = least_squares(features, target)
    data = Summed.of(ArrayData.from_values(facts, values), COLUMNS)
    return Replicate(data=data, fit=fit, half_widths=half_widths)


def least_squares(features: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients, and half the widths of their 95% confidence intervals."""
    design = np.column_stack([np.ones(len(target)), features])
    inverse = np.linalg.inv(design.T @ design)
    fit = inverse @ (design.T @ target)
    freedom = len(target) - design.shape[1]
    variance = float(np.sum((target - design @ fit) ** 2)) / freedom
    widths = student.ppf(0.975, freedom) * np.sqrt(variance * np.diag(inverse))
    return fit, np.asarray(widths)


def private(cell: Cell) -> Measured:
    """Return distances to beta of released coefficients, and how many lie in the intervals."""
    plan = planned(schema(cell.n), "y", cell.loss, cell.norm, ridge=0.0)
    estimator = Estimator.of(plan)
    errors, inside = [], []
    for dice in cell.dice():
        known = _replicate(cell, dice.replicate)
        beta = TARGET_BOUND * estimator.theta(known.data, dice.draws)
        errors.append(_distance(beta))
        inside.append(_covered(beta, known))
    return Measured(errors=errors, coverage=float(np.mean(inside)))


def non_private(cell: Cell) -> Measured:
    """Return distances to beta of least squares, and how often its intervals hold beta."""
    every = [_replicate(cell, place) for place in range(cell.replicate_count)]
    return Measured(
        errors=[_distance(known.fit) for known in every],
        coverage=float(np.mean([_covered(BETA, known) for known in every])),
    )


def _replicate(cell: Cell, place: int) -> Replicate:
    return replicate(cell.n, seed_of(f"{cell.data}#{place}"))


def _distance(beta: Floats) -> float:
    return float(np.linalg.norm(beta - BETA))


def _covered(beta: Floats, known: Replicate) -> float:
    """Return the share of the slopes that lie in the intervals."""
    return float(np.mean((np.abs(beta - known.fit) <= known.half_widths)[1:]))


def draw(rows: Sequence[Result]) -> Picture:
    """Draw coverage as the paper does, and errors below it."""
    panels = dict.fromkeys(row.panel for row in rows)
    made, axes = plots.picture(2 * len(panels), columns=len(panels))
    lines = [
        plots.Line(method=FUNCTIONAL, norm=norm, label=SHOWN[norm], colour=COLOURS[norm])
        for norm in NORMS
    ]
    for place, panel in enumerate(panels):
        own = [row for row in rows if row.panel == panel]
        _draw_coverage(axes[place], own, lines)
        below = axes[place + len(panels)]
        private_rows = [row for row in own if row.epsilon]
        plots.errors_by(below, private_rows, lines, by="epsilon", reading="error_median")
        [reference] = of_method(own, NON_PRIVATE)
        level(below, reference.error_median, "non-private")
        epsilon_axis(below, EPSILONS)
        axes[place].set(title=panel, ylabel="share of slopes in their intervals")
        below.set_ylabel("median l2 distance to \N{GREEK SMALL LETTER BETA}")
    axes[0].legend()
    axes[len(panels)].legend()
    return made


def _draw_coverage(axes: Axes, rows: Sequence[Result], lines: Sequence[plots.Line]) -> None:
    for line in lines:
        points = of_method(rows, line.method, line.norm)
        axes.plot(
            [float(row.epsilon) for row in points],
            [row.coverage or 0.0 for row in points],
            label=line.label, color=line.colour, marker="o", markersize=4.5, linewidth=1.4,
        )  # fmt: skip
    [reference] = of_method(rows, NON_PRIVATE)
    level(axes, reference.coverage or 0.0, "true slopes")
    epsilon_axis(axes, EPSILONS)
    axes.set_ylim(0, 1.02)


def findings(rows: Sequence[Result]) -> tuple[Finding, ...]:
    """Return the ratios of budgets, and the coverage of least squares."""
    errors, covers = (_ratios(rows, "linf", "l1", reading) for reading in (ERROR, COVERAGE))
    similar = _ratios(rows, "optimal", "linf", ERROR)
    loose = _l1_looseness()
    return (
        Finding(
            claim="SS 6.2: l∞ reaches the performance of l1 with about half the budget. "
            "By the median error:",
            measured=f"The share of l1's epsilon at which l∞ has the same median error "
            f"is {_by_panel(errors)}. By the standard deviations of the noise it is "
            f"{noise_ratio('linf', 'l1'):.2f}.",
            holds=_within(errors, _HALF),
        ),
        Finding(
            claim="SS 6.2: the same by coverage, which is what the paper draws:",
            measured="The share, with the coverage in brackets, is "
            f"{_by_coverage(rows, covers)}. Laplace noise is denser near zero than "
            "noise of the cube, and its tails are longer. So the two meet where few slopes are "
            "covered, and l1 needs more than twice the budget where nearly all are. The "
            "l1 sensitivity here is smaller than the sum over coordinates; by that sum, each share "
            f"would be {loose:.2f} times this.",
            holds=_within(covers, _HALF),
        ),
        Finding(
            claim="SS 6.2: l∞ and the optimal K perform very similarly.",
            measured=f"The share of l∞'s epsilon at which K has the same median error "
            f"is {_by_panel(similar)}. By the standard deviations of the noise it is "
            f"{noise_ratio('optimal', 'linf'):.2f}.",
            holds=_within(similar, _SIMILAR),
        ),
        _sizes_alike(errors),
        _solid_line(rows),
    )


def noise_ratio(norm: str, other: str) -> float:
    """Return the ratio of two norms' noise in the moments, as SS Proposition 4.13 has it.

    It is that of the roots of the mean variance.
    """
    one, two = (
        [float(law.std) * float(unit) for law in laws]
        for laws, unit in (_drawn(each).noise.describe() for each in (norm, other))
    )
    return float(np.linalg.norm(one) / np.linalg.norm(two))


def _drawn(norm: str) -> FunctionalDraw:
    plan = planned(schema(10**4), "y", Epsilon.parse("1"), norm, ridge=0.0)
    assert isinstance(plan.draw, FunctionalDraw)
    return plan.draw


def _l1_looseness() -> float:
    """Return the l1 sensitivity that is drawn by, over 2 m."""
    space = _drawn("l1").moments.space
    return float(np.sqrt(float(space.squared("l1")))) / (2 * space.dimension)


def _ratios(rows: Sequence[Result], norm: str, other: str, reading: Reading) -> Ratios:
    """Return ratios of budgets by panel."""
    found: Ratios = {}
    for panel in dict.fromkeys(row.panel for row in rows):
        one, two = (
            [
                (float(row.epsilon), reading.height(row))
                for row in of_method(rows, FUNCTIONAL, each, panel=panel)
            ]
            for each in (norm, other)
        )
        found[panel] = budget_ratios(one, two, least_change=reading.least_change)
    return found


def _by_panel(ratios: Ratios) -> str:
    return " and ".join(f"{described(each)} for {panel}" for panel, each in ratios.items())


def _by_coverage(rows: Sequence[Result], ratios: Ratios) -> str:
    """Return each ratio with the share of slopes that l-infinity covers there."""
    parts = []
    for panel, each in ratios.items():
        line = of_method(rows, FUNCTIONAL, "linf", panel=panel)
        shares = {float(row.epsilon): row.coverage or 0.0 for row in line}
        told_each = [f"{ratio:.2f} (at {shares[epsilon]:.0%})" for epsilon, ratio in each.items()]
        parts.append(f"{', '.join(told_each)} for {panel}")
    return "; ".join(parts)


def _within(ratios: Ratios, ends: tuple[float, float]) -> bool:
    return all(each and ends[0] <= typical(each) <= ends[1] for each in ratios.values())


def _sizes_alike(errors: Ratios) -> Finding:
    means = {panel: typical(each) for panel, each in errors.items() if each}
    return Finding(
        claim="SS 6.2: more rows improve every method, and leave their relative performance as it "
        "is.",
        measured="l∞'s share of l1's epsilon at the same median error: "
        + ", ".join(f"{mean:.2f} for {panel}" for panel, mean in means.items())
        + ".",
        holds=max(means.values()) - min(means.values()) < _ALIKE,
    )


def _solid_line(rows: Sequence[Result]) -> Finding:
    found = [row for row in rows if row.method == NON_PRIVATE]
    return Finding(
        claim="SS Figure 3, solid line: intervals of least squares hold the true slopes 95% of the "
        "time.",
        measured=", ".join(f"{row.coverage:.3f} for {row.panel}" for row in found) + ".",
        holds=all(abs((row.coverage or 0) - 0.95) < 4 * _by_luck(row) for row in found),
    )


def _by_luck(row: Result) -> float:
    """Return the standard deviation of a share of 95% among that many intervals."""
    return float(np.sqrt(0.95 * 0.05 / (FEATURES * row.replicate_count)))


FIGURE = Figure(
    name=NAME,
    title="linear regression from sanitized moments",
    claim="SS Figure 3 shows how often slopes that are made of sanitized moments (Algorithm 4) "
    "lie in the 95% confidence intervals of least squares. It compares three norms over 200 "
    "replicates of 10,000 and of 1,000,000 rows.",
    method="The target's public bounds are -8 and 8; the paper does not say how it scales the "
    "target. Below the paper's reading stands the median distance to the true coefficients.",
    cells=cells,
    draw=draw,
    findings=findings,
    covers=True,
)
