"""The questions that the library once answered worst, before and now, in one run.

``python -m studies.answers`` draws each by what used to be taken and by what is taken now, and
prints both median errors and their ratio next to the ratio that was aimed at; ``--quick`` takes a
quarter of the draws. Errors are distances of scaled coefficients, or relative to the answer, or
standard deviations of noise. docs/research/choices.md keeps a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.demo import DEMO_DATA, HOUSING
from mechanisms.catalog import calibrate
from mechanisms.contract import Statistic
from mechanisms.domain import NumberColumn, Schema, Typical
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import Randomness, system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from studies import factors
from studies.choices import Setting
from studies.figures.sanitized import Estimator

Values = NDArray[np.float64]

_ONE, _ALMOST_NONE = Epsilon.parse("1"), Epsilon.parse("10000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A question, median errors of what was and of what is taken, and the aim of their ratio."""

    question: str
    was: str
    before: float
    now: float
    aim: float

    @property
    def gain(self) -> float:
        """Return how many times smaller the error is now."""
        return self.before / self.now


def study(draws: int, bits: Randomness | None = None, seed: int = 5) -> Iterator[Row]:
    """Yield a row for each question."""
    randomness = bits or system_randomness()
    yield from _linear(draws, randomness, seed)
    yield from _factors(draws, randomness, seed)
    yield from _wide(draws, randomness, seed)
    yield from _with_delta()
    yield from _california(draws, randomness)


def _linear(draws: int, bits: Randomness, seed: int) -> Iterator[Row]:
    for rows, features, spread, aim in (
        (1_000, 3, 1.0, 4.0), (1_000, 5, 1.0, 7.2), (1_000, 10, 1.0, 11.3),
        (10_000, 3, 0.25, 4.4), (10_000, 8, 0.25, 9.0), (10_000, 10, 0.25, 4.3),
    ):  # fmt: skip
        setting = Setting(rows, features + 1, spread=spread)
        plans, rng = setting.plans(), np.random.default_rng(seed)
        unshrunk = Estimator.of(plans["functional"])  # as it was then
        found: dict[str, list[float]] = {"functional": [], "auto": []}
        for _ in range(draws):
            data, truth = setting.sample(rng)
            value: Any = plans["auto"].draw(data, bits).value
            drawn = (unshrunk.theta(data, bits), setting.scaled(value["coefficients"]))
            for own, theta in zip(found.values(), drawn, strict=True):
                own.append(float(np.linalg.norm(theta - truth)))
        part = "" if spread == 1 else f", in {spread:g} of their bounds"
        yield Row(
            question=f"linear regression, {rows:,} rows, {features} features{part}",
            was="functional, not shrunk",
            before=float(np.median(found["functional"])),
            now=float(np.median(found["auto"])),
            aim=aim,
        )


def _factors(draws: int, bits: Randomness, seed: int) -> Iterator[Row]:
    schema = Schema(factors.COLUMNS, Adjacency.ADD_REMOVE, None, 10_000)
    for formula, aims in (("y ~ x*group", (20.0, None)), ("y ~ x + group", (2.9, 9.5))):
        errors = {}
        for candidate, plain in (("functional", True), ("auto", False)):
            rng = np.random.default_rng(seed)
            drawn = [
                factors.errors(
                    formula, candidate, schema, factors.population(1_000, rng),
                    plain=plain, epsilon="1", bits=bits,
                )
                for _ in range(draws)
            ]  # fmt: skip
            errors[candidate] = np.median(np.array(drawn), axis=0)
        for place, what, aim in ((0, "slope", aims[0]), (2, "effects", aims[1])):
            if aim is not None:
                yield Row(
                    question=f"{formula}, {what}, 1,000 rows, add_remove",
                    was="functional, all moments",
                    before=float(errors["functional"][place]),
                    now=float(errors["auto"][place]),
                    aim=aim,
                )


def _wide(draws: int, bits: Randomness, seed: int) -> Iterator[Row]:
    incomes = np.rint(np.random.default_rng(seed).lognormal(10.3, 0.7, 1_000))
    tail = np.rint(10 / (1 - (np.arange(20_000) + 0.5) / 20_000) ** (1 / 1.5))

    def error(
        asked: Statistic, values: Values, most: int, epsilon: str, read: Callable[[Any], float]
    ) -> float:
        column = NumberColumn(Fraction(0), Fraction(most), kind="integer")
        schema = Schema({"x": column}, Adjacency.REPLACE_ONE, len(values))
        data = ArrayData.from_values(schema, {"x": values.tolist()})
        plan = calibrate(asked, schema, Epsilon.parse(epsilon))
        exact = read(calibrate(asked.estimand(), schema, _ALMOST_NONE).draw(data, bits).value)
        found = [read(plan.draw(data, bits).value) for _ in range(draws)]
        return float(np.median(np.abs(np.array(found) - exact)) / exact)

    for epsilon, aim in (("0.1", 4.6), ("1", 2.5)):
        before, now = (
            error(
                Mean(columns=("x",), clip=clip), incomes, 10**7, epsilon, lambda value: value["x"]
            )
            for clip in ("none", "private")
        )
        yield Row(
            question=f"mean income, bounds up to 10^7, epsilon {epsilon}",
            was="clip none", before=before, now=now, aim=aim,
        )  # fmt: skip
    for level, values, most, aim in ((0.99, tail, 10**9, 2e5), (0.9, incomes, 10**7, 15.8)):
        before, now = (
            error(
                Quantile(column="x", levels=(level,), base_measure=base),
                values, most, "0.1", lambda value: value["quantiles"][0]["value"],
            )
            for base in ("uniform", "auto")
        )  # fmt: skip
        yield Row(
            question=f"quantile {level:g}, {len(values):,} rows, bounds up to {most:.0e}",
            was="uniform base measure", before=before, now=now, aim=aim,
        )  # fmt: skip


