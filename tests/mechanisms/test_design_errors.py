"""Standard errors by the design: sensitivities, formulas, the noise that is taken off, coverage."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.linalg import hadamard

from mechanisms.catalog import calibrate, read_plan, written_plan
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import CategoryColumn, Column, Design, NumberColumn, Schema
from mechanisms.inference.bought import NOT_FOR_SEVERAL
from mechanisms.inference.design import MOST_SUMS, aims_of, sums_of
from mechanisms.privacy import PURE, ZCDP, Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.cells.parting import Bands
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.questions import weighed
from mechanisms.statistics.stack import Part, Stack
from mechanisms.statistics.total import Sum
from mechanisms.statistics.weights import UNWEIGHTED
from mechanisms.testing import seeded_randomness

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = (REPLACE, ADD)
SHARE = Fraction(1, 2)
HUGE = "10000"
MEAN, SUM, COUNT = (
    Mean(columns=("x",), weights="w"),
    Sum(columns=("x",), weights="w"),
    Count(weights="w"),
)
ASKED: list[Any] = [MEAN, SUM, COUNT]
KINDS = [each.kind for each in ASKED]


def columns(replicates: int, strata: int) -> dict[str, Column]:
    return {
        "x": NumberColumn(Fraction(0), Fraction(100)),
        "y": NumberColumn(Fraction(-5), Fraction(5)),
        "w": NumberColumn(Fraction(0), Fraction(4)),
        "h": CategoryColumn(tuple(f"s{place}" for place in range(strata))),
        **{f"r{q}": NumberColumn(Fraction(0), Fraction(8)) for q in range(replicates)},
    }


def schema_of(
    adjacency: Adjacency, rows: int, replicates: int = 0, strata: int = 1, **facts: Any
) -> Schema:
    names = tuple(f"r{q}" for q in range(replicates))
    design = Design(weight="w", strata="h" if strata > 1 else None, replicates=names)
    known = rows if adjacency is REPLACE else None
    return Schema(columns(replicates, strata), adjacency, known, 2 * rows, design=design, **facts)


def data_of(schema: Schema, values: dict[str, Any]) -> ArrayData:
    rows = len(values["w"])
    values = {name: each for name, each in values.items() if name in schema.columns}
    whole = replace(schema, adjacency=REPLACE, rows=rows)
    missing = {name: [0.0] * rows for name in schema.columns.keys() - values.keys()}
    if "h" in missing:
        missing["h"] = ["s0"] * rows  # type: ignore[list-item]
    return ArrayData.from_values(
        whole, {name: list(each) for name, each in (values | missing).items()}
    )


# How far one record moves the sums

EXTREMES = {"x": (0.0, 100.0), "y": (-5.0, 5.0), "w": (0.0, 4.0)}


def record_of(place: tuple[int, ...], replicates: int, strata: int) -> dict[str, Any]:
    """A record at a corner: x, y, w, the stratum, and each replicate's weight."""
    x, y, w, h, *own = place
    return {
        "x": EXTREMES["x"][x],
        "y": EXTREMES["y"][y],
        "w": EXTREMES["w"][w],
        "h": f"s{h % strata}",
        **{f"r{q}": 8.0 * bit for q, bit in enumerate(own[:replicates])},
    }


def differences(sums: Any, schema: Schema, replicates: int, strata: int) -> Any:
    """What corners of the domain add to the sums, in scaled units."""
    found = []
    for place in product((0, 1), repeat=4 + replicates):
        record = record_of(place, replicates, strata)
        data = data_of(schema, {name: [value] for name, value in record.items()})
        found.append(np.array(sums.total(data), dtype=float) / sums.space.unit)
    return np.array(found)


def norms(vectors: Any) -> tuple[float, float, float]:
    sizes = np.abs(vectors)
    return sizes.sum(-1).max(), sizes.max(), (sizes**2).sum(-1).max()


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(("replicates", "strata"), [(2, 1), (3, 1), (4, 1), (0, 2)])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("asked", ASKED, ids=KINDS)
def test_no_record_moves_the_sums_by_more_than_is_charged(
    asked: Any, two: bool, replicates: int, strata: int, adjacency: Adjacency
) -> None:
    """Searched over the corners of the domain, where the norms of convex sums are largest."""
    if two:
        if asked is COUNT:
            pytest.skip("a count has no columns")
        asked = replace(asked, columns=("x", "y"))
    schema = schema_of(adjacency, 10, replicates, strata)
    sums = sums_of(asked, schema)
    alone = differences(sums, schema, replicates, strata)
    moved = alone if adjacency is ADD else (alone[:, None] - alone[None]).reshape(-1, len(alone[0]))
    l1, linf, l2 = norms(moved)
    space = sums.space
    assert l1 <= space.l1 * (1 + 1e-9)
    assert linf <= space.linf * (1 + 1e-9)
    assert l2 <= space.l2_squared * (1 + 1e-9)
    # half of what is charged would not do: the bounds are nearly reached
    assert l1 > 0.5 * space.l1
    assert linf > 0.5 * space.linf
    assert l2 > 0.5 * space.l2_squared


