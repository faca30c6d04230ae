"""An upload becomes the files of a data set: parts, sketches, manifest.

They are written in a directory of their own and are on disk when this is done;
showing them is the vault's. All that takes time per row or column is here, so
that a server can have it done in another process (:mod:`app.processes.uploads`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.domain.datasets import ColumnsSpec, columns_json, derived_json
from app.domain.problems import Problem
from app.domain.units import unit_json
from app.domain.upload_problems import UploadReport
from app.engine.executor import Executor, Part
from app.engine.schema import schema_of
from app.uploads.people.counting import RowsStored
from app.uploads.people.taking import PeopleRows
from app.uploads.prf import Prf
from app.uploads.reading_task import Tally
from app.uploads.sketching import File, SketchBuilder, added
from mechanisms.contract import Block
from mechanisms.domain import CategoryColumn, Column, Values, facts_of

_MAX_PART_ROWS = 1 << 18  # a part is read, hashed and sketched as a whole
_MAX_PART_CELLS = 1 << 23  # 64 MB of values, where a table is wide
_PEOPLE_KEY = "people_key"
"""The fact that names the key of the persons' digests."""
_UNCOUNTED = (
    "It was stored by a version that did not count the rows of each person, or under another key. "
    "So the cap of rows could not hold over all files. Nothing was stored."
)


