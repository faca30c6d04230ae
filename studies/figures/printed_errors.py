"""Audits of the papers' printed errors: the epsilon of each formula, as printed and corrected.

In the CSV the columns of errors hold an epsilon: the largest log ratio of the two laws (methods
that end in "exact"), or the lower bound of an audit (those that end in "audited"), which holds
with probability 99.9%. There a replicate is a draw from each neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from mechanisms.auditing import audit_counts
from studies.figures import plots
from studies.figures.cells import Cell, Measured, Result
from studies.figures.figure import Figure, Finding
from studies.figures.printed_laws import EPSILON, LINE, TRIALS, Trial, quantile_loss

NAME = "printed-errors"
BY_LEVEL = "quantile by tau: KNG (3)"
CONFIDENCE = 0.999
_TRIALS = {trial.panel: trial for trial in TRIALS}
_LEVELS = tuple(Fraction(tenth, 10) for tenth in range(1, 10))
PRINTED, RIGHT = "as printed", "put right"
EXACT, AUDITED = "exact", "audited"


def cells(quick: bool) -> tuple[Cell, ...]:
    """Return the exact losses of every trial, and its audits; and exact quantiles by level."""
    found = []
    for trial in TRIALS:
        for version in (PRINTED, RIGHT):
            if not (trial.infinite and version == PRINTED):
                found.append(_cell(trial.panel, f"{version}, {EXACT}", trial.rows, 1))
            draws = trial.draws // (6 if quick else 1)
            found.append(_cell(trial.panel, f"{version}, {AUDITED}", trial.rows, draws))
    for level in _LEVELS:
        for version in (PRINTED, RIGHT):
            found.append(_cell(BY_LEVEL, f"{version}, {EXACT}, tau = {float(level)}", 10, 1))
    return tuple(found)


def _cell(panel: str, method: str, rows: int, draws: int) -> Cell:
    return Cell(
        figure=NAME, panel=panel, method=method, n=rows, epsilon=str(EPSILON),
        replicate_count=draws, measure=epsilon_of, cost_s=0.2 + draws * 2e-3,
    )  # fmt: skip


def epsilon_of(cell: Cell) -> Measured:
    """Return the epsilon that is found."""
    version, kind, *rest = cell.method.split(", ")
    printed = version == PRINTED
    if cell.panel == BY_LEVEL:
        level = Fraction(rest[0].removeprefix("tau = "))
        return Measured(errors=[quantile_loss(level, printed=printed)])
    trial = _TRIALS[cell.panel]
    if kind == EXACT:
        return Measured(errors=[trial.exact(printed)])
    counts = trial.counts(printed, next(cell.dice()), cell.replicate_count)
    trials = (cell.replicate_count, cell.replicate_count)
    found = audit_counts({trial.event: counts}, trials=trials, confidence=CONFIDENCE)
    return Measured(errors=[found.epsilon])


_FAR = 9.0  # where infinity is drawn
_COLOURS = {PRINTED: plots.RED, RIGHT: plots.BLUE}


def draw(rows: Sequence[Result]) -> Picture:
    """Draw the trials below one another, and the quantile's epsilon by tau."""
    made, axes = plots.picture(2)
    _draw_trials(axes[0], rows)
    _draw_levels(axes[1], rows)
    return made


def _draw_trials(axes: Axes, rows: Sequence[Result]) -> None:
    found = _found(rows)
    for place, panel in enumerate(_TRIALS):
        for version, shift in ((PRINTED, -0.13), (RIGHT, 0.13)):
            colour, at = _COLOURS[version], place + shift
            audited, exact = found[panel, version, AUDITED], found.get((panel, version, EXACT))
            axes.plot(audited, at, color=colour, marker=">", linestyle="")
            end = _FAR if exact is None else exact
            axes.plot([audited, end], [at, at], color=colour, linewidth=1, linestyle=":")
            if exact is None:
                axes.annotate("∞", (_FAR, at), color=colour, va="center", fontsize=14)
            else:
                axes.plot(exact, at, color=colour, marker="o", fillstyle="none")
    axes.axvline(float(EPSILON), color=plots.BLACK, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(_TRIALS)), [panel.replace(": ", "\n") for panel in _TRIALS])
    axes.invert_yaxis()
    axes.set(xlabel="epsilon that is found", xlim=(-0.2, _FAR + 0.6), title="promised: epsilon = 1")
    for version, colour in _COLOURS.items():
        axes.plot([], [], color=colour, marker="o", fillstyle="none", linestyle="",
                  label=f"{version}: exact")  # fmt: skip
        axes.plot([], [], color=colour, marker=">", linestyle="", label=f"{version}: audit's bound")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=2)


