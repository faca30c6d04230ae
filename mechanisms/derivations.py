"""Derivations: statistics computed from a release that is already out. Free of charge.

    answer' = f(answer),   f public

**Privacy.** A function of a released answer and of public facts is post-processing
(Awan & Slavkovic, Proposition 2.11): it keeps the release's guarantee and costs no epsilon.
Nothing here takes a data set, so nothing here can read one; it works just as well when the data
have been erased.

*From ``moments``*: any linear regression, plain or ridge, mean, sum, variance, covariance,
correlation and moments of the same columns or fewer (and the count under add-remove). The noisy
vector is read back from the released numbers, as exact fractions of them, and goes through the
code that a direct release goes through. Each number's noise follows from the law of the
parent's: exactly where a number reads one coordinate, to first order otherwise, and for
regressions by the bootstrap of :mod:`mechanisms.functional.sanitized`. The result is as noisy as
the parent's dimension makes it: a mean of one column out of a release of moments of many has the
noise of all.

*From ``mean``, ``sum``, ``variance``, ``covariance``, ``correlation``*: the same of fewer columns;
under replace-one, where n is public, means from sums and sums from means; variances and
correlations from covariances (the noise of these correlations is not known: it depends on
means that a covariance release does not tell).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import cast

from mechanisms.contract import (
    InvalidStatisticError,
    Json,
    Noise,
    Outcome,
    Statistic,
    require_numbers,
)
from mechanisms.domain import NumberColumn, Schema
from mechanisms.functional.linear import coordinate_noise, rule_of
from mechanisms.functional.sanitized import equations, regression_outcome
from mechanisms.knorm import integer_noise
from mechanisms.privacy import Adjacency, PrivacyLoss, split
from mechanisms.statistics.additive import (
    describe_noise,
    public_rows,
    render,
)
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.covariance import Covariance, moment_layout
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.second_order import UNIT, Layout, MomentStatistic, Selection
from mechanisms.statistics.stack import Stack
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance

_ColumnStatistic = Mean | Sum | Variance | Covariance | Correlation
_FROM_MOMENTS = "moments, mean, sum, variance, covariance, correlation, linear_regression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A release as everybody who may see it sees it: the question, its price, and the answer."""

    statistic: Statistic
    norm: str | None
    epsilon: PrivacyLoss
    value: Json
    noise: Noise | None
    details: Json


def derive(statistic: Statistic, released: Released, schema: Schema) -> Outcome:
    """Return a statistic computed from a released answer.

    Parameters
    ----------
    statistic
        What is wanted.
    released
        What there is; a stack's parts are tried in their order.
    schema
        The public facts of the data set.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, or cannot be derived from the
        release; the message says what can.
    """
    statistic.check(schema)
    parts = list(_parts(released))
    for part in parts:
        outcome = _derive_one(statistic, part, schema)
        if outcome is not None:
            return outcome
    raise InvalidStatisticError(
        "this release does not determine that; from it can be derived: "
        + ("; ".join(text for part in parts if (text := derivable(part, schema))) or "nothing")
    )


def derivable(released: Released, schema: Schema) -> str:
    """Return in words what can be derived from a release of one statistic; empty if nothing."""
    source, public = released.statistic, schema.adjacency is Adjacency.REPLACE_ONE
    if isinstance(source, Moments):
        kinds = _FROM_MOMENTS + ("" if public else ", count")
    elif isinstance(source, Sum) and source.where:
        kinds = "sum under the same conditions"
    elif isinstance(source, Mean | Sum) and public:
        kinds = "mean, sum"
    elif isinstance(source, Covariance):
        kinds = "covariance, variance, correlation"
    elif isinstance(source, _ColumnStatistic):
        kinds = source.kind
    else:
        return ""
    return f"{kinds} of {', '.join(source.columns)}"


def _parts(released: Released) -> Iterator[Released]:
    """Yield a stack's parts as releases of their own; anything else as it is."""
    if not isinstance(released.statistic, Stack):
        yield released
        return
    stack = released.statistic
    shares = split(released.epsilon, stack.exact_shares())
    facts = cast(Sequence[Json], released.details["parts"])
    values = cast(Sequence[Json], released.value["parts"])
    for place, (part, share, value) in enumerate(zip(stack.parts, shares, values, strict=True)):
        yield Released(
            statistic=part.statistic,
            norm=cast(str | None, facts[place]["norm"]),
            epsilon=share,
            value=value,
            noise=_part_of(released.noise, place),
            details=cast(Json, facts[place]["details"]),
        )


def _part_of(noise: Noise | None, place: int) -> Noise | None:
    """Return the noise of one part of a stack, if it is known."""
    if noise is None:
        return None
    stds = cast(Sequence[Json | None], noise.std["parts"])
    ends = cast(Sequence[Json | None], noise.interval_95["parts"])
    std, interval = stds[place], ends[place]
    return None if std is None or interval is None else Noise(std=std, interval_95=interval)


def _derive_one(statistic: Statistic, released: Released, schema: Schema) -> Outcome | None:
    """Return what one release says of the statistic; None where it does not determine it."""
    if isinstance(released.statistic, Moments):
        return _from_moments(statistic, released, released.statistic, schema)
    if isinstance(statistic, _ColumnStatistic) and isinstance(released.statistic, _ColumnStatistic):
        return _from_columns(statistic, released, released.statistic, schema)
    return None


# From moments


