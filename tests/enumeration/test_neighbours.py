"""Every pair of neighbours among all small data sets: no probability is e^epsilon times another's.

All data sets of up to four rows on three values, under both adjacencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import sqrt

import pytest
from flint import arb

from mechanisms.catalog import calibrate
from mechanisms.contract import Plan
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.knorm import integer_noise
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.randomness import Randomness
from mechanisms.samplers.intervals import draw_point, permute_and_flip_point
from mechanisms.samplers.joint_quantiles import joint_points
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.quantile import Quantile, gradient_sensitivity, joint_sensitivity
from mechanisms.statistics.ranks.draw import EachLevelAlone, QuantileDraw
from mechanisms.statistics.stack import Part, Stack
from tests.enumeration.cases import CASES, Case
from tests.enumeration.domains import Rows, data_sets, each, grid_of, largest_loss
from tests.enumeration.laws import decay
from tests.enumeration.walk import RESOLVED, Bounds, Stated, law_of, require_law

F = Fraction
SETS = data_sets()
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency), ids=str)
Laws = Mapping[Rows[int], Bounds]


def quantile_law(
    point: Callable[..., object],
    rows: Rows[int],
    *,
    level: Fraction,
    rate: Fraction,
    bits: int,
    places: Sequence[int] | None = None,
) -> Bounds:
    """Return the law of one quantile on the grid 0, 1, 2, whose points have so many places."""
    grid = grid_of(rows, places=places)
    return law_of(lambda r: point(grid, level=level, rate=rate, randomness=r), cutoff=2.0**-bits)


def require_epsilon(laws: Laws, adjacency: Adjacency, epsilon: Fraction, *, used: float) -> None:
    """Assert that no loss is certainly above epsilon, and that some is a share of it."""
    assert max(law.unresolved for law in laws.values()) < RESOLVED
    loss, pair = largest_loss(laws, adjacency)
    assert loss <= float(epsilon) + 1e-12, pair
    assert loss > float(epsilon) * used, pair


@BOTH
@pytest.mark.parametrize("level", [F(1, 2), F(9, 10)], ids=str)
def test_a_walk_over_steps_keeps_epsilon(adjacency: Adjacency, level: Fraction) -> None:
    rate = 1 / (2 * gradient_sensitivity(level, adjacency))
    law = partial(quantile_law, draw_point, level=level, bits=40)
    require_epsilon(each(SETS, partial(law, rate=rate)), adjacency, F(1), used=0.4)


@BOTH
@pytest.mark.parametrize("places", [(1, 3, 2), (9, 1, 40)], ids=str)
def test_a_base_measure_keeps_epsilon(adjacency: Adjacency, places: Sequence[int]) -> None:
    level = F(9, 10)
    rate = 1 / (2 * gradient_sensitivity(level, adjacency))
    law = partial(quantile_law, draw_point, level=level, bits=40, places=places)
    require_epsilon(each(SETS, partial(law, rate=rate)), adjacency, F(1), used=0.4)
    loss, _ = largest_loss(each(SETS, partial(law, rate=3 * rate)), adjacency)
    assert loss > 1


@BOTH
def test_the_printed_sensitivity_is_caught(adjacency: Adjacency) -> None:
    """At tau = 0.9 the paper's 2 (1 - tau) is a fifth of what a record can do."""
    level = F(9, 10)
    law = partial(quantile_law, draw_point, level=level, rate=1 / (2 * 2 * (1 - level)), bits=40)
    loss, pair = largest_loss(each(SETS, law), adjacency)
    assert loss > 2, pair


@BOTH
def test_permute_and_flip_keeps_epsilon_on_two_rows(adjacency: Adjacency) -> None:
    sets, epsilon = data_sets(most=2), F(12)
    rate = epsilon / (2 * gradient_sensitivity(F(1, 2), adjacency))
    law = partial(quantile_law, permute_and_flip_point, level=F(1, 2), bits=28)
    require_epsilon(each(sets, partial(law, rate=rate)), adjacency, epsilon, used=0.5)
    loss, _ = largest_loss(each(sets, partial(law, rate=3 * rate)), adjacency)
    assert loss > 12


@pytest.mark.slow
@BOTH
def test_permute_and_flip_keeps_epsilon_on_four_rows(adjacency: Adjacency) -> None:
    epsilon = F(10)
    rate = epsilon / (2 * gradient_sensitivity(F(1, 2), adjacency))
    law = partial(quantile_law, permute_and_flip_point, level=F(1, 2), bits=28)
    require_epsilon(each(SETS, partial(law, rate=rate)), adjacency, epsilon, used=0.5)


WEIGHTED = [(value, weight) for value in (0, 2) for weight in (0, 1, 4)]
"""Records by their value and weight; the largest weight is 4."""


