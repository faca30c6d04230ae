"""Small uploads and the plain way to encode them, for the tests of the data plane."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from numpy.typing import NDArray

from app.domain.datasets import ColumnsSpec, parse_columns
from app.domain.problems import Problem
from app.engine.data import DataEngine
from app.engine.executor import Executor
from app.engine.schema import schema_of
from app.processes.upload_reading import SHARED, UploadReader, checked_blocks
from app.uploads.storing import Extended, Ingested, Intake, ReadingTask, Stop, Tally, write_files
from app.uploads.trouble import Limits
from app.vault.vault import Vault, VaultWriter
from mechanisms.domain import CODE_MAX, CategoryColumn, Column, NumberColumn, Values, coded
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData

SENTINEL = "SENTINELCELL"
"""Planted in cells; must not appear in any problem or log."""

Codes = dict[str, NDArray[np.int32]]


def columns_spec(
    columns: Mapping[str, Mapping[str, object]] | None = None,
    *,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    max_rows: int | None = None,
) -> ColumnsSpec:
    """Return a spec; by default one column of each type."""
    default = {
        "income": {"type": "number", "lower": -5, "upper": 20},
        "region": {"type": "category", "values": ["north", "south, east", 'the "old" west', "öst"]},
        "owner": {"type": "boolean"},
    }
    return parse_columns(columns or default, adjacency=adjacency, max_rows=max_rows)


def read_upload(
    stream: BinaryIO,
    spec: ColumnsSpec,
    *,
    limits: Limits | None = None,
    reader: UploadReader = SHARED,
    scratch: Path | None = None,
) -> Iterator[Mapping[str, NDArray[np.int32]]]:
    """Yield an upload's blocks as a process reads them and this one finds them sound."""
    task = ReadingTask.of(spec, limits or Limits())
    with reader.reading(stream, task, scratch=scratch) as channel:
        yield from checked_blocks(channel, task, spec, Tally())


class StoringHere:
    """Takes uploads in within this process, but for the reading and what an executor does."""

    def __init__(self, executor: Executor | None = None) -> None:
        self.executor = executor

    def take_in(
        self,
        writer: VaultWriter,
        stream: BinaryIO,
        task: ReadingTask,
        stop: Stop,
        extends: tuple[str, str] | None = None,
    ) -> Ingested:
        stop.check()
        extended = None
        if extends is not None:
            before = Vault(writer.directory.parents[1]).open(extends[0], manifest=extends[1])
            writer.build_on(before.parts)
            extended = Extended(
                dataset=before.id,
                manifest=extends[1],
                facts=before.facts,
                attached=before.attached,
            )
        with SHARED.reading(stream, task, scratch=writer.directory) as channel:
            spec, tally = task.spec(), Tally()
            blocks = checked_blocks(channel, task, spec, tally)
            more: Any = {"executor": self.executor, "extended": extended}
            return write_files(writer, blocks, spec, tally, task.ids(), **more)

    def close(self) -> None:
        pass


class DataHere(DataEngine):
    """An engine with an intake: uploads are taken in here, unless set otherwise."""

    def __init__(
        self,
        vault: Vault,
        *,
        storing: Any = None,
        limits: Limits | None = None,
        lineage_key: bytes | None = None,
        **options: Any,
    ) -> None:
        super().__init__(vault, **options)
        storing = storing or StoringHere()
        self.store = Intake(
            vault,
            storing.take_in,
            close=storing.close,
            limits=limits,
            lineage_key=lineage_key,
        ).store


def values_read(content: bytes, spec: ColumnsSpec, **limits: Any) -> dict[str, Values]:
    """Have an upload read and join its blocks."""
    blocks = list(read_upload(io.BytesIO(content), spec, limits=Limits(**limits)))
    columns = schema_of(spec, rows=None).columns
    return {
        name: np.concatenate([np.zeros(0, column.dtype), *(block[name] for block in blocks)])
        for name, column in columns.items()
    }


def encode(content: bytes, spec: ColumnsSpec, **limits: Any) -> Codes:
    """Have an upload read, and return the codes of its values."""
    columns = schema_of(spec, rows=None).columns
    found = values_read(content, spec, **limits)
    return {name: coded(columns[name], values) for name, values in found.items()}


