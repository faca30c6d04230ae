"""Errors of linear regressions with categories, with and without what their structure says.

``python -m studies.factors`` prints median errors over data sets, each with one draw, for formulas
on a number x, a category of six values and a boolean: of the slope of x, of interactions with it
and of the other coefficients but the constant, in scaled units. Candidates are the functional
mechanism, objective perturbation with thresholds of Huber's loss, and ``auto``. ``plain`` asks the
same of columns of which nothing is known but their bounds: dummies and products as if uploaded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import Randomness, system_randomness
from mechanisms.sketches import ArrayData
from mechanisms.statistics.linear_regression import LinearRegression

Values = NDArray[np.float64]

LEVELS = tuple("abcdef")
SHARES = (0.4, 0.2, 0.15, 0.1, 0.1, 0.05)
_X = NumberColumn(Fraction(0), Fraction(10))
_Y = NumberColumn(Fraction(0), Fraction(100))
_FLAG = NumberColumn(Fraction(0), Fraction(1), boolean=True)
_NUMBER = NumberColumn(Fraction(0), Fraction(1))
COLUMNS: Mapping[str, Column] = {
    "x": _X,
    "group": CategoryColumn(LEVELS),
    "flag": _FLAG,
    "y": _Y,
}
FORMULAS: Mapping[str, tuple[str, ...]] = {
    "y ~ x*group": ("x", "group", "x:group"),
    "y ~ x + group": ("x", "group"),
    "y ~ group": ("group",),
    "y ~ x*flag": ("x", "flag", "x:flag"),
    "y ~ x + group + flag": ("x", "group", "flag"),
}
"""Formulas, and which parts of :func:`parts_of` they are made of."""
THRESHOLDS = (25.0, 12.5, 6.25)
CANDIDATES = ("functional", *(f"huber {each:g}" for each in THRESHOLDS), "auto")


@dataclass(frozen=True, slots=True)
class Row:
    """Median errors of one candidate: the slope, interactions, and dummies."""

    formula: str
    rows: int
    adjacency: Adjacency
    candidate: str
    plain: bool
    slope: float
    products: float
    dummies: float


def population(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a data set: slopes and constants differ by group."""
    x, group = rng.uniform(0, 10, rows), rng.choice(len(LEVELS), rows, p=SHARES)
    flag = rng.integers(0, 2, rows).astype(float)
    y = 20 + 3 * group + (2 + 0.3 * group) * x + 4 * flag + rng.normal(0, 8, rows)
    named = [LEVELS[each] for each in group]
    return {"x": x, "group": named, "flag": flag, "y": np.clip(y, 0, 100)}


def parts_of(values: Mapping[str, Any]) -> dict[str, dict[str, Values]]:
    """Return the columns that parts of formulas become."""
    group, x, flag = np.array(values["group"]), values["x"], values["flag"]
    dummies = {f"group{each}": (group == each).astype(float) for each in LEVELS[1:]}
    return {
        "x": {"x": x},
        "group": dummies,
        "flag": {"flag": flag},
        "x:group": {f"x:{name}": column * x for name, column in dummies.items()},
        "x:flag": {"x:flag": x * flag},
    }


def columns_of(formula: str, values: Mapping[str, Any]) -> dict[str, Values]:
    """Return the columns of a formula's design, without the constant."""
    parts = parts_of(values)
    return {name: each for part in FORMULAS[formula] for name, each in parts[part].items()}


def question(candidate: str, **fields: Any) -> tuple[LinearRegression, str]:
    """Return a candidate's question and mechanism."""
    kind, _, threshold = candidate.partition(" ")
    if kind == "huber":
        fields |= {"loss": "huber", "threshold": float(threshold)}
        kind = "objective_perturbation"
    return LinearRegression(**fields), kind


def errors(
    formula: str,
    candidate: str,
    schema: Schema,
    values: Mapping[str, Any],
    *,
    plain: bool,
    epsilon: str,
    bits: Randomness,
) -> tuple[float, float, float]:
    """Return the errors of one draw."""  # fmt: skip
    design = columns_of(formula, values)
    matrix = np.column_stack([np.ones(len(values["y"])), *design.values()])
    truth = np.linalg.lstsq(matrix, values["y"], rcond=None)[0][1:]
    asked, mechanism = question(candidate, formula=formula)
    data = values
    if plain:
        asked, mechanism = question(candidate, target="y", features=tuple(design))
        bounds = {name: _X if name.startswith("x") else _NUMBER for name in design}
        schema = Schema({**bounds, "y": _Y}, schema.adjacency, schema.rows, schema.max_rows)
        data = {**design, "y": values["y"]}
    plan = calibrate(asked, schema, Epsilon.parse(epsilon), mechanism=mechanism)
    found = plan.draw(ArrayData.from_values(schema, data), bits).value["coefficients"]
    assert isinstance(found, dict)
    off = dict(zip(design, np.array([found[name] for name in design]) - truth, strict=True))
    # scaled units: of half-widths 5, 0.5 and 50
    numbers = {name: each * 5 / 50 for name, each in off.items() if name.startswith("x")}
    dummies = [each * 0.5 / 50 for name, each in off.items() if not name.startswith("x")]
    products = [each for name, each in numbers.items() if name != "x"]
    return (
        abs(numbers.get("x", 0.0)),
        float(np.linalg.norm(products)),
        float(np.linalg.norm(dummies)),
    )


def study(
    draws: int,
    rows: tuple[int, ...] = (1_000, 10_000),
    *,
    candidates: tuple[str, ...] = CANDIDATES,
    seed: int = 3,
    randomness: Randomness | None = None,
) -> Iterator[Row]:
    """Yield a row for each question, candidate, and what is known of the columns."""  # fmt: skip
    bits = randomness or system_randomness()
    for formula, count, adjacency in product(FORMULAS, rows, Adjacency):
        known = count if adjacency is Adjacency.REPLACE_ONE else None
        schema = Schema(COLUMNS, adjacency, known, 10 * count)
        for candidate, plain in product(candidates, (True, False)):
            rng = np.random.default_rng(seed)
            found = [
                errors(
                    formula, candidate, schema, population(count, rng),
                    plain=plain, epsilon="1", bits=bits,
                )
                for _ in range(draws)
            ]  # fmt: skip
            medians = np.median(np.array(found), axis=0).tolist()
            yield Row(formula, count, adjacency, candidate, plain, *medians)


def main() -> None:
    """Print a table of all questions."""
    parser = argparse.ArgumentParser(description="What the structure of factors saves.")
    parser.add_argument("--draws", type=int, default=20, help="data sets of each question")
    for row in study(parser.parse_args().draws):
        known = "plain" if row.plain else "cells"
        sys.stdout.write(
            f"{row.formula}  {row.rows:,} {row.adjacency.value}  {row.candidate} {known}  "
            f"{row.slope:.4f} {row.products:.4f} {row.dummies:.4f}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
