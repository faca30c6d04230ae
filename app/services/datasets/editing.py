"""Editing what is said of a data set: policy, description, notices, labels, checklist.

Bounds, columns and adjacency are fixed for good: releases are about them. Every edit stands in the
ledger, by a digest, with who made it and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import anyio.to_thread

from app.domain.problems import invalid_request
from app.services.datasets.datasets import DatasetService, DatasetView, facts_of
from app.services.datasets.policies import policy_json
from app.services.people.keys import Caller
from app.store import DatasetRecord, Store, UnitOfWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is to be changed; None leaves a thing as it is, and so do policy members not named.

    ``labels`` are texts by column; None takes a column's label away.
    """

    description: str | None = None
    policy: Mapping[str, object] | None = None
    notices: tuple[str, ...] | None = None
    labels: Mapping[str, str | None] | None = None
    checklist: tuple[str, ...] | None = None


class EditingService:
    """Edits data sets, for callers who may."""

    def __init__(self, store: Store, datasets: DatasetService) -> None:
        self._store = store
        self._datasets = datasets

    async def edit(self, dataset: str, edit: Edit, *, reason: str, caller: Caller) -> DatasetView:
        """Change what is said of a data set; whatever is asked from then on is judged by it.

        Raises
        ------
        Problem
            ``not-found``; ``invalid-request`` for the label of a column that is not there.
        """
        facts = await self._datasets.present(dataset)

        def write(work: UnitOfWork) -> DatasetRecord:
            record = work.datasets.get(dataset) or facts.record
            fields = json.dumps(_edited(record, edit), allow_nan=False)
            return work.by(caller.acting).datasets.edit(
                dataset, fields, principal=caller.person, reason=reason
            )

        self._datasets.remember(await self._store.awrite(write))
        return await anyio.to_thread.run_sync(self._datasets.view, dataset)


def _edited(record: DatasetRecord, edit: Edit) -> Mapping[str, object]:
    """Return all that may be edited, as it is afterwards."""
    facts = facts_of(record)
    labels = {**json.loads(record.edits or "{}").get("labels", {}), **(edit.labels or {})}
    for name in edit.labels or {}:
        if name not in facts.columns.columns:
            raise invalid_request("labels", "may name columns of the data set only")
    return {
        "description": facts.description if edit.description is None else edit.description,
        "policy": {**policy_json(facts.policy), **(edit.policy or {})},
        "notices": list(facts.notices if edit.notices is None else edit.notices),
        "labels": labels,
        "checklist": list(facts.checklist if edit.checklist is None else edit.checklist),
    }
