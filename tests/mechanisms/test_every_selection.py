"""Every offer under a filter and in groups: the catalog's cases, each asked of a part of the rows.

What :mod:`mechanisms.filtered` and :mod:`mechanisms.grouped` reduce to is tried for each
statistic x mechanism x norm x adjacency of :mod:`tests.mechanisms.offers`, by generation. A draw
from a part of the rows is, bit for bit, the draw from a data set that holds no other rows; so a
filter is as private as the plan on those rows is, under every change a neighbour makes to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.analysis.summary import Summary
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.filtered import REDUCTIONS
from mechanisms.geometry.histograms import HistogramBall
from mechanisms.grouped import group_epsilon, group_facts
from mechanisms.knorm import integer_noise, offered_norms
from mechanisms.privacy import Epsilon, PrivacyLoss, split
from mechanisms.sketches import ArrayData
from mechanisms.statistics.additive import AdditiveForm, AdditiveStatistic
from mechanisms.statistics.cells.axes import Outside
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.curves.counts import ReadFromCounts
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.questions import Question
from mechanisms.statistics.stack import Stack
from mechanisms.statistics.total import Sum, centred_space
from mechanisms.statistics.variance import Variance
from mechanisms.testing import audit_epsilon, seeded_randomness
from tests.mechanisms.forms import form_of
from tests.mechanisms.offers import ADD, COLUMNS, REPLACE, Record, record
from tests.mechanisms.test_every_offer import (
    CASES,
    Case,
    events,
    every_offer,
    first_of_each,
    mirrors,
    offer_of,
    skeleton,
)
from tests.mechanisms.test_knorm_privacy import loss
from tests.tiers import in_one

HERE = Condition(column="group", op="in", value=("a", "b"))
BY_YES, BY_GROUP = ("yes",), ("group",)
EPSILON = Epsilon.parse("0.5")


def asked(statistic: Statistic, **fields: Any) -> Statistic:
    """The same question with these conditions, or in these groups; each part's of a stack."""
    if isinstance(statistic, Stack):
        parts = [replace(p, statistic=asked(p.statistic, **fields)) for p in statistic.parts]
        return replace(statistic, parts=tuple(parts))
    assert isinstance(statistic, Question)
    if "where" in fields:
        fields["where"] = (*statistic.where, *fields["where"])
    return replace(statistic, **fields)  # type: ignore[type-var]


def groups_of(statistic: Statistic) -> tuple[str, ...]:
    """A column that the question is not about."""
    if isinstance(statistic, Stack):
        return BY_YES
    known = "group" in getattr(statistic, "columns", ()) or getattr(statistic, "where", ())
    return BY_YES if known else BY_GROUP


def plan_of(case: Case, statistic: Statistic, schema: Schema) -> Plan:
    return calibrate(statistic, schema, EPSILON, mechanism=case.proof.mechanism, norm=case.norm)


def records(case: Case) -> list[Record]:
    """Records in every group, and of what the proof's pair holds."""
    return [
        {**each, "group": group, "yes": yes}
        for each, (group, yes) in zip(
            [*case.proof.common, *case.proof.changed] * 6, product("abc", (0, 1)), strict=False
        )
    ]


def in_groups(names: Sequence[str], value: Any) -> Any:
    """The shape of an answer in every group."""
    labels = {"group": "abc", "yes": ("false", "true")}[names[0]]
    return {"groups": [{"by": {names[0]: label}, "value": value} for label in labels]}


@every_offer
def test_a_filter_draws_from_the_rows_that_meet_it_alone(case: Case) -> None:
    """With the same bits: as from those rows. Under add-remove the plan is the same."""
    rows = records(case)
    schema = case.proof.schema(case.adjacency, len(rows))
    plan = plan_of(case, asked(case.proof.statistic, where=(HERE,)), schema)
    assert plan.guarantee.adjacency is case.adjacency
    assert plan.guarantee.epsilon == EPSILON
    whole, kept = case.proof.data(rows), case.proof.data([r for r in rows if r["group"] != "c"])
    outcome = plan.draw(whole, seeded_randomness(1))
    assert outcome == plan.draw(kept, seeded_randomness(1))
    assert skeleton(outcome.value) == case.proof.shape_under(ADD)
    if case.proof.noise:
        assert outcome.noise is not None
        mirrors(outcome.noise, outcome.value)
    if case.proof.mechanism == "composition":
        return
    assert plan.guarantee.reduction == REDUCTIONS[case.adjacency]
    if case.adjacency is ADD:
        bare = plan_of(case, case.proof.statistic, schema)
        assert plan.guarantee.sensitivity == bare.guarantee.sensitivity
        assert (plan.norm, plan.grid, plan.details) == (bare.norm, bare.grid, bare.details)