@pytest.mark.parametrize(("replicates", "strata"), [(4, 1), (0, 3)])
@pytest.mark.parametrize("asked", ASKED, ids=KINDS)
def test_records_inside_the_domain_stay_within_it_too(
    asked: Any, replicates: int, strata: int
) -> None:
    rng = np.random.default_rng(7)
    schema = schema_of(REPLACE, 10, replicates, strata)
    sums = sums_of(asked, schema)
    found = []
    for _ in range(60):
        values = {
            "x": [rng.uniform(0, 100)],
            "w": [rng.uniform(0, 4)],
            "h": [f"s{rng.integers(strata)}"],
            **{f"r{q}": [rng.uniform(0, 8)] for q in range(replicates)},
        }
        found.append(np.array(sums.total(data_of(schema, values)), dtype=float) / sums.space.unit)
    vectors = np.array(found)
    l1, linf, l2 = norms((vectors[:, None] - vectors[None]).reshape(-1, len(vectors[0])))
    assert l1 <= sums.space.l1
    assert linf <= sums.space.linf
    assert l2 <= sums.space.l2_squared


# The formulas

STRATA, REPLICATES = 8, 16
SIGNS = hadamard(REPLICATES)


def sample(rng: np.random.Generator, per: int, spread: float) -> dict[str, Any]:
    """Two clusters in each stratum, with an effect of their own; weights by stratum."""
    cluster, stratum = (each.ravel() for each in np.meshgrid([0, 1], np.arange(STRATA)))
    effect = rng.normal(0, spread, len(cluster)) if spread else np.zeros(len(cluster))
    places = np.repeat(np.arange(len(cluster)), per)
    x = 25 + 6 * stratum[places] + effect[places] + rng.normal(0, 8, len(places))
    weight = (1 + stratum[places] / 4) * (1 + cluster[places] / 5)
    halves = (SIGNS[:, 1 + stratum[places]] > 0) == (cluster[places] == 0)
    return {
        "x": np.clip(x, 0, 100),
        "y": np.zeros(len(places)),
        "w": weight,
        "h": [f"s{each}" for each in stratum[places]],
        **{f"r{q}": 2 * weight * half for q, half in enumerate(halves)},
    }


def truth(per: int, asked: Any) -> float:
    middle, weight = 25 + 6 * np.arange(STRATA), 1 + np.arange(STRATA) / 4
    if isinstance(asked, Mean):
        return float((weight * middle).sum() / weight.sum())
    return float(2.2 * per * (weight * middle).sum())


def by_hand(values: dict[str, Any], asked: Any, *, replicates: bool, of: Any = None) -> float:
    """The variance that the survey package of R has, by numpy."""
    w, strata = np.array(values["w"]), np.array(values["h"])
    chosen = np.ones(len(w), dtype=bool) if of is None else of
    x = np.ones(len(w)) if isinstance(asked, Count) else np.array(values["x"])

    def estimate(own: Any) -> float:
        total = float((own * x)[chosen].sum())
        return total / own[chosen].sum() if isinstance(asked, Mean) else total

    if replicates:
        found = np.array([estimate(values[f"r{q}"]) for q in range(REPLICATES)])
        return float(((found - found.mean()) ** 2).mean())
    z = w * (x - (estimate(w) if isinstance(asked, Mean) else 0))
    parts = [z[strata == name] for name in sorted(set(strata))]
    square = sum(len(each) * each.var(ddof=1) for each in parts)
    return float(square / (w.sum() ** 2 if isinstance(asked, Mean) else 1))


def term_of(
    asked: Any, schema: Schema, values: dict[str, Any], epsilon: str = HUGE, seed: int = 1
) -> Any:
    plan = calibrate(asked, schema, Epsilon.parse(epsilon), inference=SHARE)
    again = read_plan(json.loads(json.dumps(written_plan(plan))), asked, schema)
    outcome = again.draw(data_of(schema, values), seeded_randomness(seed)).settled()
    assert outcome.inference is not None
    (term,) = outcome.inference.terms
    return term


