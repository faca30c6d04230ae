"""Rows computed from a seed and their place: any range of them, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from app.domain.datasets import ColumnsSpec, parse_columns
from mechanisms.privacy import Adjacency

NUMBERS = tuple(f"c{place}" for place in range(8))
GROUPS = ("a", "b", "c", "d")
_RUN = 1 << 18
_SEED = 20_260_101
_GROUP_ROWS = 1 << 20


def spec() -> ColumnsSpec:
    """Return the declaration of the rows: eight numbers, a category and a boolean."""
    number: dict[str, object] = {"type": "number", "lower": 0, "upper": 100}
    columns: dict[str, dict[str, object]] = dict.fromkeys(NUMBERS, number)
    columns["group"] = {"type": "category", "values": list(GROUPS)}
    columns["yes"] = {"type": "boolean"}
    return parse_columns(columns, adjacency=Adjacency.REPLACE_ONE, max_rows=None)


def run_of(place: int, rows: int) -> pl.DataFrame:
    """Return a run of rows: the generator counts, and begins at the run's place."""
    chance = np.random.Generator(np.random.Philox(key=_SEED, counter=place << 64))
    values = chance.uniform(0, 100, (len(NUMBERS), rows))
    values[0] = np.clip(0.5 * values[1] + 0.3 * values[2] + chance.normal(10, 5, rows), 0, 100)
    odds = 1 / (1 + np.exp(-(values[1] - values[2]) / 25))
    columns: dict[str, object] = dict(zip(NUMBERS, values.round(6), strict=True))
    columns["group"] = np.array(GROUPS)[chance.integers(0, len(GROUPS), rows)]
    columns["yes"] = chance.uniform(size=rows) < odds
    return pl.DataFrame(columns)


def write(path: Path, rows: int) -> None:
    """Write ``rows`` rows as Parquet, one row group after another."""

    def runs(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        del predicate, most, size  # nothing is asked but all rows
        for start in range(0, rows, _RUN):
            run = run_of(start // _RUN, min(_RUN, rows - start))
            yield run if columns is None else run.select(columns)

    schema = run_of(0, 1).schema
    partial = path.with_suffix(".part")
    register_io_source(runs, schema=schema).sink_parquet(
        partial, compression="zstd", row_group_size=_GROUP_ROWS
    )
    partial.rename(path)


def csv_bytes(rows: int) -> int:
    """Return the size of the rows as CSV; for many rows, in proportion to the first run."""
    looked_at = min(rows, _RUN)
    size = len(run_of(0, looked_at).write_csv().encode())
    return size * rows // looked_at
