"""Time of exact draws with `kng` from rows whose law is thin, compared with their previews.

Columns that depend on each other, rows at their bounds or at few places, labels that one feature
separates, targets that are mostly equal: such rows make laws that are long in some directions and
thin in others. A random search finds the slow ones. Times are CPU time; a draw that takes too long
is stopped. ``python -m studies.thin`` prints how many times the expected time draws take.
"""

from __future__ import annotations

import gc
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import Plan, Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import seeded_randomness

EPSILONS = ("0.1", "1", "10", "100", "1000", "10000")
SIZES = (100, 1_000, 3_000, 20_000)
BOUNDS = (0.3, 1.0, 3.0, 10.0, 50.0)
LEVELS = (0.5, 0.1, 0.9)
UNIT = NumberColumn(Fraction(0), Fraction(1))
FLAG = NumberColumn(Fraction(0), Fraction(1), boolean=True)
LIMIT_S = 12.0
_AGAIN_S = 0.1  # where the end of it came to nothing
FEW = 4.0
"""Ratios to the expected time up to this one are acceptable."""

Floats = NDArray[np.float64]
Generator = np.random.Generator


class _TooLongError(Exception):
    """A draw has taken as long as it may."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question about some rows of a kind."""

    rows: str
    asked: str
    plan: Plan
    data: ArrayData

    def seconds(self, seed: int = 1, limit_s: float = LIMIT_S) -> float:
        """Return the CPU time of one draw; in the main thread alone."""
        before = signal.signal(signal.SIGPROF, _too_long)
        start = time.process_time()
        gc.disable()  # an exception in what is called when garbage is collected ends nothing
        with suppress(_TooLongError):  # the signal may also come right after the draw
            with suppress(_TooLongError):
                signal.setitimer(signal.ITIMER_PROF, limit_s, _AGAIN_S)
                self.plan.draw(self.data, seeded_randomness(seed))
            signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        gc.enable()
        return time.process_time() - start

    @property
    def expected_s(self) -> float:
        """Return the expected time in the preview."""
        assert self.plan.expected_ms is not None
        return self.plan.expected_ms / 1000


