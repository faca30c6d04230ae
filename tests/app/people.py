"""Rows of people, as an upload with a unit stores them, for the tests of the data plane."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from app.domain.datasets import ColumnsSpec
from app.engine.schema import schema_of
from app.services.datasets.admitting import declared_columns
from app.uploads.ingest import ingest
from app.uploads.people.taking import PeopleRows
from app.uploads.prf import Prf
from mechanisms.domain import NumberColumn
from mechanisms.privacy import Adjacency

PRF = Prf(bytes(range(32)))
X: Mapping[str, Mapping[str, object]] = {"x": {"type": "number", "lower": 0, "upper": 100}}

Row = tuple[object, ...]


def people_spec(
    unit: Mapping[str, object],
    columns: Mapping[str, Mapping[str, object]] = X,
    derive: Mapping[str, str] | None = None,
    *,
    max_rows: int = 1_000_000,
) -> ColumnsSpec:
    """Return a spec with this unit, whose ids are in the column ``id``."""
    return declared_columns(
        columns,
        {name: {"expr": text} for name, text in (derive or {}).items()},
        adjacency=Adjacency.ADD_REMOVE,
        max_rows=max_rows,
        unit={"column": "id", "max_rows": None, **unit},
    )


def csv_of(rows: Iterable[Sequence[object]], names: str = "id,x") -> bytes:
    """Return a CSV file of these rows."""
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return "\n".join([names, *lines, ""]).encode()


def stored(content: bytes, spec: ColumnsSpec, directory: Path = Path("unused")) -> Counter[Row]:
    """Return the rows that an upload stores, and how often each."""
    blocks = ingest(io.BytesIO(content), spec, ids=PRF)
    found: Counter[Row] = Counter()
    columns = schema_of(spec, rows=None).columns
    for block in PeopleRows(spec, PRF, directory).taken(blocks):
        cells = [
            block[name].astype(float).round(6).tolist()
            if isinstance(column, NumberColumn)
            else np.array(column.values)[block[name]].tolist()
            for name, column in columns.items()
        ]
        found.update(zip(*cells, strict=True))
    return found
