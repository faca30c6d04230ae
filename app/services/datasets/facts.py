"""A data set's public facts, as its record holds them, and what follows from them alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from app.domain.datasets import ColumnsSpec, StatedPeople, parse_columns
from app.domain.ledger import Balance
from app.domain.policies import Ask, Policy, enforce
from app.domain.problems import Problem
from app.engine.schema import schema_of
from app.services.datasets.accounting import Meter, meter_of
from app.services.datasets.accounts import delta_of
from app.services.datasets.policies import read_policy
from app.store import DatasetRecord, DatasetStatus
from mechanisms.domain import Schema
from mechanisms.privacy import Adjacency, Epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """A data set as everybody may see it, its columns and policy parsed.

    ``notices`` are for the requester, ``checklist`` is what its reviewers look at, and
    ``same_people`` what its curator has stated of earlier data sets.
    """

    record: DatasetRecord
    description: str
    notices: tuple[str, ...]
    checklist: tuple[str, ...]
    same_people: StatedPeople
    columns: ColumnsSpec
    policy: Policy
    schema: Schema
    meter: Meter

    @property
    def id(self) -> str:
        """Return the data set's id."""
        return self.record.id


@dataclass(frozen=True, slots=True)
class DatasetView:
    """Public facts and the present balance."""

    facts: DatasetFacts
    balance: Balance


def facts_of(record: DatasetRecord) -> DatasetFacts:
    """Return the public facts that a data set's record holds."""
    spec = json.loads(record.spec)
    said = {**spec, **json.loads(record.edits or "{}")}
    labels: Mapping[str, str | None] = said.get("labels", {})
    columns = parse_columns(
        {
            name: {**column, "label": labels[name]} if name in labels else column
            for name, column in spec["columns"].items()
        },
        adjacency=Adjacency(spec["adjacency"]),
        max_rows=spec["max_rows"],
        derived=spec.get("derive"),
        unit=spec.get("unit"),
        text=spec.get("text"),
    )
    return DatasetFacts(
        record=record,
        description=said["description"],
        notices=tuple(said.get("notices", ())),
        checklist=tuple(said.get("checklist", ())),
        same_people=spec.get("same_people", "not_stated"),
        columns=columns,
        policy=read_policy(said["policy"]),
        schema=schema_of(columns, rows=record.rows),
        meter=meter_of(delta_of(spec.get("delta"))),
    )


def require_active(record: DatasetRecord | None) -> DatasetRecord:
    """Return a data set that has its rows.

    Raises
    ------
    Problem
        ``not-found`` or ``dataset-archived``.
    """
    if record is None:
        raise Problem("not-found", "There is no such data set.")
    if record.status is not DatasetStatus.ACTIVE:
        raise Problem("dataset-archived")
    return record


def require_askable(facts: DatasetFacts, *, kinds: tuple[str, ...], epsilon: Epsilon) -> None:
    """Pass for a data set that has its rows and whose policy allows the question.

    Raises
    ------
    Problem
        ``dataset-archived`` or ``policy-refused``.
    """
    require_active(facts.record)
    enforce(facts.policy, Ask(kinds=kinds, epsilon=epsilon))
