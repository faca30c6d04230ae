"""The bodies of answers about data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from starlette.responses import Response

from app.api.answers.base import Answer
from app.api.answers.budgets import DatasetBudgetAnswer, budget_fields
from app.api.answers.paging import json_page_of
from app.domain.datasets import columns_json, derived_json
from app.domain.units import unit_json
from app.services.datasets.datasets import DatasetView, policy_json


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
    columns: dict[str, dict[str, Any]]
    """The columns by name, as in the spec. A derived one has its bounds and, as `expr`, what it is
    made of."""
    status: Literal["active", "archived"]
    """Archived: its rows are erased, and its releases stay."""
    account: str
    """The budget account that releases are charged to; data sets about the same people share it."""
    budget: DatasetBudgetAnswer
    """What is left to spend."""
    policy: dict[str, Any]
    """What one release may ask for, as in the spec."""
    created_at: str
    """When it was uploaded (UTC)."""


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
        columns=columns_json(facts.columns) | derived_json(facts.columns),
        status=record.status.value,
        account=record.account,
        budget=DatasetBudgetAnswer(**budget_fields(view.balance, facts.meter)),
        policy=policy_json(facts.policy),
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
