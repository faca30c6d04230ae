"""The worst neighbours of a plan as it is drawn: in groups, under conditions, of missing cells.

Whatever reduces one question to others (:mod:`mechanisms.filtered`, :mod:`mechanisms.grouped`,
:mod:`mechanisms.available`, :mod:`mechanisms.people`, :mod:`mechanisms.composition`), what is drawn
in the end are exact integer vectors with noise of a known law. Here the noise is zero and notes
what it is added to. So the search sees each vector that a plan releases, of tiny data sets and of
all their neighbours, and what their noises lose together: at most epsilon, and epsilon itself where
the sensitivity is exact. A record may lack any value, and may lose or gain one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest

from mechanisms import composition, grouped, people, single
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.domain import CategoryColumn, Column, NumberColumn, Schema
from mechanisms.functional import moments as functional_moments
from mechanisms.gaussian.noise import GaussianNoise
from mechanisms.geometry.smooth import BALLS
from mechanisms.knorm import IntegerNoise
from mechanisms.privacy import ONE_ROW, Adjacency, Epsilon, Protected
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import gaussian_rho
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.second_order import Layout
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.testing import seeded_randomness
from tests.enumeration.mutants import Mutant
from tests.mechanisms.offers import ADD, REPLACE
from tests.mechanisms.test_knorm_privacy import loss

F = Fraction
ONE = Epsilon.parse("1")
COLUMNS: Mapping[str, Column] = {
    "x": NumberColumn(F(-1), F(1)),
    "far": NumberColumn(F(5), F(10)),
    "yes": NumberColumn(F(0), F(1), boolean=True),
    "group": CategoryColumn(("a", "b", "c")),
    "w": NumberColumn(F(0), F(4)),
}
Row = Mapping[str, Any]
KINDS: Sequence[Row] = [
    {"x": x, "far": far, "yes": 1, "group": group, "w": 4}
    for x, far in ((-1, 5), (1, 10), (None, 10), (-1, None))
    for group in ("a", "b", None)
] + [{**dict.fromkeys(COLUMNS, 0), "far": 10, "group": "a"}, dict.fromkeys(COLUMNS)]
COMMON: Sequence[Row] = (KINDS[0], KINDS[-1])
SEVERAL = Protected(3, "one person, up to 3 rows")

BOTH = ("x", "far")
HERE = Condition(column="group", op="in", value=("a", "b"))
LACKS, HAS = (Condition(column="x", op=op) for op in ("missing", "present"))
IT = Condition(column="it", op="==", value=True)
OLD = Condition(column="far", op=">=", value=7)
ASKED: Sequence[Statistic] = [
    Count(where=(HERE,)),
    Count(where=(LACKS,)),
    Count(where=(HAS, Condition(column="far", op="missing"))),
    Count(derive={"it": "x is missing or far > 7"}, where=(IT,)),
    Count(by=("group",)),
    Count(by=("group",), missing="cell"),
    Count(by=("group", "yes"), missing="cell", where=(LACKS,)),
    Histogram(columns=("group",)),
    Histogram(columns=("group",), missing="cell"),
    Histogram(columns=("group",), missing="cell", where=(OLD,)),
    Histogram(columns=("x",), edges={"x": (-1, 0, 1)}),
    Histogram(columns=("yes",), by=("group",), missing="cell"),
    Sum(columns=("x",)),
    Sum(columns=("far",)),
    Sum(columns=BOTH),
    Sum(columns=BOTH, missing="available"),
    Sum(columns=("far",), weights="w"),
    Sum(columns=("far",), by=("group",)),
    Sum(columns=BOTH, missing="available", by=("group",), where=(HERE,)),
    Sum(columns=("yes", "far", "lacks"), missing="available", derive={"lacks": "x is missing"}),
    Mean(columns=("x",)),
    Mean(columns=("far",), where=(LACKS,)),
    Mean(columns=BOTH),
    Mean(columns=BOTH, missing="available"),
    Mean(columns=BOTH, missing="available", by=("group",)),
    Mean(columns=BOTH, missing="available", weights="w"),
    Mean(columns=("far",), by=("group",), missing="cell"),
    Mean(columns=("more", "x"), missing="available", derive={"more": "2 * far + 1"}),
    Mean(columns=("far",), by=(Bands(column="x", edges=(-1, 0, 1)),)),
    Variance(columns=("x",)),
    Variance(columns=BOTH, missing="available"),
    Std(columns=BOTH, missing="available", where=(HERE,)),
    Moments(columns=BOTH),
    Covariance(columns=BOTH),
    Correlation(columns=BOTH),
    LinearRegression(target="far", features=("x",)),
    LinearRegression(target="far", features=("x",), intercept=False),
    LinearRegression(target="far", features=("x",), weights="w"),
    LinearRegression(formula="far ~ x + group"),
    LinearRegression(formula="far ~ x * group"),
    LinearRegression(formula="far ~ group - 1"),
    LinearRegression(formula="far ~ x * yes", where=(HERE,)),
    LinearRegression(formula="far ~ x * group", weights="w"),
    Stack(
        parts=(
            Part(statistic=Mean(columns=BOTH, missing="available")),
            Part(statistic=Count(by=("group",), missing="cell")),
        )
    ),
]  # fmt: skip


class Zero(int):
    """A noise of nothing, which notes the number that it is added to."""

    seen: list[int]

    def __radd__(self, exact: int) -> int:
        self.seen.append(exact)
        return exact


Released = list[tuple[IntegerNoise | GaussianNoise, list[int]]]
"""Each vector that a draw releases, in steps of its noise's lattice, and that noise."""