@pytest.mark.parametrize("zcdp", [False, True])
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("asked", ASKED, ids=KINDS)
@pytest.mark.parametrize("replicates", [REPLICATES, 0])
def test_without_noise_they_are_those_of_the_survey_package(
    replicates: int, asked: Any, adjacency: Adjacency, zcdp: bool
) -> None:
    values = sample(np.random.default_rng(3), 40, 3.0)
    schema = schema_of(adjacency, len(values["w"]), replicates, STRATA, zcdp=zcdp)
    term = term_of(asked, schema, values)
    exact = by_hand(values, asked, replicates=bool(replicates)) ** 0.5
    # a mean of replicates is a ratio, and here it is taken to first order
    close = 0.03 if replicates and isinstance(asked, Mean) else 0.01
    assert term.std_error == pytest.approx(exact, rel=close)
    low, high = term.confidence_95
    assert low < term.estimate < high
    assert not term.open


def test_the_declared_scale_multiplies_the_variance() -> None:
    values = sample(np.random.default_rng(3), 40, 3.0)
    schema = schema_of(ADD, len(values["w"]), REPLICATES, STRATA)
    assert schema.design is not None
    fay = replace(schema, design=replace(schema.design, scale=Fraction(1, 4)))
    one, other = (term_of(MEAN, each, values).std_error for each in (schema, fay))
    assert other / one == pytest.approx((REPLICATES / 4) ** 0.5, rel=1e-3)


def jackknife(rng: np.random.Generator) -> tuple[dict[str, Any], list[int]]:
    """Strata of 2, 3, 4 and 7 clusters, each left out by one replicate, and the n_h of each."""
    many = [2, 3, 4, 7]
    stratum = np.repeat(range(4), many)
    places = np.repeat(range(REPLICATES), 30)
    x = np.clip(20 + 9 * stratum[places] + rng.normal(0, 6, REPLICATES)[places], 0, 100)
    weight = 1 + stratum[places] / 4 + places % 3 / 5
    values: dict[str, Any] = {"x": x, "y": 0 * x, "w": weight}
    values["h"] = [f"s{each}" for each in stratum[places]]
    for q, own in enumerate(stratum):
        others = (stratum[places] == own) & (places != q)
        values[f"r{q}"] = weight * np.where(places == q, 0, 1 + others / (many[own] - 1))
    return values, [many[own] for own in stratum]


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("asked", ASKED, ids=KINDS)
def test_replicates_with_scales_of_their_own_are_those_of_a_jackknife_with_strata(
    asked: Any, adjacency: Adjacency
) -> None:
    """As survey's JKn: scale 1, rscales (n_h - 1) / n_h, about the mean of the replicates."""
    values, many = jackknife(np.random.default_rng(8))
    schema = schema_of(adjacency, len(values["w"]), REPLICATES, 4)
    assert schema.design is not None
    scales = tuple(Fraction(each - 1, each) for each in many)
    declared = replace(schema, design=replace(schema.design, rscales=scales))
    term = term_of(asked, declared, values)
    x = np.ones(len(values["w"])) if isinstance(asked, Count) else values["x"]
    found = []
    for q in range(REPLICATES):
        own = values[f"r{q}"]
        found.append((own * x).sum() / (own.sum() if isinstance(asked, Mean) else 1))
    apart = np.array(found) - np.mean(found)
    by_hand = float((np.array(scales, dtype=float) * apart**2).sum())
    if isinstance(asked, Sum):  # then it is that of the strata, in closed form
        totals = np.bincount(np.repeat(range(REPLICATES), 30), weights=values["w"] * x)
        ends = np.cumsum([2, 3, 4])
        parts = np.split(totals, ends)
        closed = sum(len(each) * each.var(ddof=1) for each in parts)
        assert by_hand == pytest.approx(closed)
    assert term.std_error == pytest.approx(by_hand**0.5, rel=0.03)
    # the control: with one scale for all
    plain = term_of(asked, schema, values)
    assert plain.std_error < 0.5 * term.std_error


