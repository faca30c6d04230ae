"""Dry runs: a release on synthetic rows, free, and the rows as a file.

Nothing here reads data, charges or stores. What is answered is a function of the request and the
data set's public facts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from app.domain.columns import Reading
from app.domain.datasets import Encoding
from app.domain.ledger import sha256_hex
from app.services.datasets.datasets import (
    DatasetFacts,
    DatasetService,
    require_active,
    require_askable,
)
from app.services.people.keys import Caller
from app.services.plans.answers import (
    inference_json,
    kept_json,
    limits_json,
    noise_json,
    plan_json,
    usefulness_of,
)
from app.services.plans.missing import with_typical
from app.services.plans.plans import PlanService, estimate_of, make_plan
from app.services.plans.questions import Question, asked_json, weighed_for
from app.tidy.pivots import csv_text
from mechanisms.contract import with_drawn
from mechanisms.domain import CategoryColumn, Column, zone_named
from mechanisms.estimates.accuracy import MOST_ROWS, dry_rows, dry_run
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.estimate import estimating_ms
from mechanisms.presentation import shown

FILE_ROWS = 10_000
"""As many rows has a synthetic file at most."""
_MS_PER_CELL = 2e-4
_MS_PER_WRITTEN = 2e-3
_CITATION = "Synthetic numbers of a dry run: no data were read and nothing was released."


class DryRunService:
    """Runs releases on synthetic rows."""

    def __init__(self, datasets: DatasetService, plans: PlanService) -> None:
        self._datasets = datasets
        self._plans = plans

    async def run(
        self, dataset: str, question: Question, assumed: Assumptions, *, caller: Caller
    ) -> dict[str, object]:
        """Return what looks like a release, as JSON-ready fields.

        Raises
        ------
        Problem
            What a release would be refused for, the budget aside; ``busy``.
        """
        facts = await self._datasets.present(dataset)
        require_askable(facts, kinds=question.kinds, epsilon=question.epsilon)
        self._plans.require_askable(question)
        asked, question = (
            weighed_for(question, facts.schema),
            await self._plans.spelled(facts, question, person=caller.person, free=True),
        )
        made = min(assumed.rows_of(facts.schema), MOST_ROWS) * len(facts.schema.columns)
        expected_ms = (
            question.planning_ms(facts.schema)
            + estimating_ms(question.statistic, facts.schema)
            + _MS_PER_CELL * made
        )
        run = await self._plans.compute(
            _dry_run, facts, question, assumed, person=caller.person, expected_ms=expected_ms
        )
        return {**run, **asked_json(asked), "requested_by": caller.person}

    async def rows(self, dataset: str, *, caller: Caller) -> tuple[bytes, Encoding]:
        """Return synthetic rows as a CSV file of the data set's form, and its encoding.

        Raises
        ------
        Problem
            ``not-found``, ``dataset-archived``, ``busy``.
        """
        facts = await self._datasets.present(dataset)
        require_active(facts.record)
        written = FILE_ROWS * len(facts.schema.columns)
        file = await self._plans.compute(
            synthetic_file, facts, person=caller.person, expected_ms=_MS_PER_WRITTEN * written
        )
        return file, facts.columns.text.encoding


def _dry_run(facts: DatasetFacts, question: Question, assumed: Assumptions) -> dict[str, object]:
    found = estimate_of(facts, question, assumed)  # first, because it refuses what does not fit
    assumed = with_typical(assumed, facts.columns)
    run = dry_run(
        question.statistic,
        facts.schema,
        assumed,
        lambda schema: make_plan(replace(facts, schema=schema), question),
    )
    plan = replace(run.plan, details=with_drawn(run.plan.details, run.outcome.facts))
    answer = shown(run.outcome, question.statistic, facts.schema)
    told_assumed = assumed.to_json(facts.schema)
    kept = json.dumps(
        {"estimate": kept_json(found, told_assumed), "details": plan.details}, allow_nan=False
    )
    name = sha256_hex(f"{facts.id} {question.canonical} {assumed!r}".encode())
    return {
        "id": f"dry_{name[:32]}",
        "dataset": facts.id,
        "status": "dry_run",
        "synthetic": True,
        "rows": run.rows,
        "assume": told_assumed,
        "cost": "0",
        **asked_json(question),
        "value": answer.value,
        "noise": noise_json(answer.noise),
        **limits_json(answer),
        "inference": inference_json(answer.inference),
        "usefulness": usefulness_of(
            kept,
            question.kinds,
            replace(run.outcome, value=answer.value, edges=answer.edges),
        ),
        **plan_json(plan, question.epsilon),
        "created_at": None,
        "released_at": None,
        "citation": _CITATION,
        "receipt": None,
    }


def synthetic_file(facts: DatasetFacts) -> bytes:
    """Return synthetic rows as a CSV file that the data set's own spec reads.

    A character that the declared encoding does not have is a question mark: no file in it has one.
    """
    data = dry_rows(facts.schema, with_typical(Assumptions(), facts.columns), most=FILE_ROWS)
    names = [name for name in facts.columns.columns if name in data.codes]
    columns, headers = facts.schema.columns, facts.columns.headers
    cells = {
        headers[name]: _cells(
            columns[name], data.values_of(name).tolist(), facts.columns.columns[name].reading
        )
        for name in names
        if name in headers
    }
    unit = facts.columns.unit
    if unit is not None:
        before = "" if unit.id == "number" else "person "
        cells = {unit.column: [f"{before}{row + 1}" for row in range(data.rows)], **cells}
    rows, file = zip(*cells.values(), strict=True), facts.columns.text
    titles = "".join(f"title {line + 1}\n" for line in range(file.skip_rows))
    text = csv_text(cells, rows, delimiter=file.delimiter, line_end="\n")
    return (titles + text).encode(file.encoding, "replace")


def _cells(column: Column, values: list[Any], reading: Reading) -> list[str]:
    """Return cells as the data set's own file may have them."""
    if isinstance(column, CategoryColumn):
        return [column.values[place] for place in values]
    if column.boolean:
        return [(reading.true if value else reading.false)[0] for value in values]
    if column.timed is not None:
        texts = [column.shown(value) for value in values]
        return [_by_format(text, reading) for text in texts] if reading.format else texts
    texts = [str(value) if column.whole else f"{value:.6g}" for value in values]
    return [text.replace(".", reading.decimal) for text in texts]


def _by_format(text: str, reading: Reading) -> str:
    """Return a date, or an instant in the column's time zone, by its first pattern."""
    moment = datetime.fromisoformat(text)
    zone = None if reading.timezone is None else zone_named(reading.timezone)
    local = moment if moment.tzinfo is None or zone is None else moment.astimezone(zone)
    return local.strftime(reading.format[0])