def _needed(statistic: Statistic, schema: Schema) -> tuple[str, ...] | None:
    """Return the columns whose moments determine the statistic; None where none do."""
    if isinstance(statistic, LinearRegression):
        return (*statistic.features, statistic.target)
    return statistic.moment_columns(schema) if isinstance(statistic, MomentStatistic) else None


def _from_moments(
    statistic: Statistic, released: Released, source: Moments, schema: Schema
) -> Outcome | None:
    needed = _needed(statistic, schema)
    if needed is None or not set(needed) <= set(source.columns):
        return None
    layout = moment_layout(source.columns, schema)
    numbers = require_numbers(schema, source.columns, "columns")
    coordinates = _coordinates(layout, numbers, released.value)
    chosen = Selection(layout, tuple(source.columns.index(name) for name in needed))
    noise = integer_noise(layout.space(), str(released.norm), released.epsilon.fraction)
    if isinstance(statistic, LinearRegression):
        scaling = statistic.scaling(schema)
        return regression_outcome(
            equations(scaling, chosen.sums(coordinates)),
            scaling,
            rule_of(statistic),
            coordinate_noise(noise),
            seed=str(coordinates).encode(),
            centred=True,
        )
    if not isinstance(statistic, MomentStatistic):
        return None
    tree = statistic.from_moments(chosen, [numbers[at] for at in chosen.order], coordinates)
    laws, unit = noise.describe()
    return Outcome(
        value=render(tree, lambda leaf: leaf.number()),
        noise=describe_noise(tree, laws, unit, centred=True, correlation=noise.correlation),
    )


def _coordinates(layout: Layout, numbers: Sequence[NumberColumn], value: Json) -> list[Fraction]:
    """Return the noisy vector that the released moments were made of, read back from them.

    Exact fractions of the released numbers; what had been clamped stays so.
    """
    means = cast(Mapping[str, float], value["means"])
    second = cast(Sequence[Sequence[float]], value["second"])
    shares = [
        (Fraction(means[name]) - column.midpoint) / column.half_width
        for name, column in zip(layout.names, numbers, strict=True)
    ]
    count = Fraction(cast(float, value["count"])) if layout.rows is None else Fraction(layout.rows)
    records = max(count, Fraction(1))
    entries = [count] if layout.rows is None else []
    entries += [records * share for share in shares]
    for j, k in layout.pairs:
        one, two = numbers[j], numbers[k]
        product = (
            Fraction(second[j][k])
            - one.midpoint * two.midpoint
            - one.midpoint * two.half_width * shares[k]
            - two.midpoint * one.half_width * shares[j]
        ) / (one.half_width * two.half_width)
        if j == k:
            product = 2 * product - (1 if layout.rows is None else 0)
        entries.append(records * product)
    return [UNIT * entry for entry in entries]


# From statistics of several columns


def _from_columns(
    statistic: _ColumnStatistic, released: Released, source: _ColumnStatistic, schema: Schema
) -> Outcome | None:
    if not set(statistic.columns) <= set(source.columns):
        return None
    if getattr(statistic, "where", ()) != getattr(source, "where", ()):
        return None
    read = _reading(statistic, source, schema)
    if read is None:
        return None
    value, noise = read(released.value), released.noise
    if isinstance(statistic, Correlation) and isinstance(source, Covariance):
        return Outcome(value=_correlations(value), noise=None)
    if noise is not None:
        noise = Noise(std=read(noise.std), interval_95=read(noise.interval_95))
    return Outcome(value=value, noise=noise)


def _reading(
    statistic: _ColumnStatistic, source: _ColumnStatistic, schema: Schema
) -> Callable[[Json], Json] | None:
    """Return how the statistic is read off an answer: its numbers, noise and intervals alike."""
    names = statistic.columns
    places = [source.columns.index(name) for name in names]
    wanted = (source.kind, statistic.kind)
    if source.kind == statistic.kind and not isinstance(source, Covariance | Correlation):
        return lambda value: {name: value[name] for name in names}
    if source.kind == statistic.kind or wanted == ("covariance", "correlation"):
        return lambda value: {"matrix": [[_entry(value, j, k) for k in places] for j in places]}
    if wanted == ("covariance", "variance"):
        return lambda value: {
            name: _entry(value, j, j) for name, j in zip(names, places, strict=True)
        }
    public = schema.adjacency is Adjacency.REPLACE_ONE
    if wanted not in {("sum", "mean"), ("mean", "sum")} or not public:
        return None
    rows = public_rows(schema)
    factor = Fraction(1, rows) if statistic.kind == "mean" else Fraction(rows)
    return lambda value: {name: _scaled(value[name], factor) for name in names}


def _entry(value: Json, j: int, k: int) -> object:
    return cast(Sequence[Sequence[object]], value["matrix"])[j][k]


def _scaled(part: object, factor: Fraction) -> object:
    """Return a number, or both ends of an interval, times a positive factor."""
    if isinstance(part, int | float):
        return float(Fraction(part) * factor)
    return [_scaled(end, factor) for end in cast(Sequence[float], part)]


def _correlations(value: Json) -> Json:
    """Return the correlations of a covariance matrix: 0 where a variance is not positive."""
    matrix = cast(Sequence[Sequence[float]], value["matrix"])
    size = range(len(matrix))

    def entry(j: int, k: int) -> float:
        if j == k:
            return 1.0
        if matrix[j][j] <= 0 or matrix[k][k] <= 0:
            return 0.0
        ratio = matrix[j][k] / (sqrt(matrix[j][j]) * sqrt(matrix[k][k]))
        return min(max(ratio, -1.0), 1.0)

    return {"matrix": [[entry(j, k) for k in size] for j in size]}
