"""A plan is a value: it pickles, prints as JSON and draws the same wherever it is read again.

Every offer of the catalog is planned with and without a filter, groups, derived columns, missing
cells, weights, people of several rows and standard errors. Two tables hold outcomes of seeded
draws: of what each offer plans, first made before plans were values, and of stored parameters of
each name. ``python -m tests.mechanisms.test_plans`` makes both again.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from mechanisms import catalog
from mechanisms.catalog import calibrate
from mechanisms.contract import (
    InvalidStatisticError,
    Outcome,
    Parameters,
    Plan,
    Statistic,
    no_figure,
)
from mechanisms.domain import Schema
from mechanisms.knorm import AddedNoise
from mechanisms.privacy import Protected
from mechanisms.single import OfRows
from mechanisms.sketches import ArrayData
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import Stack
from mechanisms.statistics.total import Sum
from mechanisms.testing import seeded_randomness
from tests.mechanisms.offers import ADD, REPLACE, Proof
from tests.mechanisms.test_every_offer import CASES, Case, every_offer
from tests.mechanisms.test_every_selection import EPSILON, HERE, asked, groups_of, records
from tests.tiers import in_one

TABLE = Path(__file__).with_name("seeded_draws.json")
"""The name of each offer, and a digest of what it draws from a seed."""
STORED = Path(__file__).with_name("stored_parameters.json")
"""An offer, the place of its question, parameters as they are stored, and what they draw."""
PEOPLE = Protected(3, "a person")
QUARTER = Fraction(1, 4)
OPTIONAL = frozenset({"x", "y"})
LARGE = Condition(column="z", op=">", value=0.5)
DERIVED = {"derive": {"z": "x * 2 + 1"}, "where": (LARGE,)}


@dataclass(frozen=True)
class Asking:
    """One question about the proof's records, and what differs from their public facts."""

    statistic: Statistic
    facts: Mapping[str, Any]
    inference: Fraction | None = None


def askings(case: Case) -> Iterator[Asking]:
    """Yield the questions of an offer that are planned: each way a plan is made of parts."""
    of, by = case.proof.statistic, {"by": groups_of(case.proof.statistic)}
    filtered = {"where": (HERE,)}
    chosen: list[Mapping[str, Any]] = [{}, filtered, by, {"by": ("yes",), **filtered}, DERIVED]
    yield from (Asking(asked(of, **fields), {}) for fields in chosen)
    if case.adjacency is ADD:
        yield from (Asking(asked(of, **fields), {"protects": PEOPLE}) for fields in ({}, filtered))
    yield from (Asking(asked(of, **fields), {}, QUARTER) for fields in ({}, filtered, by))
    if isinstance(of, Stack):
        return
    yield Asking(of, {"optional": OPTIONAL})
    if of.column_by_column:
        available: Any = replace(of, missing="available", columns=("x", "y"))  # type: ignore[type-var]
        yield Asking(available, {"optional": OPTIONAL})
    if hasattr(of, "weights"):
        yield Asking(replace(of, weights="yes"), {})  # type: ignore[type-var]


def planned(case: Case) -> Iterator[tuple[Plan, Schema]]:
    """Yield the plans of an offer's questions that are not refused."""
    for each in askings(case):
        schema = replace(case.proof.schema(case.adjacency, len(records(case))), **each.facts)
        try:
            plan = calibrate(
                each.statistic,
                schema,
                EPSILON,
                mechanism=case.proof.mechanism,
                norm=case.norm,
                inference=each.inference,
            )
        except InvalidStatisticError:
            continue
        yield plan, schema


def data_of(proof: Proof, case: Case, schema: Schema) -> ArrayData:
    """The records, some without a value of the columns that may lack one."""
    rows = records(case)
    values = {name: [each[name] for each in rows] for name in proof.columns}
    for name in schema.optional & values.keys():
        lacks = 0 if name == "x" else 3
        values[name] = [None if at % 5 == lacks else v for at, v in enumerate(values[name])]
    complete = replace(schema, rows=len(rows), adjacency=REPLACE, protects=Protected())
    return ArrayData.from_values(complete, values)


def drawn(plan: Plan, data: ArrayData) -> Outcome:
    return plan.draw(data, seeded_randomness(11)).settled()


