"""Levels and powers of the tests of hypotheses, next to the tests without noise.

    python -m studies.hypothesis_tests [--repetitions 10000] [--quick] [--part 1/2]

prints a Markdown table: how often a true hypothesis is rejected at 5%, with the exact binomial 95%
interval of that level, and how often one that is wrong by 0.3 standard deviations. Next to both is
the test of the rows without noise. The last column is how often the interval of the estimate holds
the population's number, where the hypothesis is wrong. Powers and that share are of 400 data sets.

*Laws.* ``normal``; ``skewed``, a gamma law; ``unequal``, normal with three times the spread in the
smaller group; ``housing``, the median incomes and households of the housing file, and ``engel``,
the incomes of Engel's, in groups made at random. A design has rows, an epsilon and a spread.

*Time.* A p-value is the largest of several. The first is at the centre of a confidence set: where
that one is above 5% the others are not simulated, since the hypothesis is not rejected.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from math import sqrt
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from scipy import stats

from app.demo import DEMO_DATA
from mechanisms.analysis import null
from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.catalog import calibrate
from mechanisms.contract import Outcome
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.curves import hypotheses
from mechanisms.testing import seeded_randomness

COLUMNS: Mapping[str, Column] = {
    "x": NumberColumn(Fraction(0), Fraction(100)),
    "y": NumberColumn(Fraction(0), Fraction(100)),
    "g": CategoryColumn(("a", "b")),
    "h": CategoryColumn(("a", "b", "c")),
    "yes": NumberColumn(Fraction(0), Fraction(1), boolean=True),
}
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
EFFECT = 0.3
LEVEL = 0.05
_CENTRE = 45.0

Values = Mapping[str, Any]

ASKED: Mapping[str, HypothesisTest] = {
    "t, one mean": HypothesisTest(test="t", columns=("x",), value=_CENTRE),
    "t": HypothesisTest(test="t", columns=("x",), groups="g"),
    "welch": HypothesisTest(test="welch", columns=("x",), groups="g"),
    "anova": HypothesisTest(test="anova", columns=("x",), groups="h"),
    "correlation": HypothesisTest(test="correlation", columns=("x", "y")),
    "chi_square": HypothesisTest(test="chi_square", columns=("g", "yes")),
    "proportion": HypothesisTest(test="proportion", columns=("yes",), groups="g"),
    "rank_sum": HypothesisTest(test="rank_sum", columns=("x",), groups="g"),
    "signed_rank": HypothesisTest(test="signed_rank", columns=("x",), value=_CENTRE),
}


def _table(values: Values) -> list[list[int]]:
    return [
        [int(np.sum((values["g"] == group) & (values["yes"] == each))) for each in (0, 1)]
        for group in "ab"
    ]


def _two(values: Values) -> tuple[Any, Any]:
    return values["x"][values["g"] == "a"], values["x"][values["g"] == "b"]


PLAIN: Mapping[str, Callable[[Values], float]] = {
    "t, one mean": lambda v: float(stats.ttest_1samp(v["x"], _CENTRE).pvalue),
    "t": lambda v: float(stats.ttest_ind(*_two(v)).pvalue),
    "welch": lambda v: float(stats.ttest_ind(*_two(v), equal_var=False).pvalue),
    "anova": lambda v: float(stats.f_oneway(*[v["x"][v["h"] == k] for k in "abc"]).pvalue),
    "correlation": lambda v: float(stats.pearsonr(v["x"], v["y"]).pvalue),
    "chi_square": lambda v: float(stats.chi2_contingency(_table(v), correction=False).pvalue),
    "proportion": lambda v: float(stats.chi2_contingency(_table(v), correction=False).pvalue),
    "rank_sum": lambda v: float(stats.mannwhitneyu(*_two(v)).pvalue),
    "signed_rank": lambda v: float(stats.wilcoxon(v["x"] - _CENTRE).pvalue),
}


def _mean_of(values: Values) -> float:
    return float(np.mean(values["x"]))


def _difference(column: str) -> Callable[[Values], float]:
    def found(values: Values) -> float:
        own = values[column]
        return float(own[values["g"] == "b"].mean() - own[values["g"] == "a"].mean())

    return found


ESTIMATED: Mapping[str, Callable[[Values], float]] = {
    "t, one mean": _mean_of,
    "t": _difference("x"),
    "welch": _difference("x"),
    "proportion": _difference("yes"),
    "correlation": lambda v: float(np.corrcoef(v["x"], v["y"])[0, 1]),
}
CENSUS = 1_000_000
_POWER_SETS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A test of rows; ``spread`` is the standard deviation of a column from 0 to 100."""

    test: str
    rows: int
    epsilon: str = "1"
    spread: float = 10.0
    adjacency: Adjacency = ADD
    law: str = "normal"


