"""SS Figure 4: the housing study, norm by norm, with and without a ridge.

The error is the l2 distance of released coefficients to those of least squares on the same rows, in
scaled units. "Plain" is SS equation (5), the pseudoinverse; "ridge" is (6) with lambda = 16 d /
epsilon, d the number of sanitized moments; "public rule" is what the library takes when no ridge is
asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure as Picture

from studies.figures import plots
from studies.figures.budgets import budget_ratios, described, typical
from studies.figures.cells import Cell, Measured, Result
from studies.figures.figure import Figure, Finding
from studies.figures.housing import ALL, FEW, TARGET, housing
from studies.figures.norms import COLOURS, SHOWN, epsilon_axis, level
from studies.figures.sanitized import NORMS, Estimator, planned
from studies.figures.slopes import of_method

NAME = "ss-4"
MODELS = {f"{len(names)} predictors": names for names in (ALL, FEW)}
WIDE, NARROW = MODELS
PLAIN, RIDGE, RULE, ZERO = "plain", "ridge", "public rule", "zero vector"
METHODS = (PLAIN, RIDGE, RULE)
EPSILONS = ("0.0625", "0.125", "0.25", "0.5", "1", "2", "4", "8", "16", "32")
ROWS = 20_640
HOUSES = 235_760  # the paper's

_RISE = float(np.log(1.2))
_DOUBLING = (0.4, 0.6)
_SIZEABLE = 0.8
_BETTER = 0.8
_TITLES = {PLAIN: "plain (5)", RIDGE: "ridge (6), λ = 16 d / ε", RULE: "the library's rule"}


def cells(quick: bool) -> tuple[Cell, ...]:
    """Return three norms by three ways of solving, for two models."""
    count = 250 if quick else 1000
    return tuple(cell for panel in MODELS for cell in _panel(panel, count))


def _panel(panel: str, count: int) -> list[Cell]:
    reference = Cell(
        figure=NAME, panel=panel, method=ZERO, n=ROWS, replicate_count=1, measure=zero,
    )  # fmt: skip
    drawn = [
        Cell(
            figure=NAME, panel=panel, method=method, norm=norm, n=ROWS, epsilon=epsilon,
            replicate_count=count, measure=private, cost_s=3e-3 * count,
        )
        for method in METHODS
        for norm in NORMS
        for epsilon in EPSILONS
    ]  # fmt: skip
    return [reference, *drawn]


def private(cell: Cell) -> Measured:
    """Return distances of released coefficients to those of least squares."""
    known = housing(MODELS[cell.panel])
    plan = planned(known.schema, TARGET, cell.loss, cell.norm, ridge=ridge(cell))
    estimator = Estimator.of(plan)
    thetas = (estimator.theta(known.data, dice.draws) for dice in cell.dice())
    return Measured(errors=[float(np.linalg.norm(theta - known.fit)) for theta in thetas])


def zero(cell: Cell) -> Measured:
    """Return how far least squares is from zero."""
    return Measured(errors=[float(np.linalg.norm(housing(MODELS[cell.panel]).fit))])


def ridge(cell: Cell) -> float | None:
    """Return the library's ridge, which is twice the paper's lambda."""
    moments = released_moments(len(MODELS[cell.panel]))
    return {PLAIN: 0.0, RIDGE: 2 * 16 * moments / float(cell.epsilon), RULE: None}[cell.method]


def released_moments(predictors: int) -> int:
    """Return the length of T, which SS calls d."""
    size = predictors + 1
    return size * (size + 1) // 2 - 1 + size


def draw(rows: Sequence[Result]) -> Picture:
    """Draw median errors: a row for each model, a column for each way of solving."""
    panels = [(panel, method) for panel in MODELS for method in METHODS]
    made, axes = plots.picture(len(panels), columns=len(METHODS))
    for each, (panel, method) in zip(axes, panels, strict=True):
        own = [row for row in rows if row.panel == panel]
        lines = [
            plots.Line(method=method, norm=norm, label=SHOWN[norm], colour=COLOURS[norm])
            for norm in NORMS
        ]
        plots.errors_by(each, own, lines, by="epsilon", reading="error_median")
        [reference] = of_method(own, ZERO)
        level(each, reference.error_median, "zero vector")
        epsilon_axis(each, EPSILONS)
        shown = [row.error_median for row in own]
        each.set_ylim(min(shown) / 1.2, max(shown) * 1.2)
        each.set_title(f"{panel}, {_TITLES[method]}")
        each.set_ylabel("median l2 distance to least squares")
    axes[0].legend()
    return made


def findings(rows: Sequence[Result]) -> tuple[Finding, ...]:
    """Return ratios of budgets, and the gain of a ridge."""
    return (
        _doubling(rows, PLAIN, "SS 6.3: l∞ instead of l1 is worth about as much as "
                  "twice the budget. For (5):"),
        _doubling(rows, RIDGE, "SS 6.3: the same for (6):"),
        _optimal(rows),
        _ridge(rows),
        _rule(rows),
    )  # fmt: skip


def _doubling(rows: Sequence[Result], method: str, claim: str) -> Finding:
    ratios = {panel: _budgets(rows, panel, method, "linf", "l1") for panel in MODELS}
    return Finding(
        claim=claim,
        measured="The share of l1's epsilon at which l∞ has the same median error is "
        + _panels(ratios)
        + ".",
        holds=all(
            bool(each) and _DOUBLING[0] <= typical(each) <= _DOUBLING[1] for each in ratios.values()
        ),
    )


def _optimal(rows: Sequence[Result]) -> Finding:
    ratios = {panel: _budgets(rows, panel, PLAIN, "optimal", "linf") for panel in MODELS}
    return Finding(
        claim="SS 6.3: the optimal K has no sizeable benefit over l∞.",
        measured="The share of l∞'s epsilon at which K has the same median error, "
        f"plain, is {_panels(ratios)}. With up to five columns, the target included, the library's "
        "K is cut to less than the paper's, and pays.",
        holds=all(bool(each) and typical(each) >= _SIZEABLE for each in ratios.values()),
    )


def _ridge(rows: Sequence[Result]) -> Finding:
    parts, holds = [], True
    for panel in MODELS:
        ridged, plain = (_medians(rows, panel, method, "linf") for method in (RIDGE, PLAIN))
        ratios = {epsilon: ridged[epsilon] / plain[epsilon] for epsilon in plain}
        better = [epsilon for epsilon, ratio in ratios.items() if ratio < _BETTER]
        first, last = min(ratios), max(ratios)
        upto = f"up to epsilon {Fraction(max(better))}" if better else "nowhere"
        parts.append(
            f"with {panel} {upto}: {ratios[first]:.2f} times the error at "
            f"{Fraction(first)}, {ratios[1.0]:.2f} at 1, {ratios[last]:.2f} at {Fraction(last)}"
        )
        holds = holds and len(better) == len(ratios)
    return Finding(
        claim="SS 6.3: ridge estimates by (6) are substantially better than those by (5).",
        measured=f"By l∞, at least a fifth better {'; '.join(parts)}. The paper has "
        f"{HOUSES / ROWS:.0f} times as many rows and d = 103. Its λ is "
        "more than the noise needs, and then biases.",
        holds=holds,
    )


def _rule(rows: Sequence[Result]) -> Finding:
    parts, holds = [], True
    for panel in MODELS:
        ours, *paper = (_medians(rows, panel, method, "linf") for method in (RULE, RIDGE, PLAIN))
        ratios = {epsilon: ours[epsilon] / min(each[epsilon] for each in paper) for epsilon in ours}
        worst = max(ratios, key=lambda epsilon: ratios[epsilon])
        parts.append(
            f"{typical(ratios):.2f} times the error of the better of (5) and (6) with {panel}, at "
            f"most {ratios[worst]:.2f} (epsilon {Fraction(worst)})"
        )
        holds = holds and typical(ratios) < 1 / _BETTER
    return Finding(
        claim="SS 6.3 leaves a private choice of λ open. Here the "
        "library's rule raises eigenvalues below what the noise has by itself:",
        measured=f"By l∞, {'; '.join(parts)}.",
        holds=holds,
    )


def _budgets(
    rows: Sequence[Result], panel: str, method: str, norm: str, other: str
) -> dict[float, float]:
    one, two = (
        [(epsilon, float(np.log(error))) for epsilon, error in medians.items()]
        for medians in (_medians(rows, panel, method, each) for each in (norm, other))
    )
    return budget_ratios(one, two, least_change=_RISE)


def _medians(rows: Sequence[Result], panel: str, method: str, norm: str) -> dict[float, float]:
    line = of_method(rows, method, norm, panel=panel)
    return {float(row.epsilon): row.error_median for row in line}


def _panels(ratios: dict[str, dict[float, float]]) -> str:
    return " and ".join(f"{described(each)} with {panel}" for panel, each in ratios.items())


FIGURE = Figure(
    name=NAME,
    title="housing prices",
    claim="SS Figure 4 shows how far coefficients made of sanitized moments are from least "
    "squares, without a ridge and with \N{GREEK SMALL LETTER LAMDA} = 16 d / epsilon. It is of "
    "1,000 replicates on 235,760 houses of the Bay Area and 12 predictors.",
    method="Those houses are not public: here are the 20,640 block groups of California's census "
    "of 1990. The target is the logarithm of the median house value. Bounds and logarithms are "
    "public, and nothing is cut at quantiles of the data. With 11 times fewer rows, epsilon 11 "
    "here is about 1 there. A second model has four predictors. Medians are shown, for the "
    "pseudoinverse has no mean.",
    cells=cells,
    draw=draw,
    findings=findings,
)