class Writer(Protocol):
    """An upload in progress."""

    @property
    def id(self) -> str: ...
    @property
    def directory(self) -> Path: ...
    @property
    def parts(self) -> Sequence[Part]: ...
    def start_over(self) -> None: ...
    def write(self, block: Mapping[str, NDArray[np.integer[Any]]], /) -> Part: ...
    def attach(self, name: str, content: bytes, /) -> None: ...
    def finish(self, facts: Mapping[str, object], /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """A stored data set that an upload adds rows to; ``manifest`` is the SHA-256 of its manifest.

    Its parts are the first ones of what is written already.
    """

    dataset: str
    manifest: str
    facts: Mapping[str, Any]
    attached: Mapping[str, File]


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of an upload.

    ``rows`` are those stored; ``report`` is for the uploader's eyes only. ``digests``
    are the stored form of the row digests, None when there is no key to make them
    with.
    """

    rows: int
    report: UploadReport
    digests: bytes | None = None


def write_files(
    writer: Writer,
    blocks: Iterable[Block],
    spec: ColumnsSpec,
    tally: Tally,
    ids: Prf,
    *,
    origin: Callable[[], Mapping[str, object]] = dict,
    executor: Executor | None = None,
    extended: Extended | None = None,
) -> Ingested:
    """Write the files of an upload from what its reader yields and counts.

    ``ids`` chooses among people's rows, where the spec has a unit. ``origin`` is asked, once
    all has been read, what the manifest is to say of where it lay. ``executor`` may sketch what
    has several parts. With ``extended`` the rows come behind its rows, and the spec's
    ``max_rows`` bounds those that are added.

    Raises
    ------
    Problem
        What the reader refuses, or the rows of people; ``not-extendable``.
    """
    columns = schema_of(spec, rows=None).as_stored
    sketches, first = SketchBuilder(columns, executor), len(writer.parts)
    stored = _rows_stored(writer, spec, ids, extended)
    people = None if spec.unit is None else PeopleRows(spec, ids, writer.directory, stored)
    blocks = blocks if people is None else people.taken(blocks)
    rows = 0
    with _Background() as background:
        # Parts of one size, however the reader cuts its blocks: the files depend on the rows alone.
        for part in regroup(blocks, part_rows(len(columns))):
            rows += _height(part)
            background.run(partial(_store_part, writer, sketches, columns, part))
    files = sketches.files(writer.parts[first:])
    for name, content in files if extended is None else added(files, extended.attached):
        writer.attach(name, content)
    if stored is not None:
        stored.finish()
    if people is not None:
        people.report_in(tally.report)
    writer.finish({**_facts(spec, ids), **_extension(spec, extended), **origin()})
    digests = None
    if tally.digests is not None:
        persons = None if people is None else people.people()
        digests = replace(tally.digests, people=persons).to_bytes()
    return Ingested(rows, tally.report, digests)


def _rows_stored(
    writer: Writer, spec: ColumnsSpec, ids: Prf, extended: Extended | None
) -> RowsStored | None:
    """Return what counts the rows of people, where several of one person's may be stored.

    Raises
    ------
    Problem
        ``not-extendable``: it is unknown what the earlier data set holds of a person.
    """
    if spec.unit is None or spec.unit.reduce is not None:
        return None
    if extended is None:
        return RowsStored(writer.attach)
    if extended.facts.get(_PEOPLE_KEY) != ids.name:
        raise Problem("not-extendable", _UNCOUNTED)
    return RowsStored(writer.attach, extended.attached)


def part_rows(columns: int) -> int:
    """Return how many rows a full part has: 2**18, or fewer when there are many columns."""
    return min(_MAX_PART_ROWS, _MAX_PART_CELLS // columns)


def regroup(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Yield the same rows in blocks of exactly ``rows`` rows, the last one of what is left."""
    waiting: list[Block] = []
    have = 0
    for block in blocks:
        start, height = 0, _height(block)
        while height - start >= rows - have:
            stop = start + rows - have
            waiting.append(_rows(block, start, stop))
            yield _joined(waiting)
            waiting, have, start = [], 0, stop
        if start < height:
            waiting.append(_rows(block, start, height))
            have += height - start
    if waiting:
        yield _joined(waiting)


def _height(block: Block) -> int:
    return len(next(iter(block.values())))


def _rows(block: Block, start: int, stop: int) -> Block:
    return {name: values[start:stop] for name, values in block.items()}


def _joined(blocks: Sequence[Block]) -> Block:
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _store_part(
    writer: Writer, sketches: SketchBuilder, columns: Mapping[str, Column], part: Block
) -> None:
    writer.write(
        {name: _narrowed(values, facts_of(columns, name)) for name, values in part.items()}
    )
    sketches.add(part)


def _narrowed(values: Values, column: Column) -> Values:
    """Return places and whole numbers in the narrowest type that holds what the column may."""
    if isinstance(column, CategoryColumn):
        return values.astype(np.min_scalar_type(len(column.values)))
    if column.dtype.kind == "f":
        return values
    low, high = int(column.lower), int(column.upper)
    narrow = np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high))
    return values.astype(narrow if narrow.kind in "iu" else column.dtype)


def _facts(spec: ColumnsSpec, ids: Prf) -> dict[str, object]:
    unit = {} if spec.unit is None else {"unit": unit_json(spec.unit), _PEOPLE_KEY: ids.name}
    return {
        **unit,
        "columns": columns_json(spec),
        "derive": derived_json(spec),
        "adjacency": spec.adjacency.value,
        "max_rows": spec.max_rows,
    }


def _extension(spec: ColumnsSpec, extended: Extended | None) -> dict[str, object]:
    """Return what the manifest says of the data set before; bounds on rows add up."""
    if extended is None:
        return {}
    before = extended.facts["max_rows"]
    bounds = None if before is None or spec.max_rows is None else before + spec.max_rows
    named = {"dataset": extended.dataset, "manifest": extended.manifest}
    return {"max_rows": bounds, "extends": named}


class _Background:
    """Runs one task at a time in parallel with the caller, who waits only to hand over the next."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ingest")
        self._running: Future[None] | None = None

    def __enter__(self) -> _Background:
        return self

    def run(self, task: Callable[[], None]) -> None:
        """Wait for the task before, then start this one."""
        self._wait()
        self._running = self._thread.submit(task)

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        try:
            if failure is None:
                self._wait()
        finally:
            self._thread.shutdown()

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.result()
