"""Clipped sums and means: the law of the bounds, the loss of both stages, kinds of questions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from flint import arb

from mechanisms import knorm
from mechanisms.catalog import PlanChangedError, calibrate, read_plan, written_plan
from mechanisms.clipping import ClampedData, PrivateClip
from mechanisms.combined.squares import Atoms
from mechanisms.contract import Data, InvalidStatisticError, Plan, Statistic, with_drawn
from mechanisms.derivations import Released, derivable, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema, Typical
from mechanisms.estimates.asked import Asked
from mechanisms.estimates.assumptions import Assumptions, Spread
from mechanisms.estimates.errors import expected_error
from mechanisms.exact.floats import working_precision
from mechanisms.privacy import Adjacency, Epsilon, EpsilonShare, Protected
from mechanisms.samplers.intervals import GridCodes
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.facts.clipping import ClipBounds
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.std import Std
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from mechanisms.testing import audit_epsilon, seeded_randomness
from tests.enumeration.domains import Rows, data_sets, grid_of, largest_loss, neighbours
from tests.enumeration.laws import quantile as quantile_law
from tests.enumeration.walk import Bounds, law_of
from tests.tiers import in_one

F = Fraction
ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency), ids=str)
SIDES = ("lower", "upper")
PLACES = (1, 3, 2)
SETS = data_sets()

# 1. The law of a bound: enumerated, on all small data sets


@dataclass(frozen=True)
class _Small:
    """Candidates 0, 1 and 2 of 1, 3 and 2 places."""

    rows: Rows[int]

    def grid(self, _name: str, _data: Data) -> GridCodes:
        return grid_of(self.rows, places=PLACES)


def clip_at(each: Fraction, beyond: int) -> PrivateClip:
    return PrivateClip(
        whole=Epsilon.parse("1"), rest=F(3, 4), norm="auto", each=each, beyond=beyond
    )


def bound_law(rows: Rows[int], *, side: str, each: Fraction, beyond: int) -> Bounds:
    clip, small, nothing = clip_at(each, beyond), _Small(rows), ArrayData.__new__(ArrayData)
    return law_of(
        lambda r: clip._point(small, "x", side, nothing, r),  # type: ignore[arg-type]
        cutoff=2.0**-40,
    )


@BOTH
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("beyond", [1, 2, 6])
def test_a_bound_keeps_epsilon(adjacency: Adjacency, side: str, beyond: int) -> None:
    law = partial(bound_law, side=side, beyond=beyond)
    loss, pair = largest_loss({rows: law(rows, each=F(1)) for rows in SETS}, adjacency)
    assert loss <= 1 + 1e-12, pair
    assert beyond > 2 or loss > 0.4, "the pair shows nothing"
    if beyond == 1:
        loss, _ = largest_loss({rows: law(rows, each=F(3)) for rows in SETS}, adjacency)
        assert loss > 1, "three times the rate is not caught"


@pytest.mark.parametrize("side", SIDES)
def test_about_so_many_records_are_beyond_a_bound(side: str) -> None:
    """The law is that of the score in the docstring, row by row."""
    for rows, beyond in product(((0, 1, 1, 2), (0, 2, 2, 2), (1,)), (1, 2)):
        n = len(rows)
        wanted = max(F(n - beyond), F(1, 2)) if side == "upper" else min(F(beyond), n - F(1, 2))
        found = bound_law(rows, side=side, each=F(1), beyond=beyond)
        with working_precision(128):
            stated = quantile_law(rows, wanted / n, F(1, 2), range(3), PLACES)
            for point, low in found.lower.items():
                assert abs(stated.at(point) - arb(low.numerator) / low.denominator) < 1e-9


# 2. Both stages: their closed-form loss on all small data sets


def small_schema(adjacency: Adjacency, rows: int) -> Schema:
    column = NumberColumn(F(0), F(2), kind="integer")
    known = rows if adjacency is REPLACE else None
    return Schema({"x": column}, adjacency, known, max_rows=4)


def second_loss(
    statistic: Statistic,
    pair: tuple[Rows[int], Rows[int]],
    adjacency: Adjacency,
    bounds: tuple[int, int],
    epsilon: Fraction,
    *,
    clamps: bool = True,
) -> float:
    """Return how much the second stage may lose: epsilon times the move over Delta."""
    schema = small_schema(adjacency, len(pair[0]))
    columns = {"x": replace(schema.columns["x"], lower=F(bounds[0]), upper=F(bounds[1]))}
    form = statistic.additive(replace(schema, columns=columns))  # type: ignore[attr-defined]
    totals = []
    for rows in pair:
        data: Data = ArrayData.from_values(schema, {"x": np.array(rows, float)})
        if not clamps:  # a control that sums what it has not clamped
            low, high = bounds
            totals.append([(2 * sum(rows) - (low + high) * len(rows)) * 2**34])
            continue
        totals.append(form.total(ClampedData(data, columns)))  # type: ignore[arg-type]
    move = max(abs(a - b) for a, b in zip(*totals, strict=True))
    # one coordinate, or a cube: the largest entry is the norm
    return float(epsilon * move / (form.space.linf * form.space.unit))


@BOTH
@pytest.mark.parametrize("kind", [Mean, Sum])
def test_bounds_and_answer_together_keep_epsilon(adjacency: Adjacency, kind: Any) -> None:
    """The largest log ratio over all bounds (a, b) and all answers, worst neighbours and all."""
    first, second = F(1, 4), F(3, 4)
    upper = {r: bound_law(r, side="upper", each=first, beyond=1) for r in SETS}
    question, worst = kind(columns=("x",)), 0.0
    for pair in neighbours(SETS, adjacency):
        if adjacency is REPLACE and not pair[0]:
            continue
        for b in (1, 2):
            here, there = (upper[rows].lower.get(b, F(0)) for rows in pair)
            drawn = abs(float(arb(here.numerator) / here.denominator).real)
            other = abs(float(arb(there.numerator) / there.denominator).real)
            loss = np.log(drawn / other) + second_loss(question, pair, adjacency, (0, b), second)
            worst = max(worst, loss)
    assert 0.8 < worst <= 1 + 1e-9


def test_a_sum_of_values_that_are_not_clamped_is_caught() -> None:
    pair = ((0, 0), (0, 2))
    given = (Mean(columns=("x",)), pair, REPLACE, (0, 1), F(1))
    assert second_loss(*given) <= 1
    assert second_loss(*given, clamps=False) > 1.9


@pytest.mark.statistical
@BOTH
def test_the_audit_passes_ours_and_flags_sixteen_times_the_rate(adjacency: Adjacency) -> None:
    """Black box: a record that moves the bound and the sum at once."""
    common = [50.0] * 5
    pair = [[*common, 0.0], [*common, 1e5]] if adjacency is REPLACE else [common, [*common, 1e5]]
    bounds = []
    for epsilon in ("1", "16"):
        drawn = []
        for seed, values in enumerate(pair, start=1):
            known = len(values) if adjacency is REPLACE else None
            schema = Schema({"x": WIDE}, adjacency, known, max_rows=6)
            plan = calibrate(Sum(columns=("x",), clip="private"), schema, Epsilon.parse(epsilon))
            clip = replace(plan.parameters.viewed, beyond=1)  # type: ignore[attr-defined]
            draw = clip.drawing(plan.statistic, schema).draw
            data = ArrayData.from_values(schema, {"x": np.array(values)})
            randomness = seeded_randomness(seed)
            drawn.append([draw(data, randomness).value["x"] for _ in range(200)])
        events = {f"below {cut}": partial(_below, cut) for cut in (6.0, 275.0, 400.0)}
        bounds.append(audit_epsilon(*drawn, events).epsilon)
    assert bounds[0] <= 1
    assert bounds[1] > 1


def _below(cut: float, value: Any) -> bool:
    return bool(value < cut)


# 3. Errors


WIDE = NumberColumn(F(0), F(10**7), kind="integer")
INCOMES = np.rint(np.random.default_rng(4).lognormal(10.3, 0.9, 2000))
GROUPS = CategoryColumn(("a", "b"))


def schema_of(adjacency: Adjacency, rows: int, **columns: NumberColumn) -> Schema:
    known = rows if adjacency is REPLACE else None
    made = {"x": WIDE, "g": GROUPS, **columns}
    return Schema(made, adjacency, known, max_rows=None if adjacency is REPLACE else rows)


def data_of(schema: Schema, **more: Any) -> ArrayData:
    rows = {"x": INCOMES, "g": ["ab"[row % 2] for row in range(len(INCOMES))], **more}
    return ArrayData.from_values(schema, rows)


def planned(statistic: Statistic, schema: Schema, epsilon: str = "1") -> Plan:
    """Return a plan that was written and read, as those that are charged are."""
    plan = calibrate(statistic, schema, Epsilon.parse(epsilon))
    return read_plan(json.loads(json.dumps(written_plan(plan))), statistic, schema)


def mean_error(plan: Plan, data: Data, true: float, draws: int = 20) -> float:
    found: list[Any] = [plan.draw(data, seeded_randomness(k)).value["x"] for k in range(draws)]
    return float(np.abs(np.array(found) - true).mean() / true)


@BOTH
@pytest.mark.parametrize(
    ("kind", "true", "times"),
    [
        (Mean, INCOMES.mean(), 2.5),
        (Sum, INCOMES.sum(), 2.5),
        (Std, INCOMES.std(), 5),
        (Variance, INCOMES.var(), 5),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_clipping_errs_less_under_wide_bounds(
    adjacency: Adjacency, kind: Any, true: float, times: float
) -> None:
    schema = schema_of(adjacency, len(INCOMES))
    data = data_of(schema)
    none, private, stated = (
        mean_error(planned(kind(columns=("x",), clip=clip), schema), data, true)
        for clip in ("none", "private", ClipBounds(lower=0, upper=400_000))
    )
    assert times * private < none
    assert times * stated < none


@BOTH
def test_the_answer_has_the_bounds_and_what_they_cost(adjacency: Adjacency) -> None:
    schema = schema_of(adjacency, len(INCOMES))
    plan = planned(Mean(columns=("x",), clip="private"), schema)
    clip: Any = plan.details["clip"]
    assert (clip["method"], clip["share"], clip["epsilon"]) == ("private", "0.5", "0.5")
    assert (clip["records_beyond"], clip["ends"]) == (40, ["x upper"])
    assert "misses what lies beyond" in clip["warning"]
    assert plan.guarantee.epsilon == Epsilon.parse("1")
    assert plan.guarantee.zcdp == F(1, 4) / 8 + F(1, 4) / 2
    assert plan.preview(1000) is None
    outcome = plan.draw(data_of(schema), seeded_randomness(3)).settled()
    unread = calibrate(plan.statistic, schema, Epsilon.parse("1"))
    assert unread.draw(data_of(schema), seeded_randomness(3)).settled() == outcome
    drawn: Any = with_drawn(plan.details, outcome.facts)["clip"]
    assert drawn["bounds"]["x"]["lower"] == 0
    assert 60_000 < drawn["bounds"]["x"]["upper"] < 500_000
    assert drawn["share"] == "0.5"
    # the law of the noise is that of a column with these bounds
    columns = {**schema.columns, "x": replace(WIDE, upper=F(drawn["bounds"]["x"]["upper"]))}
    narrow = replace(schema, columns=columns)
    rest = EpsilonShare(Epsilon.parse("1"), F(1, 2))
    same = knorm.calibrate(Mean(columns=("x",)), narrow, rest, "auto")
    assert outcome.noise is not None
    if adjacency is REPLACE:
        assert outcome.noise.std == same.preview(None).std  # type: ignore[union-attr]


def test_the_answer_depends_on_the_clamped_values_alone() -> None:
    """At a large epsilon the mean is that of clamped values, and weights count them as given."""
    weights = NumberColumn(F(0), F(4))
    schema = schema_of(REPLACE, len(INCOMES), w=weights)
    given = np.arange(len(INCOMES)) % 3 + 1.0
    data = data_of(schema, w=given)
    clip = ClipBounds(lower=10_000, upper=60_000)
    clamped = np.clip(INCOMES, 10_000, 60_000)
    plain = planned(Mean(columns=("x",), clip=clip), schema, "1000")
    assert mean_error(plain, data, clamped.mean(), 3) < 1e-3
    weighted = planned(Mean(columns=("x",), weights="w", clip=clip), schema, "1000")
    assert mean_error(weighted, data, float(np.average(clamped, weights=given)), 3) < 1e-3
    private = planned(Mean(columns=("x",), weights="w", clip="private"), schema, "1000")
    assert mean_error(private, data, float(np.average(INCOMES, weights=given)), 3) < 1e-2


# 4. Kinds of questions


@BOTH
@pytest.mark.parametrize("kind", [Mean, Sum, Std, Variance])
def test_groups_conditions_and_people_of_several_rows(adjacency: Adjacency, kind: Any) -> None:
    schema = schema_of(adjacency, len(INCOMES))
    data, asked = data_of(schema), kind(columns=("x",), clip="private")
    grouped = planned(replace(asked, by=("g",)), schema)
    outcome = grouped.draw(data, seeded_randomness(1)).settled()
    details: Any = with_drawn(grouped.details, outcome.facts)
    assert [each["by"]["g"] for each in details["clip"]["groups"]] == ["a", "b"]
    assert all(0 < each["bounds"]["x"]["upper"] < 10**6 for each in details["clip"]["groups"])
    assert grouped.guarantee.epsilon == Epsilon.parse("1")
    low = (Condition(column="x", op="<", value=50_000),)
    filtered = planned(replace(asked, where=low), schema)
    found: Any = filtered.draw(data, seeded_randomness(1)).facts
    assert found["clip"]["bounds"]["x"]["upper"] <= 60_000
    if adjacency is ADD:
        several = replace(schema, protects=Protected(rows=3, words="a person"))
        plan, one = planned(asked, several, "3"), planned(asked, schema, "1")
        drawn = (each.draw(data, seeded_randomness(2)).settled() for each in (plan, one))
        assert len({repr(each) for each in drawn}) == 1
        assert plan.guarantee.zcdp == 9 * one.guarantee.zcdp


def test_several_columns_share_and_both_ends_are_drawn() -> None:
    signed = NumberColumn(F(-(10**6)), F(10**6))
    schema = schema_of(REPLACE, len(INCOMES), y=signed)
    normal = np.random.default_rng(1).normal(5, 2, len(INCOMES))
    plan = planned(Mean(columns=("x", "y"), clip="private"), schema)
    clip: Any = plan.details["clip"]
    assert clip["ends"] == ["x upper", "y lower", "y upper"]
    assert clip["records_beyond"] == 120
    found: Any = plan.draw(data_of(schema, y=normal), seeded_randomness(1)).facts
    bounds = found["clip"]["bounds"]
    assert bounds["y"]["lower"] < 5 < bounds["y"]["upper"] < 100


def test_dates_have_bounds_as_dates() -> None:
    born = NumberColumn(F(-30_000), F(20_000), kind="date")
    schema = schema_of(REPLACE, len(INCOMES), born=born)
    with pytest.raises(InvalidStatisticError, match="state bounds from public knowledge"):
        planned(Mean(columns=("born",), clip="private"), schema)
    stated = Mean(columns=("born",), clip=ClipBounds(lower="1970-02-01", upper="1971-01-01"))
    clip: Any = planned(stated, schema).details["clip"]
    assert clip["bounds"]["born"] == {"lower": "1970-02-01", "upper": "1971-01-01"}


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_record_is_drawn_like_others(rows: int) -> None:
    for column in (WIDE, NumberColumn(F(-1), F(1))):
        schema = Schema({"x": column}, ADD, None, max_rows=10)
        data = ArrayData.from_values(schema, {"x": np.zeros(rows)})
        for seed in range(3):
            question = Sum(columns=("x",), clip="private")
            drawn: Any = planned(question, schema, "0.1").draw(data, seeded_randomness(seed))
            ends = drawn.facts["clip"]["bounds"]["x"]
            assert float(column.lower) <= ends["lower"] < ends["upper"] <= float(column.upper)


def test_equal_bounds_are_moved_apart() -> None:
    schema = Schema({"x": NumberColumn(F(-4), F(4), kind="integer")}, REPLACE, 2000)
    data = ArrayData.from_values(schema, {"x": np.full(2000, 4.0)})
    plan = planned(Mean(columns=("x",), clip="private"), schema, "100")
    drawn: Any = plan.draw(data, seeded_randomness(1))
    assert drawn.facts["clip"]["bounds"]["x"] == {"lower": 3, "upper": 4}
    assert drawn.value["x"] == pytest.approx(4, abs=0.01)


def test_stacks_have_the_bounds_in_their_parts() -> None:
    schema = schema_of(REPLACE, len(INCOMES))
    clipped = Mean(columns=("x",), clip="private")
    stack = Stack(parts=(Part(statistic=clipped), Part(statistic=Sum(columns=("x",)))))
    plan = planned(stack, schema)
    details: Any = with_drawn(plan.details, plan.draw(data_of(schema), seeded_randomness(1)).facts)
    first, second = (each["details"] for each in details["parts"])
    assert first["clip"]["bounds"]["x"]["upper"] < 10**6
    assert "clip" not in second


def test_columns_by_their_own_records_have_bounds_of_their_own() -> None:
    schema = replace(schema_of(REPLACE, len(INCOMES), y=WIDE), optional=frozenset({"y"}))
    halves = [None if row % 2 else float(value) for row, value in enumerate(INCOMES)]
    question = Mean(columns=("x", "y"), clip="private", missing="available")
    plan = planned(question, schema)
    data = data_of(schema, y=halves)
    details: Any = with_drawn(plan.details, plan.draw(data, seeded_randomness(1)).facts)
    names = [[*each["details"]["clip"]["bounds"]] for each in details["parts"]]
    assert names == [["x"], ["y"]]


# 5. Refusals and advice


@in_one(
    ("clip", "columns", "said"),
    [
        ("private", ("flag",), "0 or 1"),
        (ClipBounds(lower=0, upper=5), ("x", "y"), "of one column"),
        (ClipBounds(lower=5, upper=5), ("x",), "lower must be below upper"),
        (ClipBounds(lower=-1, upper=5), ("x",), "within the column's bounds, 0 to 10000000"),
        (ClipBounds(lower=0, upper=5.5), ("x",), "a whole number"),
        (ClipBounds(lower="0", upper=5), ("x",), "a value of the column"),
        (ClipBounds(lower=0, upper=float("inf")), ("y",), "a value of the column"),
    ],
)
@in_one("kind", [Mean, Sum, Std, Variance])
def test_clipping_that_does_not_fit_is_refused(
    kind: Any, clip: Any, columns: Sequence[str], said: str
) -> None:
    flag = NumberColumn(F(0), F(1), boolean=True)
    schema = schema_of(REPLACE, 10, flag=flag, y=NumberColumn(F(0), F(10)))
    with pytest.raises(InvalidStatisticError, match=said) as refused:
        calibrate(kind(columns=columns, clip=clip), schema, Epsilon.parse("1"))
    assert refused.value.field_name == "clip"


def test_no_answer_follows_from_a_clipped_one_or_is_combined_with_it() -> None:
    schema = schema_of(REPLACE, len(INCOMES))
    for own, wanted in (
        (Mean(columns=("x",), clip="private"), Sum(columns=("x",))),
        (Sum(columns=("x",)), Mean(columns=("x",), clip="private")),
    ):
        plan = planned(own, schema)
        outcome = plan.draw(data_of(schema), seeded_randomness(1)).settled()
        released = Released(
            statistic=own,
            mechanism=plan.mechanism,
            norm=plan.norm,
            epsilon=Epsilon.parse("1"),
            value=outcome.value,
            noise=outcome.noise,
            details=plan.details,
        )
        with pytest.raises(InvalidStatisticError, match="does not determine"):
            derive(wanted, released, schema)
        assert (derivable(released, schema) == "") == (own.clip != "none")
    with pytest.raises(InvalidStatisticError, match="not combined"):
        Atoms.of([Mean(columns=("x",), clip="private")], schema)


def test_parameters_of_another_question_are_refused() -> None:
    schema = schema_of(REPLACE, 10)
    kept = written_plan(calibrate(Mean(columns=("x",), clip="private"), schema, Epsilon.parse("1")))
    with pytest.raises(PlanChangedError):
        read_plan(json.loads(json.dumps(kept)), Mean(columns=("x",)), schema)


@pytest.mark.parametrize(("std", "advised"), [(50_000, True), (200_000, False)])
def test_clipping_is_advised_where_bounds_are_a_hundred_times_as_wide(
    std: int, advised: bool
) -> None:
    typical = replace(WIDE, typical=Typical(F(40_000), F(std)))
    schema = schema_of(REPLACE, 10, x=typical, y=WIDE)
    plan = calibrate(Mean(columns=("x", "y")), schema, Epsilon.parse("1"))
    warnings: Any = plan.details.get("warnings", [])
    assert [each.startswith("The bounds of x are 200 times") for each in warnings] == [
        True
    ] * advised
    clipped = calibrate(Mean(columns=("x",), clip="private"), schema, Epsilon.parse("1"))
    assert "warnings" not in clipped.details


def test_expected_errors_are_simulated_and_have_the_bias() -> None:
    schema = schema_of(REPLACE, 4000)
    spread: Mapping[str, Spread] = {"x": Spread(mean=40_000, std=30_000)}
    assumed = Assumptions(population=tuple(spread.items()))
    errors = []
    for clip in ("none", "private", ClipBounds(lower=0, upper=20_000)):
        question = Mean(columns=("x",), clip=clip)
        one = Epsilon.parse("1")
        asked = Asked(statistic=question, schema=schema, epsilon=one, mechanism="auto", norm="auto")
        found = expected_error(asked, asked.plan(), assumed)
        assert found.estimate == ("closed form" if clip == "none" else "simulated")
        errors.append(found.mean["x"])  # type: ignore[index]
    none, private, stated = errors
    assert private < none / 3
    assert stated > 15_000  # half of the values are above, by as much on average


def test_expected_errors_depend_on_values_of_which_nothing_is_stated() -> None:
    """So there is a range: of values all over the bounds, and of values that are close together."""
    question = Mean(columns=("x",), clip="private")
    asked = Asked(
        statistic=question,
        schema=schema_of(REPLACE, 4000),
        epsilon=Epsilon.parse("1"),
        mechanism="auto",
        norm="auto",
    )
    found: Any = expected_error(asked, asked.plan(), Assumptions())
    assert found.low["x"] < found.high["x"] / 2


def test_clamped_data_read_as_others_do() -> None:
    schema = schema_of(REPLACE, len(INCOMES), y=WIDE)
    inner = data_of(schema, y=INCOMES)
    column = replace(WIDE, upper=F(1000))
    data = ClampedData(inner, {"x": column})
    assert data.rows == len(INCOMES)
    assert (data.category_counts("g") == inner.category_counts("g")).all()
    assert all((a == b).all() for a, b in zip(data.ordered("y"), inner.ordered("y"), strict=True))
    codes = np.concatenate([block["x"] for block in data.blocks(["x", "y"])])
    assert (codes == column.encode(np.clip(INCOMES, 0, 1000))).all()
    assert data.gram(["y"]) == inner.gram(["y"])
