"""KNG Figure 1: linear regression by the exponential mechanism, objective perturbation and KNG.

The paper's Algorithm 1: a column of ones, 11 features uniform on [-1, 1], normal errors of standard
deviation 1; the target is scaled by its largest absolute value, which only a simulation may do.
All methods read X'X and X'y alone. So rows are made in blocks, twice with the same seeds: once for
the largest target, then for the sums. Features are uniform on the library's grid of 2^21 + 1 codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from matplotlib.figure import Figure as Picture
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.domain import CODE_MAX, SUM_MAX, NumberColumn, Schema
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData, exact_gram
from mechanisms.statistics.linear_regression import LinearRegression
from studies.figures import plots
from studies.figures.cells import Cell, Dice, Measured, Result
from studies.figures.figure import Figure, Finding
from studies.figures.slopes import fitted_slope, of_method, ratios

Values = NDArray[np.float64]

NAME = "kng-1"
THETA = np.concatenate([[0.0], np.linspace(-1, 1 - 2 / 11, 11)])
"""The true coefficients, the intercept first."""

NON_PRIVATE, EXPONENTIAL, PERTURBATION, KNG = (
    "non-private", "exponential", "objective_perturbation", "kng",
)  # fmt: skip
TRUTH, FIT = "distance to the truth", "distance to the non-private fit"
_NORMS = {EXPONENTIAL: "", PERTURBATION: "linf", KNG: "linf"}
_NAMES = tuple(f"x{number}" for number in range(1, 12))
_BLOCK_ROWS = 1 << 19
_UNIT = NumberColumn(lower=Fraction(-1), upper=Fraction(1))
_ASKED = LinearRegression(target="y", features=_NAMES, bound=1.0)


@dataclass(frozen=True)
class Sums(ArrayData):
    """Data known only by sums of products: of (1, x, y)."""

    sums: list[list[int]] = field(default_factory=list)
    scale: float = 1.0

    def gram(self, columns: Sequence[str]) -> list[list[int]]:
        """Return the sums; all columns are asked for, in their order."""
        if tuple(columns) != (*_NAMES, "y"):
            raise ValueError("sums are of all columns")
        return self.sums

    @property
    def fit(self) -> Values:
        """Return least squares in the units of the target."""
        sums = np.array(self.sums, dtype=np.float64)
        size = np.array([1.0] + 11 * [SUM_MAX])
        xx, xy = sums[:-1, :-1] / np.outer(size, size), sums[:-1, -1] / size / SUM_MAX
        return np.asarray(np.linalg.solve(xx, xy) * self.scale)


def cells(quick: bool) -> tuple[Cell, ...]:
    """Return the four methods at each n, and the three private ones against least squares."""
    return tuple(
        Cell(
            figure=NAME, panel=panel, method=method, norm=_NORMS.get(method, ""), n=10**power,
            epsilon="" if method == NON_PRIVATE else "1", replicate_count=20 if quick else 100,
            measure=errors, data_name="rows",
            cost_s=(20 if quick else 100) * (0.02 + 3e-7 * 10**power * (panel == TRUTH)),
        )
        for power in range(2, 8)
        for panel in (TRUTH, FIT)
        for method in (NON_PRIVATE, EXPONENTIAL, PERTURBATION, KNG)
        if not (panel == FIT and method == NON_PRIVATE)
    )  # fmt: skip


def errors(cell: Cell) -> Measured:
    """Return each replicate's Euclidean distance."""
    found = []
    for dice in cell.dice():
        data = sums_of(cell.n, int(dice.data.integers(1 << 62)))
        target = THETA if cell.panel == TRUTH else data.fit
        estimate = data.fit if cell.method == NON_PRIVATE else _released(cell, data, dice)
        found.append(float(np.linalg.norm(estimate - target)))
    return Measured(errors=found)


def _released(cell: Cell, data: Sums, dice: Dice) -> Values:
    scale = Fraction(data.scale)
    columns = dict.fromkeys(_NAMES, _UNIT) | {"y": NumberColumn(lower=-scale, upper=scale)}
    schema = Schema(columns=columns, adjacency=Adjacency.REPLACE_ONE, rows=cell.n)
    plan = calibrate(_ASKED, schema, cell.loss, mechanism=cell.method, norm=cell.norm or "auto")
    found = plan.draw(data, dice.draws).value["coefficients"]
    assert isinstance(found, dict)
    return np.array([found[name] for name in ("(intercept)", *_NAMES)])


