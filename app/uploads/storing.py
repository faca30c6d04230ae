"""An upload becomes the files of a data set: parts, sketches, manifest.

They are written in a directory of their own and are on disk when this is done;
showing them is the vault's. All that takes time per row or column is here, so
that a server can have it done in another process (:mod:`app.processes.uploads`).

The request to the process that reads an upload, and its result besides the rows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from app.domain.datasets import (
    ColumnsSpec,
    columns_json,
    derived_json,
    parse_columns,
)
from app.domain.problems import Problem, StoppedError
from app.domain.sources import Source
from app.domain.units import unit_json
from app.domain.upload_reports import UploadReport
from app.engine.executor import Executor
from app.engine.schema import schema_of
from app.uploads.people.counting import RowsStored
from app.uploads.people.taking import PeopleRows
from app.uploads.prf import Prf
from app.uploads.row_digests import KEY_BYTES, RowDigester, RowDigests
from app.uploads.sketching import SketchBuilder, added
from app.uploads.trouble import Limits
from app.vault.stored import Attached
from app.vault.vault import Vault, VaultWriter
from mechanisms.contract import Block
from mechanisms.domain import CategoryColumn, Column, Values, facts_of
from mechanisms.privacy import Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingTask:
    """What a reader is to do.

    ``lineage_key`` is hex, and useless without access to the digests it
    made; a reader whose decoder was taken over could read the key's file too. One that is
    ``fed`` reads the files that are given to it one after the other.
    """

    columns: Mapping[str, Any]
    derived: Mapping[str, Any]
    adjacency: str
    max_rows: int | None
    limits: Mapping[str, Any]
    unit: Mapping[str, Any] | None = None
    lineage_key: str | None = None
    text: Mapping[str, Any] = field(default_factory=dict)
    fed: bool = False

    @classmethod
    def of(
        cls, spec: ColumnsSpec, limits: Limits, *, lineage_key: bytes | None = None
    ) -> ReadingTask:
        """Return the task to read a file under a spec and limits."""
        return cls(
            columns=columns_json(spec),
            derived=derived_json(spec),
            adjacency=spec.adjacency.value,
            max_rows=spec.max_rows,
            limits={each.name: getattr(limits, each.name) for each in fields(limits)},
            unit=None if spec.unit is None else unit_json(spec.unit),
            lineage_key=None if lineage_key is None else lineage_key.hex(),
            text=asdict(spec.text),
        )

    def to_json(self) -> bytes:
        """Return the task as it is sent; a thousand columns are copied only once."""
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)}).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ReadingTask:
        """Return the inverse of :meth:`to_json`."""
        return cls(**json.loads(content))

    def spec(self) -> ColumnsSpec:
        """Return the declared columns."""
        return parse_columns(
            self.columns,
            adjacency=Adjacency(self.adjacency),
            max_rows=self.max_rows,
            derived=self.derived,
            unit=self.unit,
            text=self.text,
        )

    def upload_limits(self) -> Limits:
        """Return what the upload may cost."""
        return Limits(**self.limits)

    def key(self) -> bytes | None:
        """Return the key of row digests."""
        return None if self.lineage_key is None else bytes.fromhex(self.lineage_key)

    def digester(self) -> RowDigester | None:
        """Return what makes the rows' digests, if that is asked for."""
        key = self.key()
        return None if key is None else RowDigester(key, self.spec())

    def ids(self) -> Prf:
        """Return what digests people's ids, and chooses among their rows."""
        return Prf(self.key() or bytes(KEY_BYTES))


@dataclass(slots=True)
class Tally:
    """What a reader has counted and digested on its way; complete after the last block.

    ``report`` is that of :func:`app.uploads.ingest.ingest`. ``read_bytes`` are those of the files
    up to the end of the block that has come last, as the reader says.
    """

    report: UploadReport = field(default_factory=UploadReport)
    digests: RowDigests | None = None
    read_bytes: int = 0


# An upload becomes the files of a data set: parts, sketches, manifest


