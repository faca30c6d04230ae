"""What share of epsilon private bounds take, and how many records are beyond them.

    mean |answer - mean| / mean,  a clipped mean of n values with bounds 0 and U,

for shares of epsilon and numbers c of records beyond the bound, in units of 1 / epsilon_1, as
:mod:`mechanisms.clipping` draws. The values are skewed, heavy-tailed, normal, even or all alike;
the bounds are 100 to 10**7 times as wide as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from mechanisms import clipping
from mechanisms.catalog import calibrate
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.mean import Mean
from mechanisms.testing import seeded_randomness

SHARES = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2))
BEYOND = (6, 10, 14, 20)
UPPER = (10**7, 10**9)
ROWS = (1000, 10_000)
EPSILONS = ("0.1", "1")


@dataclass(frozen=True, slots=True)
class Row:
    """A mean error relative to the mean, of one rule in one setting."""

    values: str
    rows: int
    upper: int
    epsilon: str
    share: Fraction | None
    beyond: int
    error: float


def study(draws: int = 40) -> Iterator[Row]:
    """Yield the errors of every rule, and of no clipping (share None), in every setting."""
    for rows, upper, epsilon in product(ROWS, UPPER, EPSILONS):
        for name, values in _populations(rows):
            setting = name, rows, upper, epsilon
            yield Row(*setting, None, 0, _error(values, upper, epsilon, "none", draws))
            for share, beyond in product(SHARES, BEYOND):
                clipping.SHARE, clipping.BEYOND = share, beyond
                error = _error(values, upper, epsilon, "private", draws)
                yield Row(*setting, share, beyond, error)


def _populations(rows: int) -> Iterator[tuple[str, Floats]]:
    generator = np.random.default_rng(rows)
    yield "incomes, log-normal (0.9)", generator.lognormal(10.3, 0.9, rows)
    yield "heavy, log-normal (1.5)", generator.lognormal(9, 1.5, rows)
    yield "normal, 50,000 +- 10,000", generator.normal(50_000, 10_000, rows)
    yield "ages, 18 to 90", generator.uniform(18, 90, rows)
    yield "one value, 41,300", np.full(rows, 41_300.0)


def _error(values: Floats, upper: int, epsilon: str, clip: str, draws: int) -> float:
    column = NumberColumn(Fraction(0), Fraction(upper), kind="integer")
    schema = Schema({"x": column}, Adjacency.REPLACE_ONE, len(values))
    data = ArrayData.from_values(schema, {"x": np.rint(values).tolist()})
    question = Mean(columns=("x",), clip=clip)  # type: ignore[arg-type]
    plan = calibrate(question, schema, Epsilon.parse(epsilon))
    true = float(np.rint(values).mean())
    found: list[float] = [
        float(plan.draw(data, seeded_randomness(turn)).value["x"])  # type: ignore[arg-type]
        for turn in range(draws)
    ]
    return float(np.abs(np.array(found) - true).mean() / true)


def regrets(rows: list[Row]) -> dict[tuple[Fraction, int], tuple[float, float]]:
    """Return each rule's median and largest ratio to the least error in the same setting."""
    settings: dict[tuple[object, ...], dict[tuple[Fraction, int], float]] = {}
    for row in rows:
        if row.share is not None:
            key = row.values, row.rows, row.upper, row.epsilon
            settings.setdefault(key, {})[row.share, row.beyond] = row.error
    ratios: dict[tuple[Fraction, int], list[float]] = {}
    for errors in settings.values():
        for rule, error in errors.items():
            ratios.setdefault(rule, []).append(error / min(errors.values()))
    return {rule: (float(np.median(each)), max(each)) for rule, each in ratios.items()}