def test_a_domain_has_its_own() -> None:
    """By replicates as the survey package has it; by strata an upper bound."""
    values = sample(np.random.default_rng(4), 40, 3.0)
    some = replace(MEAN, where=(Condition(column="x", op=">", value=40),))
    inside = values["x"] > 40
    schema = schema_of(REPLACE, len(inside), REPLICATES, STRATA)
    exact = by_hand(values, MEAN, replicates=True, of=inside) ** 0.5
    assert term_of(some, schema, values).std_error == pytest.approx(exact, rel=0.03)
    by_strata = schema_of(REPLACE, len(inside), 0, STRATA)
    w, x = values["w"], values["x"]
    theta = (w * x)[inside].sum() / w[inside].sum()
    most = ((w * (x - theta))[inside] ** 2).sum() ** 0.5 / w[inside].sum()
    assert term_of(some, by_strata, values).std_error == pytest.approx(most, rel=0.01)


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("asked", ASKED, ids=KINDS)
def test_each_group_has_its_own(asked: Any, adjacency: Adjacency) -> None:
    """Under replace-one too, where the counts of groups are else drawn as one histogram."""
    values = sample(np.random.default_rng(4), 40, 3.0)
    inside = values["x"] > 40
    schema = schema_of(adjacency, len(inside), REPLICATES, STRATA)
    by = (Bands(column="y", edges=(-5, 0.5, 5)),)
    values["y"] = np.where(inside, 1.0, 0.0)
    plan = calibrate(replace(asked, by=by), schema, Epsilon.parse(HUGE), inference=SHARE)
    again = read_plan(json.loads(json.dumps(written_plan(plan))), replace(asked, by=by), schema)
    outcome = again.draw(data_of(schema, values), seeded_randomness(1)).settled()
    assert outcome.inference is not None
    for term, of in zip(outcome.inference.terms, (~inside, inside), strict=True):
        exact = by_hand(values, asked, replicates=True, of=of) ** 0.5
        assert term.std_error == pytest.approx(exact, rel=0.03)


# Noise


@pytest.mark.parametrize(
    ("replicates", "epsilon", "scaled"),
    [(REPLICATES, "4", False), (REPLICATES, "4", True), (0, "0.5", False)],
)
@pytest.mark.parametrize("zcdp", [False, True])
def test_the_variance_of_the_noise_is_subtracted(
    replicates: int, epsilon: str, scaled: bool, zcdp: bool
) -> None:
    """The mean of the estimates is the variance without noise, though the noise is larger."""
    values = sample(np.random.default_rng(5), 40, 3.0)
    schema = schema_of(ADD, len(values["w"]), replicates, STRATA, zcdp=zcdp)
    if scaled:
        assert schema.design is not None
        own = tuple(Fraction(1 + place % 4, 64) for place in range(replicates))
        schema = replace(schema, design=replace(schema.design, rscales=own))
    plan = calibrate(SUM, schema, Epsilon.parse(epsilon), inference=SHARE)
    sums = sums_of(SUM, schema)
    noise = plan.parameters.viewed.noise.on(sums.space)  # type: ignore[attr-defined]
    laws, unit = noise.describe()
    spread = np.array([(law.std * float(unit) / sums.space.unit) ** 2 for law in laws])
    exact = np.array(sums.total(data_of(schema, values)), dtype=float) / sums.space.unit
    drawn = np.array([noise.draw(seeded_randomness(seed)) for seed in range(600)], dtype=float)
    if not replicates:  # that of squares and counts adds nothing on average, and hides the rest
        linear = np.isin(np.arange(len(spread)) % 6, (1, 3))
        drawn, spread = drawn * linear, spread * linear
    noisy = exact + drawn / (noise.refinement * sums.space.unit)
    (aim,) = aims_of(SUM, schema, {"x": 0.0})
    known = float(sums.variances(aim, exact, 0 * spread))
    found = sums.variances(aim, noisy, spread)
    raw = sums.variances(aim, noisy, 0 * spread)
    error = found.std() / len(found) ** 0.5
    assert abs(found.mean() - known) < 4 * error
    assert abs(raw.mean() - known) > 8 * error, "the control: with the noise left in"


def test_what_is_not_positive_cannot_be_said() -> None:
    values = sample(np.random.default_rng(6), 10, 0.0)
    schema = schema_of(REPLACE, len(values["w"]), REPLICATES, STRATA)
    terms = [term_of(MEAN, schema, values, epsilon="0.05", seed=seed) for seed in range(20)]
    unknown = [each for each in terms if each.std_error is None]
    assert 3 < len(unknown) < 20
    assert all(each.open and each.confidence_95 == (0.0, 100.0) for each in unknown)
    assert all(each.std_error > 0 for each in terms if each.std_error is not None)


COVERED = [(REPLICATES, "1"), (REPLICATES, "8"), (0, "1"), (0, "8")]