def _with_delta() -> Iterator[Row]:
    column = NumberColumn(Fraction(-1), Fraction(1))
    for count, aim in ((5, 2.4), (10, 4.8), (20, 8.8)):
        names = tuple(f"c{place}" for place in range(count))
        schema = Schema(dict.fromkeys(names, column), Adjacency.REPLACE_ONE, 1_000, zcdp=True)
        stds = []
        for mechanism in ("k_norm", "auto"):
            noise = calibrate(Moments(columns=names), schema, _ONE, mechanism=mechanism).preview(1)
            assert noise is not None
            spread: Mapping[str, Any] = noise.std
            stds.append(float(np.sqrt(np.mean(np.square(_numbers(spread))))))
        yield Row(
            question=f"moments of {count} columns, an account with a delta",
            was="k_norm", before=stds[0], now=stds[1], aim=aim,
        )  # fmt: skip


def _numbers(part: Any) -> list[float]:
    """Return all numbers in a value of JSON."""
    if isinstance(part, Mapping):
        return [number for inner in part.values() for number in _numbers(inner)]
    if isinstance(part, list | tuple):
        return [number for inner in part for number in _numbers(inner)]
    return [] if part is None or isinstance(part, str) else [float(part)]


@dataclass(frozen=True, slots=True)
class _California:
    """House values, some features, and what is public of them."""

    features: tuple[str, ...]
    schema: Schema
    data: ArrayData

    @classmethod
    def of(cls, *features: str) -> _California:
        """Return those records that have all of them."""
        frame = pl.read_csv(DEMO_DATA / "california_housing.csv").drop_nulls()
        columns = {}
        for name in (*features, "median_house_value"):
            facts = HOUSING["columns"][name]
            lower, upper, mean, std = (
                Fraction(str(each))
                for each in (facts["lower"], facts["upper"], *facts["typical"].values())
            )
            columns[name] = NumberColumn(lower, upper, typical=Typical(mean, std))
        schema = Schema(columns, Adjacency.REPLACE_ONE, frame.height)
        values = {name: frame[name].to_list() for name in columns}
        return cls(features, schema, ArrayData.from_values(schema, values))

    def error(
        self, asked: Statistic, exact: Values, draws: int, bits: Randomness, mechanism: str = "auto"
    ) -> float:
        """Return the median distance of scaled coefficients to exact ones."""
        plan = calibrate(asked, self.schema, _ONE, mechanism=mechanism)
        drawn = [self.scaled(plan.draw(self.data, bits).value) for _ in range(draws)]
        return float(np.median([np.linalg.norm(each - exact) for each in drawn]))

    def scaled(self, value: Any) -> Values:
        """Return an answer's coefficients for features in [-1, 1]."""
        found = value["coefficients"]
        columns = [self.schema.columns[name] for name in self.features]
        ends = [(float(each.lower), float(each.upper)) for each in columns]  # type: ignore[union-attr]
        slopes = np.array([found[name] for name in self.features])
        middles, halves = (np.array([(high + s * low) / 2 for low, high in ends]) for s in (1, -1))
        return np.array([found["(intercept)"] + slopes @ middles, *(slopes * halves)])


def _california(draws: int, bits: Randomness) -> Iterator[Row]:
    """Yield where Huber's loss has more bias than it saves, and where ``auto``'s q is too large."""
    homes = _California.of("median_income", "housing_median_age", "latitude")
    asked = LinearRegression(target="median_house_value", features=homes.features)
    sure = calibrate(
        replace(asked, loss="squared"), homes.schema, _ALMOST_NONE, mechanism="functional"
    )
    exact = homes.scaled(sure.draw(homes.data, bits).value)
    size = 250_000  # half of what values are declared to span
    yield Row(
        question="linear regression of house values in California, 3 features",
        was="functional",
        before=homes.error(replace(asked, loss="squared"), exact, draws, bits, "functional") / size,
        now=homes.error(asked, exact, draws, bits) / size,
        aim=1.0,
    )
    homes = _California.of("median_income")
    odds = LogisticRegression(
        target=Condition(column="median_house_value", op=">=", value=200_000),
        features=homes.features,
    )
    sure = calibrate(odds, homes.schema, _ALMOST_NONE)
    exact = homes.scaled(sure.draw(homes.data, bits).value)
    yield Row(
        question="logistic regression on incomes in California",
        was="q = 0.5",
        before=homes.error(replace(odds, q=0.5), exact, draws, bits),
        now=homes.error(odds, exact, draws, bits),
        aim=1.0,
    )


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| question | before | its error | error now | times smaller | aim |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row.question} | {row.was} | {row.before:.3g} | {row.now:.3g} | {row.gain:.3g} "
        f"| {row.aim:g} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What errs less than it used to.")
    parser.add_argument("--draws", type=int, default=80, help="draws of each question")
    parser.add_argument("--quick", action="store_true", help="a quarter of the draws")
    given = parser.parse_args()
    sys.stdout.write(table(list(study(given.draws // 4 if given.quick else given.draws))))


if __name__ == "__main__":
    main()
