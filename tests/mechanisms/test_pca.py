"""Principal components: what they are without noise, from what they follow, and their noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.analysis.pca import PrincipalComponents
from mechanisms.catalog import calibrate
from mechanisms.contract import InvalidStatisticError, Outcome, Statistic
from mechanisms.derivations import derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.expressions.parsing import parse
from mechanisms.privacy import Adjacency, Epsilon, Protected
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.facts.readings import Released
from mechanisms.statistics.moments import Moments
from mechanisms.testing import seeded_randomness

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ROWS = 2_000
NAMES = ("a", "b", "c")
COLUMNS = {
    **{name: NumberColumn(Fraction(0), Fraction(100)) for name in ("d", *NAMES)},
    "sex": CategoryColumn(("f", "m")),
}
MOST = Epsilon.parse("10000")
ASKED = PrincipalComponents(columns=NAMES)


def schema_of(adjacency: Adjacency) -> Schema:
    return Schema(COLUMNS, adjacency, ROWS if adjacency is REPLACE else None, ROWS)


def rows() -> dict[str, NDArray[Any]]:
    """Three columns of one factor, of different spreads, and one of its own."""
    rng = np.random.default_rng(5)
    factor = rng.normal(size=ROWS)
    found: dict[str, NDArray[Any]] = {
        name: (45 + 12 * (factor * weight + 0.6 * rng.normal(size=ROWS))).clip(0, 100)
        for name, weight in zip(NAMES, (1, 0.8, -0.5), strict=True)
    }
    return {**found, "d": rng.uniform(0, 100, ROWS), "sex": np.array(["f", "m"] * (ROWS // 2))}


VALUES = rows()
DATA = ArrayData.from_values(
    schema_of(REPLACE), {name: list(each) for name, each in VALUES.items()}
)


def released(statistic: Statistic, schema: Schema, epsilon: Epsilon = MOST) -> Released:
    plan = calibrate(statistic, schema, epsilon)
    outcome = plan.draw(DATA, seeded_randomness(3))
    return Released(
        statistic=statistic, mechanism=plan.mechanism, norm=plan.norm, epsilon=epsilon,
        value=outcome.value, noise=outcome.noise, details=plan.details,
    )  # fmt: skip


def drawn(asked: PrincipalComponents, adjacency: Adjacency = REPLACE) -> Any:
    return released(asked, schema_of(adjacency)).value


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("scaled", [True, False])
def test_without_noise_they_are_eigenvectors(adjacency: Adjacency, *, scaled: bool) -> None:
    table = np.column_stack([VALUES[name] for name in NAMES])
    matrix = np.corrcoef(table.T) if scaled else np.cov(table.T, bias=True)
    values, vectors = np.linalg.eigh(matrix)
    found = drawn(replace(ASKED, scaled=scaled), adjacency)
    assert [found["means"][name] for name in NAMES] == pytest.approx(table.mean(axis=0), rel=1e-3)
    for at, one in enumerate(found["components"]):
        loadings = np.array([one["loadings"][name] for name in NAMES])
        assert one["variance"] == pytest.approx(values[-1 - at], rel=0.01)
        assert one["share"] == pytest.approx(values[-1 - at] / values.sum(), rel=0.01)
        assert abs(loadings @ vectors[:, -1 - at]) == pytest.approx(1, abs=1e-3)
        scores = (table - table.mean(axis=0)) @ [one["scores"][name] for name in NAMES]
        assert scores.var() == pytest.approx(one["variance"], rel=0.02)
    assert found["components"][-1]["cumulative"] == 1, "which the noise cannot move"


def test_factor_scores_have_a_variance_of_1_and_are_a_formula_of_columns() -> None:
    found = drawn(replace(ASKED, components=2, scores="factors"))
    assert len(found["components"]) == 2
    table = np.column_stack([VALUES[name] for name in NAMES])
    for one in found["components"]:
        weights = [one["scores"][name] for name in NAMES]
        assert (table @ weights).var() == pytest.approx(1, rel=0.02)
        text = " + ".join(
            f"({each:.9f}) * {name}" for each, name in zip(weights, NAMES, strict=True)
        )
        assert set(parse(text).columns) == set(NAMES)


@pytest.mark.parametrize("kind", [Moments, Covariance, Correlation])
def test_they_follow_from_second_moments_of_more_columns(kind: Any) -> None:
    schema = schema_of(ADD)
    source = released(kind(columns=("d", *reversed(NAMES))), schema)
    found, own = derive(ASKED, source, schema), released(ASKED, schema)
    numbers, others = dict(numbers_of(found.value)), dict(numbers_of(own.value))
    assert numbers.keys() <= others.keys()
    for place, number in numbers.items():
        assert number == pytest.approx(others[place], abs=0.01), place
    assert (found.noise is None) == (kind is not Moments)
    assert ("means" in found.value) == (kind is Moments)
    first: Any = found.value["components"]
    assert ("scores" in first[0]) == (kind is not Correlation)


def test_what_does_not_determine_them_is_refused() -> None:
    schema = schema_of(REPLACE)
    few = released(Moments(columns=("a", "b")), schema)
    some = released(
        Moments(columns=NAMES, where=(Condition(column="d", op=">", value=50),)), schema
    )
    scaled = released(Correlation(columns=NAMES), schema)
    for asked, source in ((ASKED, few), (ASKED, some), (replace(ASKED, scaled=False), scaled)):
        with pytest.raises(InvalidStatisticError, match="follow from a release of moments"):
            derive(asked, source, schema)


def test_groups_and_conditions_follow_as_they_were_released() -> None:
    schema = schema_of(REPLACE)
    half = (Condition(column="d", op=">", value=50),)
    for more in (
        {"by": ("sex",)},
        {"where": half},
        {"derive": {"e": "a + b"}, "columns": ("c", "e")},
    ):
        given: Any = {"columns": NAMES, **more}
        source = released(Moments(**given), schema)
        plain = {name: each for name, each in given.items() if name != "derive"}
        found = derive(PrincipalComponents(**plain), source, schema)
        assert found.noise is not None
        groups: Any = found.value.get("groups", [{"value": found.value}])
        assert all(each["value"]["components"][0]["variance"] > 1 for each in groups)


def test_rows_of_one_person_have_a_part_of_epsilon_each() -> None:
    schema = replace(schema_of(ADD), protects=Protected(rows=2))
    one, two = (
        released(ASKED, each, Epsilon.parse("1")).noise for each in (schema_of(ADD), schema)
    )
    assert one is not None
    assert two is not None
    narrow, wide = (dict(numbers_of(each.std)) for each in (one, two))
    assert wide["means", "a"] == pytest.approx(2 * narrow["means", "a"], rel=0.1)


@pytest.mark.wide
@pytest.mark.statistical
def test_noise_intervals_hold_the_numbers_without_noise() -> None:
    """Of numbers together 93% are held; half as wide, the control, they hold far fewer."""
    schema = schema_of(ADD)
    plan = calibrate(ASKED, schema, Epsilon.parse("1"))
    truths = dict(numbers_of(drawn(ASKED, ADD)))
    held, narrowed = [], []
    for seed in range(40):
        outcome = plan.draw(DATA, seeded_randomness(seed))
        assert outcome.noise is not None
        ends = dict(numbers_of(outcome.noise.interval_95))
        signs = signs_of(outcome, truths)
        for place, truth in truths.items():
            turned = truth * signs[place[1]] if {"loadings", "scores"} & {*place} else truth
            low, high = ends[place]
            held.append(low - 1e-9 <= turned <= high + 1e-9)
            narrowed.append(abs(turned - (low + high) / 2) <= (high - low) / 8)
    assert np.mean(held) >= 0.93
    assert np.mean(narrowed) < 0.8


def signs_of(outcome: Outcome, truths: Mapping[Any, float]) -> Mapping[Any, float]:
    """Return 1 or -1 for each component: as its released loadings lie to the true ones."""
    found = dict(numbers_of(outcome.value))
    along: dict[Any, float] = {}
    for place, number in found.items():
        if "loadings" in place:
            along[place[1]] = along.get(place[1], 0.0) + number * truths[place]
    return {at: -1.0 if each < 0 else 1.0 for at, each in along.items()}


def numbers_of(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every number of an answer, or the ends of an interval, with its place."""
    if isinstance(tree, Mapping):
        for name, each in tree.items():
            yield from numbers_of(each, (*place, name))
    elif isinstance(tree, list) and isinstance(tree[0], Mapping):
        for at, each in enumerate(tree):
            yield from numbers_of(each, (*place, at))
    else:
        yield place, tree


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"columns": ("a",)}, "columns"),
        ({"components": 4}, "components"),
        ({"components": 0}, "components"),
        ({"columns": tuple(f"n{at}" for at in range(33))}, "columns"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidStatisticError) as refused:
        calibrate(replace(ASKED, **wrong), schema_of(REPLACE), MOST)
    assert refused.value.field_name == place