@every_offer
def test_a_filter_that_selects_nobody_answers_like_any_other(case: Case) -> None:
    """The plan is the same whoever meets it, and so is the answer's shape."""
    rows = [{**each, "group": "c"} for each in records(case)]
    schema = case.proof.schema(case.adjacency, len(rows))
    plan = plan_of(case, asked(case.proof.statistic, where=(HERE,)), schema)
    value = plan.draw(case.proof.data(rows), seeded_randomness(2)).value
    assert skeleton(value) == case.proof.shape_under(ADD)


@every_offer
def test_groups_are_drawn_one_by_one_and_empty_ones_too(case: Case) -> None:
    """With the same bits: as one plan drawn from each group's rows, at all or half of epsilon."""
    rows = [row for row in records(case) if row["group"] != "c"]
    schema = case.proof.schema(case.adjacency, len(rows))
    names = groups_of(case.proof.statistic)
    plan = plan_of(case, asked(case.proof.statistic, by=names), schema)
    assert plan.guarantee.adjacency is case.adjacency
    assert plan.guarantee.epsilon == EPSILON
    data = case.proof.data(rows)
    outcome = plan.draw(data, seeded_randomness(3))
    shape = case.proof.shape_under(ADD)
    if isinstance(case.proof.statistic, Summary):
        labels = {"group": "abc", "yes": ("false", "true")}[names[0]]
        assert skeleton(outcome.value)["rows"] == [
            {**row, "by": {names[0]: each}} for row in shape["rows"] for each in labels
        ]
        return
    if case.proof.mechanism == "composition":
        assert skeleton(outcome.value) == {"parts": [in_groups(names, s) for s in shape["parts"]]}
        return
    compared = case.proof.compared
    assert skeleton(outcome.value) == {**in_groups(names, shape), **compared}
    if case.proof.noise:
        assert outcome.noise is not None
        mirrors(outcome.noise, outcome.value)
        preview = plan.preview(40)
        assert preview is not None
        assert skeleton(preview.std) == in_groups(names, shape)
    if "epsilon_per_group" not in plan.details:
        # what is read off counts is read off those of all groups, whatever neighbours differ by
        if not isinstance(case.proof.statistic, ReadFromCounts):
            assert case.adjacency is REPLACE
            assert case.proof.statistic.kind in ("count", "histogram", "sum")
        return
    share: PrivacyLoss = EPSILON
    if case.adjacency is REPLACE:
        share = split(EPSILON, [Fraction(1), Fraction(1)])[0]
    private = replace(schema, adjacency=ADD, rows=None, max_rows=schema.row_bound)
    each = calibrate(
        case.proof.statistic, private, share, mechanism=case.proof.mechanism, norm=case.norm
    )
    randomness = seeded_randomness(3)
    for group in outcome.value["groups"]:
        own = [row for row in rows if label_of(row, names[0]) == group["by"][names[0]]]
        one = each.draw(case.proof.data(own), randomness).value
        if isinstance(case.proof.statistic, HypothesisTest):  # whose p-values are simulated apart
            assert case.proof.reading(group["value"]) == case.proof.reading(one)
        else:
            assert group["value"] == one
    costs = 1 if case.adjacency is ADD else 4
    assert plan.guarantee.zcdp == costs * each.guarantee.zcdp


def label_of(row: Record, name: str) -> str:
    return str(row[name]) if name == "group" else ("false", "true")[int(str(row[name]))]