_MAX_PART_ROWS = 1 << 18  # a part is read, hashed and sketched as a whole
_MAX_PART_CELLS = 1 << 23  # 64 MB of values, where a table is wide
_PEOPLE_KEY = "people_key"
"""The fact that names the key of the persons' digests."""
_UNCOUNTED = (
    "It was stored by a version that did not count the rows of each person, or under another key. "
    "So the cap of rows could not hold over all files. Nothing was stored."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """A stored data set that an upload adds rows to; ``manifest`` is the SHA-256 of its manifest.

    Its parts are the first ones of what is written already.
    """

    dataset: str
    manifest: str
    facts: Mapping[str, Any]
    attached: Mapping[str, Attached]


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
    writer: VaultWriter,
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
    writer: VaultWriter, spec: ColumnsSpec, ids: Prf, extended: Extended | None
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
    writer: VaultWriter, sketches: SketchBuilder, columns: Mapping[str, Column], part: Block
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


_FAR_SILENCE_S = 3_600.0
"""How long a reader may be silent that waits for files from afar."""


class Stop:
    """Ends a piece of work early; any thread may ask for that, at any time.

    ``note``, of an upload, names a file in staging that holds the progress while the upload is
    read, and the text by which a client looks it up.
    """

    def __init__(self, note: tuple[str, str] | None = None) -> None:
        self.note = note
        self._lock = threading.Lock()
        self._asked = False
        self._end: Callable[[], None] | None = None

    def ask(self) -> None:
        """Have what is under way ended, and nothing else begun."""
        with self._lock:
            self._asked, end = True, self._end
        if end is not None:
            end()

    @contextmanager
    def ends(self, end: Callable[[], None]) -> Iterator[None]:
        """Run a block that ``end`` makes fail.

        Raises
        ------
        StoppedError
            The caller stopped it, before or during the reading.
        """
        self.check()
        with self._lock:
            self._end = end
        try:
            self.check()  # it may have been asked for just before
            yield
        except Exception:  # what was ended may fail in any way
            self.check()
            raise
        finally:
            with self._lock:
                self._end = None

    def check(self) -> None:
        """Raise :class:`StoppedError` if it was asked for."""
        with self._lock:
            asked = self._asked
        if asked:
            raise StoppedError("no one waits for it any more")


TakeIn = Callable[
    [VaultWriter, BinaryIO | Source, ReadingTask, Stop, tuple[str, str] | None], Ingested
]
"""Has an upload read, and writes its files."""


class Intake:
    """Stores uploads.

    Parameters
    ----------
    vault
        Where data sets are kept.
    take_in, close
        What writes an upload's files, and what ends it.
    limits
        What an upload may cost.
    lineage_key
        The secret of row digests; without one none are made.
    """

    def __init__(
        self,
        vault: Vault,
        take_in: TakeIn,
        *,
        close: Callable[[], None],
        limits: Limits | None = None,
        lineage_key: bytes | None = None,
    ) -> None:
        self._vault = vault
        self._take_in = take_in
        self.close = close
        self._limits = limits or Limits()
        self._lineage_key = lineage_key

    def store(
        self,
        dataset_id: str,
        content: BinaryIO | Source,
        spec: ColumnsSpec,
        stop: Stop | None = None,
        extends: tuple[str, str | None] | None = None,
    ) -> Ingested:
        """Store an upload, or what lies at a source, whole or not at all.

        ``extends`` is a stored data set with these columns whose rows come first, and the SHA-256
        of its manifest where it is known.

        Raises
        ------
        Problem
            ``invalid-upload`` or ``too-large``, as :func:`app.uploads.ingest.ingest`; of a
            source ``source-unreadable`` or ``source-changed`` too. ``not-extendable``.
        StoppedError
            ``stop`` was asked to.
        """
        limits = self._limits
        if isinstance(content, Source):
            limits = replace(limits, max_upload_bytes=content.max_bytes, silence_s=_FAR_SILENCE_S)
        with self._vault.writer(dataset_id) as writer:
            task = ReadingTask.of(spec, limits, lineage_key=self._lineage_key)
            task = replace(task, fed=isinstance(content, Source))
            before = None
            if extends is not None:
                before = (extends[0], extends[1] or self.manifest(extends[0]))
            ingested = self._take_in(writer, content, task, stop or Stop(), before)
            self._vault.publish(writer)
        return ingested

    def manifest(self, dataset_id: str) -> str:
        """Return the SHA-256 of a stored upload's manifest."""
        return self._vault.manifest_digest(dataset_id)

    def staged_files(self, name: str) -> Sequence[bytes]:
        """Return what the files of a name hold that uploads have in staging."""
        return self._vault.staged_files(name)
