"""Four small studies of designs that might be more accurate than the shipped ones.

Run with ``python -m studies.tried``; seconds on one core. The seeds are fixed.
``docs/research/tried.md`` has the figures, and what follows from them.

*Quantiles*: permute-and-flip and the K-norm gradient mechanism, by the mean error in rank.
*Base measure*: the K-norm gradient mechanism of one regression coefficient where its base measure
is centred on public prior knowledge, right or wrong, and not on zero. By numerical integration.
*Hulls*: balls that lean, as records may add to a sum and never take from it, and balls that hold a
count with its sums. The noise is known, so nothing is drawn.
*Splits*: a stack at equal shares, and at those that minimise the sum of squares of its noise's
standard deviations, each relative to what the number may be. The noise is known, so nothing is
drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import Statistic
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.testing import seeded_randomness

Values = NDArray[np.float64]

_SEED, _DRAWS, _SAMPLES = 20261124, 400, 200
_write = sys.stdout.write


def main() -> None:
    """Print all four tables."""
    quantiles()
    base_measures()
    hulls()
    splits()


# Quantiles


def quantiles() -> None:
    """Print mean errors in rank, epsilon 1, of records spread as a lognormal within bounds."""
    _write("level  rows   adjacency     kng        permute-and-flip  ratio\n")
    for level in (0.5, 0.9):
        for rows in (100, 1_000, 10_000):
            for adjacency in Adjacency:
                one, other = (
                    _rank_errors(level, rows, adjacency, mechanism)
                    for mechanism in ("kng", "exponential")
                )
                error = f"{one.mean():6.2f} {_se(one):5.2f}  {other.mean():6.2f} {_se(other):5.2f}"
                ratio = other.mean() / one.mean()
                _write(f"{level:<6} {rows:<6} {adjacency:12} {error:32} {ratio:5.2f}\n")


def _rank_errors(level: float, rows: int, adjacency: Adjacency, mechanism: str) -> Values:
    column = NumberColumn(Fraction(0), Fraction(20))
    known = rows if adjacency is Adjacency.REPLACE_ONE else None
    schema = Schema({"x": column}, adjacency, known, max_rows=2 * rows)
    values = np.sort(np.minimum(np.random.default_rng(_SEED).lognormal(0, 1, rows), 20))
    plain = Schema({"x": column}, Adjacency.REPLACE_ONE, rows)
    data = ArrayData.from_values(plain, {"x": list(values)})
    asked = Quantile(column="x", levels=(level,))
    plan = calibrate(asked, schema, Epsilon.parse("1"), mechanism=mechanism)
    randomness, found = seeded_randomness(_SEED), []
    for _ in range(_DRAWS):
        value = plan.draw(data, randomness).value
        found.append(value["quantiles"][0]["value"])  # type: ignore[index]
    ranks = np.searchsorted(values, found)
    return np.asarray(np.abs(ranks - level * rows), dtype=np.float64)


def _se(errors: Values) -> float:
    return float(errors.std() / np.sqrt(len(errors)))


# The base measure of one coefficient

_BOUND, _POWER = 10.0, 2.0
_THETA = np.linspace(-_BOUND, _BOUND, 8001)


def base_measures() -> None:
    """Print mean errors |theta - theta*| for a prior that is right, and for one that is wrong."""
    wrong = (0.0, 0.25, 1.0, 4.0)
    heads = "".join(f"{f'off by {each:g}':>12}" for each in wrong)
    _write(f"\ntheta*  rows    at zero{heads}\n")
    for truth in (1.0, 3.0):
        for rows in (30, 100, 300, 1_000, 10_000):
            errors = _slope_errors(truth, rows, [0.0, *(truth + each for each in wrong)])
            row = "".join(f"{error:12.3f}" for error in errors)
            _write(f"{truth:<7} {rows:<6} {row[1:]}\n")


def _slope_errors(truth: float, rows: int, centres: Sequence[float]) -> Values:
    """Return the expected error at epsilon 1 for each centre of the base measure."""
    generator = np.random.default_rng(_SEED)
    errors = np.zeros(len(centres))
    for _ in range(_SAMPLES):
        x = generator.uniform(-1, 1, rows)
        # a target within [-1, 1] would hold slopes to about 1: its bounds are wide instead
        y = truth * x + generator.normal(0, 0.3, rows)
        gradient = 2 * np.abs((x @ x) * _THETA - x @ y)
        reach = max(1.0, truth)
        exponent = -gradient / (2 * 4 * (reach + np.abs(_THETA)))
        for at, centre in enumerate(centres):
            log = exponent - _POWER * np.log1p(np.abs(_THETA - centre))
            weights = np.exp(log - log.max())
            errors[at] += np.abs(_THETA - truth) @ weights / weights.sum()
    return errors / _SAMPLES


# Hulls

_ROWS = 1_000
ASKED: dict[str, Statistic] = {
    "sum of 2": Sum(columns=("a", "b")),
    "sum of 5": Sum(columns=tuple("abcde")),
    "mean of 1": Mean(columns=("a",)),
    "mean of 3": Mean(columns=("a", "b", "c")),
    "variance of 1": Variance(columns=("a",)),
    "variance of 3": Variance(columns=("a", "b", "c")),
}


def hulls() -> None:
    """Print standard deviations under add-remove at epsilon 1 and 1,000 rows, by ball.

    Columns lie within [0, 1]. A mean's is at an end of the bounds, where the count matters most.
    "Apart" are a mean's sums and its count as two draws, at the best split of epsilon.
    """
    _write("\nquestion         hull       cube       l1         apart\n")
    for name, question in ASKED.items():
        stds = [std(question, norm) for norm in ("optimal", "linf", "l1")]
        if isinstance(question, Mean):
            stds.append(apart(question))
        _write(f"{name:15} {''.join(f'{each:<11.3g}' for each in stds).rstrip()}\n")


def std(question: Statistic, norm: str = "auto", *, low: Fraction = Fraction(0)) -> float:
    """Return the root mean square of the noise, the columns' bounds being 1 apart."""
    columns = {name: NumberColumn(low, low + 1) for name in "abcde"}
    schema = Schema(columns, Adjacency.ADD_REMOVE, None, max_rows=2 * _ROWS)
    plan = calibrate(question, schema, Epsilon.parse("1"), mechanism="k_norm", norm=norm)
    noise = plan.preview(_ROWS)
    if noise is None:
        raise ValueError("its noise is not known")
    return float(np.sqrt(np.mean(np.square(_numbers(noise.std)))))


