"""Keyed digests of an upload's rows, made while it is read; they outlive the rows.

A cell's digest is a pseudo-random function (AES under a secret key) of its plain
value; a row's digest is the sum of its cells' digests modulo 2**64. So it does not
depend on the order or the names of columns, nor on the file's format. It is made
from cells as they are in the file, before bounds are applied: declaring other
bounds changes nothing.

*Plain values.* A number is the same number in any spelling; one that is no integer
counts with the 24 bits of a 32-bit float, since files keep numbers at both widths.
True is 1 and false is 0. Other texts count without surrounding blanks and without
case, and as numbers when they read as numbers. Missing and unknown cells count as
nothing.

*People.* Where the spec has a unit, the first half of each person's digest is kept too
(:mod:`app.uploads.people`): it finds the same person in another file exactly.

*Subsets.* Rows are sampled over all declared columns; over 16 halves of the columns,
chosen by 8 bits of each name's keyed hash, so that some halves survive when a few
columns are dropped or added; and over every single number column, which finds
people again by one identifying column whatever else was dropped or renamed. What is kept
of undeclared columns is in :mod:`app.uploads.file_columns`. Earlier versions
kept a sum over the numbers in a file's first columns alone; it is made to this day, to
be compared with theirs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.columns import CategorySpec, ColumnSpec, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.domain.overlap import TableShape, chance_of_equal, is_list, repeat_bits
from app.uploads.file_cells import CellReader, FileCells, Known
from app.uploads.file_columns import FileDigester, FileDigests
from app.uploads.grids import Ends, Grid, ends_of
from app.uploads.prf import Prf
from app.uploads.samples import Digests, Sample, Sampler, Sieve, Uppers

KEY_BYTES = 32
ALL = "all"
SINGLE = "single"
FILE = "file"
VERSION, WITH_PEOPLE = 2, 3
_WITHOUT_FILE = 1  # what earlier versions have written, and data sets still have
_HALVING_BITS = 8
_FIRST_NUMBERS = 16
_KEEP_ROWS = 1 << 17
_KEEP_HALF = 1 << 12
_KEEP_SINGLE = 1 << 11
_KEEP_SINGLES = 1 << 18
"""Digests of single columns kept in all: what a table of very many columns may take."""

Values = NDArray[np.float64] | NDArray[np.int32]
Mask = NDArray[np.bool_]
Cells = Mapping[str, tuple[Values, Mask | None] | tuple[Values, Mask | None, Ends | None]]


class MalformedError(ValueError):
    """The bytes are not those of row digests."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One sample with the columns it is over: its labels, and the bits they could hold.

    ``alike`` is the chance that two rows agree in all of them but lists, if one is a list.
    """

    labels: tuple[str, ...]
    sample: Sample
    bits: float
    alike: float = 0.0

    @property
    def shape(self) -> TableShape:
        """Return what the public rule asks of a table."""
        return replace(self.sample.shape(self.bits), alike=self.alike)

    def merged(self, other: Kept) -> Kept:
        """Return the sample of both tables together, over columns of the same labels."""
        keep = _KEEP_ROWS if ALL in self.labels else _KEEP_HALF
        sample = self.sample.merged(other.sample, keep=keep)
        bits, alike = max(self.bits, other.bits), max(self.alike, other.alike)
        return Kept(self.labels, sample, bits, alike)

    def facts(self) -> dict[str, object]:
        """Return all but the digests, JSON-ready."""
        own = {"labels": self.labels, "bits": self.bits, "alike": self.alike}
        return {**own, **self.sample.facts()}

    @classmethod
    def of(cls, facts: Mapping[str, Any], digests: Digests) -> Kept:
        """Return the inverse of :meth:`facts`; earlier versions did not look for lists."""
        labels, alike = tuple(map(str, facts["labels"])), float(facts.get("alike", 0.0))
        return cls(labels, Sample.of(facts, digests), float(facts["bits"]), alike)


@dataclass(frozen=True, slots=True)
class RowDigests:
    """The digests of a table.

    ``key`` identifies the key that made them. ``whole`` is the digest of all
    rows with their counts, None when too many are different, and ``whole_bits``
    how unlikely chance is to repeat them. ``file`` is empty where an earlier version
    made them. ``people`` are those whose rows they are, where the spec has a unit.
    """

    key: str
    kept: tuple[Kept, ...]
    whole: str | None
    whole_bits: float
    file: FileDigests = field(default_factory=FileDigests)
    people: Sample | None = None

    def merged(self, other: RowDigests) -> RowDigests:
        """Return the digests of two tables' rows together, as far as samples show.

        Samples over the same labels become one. What only one of the tables has stays as it is.
        """
        theirs = {kept.labels: kept for kept in other.kept}
        kept = [
            each.merged(theirs.pop(each.labels)) if each.labels in theirs else each
            for each in self.kept
        ]
        people = self.people or other.people
        if self.people is not None and other.people is not None:
            people = self.people.merged(other.people, keep=_KEEP_ROWS)
        file = self.file.merged(other.file)
        return RowDigests(self.key, (*kept, *theirs.values()), None, 0.0, file, people)

    def to_bytes(self) -> bytes:
        """Return the stored form: a line of JSON, then the samples' digests."""
        header = {
            "version": VERSION if self.people is None else WITH_PEOPLE,
            "key": self.key,
            "whole": self.whole,
            "whole_bits": self.whole_bits,
            "samples": [kept.facts() for kept in self.kept],
            "file": self.file.facts(),
        }
        samples = [kept.sample for kept in self.kept]
        if self.people is not None:
            header["people"] = self.people.facts()
            samples.append(self.people)
        body = b"".join(sample.digests.astype("<u8").tobytes() for sample in samples)
        line = json.dumps(header, separators=(",", ":")).encode()
        return line + b"\n" + body + self.file.body()

    @classmethod
    def from_bytes(cls, content: bytes) -> RowDigests:
        """Return the inverse of :meth:`to_bytes`.

        Raises
        ------
        MalformedError
            The bytes are something else.
        """
        line, _, body = content.partition(b"\n")
        try:
            header: dict[str, Any] = json.loads(line)
            if header["version"] not in (_WITHOUT_FILE, VERSION, WITH_PEOPLE):
                raise ValueError("another version")
            people = [header["people"]] if header["version"] == WITH_PEOPLE else []
            sizes = [int(facts["size"]) for facts in (*header["samples"], *people)]
            end = 8 * sum(sizes)
            if min(sizes, default=0) < 0 or end > len(body):
                raise ValueError("other sizes")
            digests = np.frombuffer(body[:end], dtype="<u8").astype(np.uint64, copy=False)
            pieces = np.split(digests, np.cumsum(sizes)[:-1])
            kept = tuple(map(Kept.of, header["samples"], pieces))
            with_file = header["version"] != _WITHOUT_FILE
            file = header["file"] if with_file else FileDigests().facts()
            return cls(
                header["key"],
                kept,
                header["whole"],
                float(header["whole_bits"]),
                FileDigests.of(file, body[end:]),
                Sample.of(people[0], pieces[-1]) if people else None,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise MalformedError("these are no row digests") from error


def key_name(key: bytes) -> str:
    """Return an identifier of a key that does not reveal the key."""
    return hashlib.sha256(b"release-desk lineage key" + key).hexdigest()


class RowDigester:
    """Makes the digests of a table that arrives in blocks.

    Parameters
    ----------
    key
        32 secret bytes.
    spec
        The declared columns.
    """

    def __init__(self, key: bytes, spec: ColumnsSpec) -> None:
        self._key = key
        self._columns = {name: _column_of(key, column) for name, column in spec.in_file.items()}
        # the set of all columns comes first
        self._subsets = tuple(
            (
                columns,
                labels,
                Sampler(_KEEP_ROWS if ALL in labels else _KEEP_HALF, patient=ALL in labels),
            )
            for columns, labels in _subsets(key, tuple(spec.in_file)).items()
        )
        numbers = [name for name, column in self._columns.items() if column.table is None]
        keep = max(64, min(_KEEP_SINGLE, _KEEP_SINGLES // max(1, len(numbers))))
        self._singles = {name: Sampler(keep) for name in numbers}
        places = {name: place for place, name in enumerate(self._columns)}
        looking = [(sampler, [places[name]]) for name, sampler in self._singles.items()]
        looking += [
            (sampler, [places[name] for name in columns]) for columns, _, sampler in self._subsets
        ]
        self._sieve = Sieve(len(places), looking)
        self._prf = Prf(key)
        self._readers: dict[str, CellReader] = {}
        self._numbers = _FirstNumbers()
        self._file = FileDigester(self._prf)

    def add(self, cells: Cells, first: Mapping[str, pl.Series] | None = None) -> None:
        """Take in some rows: per column plain values (numbers) or codes, and what is missing.

        Where nothing is, the ends of numbers may be given too.
        ``first`` are the first columns of the file as they are there, whatever is declared.
        """
        digests = {name: column.digests(*cells[name]) for name, column in self._columns.items()}
        uppers = Uppers()
        self._sieve.add([*digests.values()], uppers)
        if first:
            readers = self._readers = self._readers or {
                name: CellReader(self._prf) for name in first
            }
            known = {name: Known(digests[name], *cells[name][2:]) for name in self._singles}
            found = [readers[name].read(each, known.get(name)) for name, each in first.items()]
            self._numbers.add(found[:_FIRST_NUMBERS], uppers)
            self._file.add(found, uppers)

    def finish(self) -> RowDigests:
        """Return the digests of everything that was added."""
        bits = {name: column.bits() for name, column in self._columns.items()}
        lists = {name for name in self._singles if self._is_list(name, bits[name])}
        complete = lists < self._columns.keys()
        rows, *halves = (
            Kept(
                labels,
                sample,
                math.fsum(bits[name] for name in columns),
                # a table of lists alone is compared like any other: it has no other evidence
                self._alike(columns - lists) if columns & lists and complete else 0.0,
            )
            for columns, labels, sampler in self._subsets
            if (sample := sampler.sample()) is not None
        )
        singles = (
            Kept((SINGLE, str(place)), sample, bits[name])
            for place, (name, sampler) in enumerate(self._singles.items())
            if (sample := sampler.sample()) is not None
        )
        more = (*halves, *singles, *self._numbers.kept())
        kept = (rows, *(each for each in more if _is_telling(each)))
        counts, file = self._subsets[0][2].counts(), self._file.finish()
        if counts is None:
            return RowDigests(key_name(self._key), kept, None, 0.0, file)
        whole = hashlib.sha256(rows.sample.digests.tobytes() + counts.tobytes()).hexdigest()
        return RowDigests(key_name(self._key), kept, whole, repeat_bits(counts.tolist()), file)

    def _is_list(self, name: str, bits: float) -> bool:
        """Return whether a column numbers the rows, or lists the days."""
        sample = self._singles[name].sample()
        return sample is not None and is_list(
            rows=sample.rows, distinct=int(sample.distinct), bits=bits
        )

    def _alike(self, columns: Collection[str]) -> float:
        """Return the chance that two rows agree in some columns, as far as the file shows."""
        return self._file.alike([at for at, name in enumerate(self._readers) if name in columns])


class _FirstNumbers:
    """The sum over the numbers in a file's first columns, as earlier versions kept it."""

    def __init__(self) -> None:
        self._sums = Sampler(_KEEP_HALF)
        self._grids: list[Grid] = []

    def add(self, columns: Sequence[FileCells], uppers: Uppers) -> None:
        """Take in some rows; ``uppers`` are of the same ones."""
        self._grids = self._grids or [Grid() for _ in columns]
        for grid, column in zip(self._grids, columns, strict=True):
            if len(column.read):
                grid.add(column.read, column.ends)
        # the others hold nothing throughout; of all columns, one will do
        numeric = [column.numeric for column in columns if len(column.read)]
        numeric = numeric or [columns[0].numeric]
        Sieve(len(numeric), [(self._sums, range(len(numeric)))]).add(numeric, uppers)

    def kept(self) -> Iterator[Kept]:
        """Yield the sample, if several columns hold numbers."""
        found = [bits for grid in self._grids if (bits := grid.bits()) > 0]
        sample = self._sums.sample()
        if len(found) > 1 and sample is not None:
            yield Kept((FILE,), sample, sum(found))


def _is_telling(kept: Kept) -> bool:
    """Say whether a sample could ever show an overlap; small ones cost nothing to keep."""
    few = kept.sample.rows <= _KEEP_HALF
    return few or chance_of_equal(smaller=kept.shape, larger=kept.shape) < 0.5


def _subsets(key: bytes, names: Sequence[str]) -> dict[frozenset[str], tuple[str, ...]]:
    """Return the sets of columns that are sampled, each with its labels."""
    found: dict[frozenset[str], tuple[str, ...]] = {frozenset(names): (ALL,)}
    marks = {name: _mark(key, name) for name in names}
    for bit in range(_HALVING_BITS):
        for side in (0, 1):
            half = frozenset(name for name in names if marks[name] >> bit & 1 == side)
            if half:
                found[half] = (*found.get(half, ()), f"half-{bit}-{side}")
    return found


def _mark(key: bytes, name: str) -> int:
    plain = name.strip().casefold().encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=1, key=key, person=b"column name").digest()[0]


class _Column:
    """Digests of one column's cells, and how many bits its values could hold."""

    def __init__(
        self, prf: Prf, table: Digests | None, *, signed: bool = False, is_date: bool = False
    ) -> None:
        self._prf = prf
        self.table = table
        self._signed = signed
        self._is_date = is_date
        self._seen = np.zeros(0 if table is None else len(table), dtype=np.bool_)
        self._grid = Grid()

    def digests(self, values: Values, missing: Mask | None, ends: Ends | None = None) -> Digests:
        """Return one digest per cell, 0 where it is missing; ``ends`` are those of all values."""
        if missing is not None and missing.all():
            return np.zeros(len(values), dtype=np.uint64)
        present = values if missing is None else values[~missing]
        found = self._numbers(present, ends) if self.table is None else self._codes(present)
        if missing is None:
            return found
        digests = np.zeros(len(values), dtype=np.uint64)
        digests[~missing] = found
        return digests

    def _numbers(self, values: Values, ends: Ends | None) -> Digests:
        numbers = values.astype(np.float64, copy=False)
        ends = ends or ends_of(numbers)
        self._grid.add(numbers, ends)
        return self._prf.of_numbers(numbers, ends)

    def _codes(self, codes: Values) -> Digests:
        assert self.table is not None
        # booleans are coded by their sign; only integers of this width are used as they are
        places = (codes > 0 if self._signed else codes).astype(np.intp)
        if not self._seen.all():
            self._seen |= np.bincount(places, minlength=len(self._seen)) > 0
        return self.table[places]

    def bits(self) -> float:
        """Return the logarithm of how many values the column could hold, as it is written."""
        if self.table is not None:
            return math.log2(max(1, int(self._seen.sum())))
        # days are known by their times, of which most are in no file
        return self._grid.even_bits() if self._is_date else self._grid.bits()


def _column_of(key: bytes, column: ColumnSpec) -> _Column:
    prf = Prf(key)
    match column:
        case NumberSpec():
            return _Column(prf, None, is_date=column.kind == "date")
        case CategorySpec():
            texts = [prf.of_text(value) for value in column.values]
            return _Column(prf, np.array(texts, dtype=np.uint64))
    return _Column(prf, prf.of_numbers(np.array([0.0, 1.0])), signed=True)
