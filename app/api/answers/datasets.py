"""The bodies of answers about data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field
from starlette.responses import Response

from app.api.answers.ledger import DatasetBudgetAnswer, budget_fields
from app.api.answers.paging import Answer, json_page_of
from app.domain.datasets import StatedPeople, columns_json, derived_json, design_json
from app.domain.policies import policy_json
from app.domain.units import unit_json
from app.domain.upload_reports import UploadReport
from app.services.datasets.datasets import DatasetView
from app.services.datasets.extending import VersionRecord


class DatasetAnswer(Answer):
    """The public facts of a data set."""

    id: str
    """Names the data set in addresses."""
    name: str
    """What the curator called it."""
    description: str
    """What the curator says of it."""
    adjacency: Literal["replace_one", "add_remove"]
    """Which data sets count as neighbours."""
    rows: int | None
    """Public under replace_one, null under add_remove."""
    max_rows: int | None
    """The declared bound on the row count; null where none was declared."""
    unit: dict[str, Any] | None
    """Who a person is, as in the spec; null where one row is one person."""
    protects: str
    """Who is protected by its releases, in words."""
    design: dict[str, Any] | None = Field(default=None, exclude_if=lambda said: said is None)
    """How the rows were sampled, as in the spec; absent where nothing is said of it."""
    columns: dict[str, dict[str, Any]]
    """The columns by name, as in the spec. A derived one has its bounds and, as `expr`, what it is
    made of."""
    status: Literal["active", "archived", "deleted"]
    """Archived: its rows are erased, and its releases stay. Deleted: its rows are erased, and it
    never had a release."""
    account: str
    """The budget account that releases are charged to; data sets about the same people share it."""
    budget: DatasetBudgetAnswer
    """What is left to spend."""
    policy: dict[str, Any]
    """What one release may ask for, as in the spec."""
    notices: list[str]
    """What its analysts should know."""
    checklist: list[str]
    """What its reviewers look at."""
    same_people: StatedPeople
    """What its curator has stated of whether its people may be in an earlier data set."""
    created_at: str
    """When it was uploaded (UTC)."""
    version: int
    """1, and one more for each time that rows were added: each version is a data set of its own."""
    extends: str | None
    """The version before, whose rows come first; null for the first one."""


class DatasetVersionAnswer(Answer):
    """A version of a data set, in short."""

    id: str
    """Names it in addresses: each version is a data set of its own."""
    version: int
    """Its number."""
    name: str
    """What it is called."""
    rows: int | None
    """All its rows, those of earlier versions included. Public under replace_one, null under
    add_remove."""
    created_at: str
    """When its rows were added (UTC)."""


class ColumnReport(Answer):
    """What became of one column's cells."""

    values: int
    """Cells that held a value."""
    filled: int
    """Cells without a value, which took the fill value of the spec's `missing`."""
    unreadable: int
    """Cells that were taken as missing though they held something, as `unreadable` allows."""
    clamped_low: int
    """Values below `lower`, which were moved there."""
    clamped_high: int
    """Values above `upper`, which were moved there."""
    other: int
    """Texts that `values` does not list, which the category's `other` stands for."""
    missing: int
    """Cells without a value, which stay so in a column with `"missing": "keep"`."""
    like_thousands: int
    """Numbers that look like `12.345`, where every one with a point has three digits after it; 0
    otherwise."""
    future: int
    """Dates after today, where a `format` has years of two digits (`%y`); 0 otherwise."""


class ColumnWarning(Answer):
    """Something about a column that is probably not meant."""

    column: str
    """The column's name."""
    message: str
    """What is odd, and where to look."""


class PeopleReport(Answer):
    """Whose the rows of a file are, where a person may have several."""

    people: int
    """People with an id."""
    median_rows: int
    """The median of rows per person."""
    most_rows: int
    """The most rows of one person."""
    rows_without_id: int
    """Rows without an id: each is a person of its own."""
    rows_left_out: int
    """Rows that were not stored, since their person has more than `max_rows`."""


class UploadReportAnswer(Answer):
    """Counts over the rows of the file, for the one who sent it."""

    rows: int
    """Rows in the file."""
    rows_dropped: int
    """Rows left out, because a cell is missing whose column says `drop`."""
    columns: dict[str, ColumnReport]
    """The declared columns by name."""
    people: PeopleReport | None = Field(default=None, exclude_if=lambda said: said is None)
    """Whose the rows are; absent where one row is one person."""
    warnings: list[ColumnWarning]
    """Columns to look at again, such as one whose bounds move most of its values."""


class UploadedDatasetAnswer(DatasetAnswer):
    """The public facts of a data set that has just been uploaded, and how the file was read."""

    report: UploadReportAnswer
    """How the file was read. It is in this answer only: neither stored nor logged, and never shown
    again."""


class CheckedUploadAnswer(Answer):
    """How a file would be read; nothing of it is stored."""

    report: UploadReportAnswer
    """The counts that the answer to the upload would have."""


def uploaded_answer(view: DatasetView, report: UploadReport) -> UploadedDatasetAnswer:
    """Return a data set's public facts, and the report that only its uploader sees, once."""
    return UploadedDatasetAnswer(**dict(dataset_answer(view)), report=_report_answer(report))


def checked_answer(report: UploadReport) -> Response:
    """Return the report on a file that was only checked."""
    answer = CheckedUploadAnswer(report=_report_answer(report))
    return Response(answer.model_dump_json(), media_type="application/json")


def _report_answer(report: UploadReport) -> UploadReportAnswer:
    warnings = [ColumnWarning(column=name, message=message) for name, message in report.warnings()]
    return UploadReportAnswer(
        rows=report.rows,
        rows_dropped=report.rows_dropped,
        columns={name: ColumnReport(**asdict(each)) for name, each in report.columns.items()},
        people=None if report.people is None else PeopleReport(**asdict(report.people)),
        warnings=warnings,
    )


def dataset_answer(view: DatasetView) -> DatasetAnswer:
    """Return the public facts of a data set."""
    facts, record = view.facts, view.facts.record
    return DatasetAnswer(
        id=record.id,
        name=record.name,
        description=facts.description,
        adjacency=facts.schema.adjacency.value,
        rows=record.rows,
        max_rows=facts.columns.max_rows,
        unit=None if facts.columns.unit is None else unit_json(facts.columns.unit),
        protects=facts.schema.protects.words,
        design=None if facts.columns.design is None else design_json(facts.columns.design),
        columns=columns_json(facts.columns) | derived_json(facts.columns),
        status=record.status.value,
        account=record.account,
        budget=DatasetBudgetAnswer(**budget_fields(view.balance, facts.meter)),
        policy=policy_json(facts.policy),
        notices=list(facts.notices),
        checklist=list(facts.checklist),
        same_people=facts.same_people,
        created_at=record.created_at,
        version=record.version,
        extends=record.extends,
    )


def version_answer(record: VersionRecord) -> DatasetVersionAnswer:
    """Return a version of a data set, in short."""
    return DatasetVersionAnswer(
        id=record.id,
        version=record.version,
        name=record.name,
        rows=record.rows,
        created_at=record.created_at,
    )


def datasets_answer(views: Sequence[DatasetView], *, more: bool) -> Response:
    """Return a page of data sets."""
    # wide ones are written one by one, and not on the event loop
    items = [
        (view.facts.record.number, dataset_answer(view).model_dump_json().encode())
        for view in views
    ]
    return json_page_of(items, more=more)