def apart(mean: Mean) -> float:
    """Return that of centred sums over a count, for a mean that is half a width off the middle."""
    sums, count = std(Sum(columns=mean.columns), low=Fraction(-1, 2)), std(Count())
    # at shares t and 1 - t: the least of (sums / t)^2 + (count / 2 / (1 - t))^2
    return float((sums ** (2 / 3) + (count / 2) ** (2 / 3)) ** 1.5) / _ROWS


# The split of a stack

_SCHEMA = Schema(
    {
        **{name: NumberColumn(Fraction(0), Fraction(1)) for name in "abcde"},
        "kind": CategoryColumn(tuple(f"kind {number}" for number in range(20))),
    },
    Adjacency.REPLACE_ONE,
    1_000,
)
_STACKS: dict[str, tuple[Statistic, ...]] = {
    "mean of 1, mean of 5": (Mean(columns=("a",)), Mean(columns=tuple("abcde"))),
    "mean of 1, moments of 5": (Mean(columns=("a",)), Moments(columns=tuple("abcde"))),
    "sum of 1, histogram of 20": (Sum(columns=("a",)), Histogram(columns=("kind",))),
    "mean, moments, histogram": (
        Mean(columns=("a",)),
        Moments(columns=tuple("abcde")),
        Histogram(columns=("kind",)),
    ),
}


def splits() -> None:
    """Print the root mean square of relative standard deviations at both splits, epsilon 1."""
    _write("\nstack                      equal      best       gain   best shares\n")
    for name, parts in _STACKS.items():
        sizes = np.array([_relative_std(part) for part in parts])
        equal = float(np.sqrt(np.mean((sizes * len(parts)) ** 2)))
        shares = sizes ** (2 / 3) / (sizes ** (2 / 3)).sum()
        best = float(np.sqrt(np.mean((sizes / shares) ** 2)))
        listed = ", ".join(f"{share:.2f}" for share in shares)
        _write(f"{name:26} {equal:.5f}    {best:.5f}    {1 - best / equal:4.0%}   {listed}\n")


def _relative_std(part: Statistic) -> float:
    """Return the root mean square of the noise at epsilon 1, relative to what numbers may be."""
    noise = calibrate(part, _SCHEMA, Epsilon.parse("1")).preview(None)
    if noise is None or _SCHEMA.rows is None:
        raise ValueError("its noise is not known")
    most = _SCHEMA.rows if isinstance(part, Sum | Histogram) else 1
    return float(np.sqrt(np.mean(np.square(_numbers(noise.std))))) / most


def _numbers(part: object) -> list[float]:
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list | tuple):
        return [number for child in part for number in _numbers(child)]
    return [] if isinstance(part, str) else [float(str(part))]


if __name__ == "__main__":
    main()