DESIGNS = (
    Design(test="t, one mean", rows=100, adjacency=REPLACE),
    Design(test="t, one mean", rows=1_000, epsilon="0.3", spread=3.0),
    Design(test="t", rows=100),
    Design(test="t", rows=1_000, epsilon="0.3", spread=3.0, adjacency=REPLACE),
    Design(test="t", rows=300, law="skewed"),
    Design(test="t", rows=1_000, law="housing"),
    Design(test="welch", rows=300, adjacency=REPLACE),
    Design(test="welch", rows=300, law="skewed"),
    Design(test="welch", rows=1_000, law="housing"),
    Design(test="anova", rows=300),
    Design(test="anova", rows=1_000, epsilon="0.3", spread=3.0),
    Design(test="anova", rows=1_000, law="housing"),
    Design(test="correlation", rows=300, adjacency=REPLACE),
    Design(test="correlation", rows=1_000, spread=20.0),
    Design(test="chi_square", rows=100),
    Design(test="chi_square", rows=1_000, epsilon="0.3", adjacency=REPLACE),
    Design(test="proportion", rows=100),
    Design(test="proportion", rows=1_000, epsilon="0.3"),
    Design(test="rank_sum", rows=300, law="skewed"),
    Design(test="signed_rank", rows=300),
    Design(test="welch", rows=235, epsilon="2", law="engel"),
    Design(test="correlation", rows=1_000, epsilon="2", law="housing"),
    Design(test="rank_sum", rows=1_000, law="housing"),
    Design(test="t", rows=1_000, law="unequal"),
    Design(test="welch", rows=1_000, law="unequal"),
    Design(test="chi_square", rows=30, epsilon="2", adjacency=REPLACE),
)
QUICK = (DESIGNS[2], DESIGNS[16])


@lru_cache(maxsize=4)
def _real(file: str, column: str) -> Any:
    """Return a column of a real file, from 0 to 100."""
    found = pl.read_csv(DEMO_DATA / file)[column].to_numpy().astype(float)
    return 100 * found / found.max()


def _drawn(made: np.random.Generator, design: Design) -> Any:
    """Return the values of a column, with the mean and the spread of its law."""
    if design.law == "skewed":
        scale = design.spread / sqrt(2)
        return _CENTRE - 2 * scale + made.gamma(2, scale, design.rows)
    if design.law in _FILES:
        return made.choice(_real(*_FILES[design.law]), design.rows)
    return made.normal(_CENTRE, design.spread, design.rows)


_FILES = {
    "housing": ("california_housing.csv", "median_income"),
    "engel": ("engel.csv", "income"),
}


def values_of(seed: int, design: Design, *, effect: float) -> Values:
    """Return rows in which every hypothesis is wrong by an effect, in standard deviations."""
    made, rows, spread = np.random.default_rng(seed), design.rows, design.spread
    group, three = made.choice(["a", "b"], rows, p=[0.4, 0.6]), made.choice(list("abc"), rows)
    shift = effect * spread * ((group == "b") + (three == "c"))
    x = _drawn(made, design)
    if design.law == "unequal":
        x = np.where(group == "a", _CENTRE + 1.5 * (x - _CENTRE), _CENTRE + 0.5 * (x - _CENTRE))
    x = x + shift
    y = 50 + made.normal(0, spread, rows)
    if design.law == "housing":
        y = made.choice(_real("california_housing.csv", "households"), rows)
    y = y + effect * (x - _CENTRE)
    yes = made.uniform(size=rows) < 0.3 + effect * 0.5 * (group == "b")
    return {
        "x": x.clip(0, 100), "y": y.clip(0, 100), "g": group, "h": three, "yes": yes.astype(int)
    }  # fmt: skip


