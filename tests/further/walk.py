"""What the catalog, estimates, forms, tables, audits and clients know of registered statistics.

    python -c 'from tests.further.statistics import register; register(); import tests.further.walk'

Each step asks for a statistic in the way that the service does, and asserts what it gets.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pydantic import TypeAdapter

from app.api.application import snapshot
from app.audit.report import offers_in, probe_of
from app.desk.filled import request_of
from app.desk.forms import Form
from app.desk.questions import choices_of, fields_of, kinds, summary_of
from app.services.generated import sources
from app.services.plans.questions import POLICY_KINDS, AnyStatistic, Question, read_question
from app.services.plans.wording import asked
from app.tidy.rows import rows_of
from mechanisms.catalog import STATISTICS, calibrate, offers
from mechanisms.contract import Outcome, Plan, Statistic
from mechanisms.derivations import Released, derivable, derive
from mechanisms.domain import CategoryColumn, NumberColumn, Schema
from mechanisms.estimates.accuracy import dry_run
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimate_error, estimating_ms
from mechanisms.estimates.verdicts import judged_release
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.sketches import ArrayData
from mechanisms.testing import seeded_randomness

EPSILON = Epsilon.parse("1")
COLUMNS = {
    "income": NumberColumn(Fraction(0), Fraction(100)),
    "sex": CategoryColumn(("f", "m")),
}
WOMEN = {"where": [{"column": "sex", "op": "==", "value": "f"}]}
GROUPS = {"by": ["sex"]}


def schema_of(adjacency: Adjacency) -> Schema:
    """Return the public facts of a data set."""
    rows = 300 if adjacency is Adjacency.REPLACE_ONE else None
    return Schema(COLUMNS, adjacency, rows, 300)


def question_of(kind: str, **more: Any) -> Any:
    """Return a class's own example as the service reads it from a request."""
    fields = {**STATISTICS[kind].example, **more}
    return TypeAdapter(AnyStatistic).validate_json(json.dumps(fields), strict=True)


def plan_of(statistic: Statistic, schema: Schema) -> tuple[Plan, Outcome]:
    """Return a plan and what it draws."""
    values = {"income": [n % 100 for n in range(300)], "sex": ["f", "m", "m"] * 100}
    plan = calibrate(statistic, schema, EPSILON)
    data = ArrayData.from_values(schema, values)
    return plan, plan.draw(data, seeded_randomness(1))


def walk_library(kind: str, schema: Schema) -> None:
    """Plan, draw, estimate and judge: all records, some, and groups."""
    assert kind in {offer.statistic for offer in offers()}
    for more in ({}, WOMEN, GROUPS):
        statistic = question_of(kind, **more)
        plan, outcome = plan_of(statistic, schema)
        assert plan.guarantee.epsilon == EPSILON
        groups: Any = outcome.value.get("groups", [{"value": outcome.value}])
        assert [list(each["value"]) for each in groups] == [["income"]] * len(groups)
        found = estimate_error(
            statistic, schema, EPSILON, mechanism="auto", norm="auto",
            assumptions=Assumptions(rows=None if schema.rows else 300),
        )  # fmt: skip
        assert found.expected_error is not None
        assert "(income" in found.usefulness.sentence
        assert estimating_ms(statistic, schema) > 0
        released = judged_release(
            found.usefulness, [STATISTICS[kind].near_zero], outcome.value, found.expected_error
        )
        says = "further from 0" in released.sentence
        assert says == (STATISTICS[kind].near_zero != "a value")


def walk_service(kind: str, schema: Schema) -> None:
    """Store, word, dry run, and make a form of a question."""
    statistic = question_of(kind)
    question = Question(statistic=statistic, mechanism="auto", norm="auto", epsilon=EPSILON)
    assert read_question(question.canonical) == question
    assert asked({**STATISTICS[kind].example}) == f"{kind.replace('_', ' ')} of income"
    assert kind in POLICY_KINDS
    assumed = Assumptions(rows=None if schema.rows else 300)
    run = dry_run(statistic, schema, assumed, lambda facts: calibrate(statistic, facts, EPSILON))
    assert list(run.outcome.value) == ["income"]
    schemas = json.loads(snapshot())["components"]["schemas"]
    assert schemas[STATISTICS[kind].__name__]["properties"]["kind"]["const"] == kind


def walk_desk(kind: str, schema: Schema) -> None:
    """Show the form of a question, read it, and name the numbers of an answer."""
    assert kind in dict(kinds())
    assert summary_of(kind)
    shapes = {each.name: each.shape for each in fields_of(kind, schema)}
    assert shapes["column"] == "select"
    choices, _ = choices_of(kind, replace(schema, zcdp=True))
    assert set(dict(choices)) == {"auto", *STATISTICS[kind].mechanisms}
    form = Form(
        [("statistic", kind), ("column", "income"), ("wanted", "epsilon"), ("epsilon", "1")]
    )
    assert request_of(form, schema)["statistic"] == STATISTICS[kind].example
    answer = {"statistic": {**STATISTICS[kind].example}, "value": {"income": 5.0}, "noise": None}
    (row,) = rows_of(answer)
    assert (row.name, row.estimate) == ("income", 5.0)
    of_count = {"statistic": {"kind": kind, "column": "count"}, "value": {"count": 5.0}}
    (row,) = rows_of({**of_count, "noise": None})
    assert row.key.terms == ("count",), "a column may be called so"


def walk_clients(kind: str) -> None:
    """Audit each offer, and find the method of the Python client."""
    catalog = [
        {
            "statistic": each.statistic, "mechanism": each.mechanism, "norms": each.norms,
            "adjacencies": each.adjacencies,
            "accounting": each.accounting,
        }
        for each in offers()
    ]  # fmt: skip
    mine = offers_in(catalog, [kind])
    assert mine
    for offer in mine:
        probe = probe_of(offer)
        assert probe is not None
        assert probe.question["kind"] == kind
    text = sources()["app/client/methods.py"]
    compile(text, "methods.py", "exec")
    assert (
        f"def {kind}(self, /, column: str, *, epsilon: Amount" in text or f"def {kind}(\n" in text
    )


def walk_facts(schema: Schema) -> None:
    """Find what one of the two states of itself, where people and programs read it."""
    labels = {each.name: (each.label, each.more) for each in fields_of("tally", schema)}
    assert labels["remark"] == ("Remark", True)
    assert '"tally": "grand total"' in sources()["app/tidy/names.py"]
    assert "    remark: object" in sources()["app/tidy/names.py"]
    wanted = question_of("decile_range")
    source = wanted.drawn_by()
    plan, outcome = plan_of(source, schema)
    released = Released(
        statistic=source, mechanism=plan.mechanism, norm=plan.norm, epsilon=EPSILON,
        value=outcome.value, noise=None, details=plan.details,
    )  # fmt: skip
    low, high = (each["value"] for each in outcome.value["quantiles"])  # type: ignore[attr-defined]
    assert derive(wanted, released, schema).value == {"income": high - low}
    assert "decile_range" in derivable(released, schema)
    assert derive(replace(wanted, column="income"), released, schema).noise is None


def main() -> None:
    """Walk through everything, for both statistics and both adjacencies."""
    for adjacency in Adjacency:
        for kind in ("tally", "decile_range"):
            walk_library(kind, schema_of(adjacency))
    schema = schema_of(Adjacency.REPLACE_ONE)
    for kind in ("tally", "decile_range"):
        walk_service(kind, schema)
        walk_desk(kind, schema)
        walk_clients(kind)
    walk_facts(schema)


main()