def weighted_law(
    rows: Rows[tuple[int, int]],
    *,
    level: Fraction,
    adjacency: Adjacency,
    mechanism: str,
    epsilon: int = 1,
    faster: int = 1,
) -> Bounds:
    """Return the law of a planned quantile by weights on the grid 0, 1, 2."""
    columns = {"x": NumberColumn(F(0), F(2), kind="integer"), "w": NumberColumn(F(0), F(4))}
    schema = Schema(columns, adjacency, 2 if adjacency is Adjacency.REPLACE_ONE else None, 9)
    asked = Quantile(column="x", levels=(float(level),), weights="w", base_measure="uniform")
    plan = calibrate(asked, schema, Epsilon.parse(str(epsilon)), mechanism=mechanism)
    draw = plan.parameters.drawing(asked, schema).draw
    assert isinstance(draw, QuantileDraw)
    assert isinstance(draw.sampler, EachLevelAlone)
    sampler = replace(draw.sampler, rates=tuple(faster * rate for rate in draw.sampler.rates))
    grid = draw.grid(
        ArrayData.from_values(schema, {"x": [x for x, _ in rows], "w": [w for _, w in rows]})
    )
    bits = 40 if mechanism == "kng" else 28
    return law_of(lambda r: sampler(grid, r)[0], cutoff=2.0**-bits)


def weighted_gradient_law(
    rows: Rows[tuple[int, int]], level: Fraction, adjacency: Adjacency
) -> Stated:
    """Return ``P(t)`` in proportion to ``exp(-score / (2 Delta))``, scores by weights over 4."""
    wanted = level * sum(w for _, w in rows)

    def odds(t: int) -> arb:
        under = sum(w for x, w in rows if x < t)
        through = sum(w for x, w in rows if x <= t)
        score = max(under - wanted, wanted - through, F(0)) / 4
        return decay(score / (2 * gradient_sensitivity(level, adjacency)))

    total = sum(map(odds, range(3)), arb(0))
    return Stated(lambda t: odds(t) / total, range(3))


@BOTH
@pytest.mark.parametrize("level", [F(1, 2), F(9, 10)], ids=str)
def test_weighted_quantiles_have_their_law_and_keep_epsilon(
    adjacency: Adjacency, level: Fraction
) -> None:
    sets = data_sets(WEIGHTED, most=2)
    law = partial(weighted_law, level=level, adjacency=adjacency, mechanism="kng")
    laws = each(sets, law)
    require_epsilon(laws, adjacency, F(1), used=0.25)
    for rows, bounds in laws.items():
        require_law(bounds, weighted_gradient_law(rows, level, adjacency))
    # negative control: weights that are not divided by the largest
    loss, _ = largest_loss(each(sets, partial(law, faster=4)), adjacency)
    assert loss > 1


@BOTH
def test_weighted_permute_and_flip_keeps_epsilon(adjacency: Adjacency) -> None:
    sets: list[Rows[tuple[int, int]]] = [((0, 4),), ((2, 4),), ((0, 4), (2, 4))]
    law = partial(
        weighted_law, level=F(1, 2), adjacency=adjacency, mechanism="exponential", epsilon=12
    )
    require_epsilon(each(sets, law), adjacency, F(12), used=0.25)
    loss, _ = largest_loss(each(sets, partial(law, faster=4)), adjacency)
    assert loss > 12


def joint_law(rows: Rows[int], *, rate: Fraction) -> Bounds:
    """Return the law of two quantiles on the grid 0, 1, 2, ties spread over two places."""
    grid, levels = grid_of(rows), [F(1, 3), F(2, 3)]
    return law_of(
        lambda r: joint_points(grid, levels=levels, rate=rate, randomness=r, bits=1),
        cutoff=2.0**-32,
    )


@pytest.mark.slow
@BOTH
@pytest.mark.wide
def test_two_quantiles_at_once_keep_epsilon(adjacency: Adjacency) -> None:
    # the places of a value hold two rows
    sets = [rows for rows in data_sets(most=3) if all(rows.count(x) < 3 for x in rows)]
    rate = 1 / (2 * joint_sensitivity((F(1, 3), F(2, 3)), adjacency))
    require_epsilon(each(sets, partial(joint_law, rate=rate)), adjacency, F(1), used=0.25)
    pair = [(0, 1), (1, 2)] if adjacency is Adjacency.REPLACE_ONE else [(0,), (0, 1)]
    loss, _ = largest_loss(each(pair, partial(joint_law, rate=5 * rate)), adjacency)
    assert loss > 1


COLUMNS = {
    "x": NumberColumn(F(0), F(2), kind="integer"),
    "kind": CategoryColumn(("low", "middle", "high")),
}
ABOVE = (Condition(column="x", op=">", value=1),)


def schema_of(adjacency: Adjacency, rows: Rows[int]) -> Schema:
    """Return the public facts of a data set."""
    public = adjacency is Adjacency.REPLACE_ONE
    return Schema(COLUMNS, adjacency, len(rows) if public else None, 4)


def data_of(rows: Rows[int]) -> ArrayData:
    """Return a data set of these values and the categories that go with them."""
    kinds = ("low", "middle", "high")
    schema = Schema(COLUMNS, Adjacency.REPLACE_ONE, len(rows), 4)
    return ArrayData.from_values(
        schema, {"x": list(rows), "kind": [kinds[value] for value in rows]}
    )