@lru_cache(maxsize=64)
def truth(design: Design, effect: float) -> float | None:
    """Return the population's number that a test estimates; None where it estimates none."""
    found = ESTIMATED.get(design.test)
    if found is None:
        return None
    return found(values_of(0, replace(design, rows=CENSUS), effect=effect))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How many data sets were rejected, with noise and without, and how many intervals held."""

    repetitions: int
    rejected: int
    plain: int = 0
    held: int | None = None

    @property
    def share(self) -> float:
        """Return the share that is rejected."""
        return self.rejected / self.repetitions

    @property
    def interval(self) -> tuple[float, float]:
        """Return the exact binomial 95% interval of the share that is rejected."""
        found = stats.binomtest(self.rejected, self.repetitions).proportion_ci(method="exact")
        return float(found.low), float(found.high)


def _answer(design: Design, values: Values, seed: int) -> Outcome:
    facts = Schema(COLUMNS, REPLACE, design.rows, 2 * design.rows)
    data = ArrayData.from_values(facts, {name: list(each) for name, each in values.items()})
    outcome: Outcome = _plan(design).draw(data, seeded_randomness(seed))
    return outcome


def _p_value(design: Design, values: Values, seed: int) -> float:
    return _p(_answer(design, values, seed))


def is_rejected(p_value: Callable[[], float]) -> bool:
    """Return whether a hypothesis is rejected; often the centre alone shows that it is not."""
    with patch.object(null, "corners", _centre), patch.object(hypotheses, "corners", _centre):
        if p_value() > LEVEL:
            return False
    return p_value() <= LEVEL


@lru_cache(maxsize=1)
def _plan(design: Design) -> Any:
    rows = design.rows
    public = rows if design.adjacency is REPLACE else None
    schema = Schema(COLUMNS, design.adjacency, public, 2 * rows)
    return calibrate(ASKED[design.test], schema, Epsilon.parse(design.epsilon))


def _centre(dimension: int) -> Iterator[tuple[int, ...]]:
    yield (0,) * dimension


def _p(outcome: Outcome) -> float:
    value: Any = outcome.value
    return float(value["p_value"])


def rejected(design: Design, *, effect: float, repetitions: int, first: int = 0) -> Found:
    """Return how often the test rejects at 5%, and how often the one without noise does.

    Where the hypothesis is wrong, also how often the interval holds the population's number.
    """
    true = truth(design, effect) if effect else None
    found, plain, held = 0, 0, 0
    for seed in range(first, first + repetitions):
        values = values_of(seed, design, effect=effect)
        plain += PLAIN[design.test](values) <= LEVEL
        if true is None:
            found += is_rejected(partial(_p_value, design, values, seed))
            continue
        outcome = _answer(design, values, seed)
        found += _p(outcome) <= LEVEL
        assert outcome.inference is not None
        low, high = outcome.inference.terms[0].confidence_95
        held += low <= true <= high
    return Found(
        repetitions=repetitions, rejected=found, plain=plain, held=None if true is None else held
    )


def lines(designs: Sequence[Design], repetitions: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        "| test | law | rows | adjacency | epsilon | sd | level | its interval | no noise | power "
        "| no noise | coverage |"
    )
    yield "| --- " * 12 + "|"
    for of in designs:
        first = 10_000_000 * (1 + DESIGNS.index(of))
        level = rejected(of, effect=0.0, repetitions=repetitions, first=first)
        power = rejected(of, effect=EFFECT, repetitions=min(repetitions, _POWER_SETS), first=first)
        low, high = level.interval
        held = "none" if power.held is None else f"{power.held / power.repetitions:.3f}"
        yield (
            f"| {of.test} | {of.law} | {of.rows:,} | `{of.adjacency}` | {of.epsilon} "
            f"| {of.spread:g} | {level.share:.3f} | {low:.3f} to {high:.3f} "
            f"| {level.plain / repetitions:.3f} | {power.share:.2f} "
            f"| {power.plain / power.repetitions:.2f} | {held} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10_000, help="data sets per design")
    parser.add_argument("--quick", action="store_true", help="two designs, 200 data sets each")
    parser.add_argument("--part", default="1/1", help="of the designs, as 2/3: every third one")
    asked = parser.parse_args()
    designs, repetitions = (QUICK, 200) if asked.quick else (DESIGNS, asked.repetitions)
    own, parts = map(int, asked.part.split("/"))
    for line in lines(designs[own - 1 :: parts], repetitions):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
