"""Time of exact draws where distinct rows are few, compared with rows spread evenly.

Regressions on boolean columns, such as the indicators of categories. Few distinct rows leave some
directions of the coefficients open and make others thin. A random search finds the slow patterns.
Each pattern is compared with the same number of rows spread evenly, at the same epsilon: the means
of several draws of both, in CPU time. ``python -m studies.patterns`` prints them.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.catalog import calibrate
from mechanisms.contract import Plan
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import seeded_randomness

FLAG = NumberColumn(Fraction(0), Fraction(1), boolean=True)
KINDS = ("gradient", "loss")
EPSILONS = ("0.5", "1", "2", "5")
SIZES = (400, 800, 1600, 3200, 6400)  # of rows spread evenly
LEAST_S = 0.25  # ratios count shorter times as this long: such a wait is negligible


@dataclass(frozen=True, slots=True)
class Pattern:
    """How often each row (its features, then its target, as 0s and 1s) occurs, and the question."""

    kind: str
    counts: Mapping[str, int]
    epsilon: str
    tau: float = 0.5
    norm: str = "auto"

    def seconds(self, seed: int = 1) -> float:
        """Return the CPU time of one draw."""
        plan, data = self.asked()
        start = time.process_time()
        plan.draw(data, seeded_randomness(seed))
        return time.process_time() - start

    def asked(self) -> tuple[Plan, ArrayData]:
        """Return the plan and the rows."""
        width = len(next(iter(self.counts)))
        names = [*(f"x{j}" for j in range(width - 1)), "y"]
        rows = np.array([[int(c) for c in row] for row, n in self.counts.items() for _ in range(n)])
        schema = Schema(dict.fromkeys(names, FLAG), Adjacency.REPLACE_ONE, len(rows))
        values = {name: rows[:, j].astype(float).tolist() for j, name in enumerate(names)}
        data = ArrayData.from_values(schema, values)
        epsilon = Epsilon.parse(self.epsilon)
        mechanism = "exponential" if self.kind == "loss" else "kng"
        asked = QuantileRegression(target="y", features=tuple(names[:-1]), tau=self.tau)
        return calibrate(asked, schema, epsilon, mechanism=mechanism, norm=self.norm), data


@dataclass(frozen=True, slots=True)
class Row:
    """Mean times of random patterns, the longest one of even rows, and the slowest pattern.

    ``ratio`` is the largest of a pattern's mean time to that of even rows of its size and epsilon,
    and ``farthest`` the pattern that has it. ``within`` says how many patterns took at most four
    times as long.
    """

    kind: str
    median_s: float
    slowest_s: float
    even_s: float
    slowest: Pattern
    ratio: float
    farthest: Pattern
    within: float


def table(*, patterns: int, seed: int, draws: int = 5) -> Iterator[Row]:
    """Yield, for each kind of law, the times of random patterns and those of even rows."""
    for kind in KINDS:
        rng = np.random.default_rng(seed)
        yield row([drawn(kind, rng) for _ in range(patterns)], draws=draws)


def row(patterns: Sequence[Pattern], *, draws: int) -> Row:
    """Return the mean times of patterns of one kind and those of even rows."""
    kind = patterns[0].kind
    references = [(_nearest(pattern), pattern.epsilon) for pattern in patterns]
    evens = {key: even(kind, *key) for key in dict.fromkeys(references)}
    # all in turn, so that a machine that slows down does so for each
    rounds = [
        [pattern.seconds(seed) for pattern in (*patterns, *evens.values())]
        for seed in range(1, draws + 1)
    ]
    means = [statistics.fmean(times) for times in zip(*rounds, strict=True)]
    times, usual = means[: len(patterns)], dict(zip(evens, means[len(patterns) :], strict=True))
    ratios = [
        max(mean, LEAST_S) / max(usual[key], LEAST_S)
        for mean, key in zip(times, references, strict=True)
    ]
    return Row(
        kind=kind,
        median_s=statistics.median(times),
        slowest_s=max(times),
        even_s=max(usual.values()),
        slowest=patterns[int(np.argmax(times))],
        ratio=max(ratios),
        farthest=patterns[int(np.argmax(ratios))],
        within=sum(ratio <= 4 for ratio in ratios) / len(patterns),
    )


def _nearest(pattern: Pattern) -> int:
    """Return the size of even rows that is nearest to a pattern's, by its logarithm."""
    rows = sum(pattern.counts.values())
    return min(SIZES, key=lambda size: abs(math.log(size / rows)))


def drawn(kind: str, rng: np.random.Generator) -> Pattern:
    """Return two to six distinct rows of four columns, 50 to 1500 of each."""
    rows = rng.permutation(16)[: rng.integers(2, 7)]
    return Pattern(
        kind=kind,
        counts={format(row, "04b"): int(rng.integers(50, 1501)) for row in rows.tolist()},
        epsilon=str(rng.choice(EPSILONS)),
        tau=float(rng.choice([0.1, 0.25, 0.5, 0.9])),
    )


def even(kind: str, rows: int, epsilon: str) -> Pattern:
    """Return every row equally often."""
    return Pattern(kind, {format(row, "04b"): rows // 16 for row in range(16)}, epsilon)


def main() -> None:
    """Print a line for each kind of law."""
    for found in table(patterns=80, seed=5):
        sys.stdout.write(
            f"{found.kind}: median {found.median_s:.2f} s, slowest {found.slowest_s:.2f} s,"
            f" even rows at most {found.even_s:.2f} s; {found.slowest}\n"
            f"  at most {found.ratio:.1f} times as long as even rows of its size and epsilon,"
            f" {found.within:.1%} at most 4 times; {found.farthest}\n"
        )


if __name__ == "__main__":
    main()