@pytest.mark.slow
@pytest.mark.parametrize("zcdp", [False, True])
@pytest.mark.parametrize("asked", [MEAN, SUM], ids=["mean", "sum"])
@pytest.mark.parametrize(("replicates", "epsilon"), COVERED)
def test_intervals_hold_the_number_of_the_population(
    replicates: int, epsilon: str, asked: Any, zcdp: bool
) -> None:
    held = said = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        values = sample(rng, 40, 3.0 if replicates else 0.0)
        schema = schema_of(ADD, len(values["w"]), replicates, STRATA, zcdp=zcdp)
        term = term_of(asked, schema, values, epsilon=epsilon, seed=seed)
        if term.std_error is not None:
            said += 1
            held += term.confidence_95[0] <= truth(40, asked) <= term.confidence_95[1]
    assert said > 40
    assert held >= 0.93 * said


# Plans


@pytest.mark.parametrize("zcdp", [False, True])
def test_both_releases_are_charged_together(zcdp: bool) -> None:
    schema = schema_of(ADD, 100, REPLICATES, STRATA, zcdp=zcdp)
    plan = calibrate(MEAN, schema, Epsilon.parse("1"), inference=Fraction(1, 4))
    assert plan.mechanism == ("gaussian" if zcdp else "k_norm")
    assert plan.guarantee.definition == (ZCDP if zcdp else PURE)
    assert plan.guarantee.epsilon == Epsilon.parse("1")
    assert plan.guarantee.zcdp == (Fraction(9, 16) + Fraction(1, 16)) / 2
    shown: Any = plan.details["inference"]
    assert (shown["variance"], shown["replicates"], shown["scale"]) == ("replicates", 16, "1/16")
    assert shown["cost"] == "0.25"
    by_norm = calibrate(MEAN, schema, Epsilon.parse("1"), mechanism="k_norm", inference=SHARE)
    assert by_norm.guarantee.definition == PURE


def test_what_is_not_by_the_design_is_refused() -> None:
    schema = schema_of(ADD, 100, 4, 1)
    for asked in (replace(MEAN, weights="r0"), replace(SUM, weights=None), Count()):
        with pytest.raises(InvalidStatisticError) as refused:
            calibrate(asked, schema, Epsilon.parse("1"), inference=SHARE)
        assert refused.value.field_name == "inference"
    assert schema.design is not None
    bare = replace(schema, design=replace(schema.design, replicates=()))
    with pytest.raises(InvalidStatisticError, match="with weights"):
        calibrate(MEAN, bare, Epsilon.parse("1"), inference=SHARE)
    several = replace(schema, protects=Protected(rows=2))
    with pytest.raises(InvalidStatisticError) as refused:
        calibrate(MEAN, several, Epsilon.parse("1"), inference=SHARE)
    assert refused.value.detail == NOT_FOR_SEVERAL
    for lacking, counted in ((("h",), (0, 3)), (("r1",), (4, 1))):
        some = replace(schema_of(ADD, 100, *counted), optional=frozenset(lacking))
        with pytest.raises(InvalidStatisticError, match=f"may lack {lacking[0]}"):
            calibrate(MEAN, some, Epsilon.parse("1"), inference=SHARE)
    many = schema_of(ADD, 100, 0, MOST_SUMS)
    with pytest.raises(InvalidStatisticError, match="sums"):
        calibrate(MEAN, many, Epsilon.parse("1"), inference=SHARE)


def test_a_question_that_says_nothing_is_weighed_and_null_stays_null() -> None:
    schema = schema_of(ADD, 100, 4, 1)
    nothing, null = Mean(columns=("x",)), Mean(columns=("x",), weights=UNWEIGHTED)
    assert weighed(nothing, schema) == MEAN
    assert weighed(null, schema) == null
    plain = replace(schema, design=None)
    assert weighed(null, plain) == nothing == weighed(nothing, plain)
    stack = Stack(parts=(Part(statistic=nothing, share=1), Part(statistic=null, share=1)))
    assert [part.statistic for part in weighed(stack, schema).parts] == [MEAN, null]
    values = {"x": [10.0, 50.0], "w": [3.0, 1.0]}
    found = [
        calibrate(each, schema, Epsilon.parse(HUGE)).draw(
            data_of(schema, values), seeded_randomness(2)
        )
        for each in (MEAN, null)
    ]
    means = [float(each.value["x"]) for each in found]  # type: ignore[arg-type]
    assert means == pytest.approx([20.0, 30.0], abs=0.1)
