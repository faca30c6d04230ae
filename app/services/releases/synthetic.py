"""Synthetic rows of a release of tables: a file, and what states its guarantee and its quality.

A function of the released numbers, of public facts and of the request: no data set is opened, and
nothing is charged. The same request makes the same bytes: CSV everywhere, and Parquet wherever the
same version of Polars writes it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import urlencode

import polars as pl

from app.domain.problems import invalid_request
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.plans import PlanService
from app.services.plans.questions import Question, read_question
from app.services.releases.derivations import answer_of_stored
from app.services.releases.releases import ReleaseService
from app.store import ReleaseRecord
from app.tidy.pivots import csv_text
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import Schema
from mechanisms.margins.synthetic import SyntheticTable, described, synthesize, synthesizing_ms
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.tables import MarginStatistic
from mechanisms.words import worded

Format = Literal["csv", "parquet"]
MOST_SEED = (1 << 53) - 1
"""Programs that read numbers as floats have these exactly."""

MEDIA_TYPES: Mapping[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
STATEMENT = worded(
    "Synthetic rows, drawn from a model of the released tables: no row is of a real person. They "
    "have the privacy guarantee of the release and cost nothing. They are near the released "
    "tables, and have other relations of columns only as far as those imply them."
)
_ONLY_TABLES = "only a release of tables has synthetic rows"
_DTYPES: Mapping[str, Any] = {
    "boolean": pl.Boolean,
    "category": pl.String,
    "date": pl.String,
    "datetime": pl.String,
    "integer": pl.Int64,
    "number": pl.Float64,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How many rows, of which seed, in which form."""

    rows: int
    seed: int
    format: Format

    def address(self, release: str) -> str:
        """Return the path of what describes the file."""
        asked = {"rows": self.rows, "seed": self.seed, "format": self.format}
        return f"/v1/releases/{release}/synthetic?{urlencode(asked)}"

    def name(self, release: str) -> str:
        """Return the name of the file."""
        return f"{release}-synthetic-{self.rows}-{self.seed}.{self.format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticFile:
    """A file of synthetic rows, what describes it, and one table next to the released one."""

    content: bytes
    sidecar: dict[str, Any]
    compared: list[dict[str, Any]]


class SyntheticService:
    """Makes synthetic rows of releases, for those who may see them."""

    def __init__(
        self, releases: ReleaseService, datasets: DatasetService, plans: PlanService
    ) -> None:
        self._releases = releases
        self._datasets = datasets
        self._plans = plans

    async def rows(
        self, release: str, wanted: Wanted, *, caller: Caller, compared: int = 0
    ) -> SyntheticFile:
        """Return synthetic rows of a release.

        ``compared`` is the place of the table whose cells are shown next to the released ones.

        Raises
        ------
        Problem
            ``not-found`` for foreign and unknown releases alike; ``invalid-request`` when the
            release has no result, or is not of tables, or the rows are too many; ``busy``.
        """
        record = await self._releases.get(release, caller=caller)
        facts = await self._datasets.present(record.dataset)
        question = read_question(record.request)
        asked = question.statistic
        if not isinstance(asked, MarginStatistic):
            raise invalid_request("release", _ONLY_TABLES)
        return await self._plans.compute(
            _made,
            record,
            facts,
            wanted,
            compared,
            person=caller.person,
            expected_ms=_expected_ms(question, facts.schema, wanted),
        )


def _expected_ms(question: Question, schema: Schema, wanted: Wanted) -> float:
    asked = cast(MarginStatistic, question.statistic)
    # a plan's time counts the cells, without making them
    return question.planning_ms(schema) + synthesizing_ms(asked, schema, wanted.rows)


def _made(
    record: ReleaseRecord, facts: DatasetFacts, wanted: Wanted, compared: int
) -> SyntheticFile:
    answer = answer_of_stored(record, "release")
    question = read_question(record.request)
    asked = viewed(question.statistic, facts.schema)
    statistic, schema = cast(MarginStatistic, asked.statistic), asked.view.schema
    try:
        table = synthesize(statistic, answer["value"], schema, rows=wanted.rows, seed=wanted.seed)
    except InvalidStatisticError as error:
        raise invalid_request(error.field_name, error.detail) from None
    columns = list(described(table, schema))
    types = {each["name"]: each["type"] for each in columns}
    content = _csv(table) if wanted.format == "csv" else _parquet(table, types)
    sidecar = {
        "release": record.id,
        "dataset": record.dataset,
        "synthetic": True,
        "statement": STATEMENT,
        "rows": wanted.rows,
        "seed": wanted.seed,
        "format": wanted.format,
        "sha256": hashlib.sha256(content).hexdigest(),
        "columns": columns,
        "left_out": list(table.left_out),
        "guarantee": answer["guarantee"],
        "cost": "0",
        "model": [{"column": name, "given": list(given)} for name, given in table.links],
        "tables": [
            {
                "columns": list(fit.columns),
                "in_model": fit.in_model,
                "total_variation": fit.total_variation,
            }
            for fit in table.fits
        ],
        "unmeasured": [list(pair) for pair in table.unmeasured],
    }
    shown = _compared(table, answer["value"], compared) if compared < len(table.fits) else []
    return SyntheticFile(content=content, sidecar=sidecar, compared=shown)


def _compared(table: SyntheticTable, value: Mapping[str, Any], place: int) -> list[dict[str, Any]]:
    """Return the cells of one table, as released and as synthetic rows have them, in shares."""
    fit = table.fits[place]
    people = max(int(fit.released.sum()), 1)
    rows = max(int(fit.synthetic.sum()), 1)
    groups = value.get("groups", [{"by": {}, "value": value}])
    cells = [
        {**group["by"], **each["cell"]}
        for group in groups
        for each in group["value"]["tables"][place]["cells"]
    ]
    return [
        {"cell": each, "released": int(one) / people, "synthetic": int(other) / rows}
        for each, one, other in zip(cells, fit.released.ravel(), fit.synthetic.ravel(), strict=True)
    ]


def _csv(table: SyntheticTable) -> bytes:
    cells = (
        [("true" if each else "false") if isinstance(each, bool) else each for each in column]
        for column in table.columns.values()
    )
    return csv_text(table.columns, zip(*cells, strict=True)).encode()


def _parquet(table: SyntheticTable, types: Mapping[str, str]) -> bytes:
    frame = pl.DataFrame(
        {name: pl.Series(values, dtype=_DTYPES[types[name]])
         for name, values in table.columns.items()}
    )  # fmt: skip
    frame = frame.with_columns(
        *(pl.col(name).str.to_date() for name in types if types[name] == "date"),
        *(
            pl.col(name).str.to_datetime(time_unit="us", time_zone="UTC")
            for name in types
            if types[name] == "datetime"
        ),
    )
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd", statistics=False)
    return file.getvalue()