def plan_law(
    plan: Plan, rows: Rows[int], reading: Callable[[Mapping[str, object]], object], *, bits: int
) -> Bounds:
    """Return the law of what a request reads from a whole release."""
    data = data_of(rows)

    def draw(randomness: Randomness) -> object:
        return reading(plan.draw(data, randomness).value)

    return law_of(draw, cutoff=2.0**-bits)


@BOTH
def test_a_count_as_it_is_released_uses_all_of_epsilon(adjacency: Adjacency) -> None:
    def law(rows: Rows[int]) -> Bounds:
        schema = schema_of(adjacency, rows)
        plan = calibrate(Count(where=ABOVE), schema, Epsilon.parse("3"), mechanism="k_norm")
        return plan_law(plan, rows, lambda value: value["count"], bits=28)

    require_epsilon(each(SETS[1:], law), adjacency, F(3), used=0.999)


Table = tuple[int, ...]


def moved(walked: Bounds, tables: Mapping[Rows[int], Table], *, times: int = 1) -> Laws:
    """Return the laws of tables to which the same noise is added, so many times."""

    def added(table: Table, noise: Table) -> Table:
        return tuple(a + times * b for a, b in zip(table, noise, strict=True))

    return {rows: walked.mapped(partial(added, table)) for rows, table in tables.items()}


BALLS = {
    "draw_l1: two coordinates": (2, 0.999),
    "draw_linf: two coordinates": (1, 0.999),
    "draw_in_ball: a hexagon": (1, 0.999),
    "draw_in_ball: a disc": (2, 0.999),
    "draw_l2: two coordinates": (sqrt(2), 0.6),
}
"""Samplers of two coordinates: how far in their ball one row moves two counts, and the share of
epsilon that is seen. Of rounded l2 noise that is less near zero, and far out too little comes."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if "l2" in case.name else [])
        for case in CASES
        if case.name in BALLS
    ],
)
def test_the_noise_of_every_ball_uses_all_of_epsilon(case: Case) -> None:
    """Two counts: of the rows that are 1 or more, and of those that are 2."""
    moves, used = BALLS[case.name]
    epsilon = F(int(case.domain.rpartition(" ")[2]) * moves)
    tables = {rows: (sum(x > 0 for x in rows), rows.count(2)) for rows in SETS}
    walked = case.bounds()
    laws = moved(walked, tables)
    # must fail: counts that a row moves by two
    wrong = moved(walked, {rows: (2 * a, 2 * b) for rows, (a, b) in tables.items()})
    for adjacency in Adjacency:
        require_epsilon(laws, adjacency, epsilon, used=used)
        assert largest_loss(wrong, adjacency)[0] > float(epsilon)


@BOTH
@pytest.mark.parametrize("norm", ["l1", "optimal"])
def test_the_noise_of_a_histogram_uses_all_of_epsilon(adjacency: Adjacency, norm: str) -> None:
    """The noise is the same for every data set: walked once, and added to every table."""
    epsilon, sets = F(12), [rows for rows in SETS if rows]
    statistic = Histogram(columns=("kind",))

    def form_of(rows: Rows[int]) -> object:
        return statistic.additive(schema_of(adjacency, rows))

    tables = {rows: tuple(form_of(rows).total(data_of(rows))) for rows in sets}  # type: ignore[attr-defined]
    noise = integer_noise(form_of(sets[0]).space, norm, epsilon)  # type: ignore[attr-defined]
    assert noise.refinement == 1
    walked = law_of(lambda r: tuple(noise.draw(r)), cutoff=2.0**-30)
    require_epsilon(moved(walked, tables), adjacency, epsilon, used=0.999)
    # must fail: the noise of one cell's change where a replaced record changes two
    assert largest_loss(moved(walked, tables, times=2), adjacency)[0] > 12


@pytest.mark.slow
@BOTH
def test_a_stack_keeps_epsilon(adjacency: Adjacency) -> None:
    """The noise is the same for every data set; one of each size is walked to see to that."""
    statistic = Stack(
        parts=(Part(statistic=Count(where=ABOVE)), Part(statistic=Histogram(columns=("kind",))))
    )

    def law(rows: Rows[int]) -> Bounds:
        plan = calibrate(statistic, schema_of(adjacency, rows), Epsilon.parse("24"))
        return plan_law(plan, rows, _parts, bits=28)

    tables = {rows: (rows.count(2), *map(rows.count, range(3))) for rows in SETS if rows}
    first = tables[0,]
    noise = law((0,)).mapped(lambda v: tuple(a - b for a, b in zip(v, first, strict=True)))
    laws = moved(noise, tables)
    for rows in ((1, 2), (0, 1, 1), (0, 1, 2, 2)):
        walked = law(rows)
        assert walked.lower == laws[rows].lower
        assert walked.unresolved == laws[rows].unresolved
    require_epsilon(laws, adjacency, F(24), used=0.6)


def _parts(value: Mapping[str, object]) -> Table:
    count, table = value["parts"]  # type: ignore[misc]
    return count["count"], *(cell["count"] for cell in table["cells"])  # type: ignore[has-type]