def _draw_levels(axes: Axes, rows: Sequence[Result]) -> None:
    for version, colour in _COLOURS.items():
        points = _by_level(rows, version)
        axes.plot(*np.array(points).T, color=colour, marker="o", label=version)
    axes.axhline(float(EPSILON), color=plots.BLACK, linewidth=1, linestyle="--", label="promised")
    axes.set(xlabel="tau", ylabel="epsilon of the pair of neighbours", yscale="log",
             title="quantile, KNG (3): exact")  # fmt: skip
    axes.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    axes.minorticks_off()
    axes.legend()


def findings(rows: Sequence[Result]) -> tuple[Finding, ...]:
    """Return the finding on each formula; it holds if its loss is within epsilon."""
    found, draws = _found(rows), max(row.replicate_count for row in rows)
    listed = [_finding(trial, found) for trial in TRIALS]
    worst = max(_by_level(rows, PRINTED), key=lambda point: point[1])
    private = [level for level, loss in _by_level(rows, PRINTED) if loss <= float(EPSILON)]
    listed.append(
        Finding(
            claim="KNG (3): the printed density is private for every tau.",
            measured=f"On one pair of neighbours epsilon is up to {worst[1]:.2f}, at tau = "
            f"{worst[0]:g}; it is within 1 up to tau = {max(private):g}. Put right it is at most "
            f"{max(loss for _, loss in _by_level(rows, RIGHT)):.2f}.",
            holds=worst[1] <= float(EPSILON),
        )
    )
    right = [found[trial.panel, RIGHT, AUDITED] for trial in TRIALS]
    listed.append(
        Finding(
            claim="(Ours.) As printed, KNG (1) is private and wastes half of epsilon.",
            measured=f"Its largest loss is {_half(found):.2f} of the right formula's on these "
            "neighbours. On any it is at most 1/2, since exponents differ by at most 1/4.",
            holds=abs(_half(found) - 0.5) < 0.05,
        )
    )
    listed.append(
        Finding(
            claim="(Ours.) Put right, all of these are within epsilon = 1.",
            measured=f"The largest audited bound is {max(right):.2f}, from up to {draws:,} draws "
            "per neighbour.",
            holds=max(right) <= float(EPSILON),
        )
    )
    return tuple(listed)


def _finding(trial: Trial, found: dict[tuple[str, str, str], float]) -> Finding:
    """Return the claim that a formula is private as printed, with its measurement."""
    text = []
    for version, formula in ((PRINTED, trial.printed), (RIGHT, trial.right)):
        exact = found.get((trial.panel, version, EXACT))
        size = "infinite" if exact is None else f"{exact:.2f}"
        audited = found[trial.panel, version, AUDITED]
        of = "of the event, exactly" if trial.of_event and exact is not None else "exactly"
        text.append(f"{version} ({formula}): {size} {of}, audited at least {audited:.2f}")
    return Finding(
        claim=f"{trial.panel}: private at epsilon = 1 with {trial.printed}.",
        measured="; ".join(text) + f". Event: {trial.event}.",
        holds=found[trial.panel, PRINTED, AUDITED] <= float(EPSILON),
    )


def _half(found: dict[tuple[str, str, str], float]) -> float:
    return found[LINE.panel, PRINTED, EXACT] / found[LINE.panel, RIGHT, EXACT]


def _found(rows: Sequence[Result]) -> dict[tuple[str, str, str], float]:
    """Return the result of each panel, version and kind."""
    found = {}
    for row in rows:
        if row.panel != BY_LEVEL:
            version, kind = row.method.split(", ")
            found[row.panel, version, kind] = row.error_mean
    return found


def _by_level(rows: Sequence[Result], version: str) -> list[tuple[float, float]]:
    return [
        (float(row.method.rpartition(" ")[2]), row.error_mean)
        for row in rows
        if row.panel == BY_LEVEL and row.method.startswith(version)
    ]


FIGURE = Figure(
    name=NAME,
    title="formulas that are wrong in print",
    claim="Both papers prove their mechanisms private. Some formulas do not follow from the "
    "proofs; [the list](../reference/mechanisms.md#errors-in-print) has all of them. Some break "
    "the promise, some waste half of it.",
    method="Each formula is tried on two neighbours that give it away, at epsilon = 1. What is "
    "exact is the largest log ratio of the two laws. What was audited is a lower bound, from "
    f"draws alone, that holds with probability {CONFIDENCE:.1%}.",
    cells=cells,
    draw=draw,
    findings=findings,
)