@lru_cache(maxsize=1024)
def sums_of(n: int, seed: int) -> Sums:
    """Return the sums of a data set, which methods share: recent ones are cached."""
    scale = max(float(np.abs(target).max()) for _, target in blocks(n, seed))
    total = np.zeros((13, 13), dtype=object)
    for codes, target in blocks(n, seed):
        scaled = np.rint(target * (SUM_MAX / scale)).astype(np.int64)
        finer = codes.astype(np.int64) * (SUM_MAX // CODE_MAX)
        total = total + exact_gram([*finer, scaled], len(target))
    return Sums(columns={}, codes={}, sums=total.tolist(), scale=scale)


def blocks(n: int, seed: int) -> Iterator[tuple[NDArray[np.int32], Values]]:
    """Yield codes of the features, one row per feature, and the target."""
    for start in range(0, n, _BLOCK_ROWS):
        rng, rows = np.random.default_rng((seed, start)), min(_BLOCK_ROWS, n - start)
        codes = rng.integers(-CODE_MAX, CODE_MAX, (11, rows), dtype=np.int32, endpoint=True)
        signal = THETA[0] + (THETA[1:] / CODE_MAX) @ codes
        yield codes, signal + rng.standard_normal(rows)


_LINES = (
    plots.Line(method=NON_PRIVATE, label="non-private", colour=plots.BLACK, mark="o"),
    plots.Line(method=EXPONENTIAL, label="exponential", colour=plots.RED, mark="s"),
    plots.Line(
        method=PERTURBATION, norm="linf", label="objective perturbation", colour=plots.GREEN,
        mark="^", dashes="--",
    ),
    plots.Line(method=KNG, norm="linf", label="KNG", colour=plots.BLUE, mark="D"),
)  # fmt: skip


def draw(rows: Sequence[Result]) -> Picture:
    """Draw both distances by n."""
    made, axes = plots.picture(2)
    for each, panel in zip(axes, (TRUTH, FIT), strict=True):
        plots.errors_by(each, [row for row in rows if row.panel == panel], _LINES, by="n")
        each.set(title=panel, xlabel="rows n", ylabel="mean Euclidean distance")
    axes[0].legend()
    axes[1].legend()
    return made


def findings(rows: Sequence[Result]) -> tuple[Finding, ...]:
    """Return the slopes, and which methods reach the non-private line."""
    lines = {
        (panel, method): of_method(rows, method, norm, panel=panel)
        for panel in (TRUTH, FIT)
        for method, norm in {NON_PRIVATE: "", **_NORMS}.items()
    }
    largest = max(row.n for row in rows)
    plain, exponential = lines[TRUTH, NON_PRIVATE], lines[TRUTH, EXPONENTIAL]
    slope, steep = fitted_slope(plain), fitted_slope(exponential, from_n=largest // 100)
    above = ratios(exponential, plain)
    private = {name: ratios(lines[TRUTH, name], plain) for name in (PERTURBATION, KNG)}
    noise = {name: fitted_slope(lines[FIT, name], from_n=10**4) for name in (PERTURBATION, KNG)}
    return (
        Finding(
            claim="KNG 4.3: the non-private error is a line of slope -1/2.",
            measured=f"Fitted slope {slope:.3f} over all n.",
            holds=abs(slope + 0.5) < 0.04,
        ),
        Finding(
            claim="KNG 4.3: the exponential mechanism's error is a line of slope -1/2 as well, "
            "with a higher intercept.",
            measured=f"Fitted slope {steep:.3f} over the last three n; {above[largest]:.2f} times "
            f"the non-private error at n = {largest:,}.",
            holds=abs(steep + 0.5) < 0.06 and above[largest] > 1.2,
        ),
        Finding(
            claim="KNG 4.3: KNG and objective perturbation reach the non-private line.",
            measured="Times the non-private error: "
            + "; ".join(
                f"{label} " + ", ".join(f"{private[name][n]:.3g}" for n in sorted(private[name]))
                for name, label in ((KNG, "KNG"), (PERTURBATION, "objective perturbation"))
            )
            + f", for n from 100 to {largest:,}.",
            holds=all(each[largest] < 1.1 for each in private.values()),
        ),
        Finding(
            claim="KNG Theorem 3.2: the noise is O(1 / n), so negligible compared with the "
            "statistical error.",
            measured="Slope of the distance to the non-private fit, from n = 10,000: "
            f"KNG {noise[KNG]:.3f}, objective perturbation {noise[PERTURBATION]:.3f}.",
            holds=all(abs(each + 1) < 0.1 for each in noise.values()),
        ),
    )


FIGURE = Figure(
    name=NAME,
    title="linear regression with 12 coefficients, epsilon 1",
    claim="KNG Figure 1 has d = 12, B = 1 and epsilon 1; the coefficients are 0, -1, -1 + 2/11 and "
    "so on up to 1 - 2/11. Each n has 100 replicates of Algorithm 1, and each private draw 10,000 "
    "steps of a Markov chain.",
    method="Exact draws, no chain. KNG has its sensitivity at theta, its public ridge and its base "
    "measure. The exponential mechanism and objective perturbation have their ridges, and the "
    "latter its own share q.",
    cells=cells,
    draw=draw,
    findings=findings,
)