def refused(content: bytes, spec: ColumnsSpec | None = None, **limits: Any) -> Problem:
    """Return the problem that an upload meets; no part of it may quote a cell."""
    with pytest.raises(Problem) as caught:
        encode(content, spec or columns_spec(), **limits)
    problem = caught.value
    reported = [str(problem), repr(problem), problem.detail, repr(problem.extras)]
    assert problem.__cause__ is None
    assert not any(SENTINEL in text for text in reported)
    return problem


def troubles(content: bytes, spec: ColumnsSpec | None = None, **limits: Any) -> list[Any]:
    """Return what an ``invalid-upload`` lists, as (row, column, reason), in the order of rows."""
    problem = refused(content, spec, **limits)
    assert (problem.code, problem.status) == ("invalid-upload", 422)
    listed: Any = problem.extras["problems"]
    names = list((spec or columns_spec()).read)
    found = [
        (row, place["column"], kind["reason"])
        for kind in listed
        for place in kind["columns"] or [{"column": None, "rows": kind["rows"]}]
        for row in place["rows"] or [None]
    ]
    found.sort(key=lambda each: (each[0] or 0, names.index(each[1]) if each[1] in names else -1))
    return found


def plainly(content: str, spec: ColumnsSpec) -> Codes:
    """Encode a sound CSV text with the standard library, cell by cell, in rationals."""
    rows = list(csv.DictReader(io.StringIO(content, newline="")))
    columns = schema_of(spec, rows=None).columns
    result: Codes = {}
    for name, column in columns.items():
        cells = [row[name] for row in rows]
        if isinstance(column, CategoryColumn):
            codes = [column.values.index(cell) for cell in cells]
        elif column.boolean:
            codes = [CODE_MAX if cell.lower() in {"true", "1"} else -CODE_MAX for cell in cells]
        else:
            codes = [_code(column, float(cell)) for cell in cells]
        result[name] = np.array(codes, dtype=np.int32)
    return result


def plain_data(content: str, spec: ColumnsSpec) -> ArrayData:
    """Return the rows of a sound CSV text, read with the standard library."""
    rows = list(csv.DictReader(io.StringIO(content, newline="")))
    schema = schema_of(spec, rows=len(rows))
    cells = {name: [row[name] for row in rows] for name in schema.columns}
    values = {name: _plain_values(column, cells[name]) for name, column in schema.columns.items()}
    found = ArrayData.from_values(schema, values)
    assert same(dict(found.codes), plainly(content, spec))
    return found


def _plain_values(column: Column, cells: list[str]) -> list[Any]:
    if isinstance(column, CategoryColumn):
        return cells
    if column.boolean:
        return [cell.lower() in {"true", "1"} for cell in cells]
    return [float(cell) for cell in cells]


def _code(column: NumberColumn, value: float) -> int:
    clamped = min(max(Fraction(value), column.lower), column.upper)
    return round((clamped - column.midpoint) / column.step)  # ties to even, as rint


def sample_csv(rows: int, *, seed: int = 1, line_end: str = "\n", quote_all: bool = False) -> str:
    """Return a sound CSV with every type, awkward texts, and an undeclared column."""
    generator = np.random.default_rng(seed)
    regions = columns_spec().columns["region"].values  # type: ignore[union-attr]
    buffer = io.StringIO()
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    writer = csv.writer(buffer, lineterminator=line_end, quoting=quoting)
    writer.writerow(["region", "note", "income", "owner"])
    for _ in range(rows):
        writer.writerow(
            [
                regions[generator.integers(len(regions))],
                generator.choice(["", "plain", 'says "hi"', "two\nlines", "a,b", "\r\n"]),
                repr(float(generator.normal() * 12)),
                generator.choice(["true", "False", "1", "0", "TRUE"]),
            ]
        )
    return buffer.getvalue()


def same(one: Codes, other: Codes) -> bool:
    """Say whether two sets of columns hold the same codes."""
    return set(one) == set(other) and all(np.array_equal(one[name], other[name]) for name in one)
