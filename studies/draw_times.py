"""Time of draws from realistic rows, as a ratio to the time expected from public facts.

The tables resemble real uploads: incomes that are skewed and rounded, whole ages,
answers on a scale from 1 to 5, yes and no, amounts that are often 0, and bounds that are wider than
the values. Question, bounds, rows and epsilon (0.1 to 5) are random too. ``studies.thin`` has the
rows that make a draw slow on purpose.

``python -m studies.draw_times`` draws 200 of each kind, and ``--quick`` 20. It prints the ratio
that 95% of the draws do not exceed: ``Plan.slowness`` must be at least that. Times are CPU time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import Statistic
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.quantile_regression import QuantileRegression
from studies.thin import Case

Floats = NDArray[np.float64]
Generator = np.random.Generator

SETS, QUICK_SETS = 200, 20
LIMIT_S = 40.0
"""A draw that takes longer is ended, and counts as this long."""
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
BOUNDS = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class _Variable:
    """A column: its values, and the bounds that a curator would declare."""

    name: str
    values: Floats
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """A draw: the question, its expected seconds, and the seconds it took."""

    case: Case
    took_s: float

    @property
    def ratio(self) -> float:
        """Return how many times longer it took than expected."""
        return self.took_s / self.case.expected_s


def _variables(rng: Generator, rows: int) -> Iterator[_Variable]:
    """Yield columns that depend on one another, as those of a survey do."""
    skill = rng.normal(size=rows)

    def noisy(share: float) -> Floats:
        return np.asarray(share * skill + np.sqrt(1 - share**2) * rng.normal(size=rows))

    income = np.exp(7.6 + 0.6 * noisy(0.7))
    yield _Variable("income", income.round(-1), 0, 20_000)
    yield _Variable("rent", (income * rng.uniform(0.15, 0.5, rows)).round(), 0, 5_000)
    yield _Variable("age", (48 + 17 * noisy(0.2)).clip(18, 95).round(), 18, 100)
    yield _Variable("years", (13 + 3 * noisy(0.8)).clip(7, 22).round(), 0, 25)
    yield _Variable("rating", (3.2 + noisy(0.5)).clip(1, 5).round(), 1, 5)
    yield _Variable("employed", (noisy(0.4) > -0.7).astype(float), 0, 1)
    yield _Variable("hours", np.where(noisy(0.3) > 1, 20, 40) + rng.integers(-3, 4, rows), 0, 80)
    spent = np.where(noisy(0.3) > 0.4, np.exp(4 + noisy(0.3)), 0)
    yield _Variable("spent", spent.round(), 0, 1_000)
    yield _Variable("score", 500 + 100 * noisy(0.6), 0, 1_000)
    yield _Variable("children", rng.poisson(1.2, rows).clip(0, 8).astype(float), 0, 10)


def _table(rng: Generator, *, most: int) -> Mapping[str, _Variable]:
    rows = round(10 ** rng.uniform(2.3, np.log10(most)))
    return {each.name: each for each in _variables(rng, rows)}


def _case(
    rng: Generator,
    table: Mapping[str, _Variable],
    asked: Statistic,
    names: list[str],
    mechanism: str,
) -> Case:
    chosen = [table[name] for name in names]
    rows = len(chosen[0].values)
    schema = Schema(
        {
            each.name: NumberColumn(
                Fraction(each.lower), Fraction(each.upper), boolean=each.upper == 1
            )
            for each in chosen
        },
        Adjacency.REPLACE_ONE,
        rows,
    )
    epsilon = f"{10 ** rng.uniform(-1, np.log10(5)):.3f}"
    plan = calibrate(asked, schema, Epsilon.parse(epsilon), mechanism=mechanism)
    values = {each.name: each.values.clip(each.lower, each.upper).tolist() for each in chosen}
    data = ArrayData.from_values(schema, values)
    return Case(f"{rows} rows", f"{mechanism}, {asked}, epsilon {epsilon}", plan, data)


def _regressed(
    rng: Generator, table: Mapping[str, _Variable], most: int
) -> tuple[str, tuple[str, ...]]:
    """Return a target of many values, and features."""
    target = str(rng.choice(["income", "rent", "spent", "score", "hours", "rating"]))
    others = [name for name in table if name != target]
    count = int(rng.integers(1, most + 1))
    return target, tuple(str(name) for name in rng.choice(others, count, replace=False))


def _quantile(rng: Generator, mechanism: str) -> Case:
    table = _table(rng, most=30_000)
    target, features = _regressed(rng, table, 3)
    asked = QuantileRegression(
        target=target,
        features=features,
        tau=float(rng.choice(LEVELS)),
        bound=float(rng.choice(BOUNDS)),
    )
    return _case(rng, table, asked, [target, *features], mechanism)


def _linear(rng: Generator, mechanism: str) -> Case:
    table = _table(rng, most=100_000)
    target, features = _regressed(rng, table, 6)
    asked = LinearRegression(target=target, features=features, bound=float(rng.choice(BOUNDS)))
    return _case(rng, table, asked, [target, *features], mechanism)


def _logistic(rng: Generator, mechanism: str) -> Case:
    table = _table(rng, most=100_000)
    _, features = _regressed(rng, table, 6)
    features = tuple(name for name in features if name != "employed") or ("age",)
    asked = LogisticRegression(target="employed", features=features)
    return _case(rng, table, asked, ["employed", *features], mechanism)


def _median(rng: Generator, mechanism: str) -> Case:
    table = _table(rng, most=100_000)
    count = int(rng.integers(2, 5))
    names = [str(name) for name in rng.choice(list(table), count, replace=False)]
    return _case(rng, table, GeometricMedian(columns=tuple(names)), names, mechanism)


KINDS: Mapping[str, tuple[Callable[[Generator, str], Case], str]] = {
    "quantile_regression by kng": (_quantile, "kng"),
    "quantile_regression by exponential": (_quantile, "exponential"),
    "geometric_median by kng": (_median, "kng"),
    "linear_regression by exponential": (_linear, "exponential"),
    "quantile_regression by objective_perturbation": (_quantile, "objective_perturbation"),
    "linear_regression by objective_perturbation": (_linear, "objective_perturbation"),
    "logistic_regression by objective_perturbation": (_logistic, "objective_perturbation"),
}


def draws(kind: str, sets: int, seed: int = 1) -> Iterator[Drawn]:
    """Yield a draw from each of random tables."""
    make, mechanism = KINDS[kind]
    for number in range(sets):
        case = make(np.random.default_rng([seed, number]), mechanism)
        yield Drawn(case, case.seconds(seed=number, limit_s=LIMIT_S))


def main(arguments: list[str]) -> None:
    """Print the ratios of each kind, and its slowest draws."""
    sets = QUICK_SETS if "--quick" in arguments else SETS
    wanted = [each for each in arguments if not each.startswith("--")] or list(KINDS)
    for kind in wanted:
        found = sorted(draws(kind, sets), key=lambda each: each.ratio)
        ratios = np.array([each.ratio for each in found])
        middle, high, most = np.quantile(ratios, (0.5, 0.95, 1))
        sys.stdout.write(
            f"{kind}: {middle:.2f} times what is expected (median), {high:.2f} (95%),"
            f" {most:.2f} (most); {found[0].case.plan.slowness:g} is stated\n"
        )
        for each in found[-5:]:
            sys.stdout.write(
                f"  {each.ratio:.1f} times, {each.took_s:.1f} s: {each.case.rows};"
                f" {each.case.asked}\n"
            )
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