@first_of_each(offer_of, [case for case in CASES if case.adjacency is REPLACE])
@pytest.mark.statistical
@pytest.mark.usefixtures("draws_share")
def test_a_filter_s_plan_covers_a_record_that_leaves(case: Case) -> None:
    """Black box: under replace-one the worst pair with a record removed loses at most epsilon too.

    That this pair and these events find violations is proved by ``test_every_offer``.
    """
    statistic = asked(case.proof.statistic, where=(HERE,))
    epsilon = Epsilon.parse(case.proof.epsilon)
    schema = case.proof.schema(REPLACE, 1 + len(case.proof.common))
    plan = calibrate(statistic, schema, epsilon, mechanism=case.proof.mechanism, norm=case.norm)
    drawn, draws = [], max(case.proof.draws // 3, 60)
    for seed, data in enumerate(case.proof.pair(ADD), start=1):
        randomness = seeded_randomness(seed)
        outcomes = [plan.draw(data, randomness).value for _ in range(draws)]
        drawn.append([case.proof.reading(value) for value in outcomes])
    found = audit_epsilon(*drawn, events(case.proof.cuts), pure=case.proof.is_pure)
    assert found.epsilon <= epsilon.fraction


# Exact losses over every neighbour of tiny data sets


TINY = {
    "x": NumberColumn(Fraction(-1), Fraction(1)),
    "far": NumberColumn(Fraction(5), Fraction(10)),
    "yes": NumberColumn(Fraction(0), Fraction(1), boolean=True),
    "group": CategoryColumn(("a", "b", "c")),
}
KINDS = [
    {"x": x, "far": far, "yes": 1, "group": group}
    for x, far in ((-1, 5), (1, 10), (0, 10))
    for group in ("a", "b", "c")
]
FILTERED: list[AdditiveStatistic] = [
    Count(where=(HERE,)),
    Histogram(columns=("group",), where=(HERE,)),
    Histogram(columns=("x",), edges={"x": (-1, 0, 1)}, where=(HERE,)),
    Sum(columns=("far",), where=(HERE,)),
    Sum(columns=("x", "far"), where=(HERE,)),
    Mean(columns=("x",), where=(HERE,)),
    Mean(columns=("x", "far"), where=(HERE,)),
    Variance(columns=("x",), where=(HERE,)),
    Moments(columns=("x", "far"), where=(HERE,)),
]


SMALL = Schema(TINY, REPLACE, 2)


def tiny(rows: Sequence[Mapping[str, object]]) -> ArrayData:
    schema = Schema(TINY, REPLACE, len(rows))
    return ArrayData.from_values(schema, {name: [r[name] for r in rows] for name in TINY})


def differences(
    form: AdditiveForm, schema: Schema = SMALL, *, zero: Sequence[float] = ()
) -> Iterator[list[int]]:
    """What changes between any two data sets of two records that differ in one of them."""
    kinds: list[Mapping[str, object]] = [*KINDS]
    if zero:  # a column that begins at nothing
        kinds = [{**kind, "zero": zero[kind["x"] == 1]} for kind in KINDS]

    def total(one: int, other: int) -> list[int]:
        rows = [kinds[one], kinds[other]]
        values = {name: [row[name] for row in rows] for name in schema.columns}
        return form.total(ArrayData.from_values(schema, values))

    places = range(len(kinds))
    totals = {pair: total(*pair) for pair in product(places, repeat=2)}
    for common, one, other in product(places, repeat=3):
        pair = zip(totals[common, one], totals[common, other], strict=True)
        yield [a - b for a, b in pair]


@pytest.mark.parametrize("statistic", FILTERED, ids=lambda each: f"{each.kind}")
def test_every_neighbour_of_a_filter_loses_at_most_epsilon(statistic: AdditiveStatistic) -> None:
    """Replaced, added and removed ones alike, for every norm; the bound is reached."""
    form = form_of(statistic, Schema(TINY, REPLACE, 2))
    moves = list(differences(form))
    for norm in offered_norms(form.space):
        noise = integer_noise(form.space, norm, Fraction(1))
        losses = [loss(noise, move) for move in moves]
        assert max(losses) <= 1
        if norm not in form.space.bounds_only:
            assert max(losses) > Fraction(9, 10)


def test_a_filter_planned_as_replace_one_only_is_caught() -> None:
    """A sum planned for replacements alone: a record that leaves moves it by twice as much."""
    statistic = Sum(columns=("far",), where=(HERE,))
    form = form_of(statistic, Schema(TINY, REPLACE, 2))
    answers = [form.answer([Fraction(move[0])]) for move in differences(form)]
    moved = max(abs(numbers["far"].value) for numbers in answers)  # type: ignore[index,union-attr]
    wrong = centred_space(1)
    width = wrong.linf * wrong.unit * TINY["far"].sum_step  # type: ignore[union-attr]
    assert moved == 2 * width
    cells = form_of(Histogram(columns=("group",), where=(HERE,)), Schema(TINY, REPLACE, 2))
    whole = HistogramBall(3, filtered=False)  # of replacements: the cells keep their sum
    assert not all(whole.contains(move, 1) for move in differences(cells))
    mean = form_of(Mean(columns=("x",), where=(HERE,)), Schema(TINY, REPLACE, 2))
    assert any(move[0] for move in differences(mean))  # a count that would have been published


def group_losses(statistic: Sum, epsilon: Fraction) -> Fraction:
    """The largest loss of all groups together, each drawn with this epsilon for one record."""
    schema = Schema(TINY, REPLACE, 2)
    facts = group_facts(schema)
    forms = [
        form_of(replace(statistic, where=(Condition(column="group", op="==", value=name),)), facts)
        for name in "abc"
    ]
    noise = integer_noise(forms[0].space, "l1", epsilon)
    moves = zip(*(list(differences(form)) for form in forms), strict=True)
    return max(sum(loss(noise, move) for move in of_all) for of_all in moves)


@pytest.mark.parametrize("column", ["x", "far"])
def test_every_neighbour_of_groups_loses_at_most_epsilon(column: str) -> None:
    """A record that moves loses all of epsilon; so groups at the whole of it are caught."""
    statistic = Sum(columns=(column,))
    share = group_epsilon(Schema(TINY, REPLACE, 2), Epsilon.parse("1")).fraction
    assert group_losses(statistic, share) == 1
    assert group_losses(statistic, Fraction(1)) == 2


def test_the_joint_counts_of_groups_cover_every_move() -> None:
    """At norm 1, where the groups' own counts would lose half of epsilon twice."""
    schema = Schema(TINY, REPLACE, 2)
    plan = calibrate(Count(by=("group",)), schema, Epsilon.parse("1"))
    assert plan.norm == "optimal"
    assert plan.guarantee.sensitivity == "1"
    joint = form_of(Histogram(columns=("group",)), schema)
    assert all(HistogramBall(3, filtered=False).contains(move, 1) for move in differences(joint))
    apart = calibrate(Count(by=("group",)), Schema(TINY, ADD, None, 2), Epsilon.parse("1"))
    alone = calibrate(Count(), Schema(TINY, ADD, None, 2), Epsilon.parse("1"))
    assert apart.guarantee.sensitivity == alone.guarantee.sensitivity


@pytest.mark.parametrize("where", [(), (HERE,)])
@pytest.mark.parametrize("column", ["zero", "far"])
def test_the_joint_sums_of_groups_cover_every_neighbour(
    column: str, where: tuple[Condition, ...]
) -> None:
    """In exact integers, for every norm; drawn apart they would lose half of epsilon twice."""
    schema = Schema({**TINY, "zero": NumberColumn(Fraction(0), Fraction(7))}, REPLACE, 2)
    statistic = Sum(columns=(column,), where=where, by=("group",))
    form = statistic.additive_in_groups(statistic.parting(schema), schema)
    if column == "far" and not where:  # a record always adds 5 at least: the hull is not known
        assert form is None
        return
    assert form is not None
    moves = list(differences(form, schema, zero=(0, 7)))
    for norm in offered_norms(form.space):
        noise = integer_noise(form.space, norm, Fraction(1))
        assert max(loss(noise, move) for move in moves) == 1
    plan = calibrate(statistic, schema, Epsilon.parse("1"))
    assert plan.norm == "optimal"
    apart = integer_noise(form.space, "l1", Fraction(1)).describe()
    drawn = integer_noise(form.space, "optimal", Fraction(1)).describe()
    assert drawn[0][0].std < 0.8 * apart[0][0].std


@pytest.mark.statistical
def test_groups_at_the_whole_epsilon_are_caught_by_the_auditor() -> None:
    """Black box, by the sums of two groups: the record in one of them moves to the other."""
    here = [{**KINDS[3], "group": "a"}] * 2
    there = [here[0], {**KINDS[3], "group": "b"}]
    found = []
    for epsilon in ("1", "2"):  # twice epsilon is the whole of it for every group
        plan = calibrate(
            Sum(columns=("x",), by=("group",)), Schema(TINY, REPLACE, 2), Epsilon.parse(epsilon)
        )
        drawn = []
        for seed, rows in enumerate((here, there)):
            data, randomness = tiny(rows), seeded_randomness(seed)
            tables = [plan.draw(data, randomness).value["groups"] for _ in range(1500)]
            sums = [(table[0]["value"]["x"], table[1]["value"]["x"]) for table in tables]
            drawn.append([min(one - 2, -other) for one, other in sums])
        found.append(audit_epsilon(*drawn, events((0.0, 0.5))).epsilon)
    assert found[0] <= 1 < found[1]


# What may be asked

FINE = tuple(i / 128 for i in range(128))
"""With one more on each side, and another column's, more groups than there may be."""


@in_one(
    ("fields", "place"),
    [
        ({"by": ("nobody",)}, "by[0]"),
        ({"by": ("group", "x")}, "by[1]"),
        ({"by": (Bands(column="group", edges=(0, 1)),)}, "by[0]"),
        ({"by": (Bands(column="x", edges=(0, 5)),)}, "by[0]"),
        ({"by": ("group", "group")}, "by"),
        ({"by": (Bands(column="x", edges=(-1, 1)),)}, "by"),
        ({"by": (*(Bands(column=name, edges=FINE) for name in "xy"),)}, "by"),
        ({"where": (HERE, Condition(column="x", op=">", value=9))}, "where[1]"),
    ],
)
def test_what_makes_no_groups_is_refused_with_its_place(
    fields: Mapping[str, Any], place: str
) -> None:
    for adjacency in (REPLACE, ADD):
        schema = Schema(COLUMNS, adjacency, 5 if adjacency is REPLACE else None, 5)
        with pytest.raises(InvalidStatisticError) as refusal:
            calibrate(asked(Mean(columns=("x",)), **fields), schema, EPSILON)
        assert refusal.value.field_name == place


def test_a_histogram_s_own_column_makes_no_groups() -> None:
    statistic = Histogram(columns=("group",), by=("group",))
    with pytest.raises(InvalidStatisticError, match="makes the groups"):
        calibrate(statistic, Schema(COLUMNS, REPLACE, 5), EPSILON)


@pytest.mark.parametrize("outside", ["cells", "drop"])
def test_groups_are_in_declared_order_and_values_outside_edges_are_told_apart(
    outside: Outside,
) -> None:
    """Two columns: the first one's groups change last. Filters and groups combine."""
    statistic = Sum(
        columns=("yes",),
        by=("group", Bands(column="x", edges=(-0.5, 0, 0.5), outside=outside)),
        where=(Condition(column="y", op=">=", value=0),),
    )
    rows = [
        record(x=-1, yes=1, group="b"),
        record(x=0, yes=1, group="b"),
        record(x=1, yes=1, group="b"),
        record(x=1, y=-1, yes=1, group="c"),
    ]
    data = ArrayData.from_values(
        Schema(COLUMNS, REPLACE, 4), {name: [r[name] for r in rows] for name in COLUMNS}
    )
    plan = calibrate(statistic, Schema(COLUMNS, REPLACE, 4), Epsilon.parse("10000"))
    table = plan.draw(data, seeded_randomness(1)).value["groups"]
    wanted = {
        "cells": ["< -0.5", "[-0.5,0)", "[0,0.5)", ">= 0.5"],
        "drop": ["[-0.5,0)", "[0,0.5]"],
    }
    labels = [{"group": g, "x": x} for g in "abc" for x in wanted[outside]]
    assert [row["by"] for row in table] == labels
    sums = [row["value"]["yes"] for row in table]
    of_b = {"cells": [1, 0, 1, 1], "drop": [0, 1]}[outside]
    none = [0] * len(of_b)
    assert sums == pytest.approx([*none, *of_b, *none], abs=0.01)


def test_what_a_filter_may_cost_is_public() -> None:
    """By rows, or their bound, and columns: not by who meets it."""
    for adjacency in (REPLACE, ADD):
        many = Schema(COLUMNS, adjacency, 10**6 if adjacency is REPLACE else None, 10**6)
        few = replace(many, rows=many.rows and 10, max_rows=10)
        asks = Mean(columns=("x",), where=(HERE,)), Mean(columns=("x",), by=BY_GROUP)
        for statistic in asks:
            slow, quick = (calibrate(statistic, s, EPSILON) for s in (many, few))
            assert 10 < slow.expected_ms < 500
            assert quick.expected_ms < 5