def _too_long(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise _TooLongError


def _places(
    rng: Generator, rows: int, dimension: int
) -> Iterator[tuple[str, Callable[[], Floats]]]:
    """Yield kinds of rows in the unit cube, and how to make them."""
    near = 10.0 ** -float(rng.integers(1, 8))
    yield "even", lambda: rng.uniform(size=(rows, dimension))
    yield "on a line", lambda: _line(rng.uniform(0.2, 0.8, rows), rng, dimension, near)
    yield (
        "at four places on a line",
        lambda: _line(rng.choice([0.2, 0.4, 0.6, 0.8], rows), rng, dimension, 0),
    )
    yield "at two places", lambda: rng.uniform(0.2, 0.8, (2, dimension))[rng.integers(0, 2, rows)]
    yield "close together", lambda: 0.3 + near * rng.uniform(size=(rows, dimension))
    yield (
        "at the bounds",
        lambda: rng.uniform(size=(rows, dimension)).round() * (1 - near) + near / 2,
    )
    yield (
        "one heavy",
        lambda: np.where(
            rng.uniform(size=(rows, 1)) < 0.6, 0.4, rng.uniform(size=(rows, dimension))
        ),
    )


def _line(places: Floats, rng: Generator, dimension: int, off: float) -> Floats:
    return np.outer(places, np.linspace(0.3, 1, dimension)) + off * rng.normal(
        size=(len(places), dimension)
    )


def _features(
    rng: Generator, rows: int, dimension: int
) -> Iterator[tuple[str, Callable[[], tuple[Floats, Floats]]]]:
    """Yield kinds of features and labels, and how to make them."""
    near = 10.0 ** -float(rng.integers(1, 5))
    even = rng.uniform(size=(rows, dimension))
    high = 1 - rng.exponential(near, size=(rows, dimension))
    mixed = np.column_stack([high[:, 0], even[:, 1:]])
    corners = even.round() * (1 - near) + near * rng.uniform(size=even.shape)
    skewed = rng.beta(0.2, 2, size=even.shape)
    ones = np.ones(rows)
    yield "one label, near the bound", lambda: (high, ones)
    yield "one label", lambda: (even, ones)
    yield "separable", lambda: (even, (even[:, 0] > 0.5) * ones)
    yield "nearly separable", lambda: (even, (even[:, 0] + rng.normal(0, 0.02, rows) > 0.5) * ones)
    yield "near the corners", lambda: (corners, (corners[:, 0] > 0.5) * ones)
    yield "nearly constant", lambda: (mixed, (rng.uniform(size=rows) < 0.9) * ones)
    yield "a rare label", lambda: (skewed, (rng.uniform(size=rows) < 0.01) * ones)


def _targets(
    rng: Generator, rows: int, dimension: int
) -> Iterator[tuple[str, Callable[[], tuple[Floats, Floats]]]]:
    """Yield kinds of features and targets, and how to make them."""
    near = 10.0 ** -float(rng.integers(1, 5))
    even, slopes = rng.uniform(size=(rows, dimension)), rng.normal(0, 0.3, dimension)
    high = 1 - rng.exponential(near, size=(rows, dimension)).clip(0, 1)
    mixed = np.column_stack([1 - rng.exponential(0.001, rows), even[:, 1:]])
    corners = even.round() * (1 - near) + near * rng.uniform(size=even.shape)
    skewed = rng.beta(0.2, 2, size=even.shape)

    def noisy(x: Floats) -> tuple[Floats, Floats]:
        return x, x @ slopes + 0.5 + rng.normal(0, 0.1, rows)

    yield "even", lambda: noisy(even)
    yield "near the bound", lambda: (high, 1 - rng.exponential(1e-3, rows))
    yield "near the corners", lambda: noisy(corners)
    yield "nearly constant", lambda: noisy(mixed)
    yield "skewed", lambda: noisy(skewed)
    yield "rounded", lambda: ((even * 3).round() / 3, (noisy(even)[1] * 4).round() / 4)
    yield "true or false", lambda: (even, (even[:, 0] > 0.5) * np.ones(rows))
    yield "target follows", lambda: (even, even @ np.full(dimension, 0.9 / dimension))
    yield (
        "many targets 0",
        lambda: (even, np.where(rng.uniform(size=rows) < 0.6, 0, noisy(even)[1])),
    )


def median(rng: Generator) -> Case:
    """Return a geometric median of random rows."""
    rows, dimension = int(rng.choice(SIZES)), int(rng.integers(2, 5))
    kinds = list(_places(rng, rows, dimension))
    kind, make = kinds[int(rng.integers(len(kinds)))]
    names = tuple("abcd"[:dimension])
    values = dict(zip(names, make().clip(0, 1).T, strict=True))
    return _case(kind, rng, GeometricMedian(columns=names), dict.fromkeys(names, UNIT), values)


def quantile(rng: Generator) -> Case:
    """Return a quantile regression on random rows."""
    rows, dimension = int(rng.choice(SIZES)), int(rng.integers(1, 4))
    kinds = list(_targets(rng, rows, dimension))
    kind, make = kinds[int(rng.integers(len(kinds)))]
    features, targets = make()
    names = tuple("abc"[:dimension])
    values = dict(zip(names, features.clip(0, 1).T, strict=True)) | {"y": targets.clip(0, 1)}
    asked = QuantileRegression(
        target="y", features=names, bound=float(rng.choice(BOUNDS)), tau=float(rng.choice(LEVELS))
    )
    return _case(kind, rng, asked, dict.fromkeys((*names, "y"), UNIT), values)


def _case(
    kind: str,
    rng: Generator,
    asked: Statistic,
    columns: dict[str, NumberColumn],
    values: dict[str, Floats],
    **chosen: Any,
) -> Case:
    rows = len(next(iter(values.values())))
    schema, epsilon = Schema(columns, Adjacency.REPLACE_ONE, rows), str(rng.choice(EPSILONS))
    plan = calibrate(asked, schema, Epsilon.parse(epsilon), mechanism="kng", **chosen)
    data = ArrayData.from_values(schema, {name: each.tolist() for name, each in values.items()})
    return Case(kind, f"{asked}, {rows} rows, epsilon {epsilon}", plan, data)


KINDS: dict[str, Callable[[Generator], Case]] = {
    "median": median,
    "quantile": quantile,
}


def main(cases: int = 100, seed: int = 1) -> None:
    """Print a few lines for each kind of question."""
    for name, make in KINDS.items():
        found = []
        for number in range(cases):
            case = make(np.random.default_rng([seed, number]))
            took = case.seconds()
            found.append((took / case.expected_s, took, case))
        found.sort(key=lambda each: each[:2])
        ratios = [ratio for ratio, _, _ in found]
        sys.stdout.write(
            f"{name}: {statistics.median(ratios):.2f} times the expected time (median),"
            f" {sum(ratio <= FEW for ratio in ratios) / cases:.0%} at most {FEW:.0f} times,"
            f" {sum(took >= LIMIT_S for _, took, _ in found)} ended at {LIMIT_S:.0f} s\n"
        )
        for ratio, took, case in found[-3:]:
            sys.stdout.write(f"  {ratio:.0f} times, {took:.1f} s: {case.rows}; {case.asked}\n")


if __name__ == "__main__":
    main()