class Search:
    """What plans add their noise to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._released: Released = []

        def draw(noise: IntegerNoise | GaussianNoise, _: Randomness) -> list[Zero]:
            seen: list[int] = []
            self._released.append((noise, seen))
            zeros = [Zero() for _ in range(noise.dimension)]
            for zero in zeros:
                zero.seen = seen
            return zeros

        for kind in (IntegerNoise, GaussianNoise):
            monkeypatch.setattr(kind, "draw", draw)

    def released(self, plan: Plan, rows: Sequence[Row]) -> Released:
        """What a draw from these rows releases."""
        schema = schema_of(ADD)
        values = {name: [row[name] for row in rows] for name in COLUMNS}
        self._released = []
        plan.draw(ArrayData.from_values(schema, values), seeded_randomness(1))
        assert all(len(seen) == noise.dimension for noise, seen in self._released)
        return self._released

    def worst(
        self, plan: Plan, adjacency: Adjacency, protects: Protected, common: Sequence[Row]
    ) -> float:
        """The largest loss of a plan between neighbours with one of these records in common."""
        found: dict[tuple[object, ...], float] = {}
        for same in common:
            sets = [self.released(plan, [same, *[kind] * protects.rows]) for kind in KINDS]
            pairs: Iterator[tuple[Released, Released]] = combinations(sets, 2)
            if adjacency is ADD:
                alone = self.released(plan, [same])
                pairs = ((each, alone) for each in sets)
            for here, there in pairs:
                moves = tuple(
                    tuple(more - less for more, less in zip(one, other, strict=True))
                    for (_, one), (_, other) in zip(here, there, strict=True)
                )
                if moves not in found:
                    noises = (noise for noise, _ in here)
                    losses = spent if plan.guarantee.is_pure else spent_in_zcdp
                    found[moves] = sum(map(losses, noises, moves))
        return max(found.values())


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Search:
    return Search(monkeypatch)


def spent_in_zcdp(noise: IntegerNoise | GaussianNoise, steps: Sequence[int]) -> float:
    """The rho that one vector costs that moves by so many lattice steps."""
    if isinstance(noise, GaussianNoise):
        return float(gaussian_rho(Fraction(sum(each * each for each in steps)), noise.variance))
    return spent(noise, steps) ** 2 / 2


def spent(noise: IntegerNoise | GaussianNoise, steps: Sequence[int]) -> float:
    """The loss of one vector that moves by so many lattice steps."""
    assert isinstance(noise, IntegerNoise), "the loss of Gaussian noise has no bound"
    assert not any(each % noise.refinement for each in steps)
    found = loss(noise, [each // noise.refinement for each in steps])
    is_squared = noise.ball == "l2" and noise.dimension > 1
    return math.sqrt(found) if is_squared else float(found)


def schema_of(adjacency: Adjacency, protects: Protected = ONE_ROW) -> Schema:
    rows = 2 if adjacency is REPLACE else None
    return Schema(COLUMNS, adjacency, rows, 10, protects=protects, optional=frozenset(COLUMNS))


def mechanism_of(statistic: Statistic) -> str:
    return "functional" if isinstance(statistic, LinearRegression) else "auto"


asked_of = pytest.mark.parametrize(
    "statistic", ASKED, ids=[f"{place}-{each.kind}" for place, each in enumerate(ASKED)]
)
neighbours = pytest.mark.parametrize(
    ("adjacency", "protects"),
    [
        pytest.param(REPLACE, ONE_ROW, id="replaced"),
        pytest.param(ADD, ONE_ROW, id="added"),
        pytest.param(ADD, SEVERAL, id="people", marks=pytest.mark.wide),
    ],
)


def planned(
    statistic: Statistic, adjacency: Adjacency, protects: Protected, norm: str = "auto"
) -> Plan:
    mechanism = "functional" if isinstance(statistic, LinearRegression) else "auto"
    facts = schema_of(adjacency, protects)
    return calibrate(statistic, facts, ONE, mechanism=mechanism, norm=norm)


@asked_of
@neighbours
def test_the_worst_neighbours_lose_epsilon_and_no_more(
    search: Search, statistic: Statistic, adjacency: Adjacency, protects: Protected
) -> None:
    plan = planned(statistic, adjacency, protects)
    worst = search.worst(plan, adjacency, protects, COMMON[:1])
    assert worst == pytest.approx(1, abs=1e-9)


@pytest.mark.wide
@asked_of
@neighbours
def test_by_no_norm_do_neighbours_lose_more(
    search: Search, statistic: Statistic, adjacency: Adjacency, protects: Protected
) -> None:
    plans = []
    for norm in ("auto", *BALLS, "optimal"):
        with suppress(InvalidStatisticError):  # not every question is asked by every norm
            plans.append(planned(statistic, adjacency, protects, norm))
    assert len(plans) >= (1 if isinstance(statistic, Stack) else 4)
    for plan in plans:
        assert 0.3 < search.worst(plan, adjacency, protects, COMMON) <= 1 + 1e-9


def gaussian_plan(statistic: Statistic, adjacency: Adjacency, protects: Protected) -> Plan:
    """The plan with Gaussian noise, in an account that has a delta."""
    facts = replace(schema_of(adjacency, protects), zcdp=True)
    mechanism = "gaussian" if "gaussian" in statistic.mechanisms else "auto"
    return calibrate(statistic, facts, ONE, mechanism=mechanism)


@asked_of
@neighbours
def test_the_worst_neighbours_cost_the_rho_that_is_charged_and_no_more(
    search: Search, statistic: Statistic, adjacency: Adjacency, protects: Protected
) -> None:
    """In groups of others than counts a replaced record costs half of what is charged."""
    plan = gaussian_plan(statistic, adjacency, protects)
    assert not plan.guarantee.is_pure
    charged = float(plan.guarantee.zcdp)
    worst = search.worst(plan, adjacency, protects, COMMON[:1])
    assert charged / 4 < worst <= charged * (1 + 1e-9)


AVAILABLE = Mean(columns=BOTH, missing="available")


@dataclass(frozen=True, slots=True)
class Control:
    """A piece of text of a function, what it becomes, and the plan that then loses too much."""

    of: object
    name: str
    right: str
    wrong: str
    statistic: Statistic
    adjacency: Adjacency
    protects: Protected = ONE_ROW


SHARES = "split(epsilon, [Fraction(len(names)) for names in columns])"
CONTROLS = {
    "each column's own records at the whole of epsilon": Control(
        single, "plan_by_column", SHARES, "[epsilon for _ in columns]", AVAILABLE, ADD
    ),
    "so in groups, one of them of those without a value": Control(
        single, "plan_by_column", SHARES, "[epsilon for _ in columns]",
        replace(AVAILABLE, by=("group",)), REPLACE,
    ),
    "sums that one record enters or leaves, and none is replaced": Control(
        Sum, "_contributed", "replace=replace) for", "replace=False) for",
        Sum(columns=BOTH, missing="available"), REPLACE,
    ),
    "means that one record enters or leaves, and none is replaced": Control(
        Mean, "additive", "any_change_space", "add_remove_space", AVAILABLE, REPLACE
    ),
    "squares that one record enters or leaves, and none is replaced": Control(
        Layout, "space", "self._any_change_space() if self.replaced else ", "",
        Variance(columns=BOTH, missing="available"), REPLACE,
    ),
    "cells between which records move, and none lacks a value": Control(
        Histogram, "additive", "filtered=schema.selected", "filtered=False",
        Histogram(columns=("group",)), REPLACE,
    ),
    "moments by cell of one record, and another takes its place": Control(
        functional_moments, "_joined", "size = 2 if", "size = 1 if",
        LinearRegression(formula="far ~ x * group"), REPLACE,
    ),
    "groups at the whole of epsilon": Control(
        grouped, "group_epsilon", "return half", "return epsilon",
        Mean(columns=("far",), by=("group",), missing="cell"), REPLACE,
    ),
    "people of several rows as of one": Control(
        people, "per_row", "part_of(epsilon, several)", "epsilon",
        AVAILABLE, ADD, SEVERAL,
    ),
    "parts of a stack at the whole of epsilon": Control(
        composition, "_plan", "split(epsilon, statistic.exact_shares())",
        "[epsilon for _ in statistic.parts]", ASKED[-1], ADD,
    ),
}  # fmt: skip


# in the l2 norm a record that moves from one cell to another is the worst with and without a filter
IN_L2 = {name: each for name, each in CONTROLS.items() if not isinstance(each.statistic, Histogram)}


@pytest.mark.parametrize("control", IN_L2.values(), ids=IN_L2)
def test_gaussian_noise_that_overlooks_a_change_is_found(
    search: Search, monkeypatch: pytest.MonkeyPatch, control: Control
) -> None:
    """The rho that is charged is that of the plan as it was."""
    charged = gaussian_plan(control.statistic, control.adjacency, control.protects)
    changed = Mutant(
        of=control.of, name=control.name, old=control.right, new=control.wrong, case=""
    )
    changed.plant(monkeypatch)
    plan = gaussian_plan(control.statistic, control.adjacency, control.protects)
    worst = search.worst(plan, control.adjacency, control.protects, COMMON[:1])
    assert worst > 1.2 * float(charged.guarantee.zcdp)


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
def test_a_plan_that_overlooks_a_change_is_found(
    search: Search, monkeypatch: pytest.MonkeyPatch, control: Control
) -> None:
    changed = Mutant(
        of=control.of, name=control.name, old=control.right, new=control.wrong, case=""
    )
    changed.plant(monkeypatch)
    plan = planned(control.statistic, control.adjacency, control.protects)
    assert search.worst(plan, control.adjacency, control.protects, COMMON[:1]) > 1.2
