"""Levels and powers of the tests of hypotheses, next to the tests without noise.

    python -m studies.hypothesis_tests [--repetitions 2000] [--quick]

prints a Markdown table of 20 designs: how often a true hypothesis is rejected at 5%, and how often
one that is wrong by 0.3 standard deviations, each next to the test of the rows without noise.

*Laws.* ``normal``; ``skewed``, a gamma law; ``housing``, the median incomes of the housing file, in
groups made at random. A design has rows, an epsilon and a spread, and a third of it is replace-one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from app.demo import DEMO_DATA
from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.catalog import calibrate
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
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
)
QUICK = (DESIGNS[2], DESIGNS[16])


@lru_cache(maxsize=1)
def _incomes() -> Any:
    return pl.read_csv(DEMO_DATA / "california_housing.csv")["median_income"].to_numpy()


def _drawn(made: np.random.Generator, design: Design) -> Any:
    """Return the values of a column, with the mean and the spread of its law."""
    if design.law == "skewed":
        scale = design.spread / sqrt(2)
        return _CENTRE - 2 * scale + made.gamma(2, scale, design.rows)
    if design.law == "housing":
        return 100 * made.choice(_incomes(), design.rows) / 15.0001
    return made.normal(_CENTRE, design.spread, design.rows)


def values_of(seed: int, design: Design, *, effect: float) -> Values:
    """Return rows in which every hypothesis is wrong by an effect, in standard deviations."""
    made, rows, spread = np.random.default_rng(seed), design.rows, design.spread
    group, three = made.choice(["a", "b"], rows, p=[0.4, 0.6]), made.choice(list("abc"), rows)
    shift = effect * spread * ((group == "b") + (three == "c"))
    x = _drawn(made, design) + shift
    y = 50 + made.normal(0, spread, rows) + effect * (x - _CENTRE)
    yes = made.uniform(size=rows) < 0.3 + effect * 0.5 * (group == "b")
    return {
        "x": x.clip(0, 100), "y": y.clip(0, 100), "g": group, "h": three, "yes": yes.astype(int)
    }  # fmt: skip


def rejected(
    design: Design, *, effect: float, repetitions: int, first: int = 0
) -> tuple[float, float]:
    """Return how often the test rejects at 5%, and how often the one without noise does."""
    rows, name = design.rows, design.test
    public = rows if design.adjacency is REPLACE else None
    plan = calibrate(ASKED[name], Schema(COLUMNS, design.adjacency, public, 2 * rows),
                     Epsilon.parse(design.epsilon))  # fmt: skip
    facts = Schema(COLUMNS, REPLACE, rows, 2 * rows)
    found, plain = 0, 0
    for seed in range(first, first + repetitions):
        values = values_of(seed, design, effect=effect)
        data = ArrayData.from_values(facts, {each: list(own) for each, own in values.items()})
        value: Any = plan.draw(data, seeded_randomness(seed)).value
        found += value["p_value"] <= LEVEL
        plain += PLAIN[name](values) <= LEVEL
    return found / repetitions, plain / repetitions


def lines(designs: tuple[Design, ...], repetitions: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| test | law | rows | adjacency | epsilon | sd | level | no noise | power | no noise |"
    yield "| --- " * 10 + "|"
    for place, of in enumerate(designs):
        first = 10_000_000 * (1 + place)
        level, plain = rejected(of, effect=0.0, repetitions=repetitions, first=first)
        power, best = rejected(of, effect=EFFECT, repetitions=repetitions // 10, first=first)
        yield (
            f"| {of.test} | {of.law} | {of.rows:,} | `{of.adjacency}` | {of.epsilon} "
            f"| {of.spread:g} | {level:.3f} | {plain:.3f} | {power:.2f} | {best:.2f} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2_000, help="data sets per design")
    parser.add_argument("--quick", action="store_true", help="two designs, 200 data sets each")
    asked = parser.parse_args()
    designs, repetitions = (QUICK, 200) if asked.quick else (DESIGNS, asked.repetitions)
    for line in lines(designs, repetitions):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
