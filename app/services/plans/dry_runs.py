"""Dry runs: a release on synthetic rows, free, and the rows as a file.

Nothing here reads data, charges or stores. What is answered is a function of the request and the
data set's public facts.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

from app.domain.hashing import sha256_hex
from app.services.datasets.datasets import (
    DatasetFacts,
    DatasetService,
    require_active,
    require_askable,
)
from app.services.people.keys import Caller
from app.services.plans.answers import inference_json, noise_json, plan_json
from app.services.plans.foretold import kept_json, usefulness_of
from app.services.plans.plans import PlanService, foretell, make_plan
from app.services.plans.questions import Question
from app.services.plans.typical import with_typical
from mechanisms.domain import CategoryColumn, Column
from mechanisms.foresight.assumptions import Assumptions
from mechanisms.foresight.dry_runs import MOST_ROWS, dry_rows, dry_run
from mechanisms.foresight.foresee import foreseeing_ms
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
        made = min(assumed.rows_of(facts.schema), MOST_ROWS) * len(facts.schema.columns)
        expected_ms = (
            question.planning_ms(facts.schema)
            + foreseeing_ms(question.statistic, facts.schema)
            + _MS_PER_CELL * made
        )
        run = await self._plans.compute(
            _dry_run, facts, question, assumed, person=caller.person, expected_ms=expected_ms
        )
        return {**run, "requested_by": caller.person}

    async def rows(self, dataset: str, *, caller: Caller) -> bytes:
        """Return synthetic rows as a CSV file of the data set's form.

        Raises
        ------
        Problem
            ``not-found``, ``dataset-archived``, ``busy``.
        """
        facts = await self._datasets.present(dataset)
        require_active(facts.record)
        written = FILE_ROWS * len(facts.schema.columns)
        return await self._plans.compute(
            _file, facts, person=caller.person, expected_ms=_MS_PER_WRITTEN * written
        )


def _dry_run(facts: DatasetFacts, question: Question, assumed: Assumptions) -> dict[str, object]:
    found = foretell(facts, question, assumed)  # first, because it refuses what does not fit
    assumed = with_typical(assumed, facts.columns)
    run = dry_run(
        question.statistic,
        facts.schema,
        assumed,
        lambda schema: make_plan(replace(facts, schema=schema), question),
    )
    told = shown(run.outcome, question.statistic, facts.schema)
    told_assumed = assumed.to_json(facts.schema)
    kept = json.dumps({"foresight": kept_json(found, told_assumed)}, allow_nan=False)
    name = sha256_hex(f"{facts.id} {question.canonical} {assumed!r}".encode())
    return {
        "id": f"dry_{name[:32]}",
        "dataset": facts.id,
        "status": "dry_run",
        "synthetic": True,
        "rows": run.rows,
        "assume": told_assumed,
        "cost": "0",
        "statistic": question.to_json()["statistic"],
        "value": told.value,
        "noise": noise_json(told.noise),
        "inference": inference_json(run.outcome.inference),
        "usefulness": usefulness_of(kept, question.kinds, run.outcome),
        **plan_json(run.plan, question.epsilon),
        "created_at": None,
        "released_at": None,
        "citation": _CITATION,
        "receipt": None,
    }


def _file(facts: DatasetFacts) -> bytes:
    data = dry_rows(facts.schema, with_typical(Assumptions(), facts.columns), most=FILE_ROWS)
    names = [name for name in facts.columns.columns if name in data.codes]
    cells = {name: _cells(facts.schema.columns[name], data.codes[name].tolist()) for name in names}
    unit = facts.columns.unit
    if unit is not None:
        cells = {unit.column: [f"person {row + 1}" for row in range(data.rows)], **cells}
    text = io.StringIO()
    writer = csv.writer(text, delimiter=facts.columns.delimiter, lineterminator="\n")
    writer.writerow(cells)
    writer.writerows(zip(*cells.values(), strict=True))
    return text.getvalue().encode()


def _cells(column: Column, codes: list[int]) -> list[str]:
    """Return cells as the data set's own file may have them."""
    if isinstance(column, CategoryColumn):
        return [column.values[code] for code in codes]
    if column.boolean:
        return ["true" if code > 0 else "false" for code in codes]
    middle, step = float(column.midpoint), float(column.step)
    numbers = (middle + step * code for code in codes)
    if column.whole:
        return [column.shown(round(number)) for number in numbers]
    return [f"{number:.6g}" for number in numbers]