def digest_of(values: Sequence[object]) -> str:
    """A digest of drawn values, in which the last digits of floats do not count."""
    text = json.dumps([rounded(each) for each in values])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def rounded(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {name: rounded(inner) for name, inner in part.items()}
    if isinstance(part, list | tuple):
        return [rounded(inner) for inner in part]
    return f"{part:.9g}" if isinstance(part, float) else part


def read_again(plan: Plan) -> Plan:
    """The plan by way of the text that a ledger keeps."""
    text = json.dumps(catalog.written_plan(plan), allow_nan=False)
    return catalog.read_plan(json.loads(text), plan.statistic, plan.schema)


def is_the_same(one: Plan, other: Plan) -> bool:
    """Whether two plans are one value; a mapping may be one of JSON in either."""
    return json.dumps(catalog.written_plan(one)) == json.dumps(catalog.written_plan(other)) and (
        (one.parameters, one.guarantee, one.alternatives)
        == (other.parameters, other.guarantee, other.alternatives)
    )


@every_offer
def test_a_plan_draws_the_same_wherever_it_is_read_again(case: Case) -> None:
    values = []
    for plan, schema in planned(case):
        data = data_of(case.proof, case, schema)
        outcome = drawn(plan, data)
        values.append(outcome.value)
        # no drawing goes along: it is made of the parameters alone
        sent, stored = pickle.loads(pickle.dumps(plan)), read_again(plan)
        for again in (sent, stored):
            assert is_the_same(again, plan)
            assert drawn(again, data) == outcome
            assert [again.preview(rows) for rows in (None, 50)] == [
                plan.preview(rows) for rows in (None, 50)
            ]
            assert again.figure() == plan.figure()
            assert (again.errors_on is None) == (plan.errors_on is None)
    known = json.loads(TABLE.read_text())[CASES.index(case)]
    assert known == [str(case), digest_of(values)], "other draws: if they are meant, make the table"


def names_in(part: Any) -> set[str]:
    """The names of the parameters in a written plan."""
    inside = list(part.values() if isinstance(part, Mapping) else part)
    own = {part["by"]} if isinstance(part, Mapping) and "by" in part else set()
    return own.union(*(names_in(each) for each in inside if isinstance(each, Mapping | list)))


BY_NAME = {str(case): case for case in reversed(CASES)}
"""The first case of each name."""


def from_stored(case: Case, question: int, parameters: Any) -> str:
    """The digest of what stored parameters draw for a question of an offer."""
    plan, schema = list(planned(case))[question]
    kept = {**catalog.written_plan(plan), "parameters": parameters}
    stored = catalog.read_plan(kept, plan.statistic, schema)
    return digest_of([drawn(stored, data_of(case.proof, case, schema)).value])


@in_one("row", json.loads(STORED.read_text()))
def test_stored_parameters_are_drawn_as_they_were(row: Any) -> None:
    """Whatever would be calibrated today: else stored plans must be refused."""
    name, question, parameters, digest = row
    found = from_stored(BY_NAME[name], question, parameters)
    assert found == digest, "raise catalog.FORM, and make the table again"


def test_sums_of_groups_that_are_one_vector_are_read_again() -> None:
    schema = CASES[0].proof.schema(REPLACE, 30)
    plan = calibrate(Sum(columns=("yes",), by=("group",)), schema, EPSILON)
    text = json.dumps(catalog.written_plan(plan))
    assert '"by/sums"' in text
    data = data_of(CASES[0].proof, CASES[0], schema)
    assert drawn(read_again(plan), data) == drawn(plan, data)


ELSEWHERE = {"by/sums", "clip/private", "clip/stated", "ranges", "inference/design"}
"""Those of no offer's first question: written and read below, in test_clipping, test_ranges and
test_design_errors."""


def test_all_parameters_are_stored_by_some_offer() -> None:
    """Else what is registered would not be tried here."""
    assert names_in(json.loads(STORED.read_text())) | ELSEWHERE == set(catalog.PARAMETERS)


SCHEMA = CASES[0].proof.schema(ADD, 5)
COUNT = calibrate(Count(), SCHEMA, EPSILON)


def test_a_plan_with_a_closure_is_no_value() -> None:
    """The tests above can fail."""

    class Closed:
        def __init__(self, noise: Parameters) -> None:
            self.drawing = lambda of, schema: replace(noise.drawing(of, schema), figure=no_figure)

    plan = replace(COUNT, parameters=Closed(COUNT.parameters))
    assert plan.preview(None) == COUNT.preview(None)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(plan)
    with pytest.raises(TypeError):
        json.dumps(catalog.written_plan(plan))


WRITTEN = json.loads(json.dumps(catalog.written_plan(COUNT)))
NOISE = WRITTEN["parameters"]["viewed"]


@in_one(
    "changes",
    [
        {"form": catalog.FORM + 1},
        {"form": None},
        {"parameters": None},
        {"parameters": {}},
        {"parameters": {"by": "nothing"}},
        {"parameters": {"by": "rows"}},
        {"parameters": {"by": "rows", "viewed": {**NOISE, "norm": "l0"}}},
        {"parameters": {"by": "rows", "viewed": {**NOISE, "norm": 1}}},
        {"parameters": {"by": "rows", "viewed": {**NOISE, "steps": "1"}}},
        {"parameters": {"by": "rows", "viewed": {**NOISE, "rate_squared": "a half"}}},
        {"parameters": {"by": "rows", "viewed": {"by": "read_off", "drawn": NOISE}}},
        {"parameters": {"by": "composition", "parts": [NOISE]}},
        {"parameters": {"by": "functional/linear_regression", "noise": WRITTEN["parameters"]}},
        {"guarantee": {**WRITTEN["guarantee"], "adjacency": "none"}},
        {"expected_ms": "long"},
        {"norm": 2},
    ],
)
def test_what_is_no_plan_of_this_form_is_refused(changes: Mapping[str, Any]) -> None:
    with pytest.raises(catalog.PlanChangedError):
        catalog.read_plan({**WRITTEN, **changes}, Count(), SCHEMA)


def test_parameters_of_another_question_are_refused() -> None:
    """Their names and fields are those of this form."""
    quantiles, sums = Quantile(column="x", levels=(0.5,)), Sum(columns=("x",), by=("group",))
    drawn = catalog.written_plan(calibrate(quantiles, SCHEMA, EPSILON))["parameters"]["viewed"]  # type: ignore[index]
    errors = {"by": "inference/curvature", "coefficients": drawn, "noise": NOISE, "cost": "1"}
    for statistic, parameters in (
        (quantiles, errors),  # no disturbed equation
        (sums, {"by": "by/sums", "noise": NOISE}),  # of both signs, and drawn apart
    ):
        kept = {**WRITTEN, "parameters": {"by": "rows", "viewed": parameters}}
        with pytest.raises(catalog.PlanChangedError):
            catalog.read_plan(kept, statistic, SCHEMA)


def test_what_is_not_written_has_its_default() -> None:
    kept = {name: each for name, each in WRITTEN.items() if name != "alternatives"}
    found = catalog.read_plan(kept, Count(), SCHEMA)
    assert found == replace(COUNT, alternatives=(), grid=WRITTEN["grid"])
    assert catalog.written_guarantee(kept) == COUNT.guarantee
    with pytest.raises(catalog.PlanChangedError):
        catalog.read_plan({name: kept[name] for name in kept if name != "grid"}, Count(), SCHEMA)


def test_parameters_decide_the_draw_whatever_would_be_calibrated() -> None:
    """A stored plan is drawn with its own noise."""
    assert isinstance(COUNT.parameters, OfRows)
    noise = COUNT.parameters.viewed
    assert isinstance(noise, AddedNoise)
    wider = replace(noise, rate_squared=noise.rate_squared / 10**6)
    stored = read_again(replace(COUNT, parameters=OfRows(wider)))
    stds = [each.preview(None) for each in (COUNT, stored)]
    assert all(each is not None for each in stds)
    near, far = (float(each.std["count"]) for each in stds if each is not None)  # type: ignore[arg-type]
    assert far > 900 * near


def main() -> None:
    """Write the tables."""
    lines, stored, named = [], [], {"by/sums"}
    for case in CASES:
        values = []
        for question, (plan, schema) in enumerate(planned(case)):
            values.append(drawn(plan, data_of(case.proof, case, schema)).value)
            parameters: Any = catalog.written_plan(plan)["parameters"]
            if case is BY_NAME[str(case)] and not names_in(parameters) <= named:
                named |= names_in(parameters)
                digest = from_stored(case, question, parameters)
                stored.append(json.dumps([str(case), question, parameters, digest]))
        lines.append(json.dumps([str(case), digest_of(values)]))
    for table, rows in ((TABLE, lines), (STORED, stored)):
        table.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
