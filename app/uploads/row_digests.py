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

*Subsets.* Rows are sampled over all declared columns, and over 16 halves of the columns,
chosen by 8 bits of each name's keyed hash, so that some halves survive when a few
columns are dropped or added. Nothing is kept of columns that are not declared.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.columns import CategorySpec, ColumnSpec, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.domain.overlap import (
    MIN_BITS,
    OTHERS,
    OWN,
    Floor,
    TableShape,
    chance_of_equal,
    chance_of_pair,
    is_below,
    is_list,
    overlaps,
    repeat_bits,
    same_people,
)
from app.uploads.prf import Ends, Prf, ends_of
from app.uploads.samples import Digests, Prefilter, Sample, Sampler, in_both

KEY_BYTES = 32
ALL = "all"
VERSION = 1
_HALVING_BITS = 8
_KEEP_ROWS = 1 << 17
_KEEP_HALF = 1 << 12
_HOLD_COLUMN = 1 << 11
_HOLD_COLUMNS = 1 << 18
"""Digests of single columns in memory in all, while a table of very many columns is read."""
_FEW_ROWS = 64
"""Samples of tables up to this size are all stored: together they may show what none does alone."""
_MOST_HELD = 1 << 15
"""Rows that show how often two of them agree."""
_MOST_COLUMNS_HELD = 64
"""Columns that these rows are held of: more would add little evidence."""

Values = NDArray[np.float64] | NDArray[np.int32]
Mask = NDArray[np.bool_]
Cells = Mapping[str, tuple[Values, Mask | None] | tuple[Values, Mask | None, Ends | None]]


_LOOKED_AT = 1 << 12  # numbers that show the step; the ends are those of all
_MOST_DECIMALS = 9
_MOST_ZEROS = 6
# Digests keep integers whole, and others with a float's 24 bits
_INTEGER_BITS, _FLOAT_BITS = 50.0, 24.0


class Grid:
    """Collects what shows how many values a column of numbers could hold."""

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf
        self._looked_at = np.zeros(0)

    def add(self, numbers: NDArray[np.float64], ends: Ends | None = None) -> None:
        """Look at some more finite numbers, whose ends may be known."""
        ends = ends or ends_of(numbers)
        if ends is not None:
            self._low, self._high = min(self._low, ends[0]), max(self._high, ends[1])
        if (room := _LOOKED_AT - len(self._looked_at)) > 0:
            self._looked_at = np.concatenate([self._looked_at, numbers[:room]])

    def bits(self) -> float:
        """Return the logarithm of how many values the column could hold, as it is written."""
        if not self._low < self._high:
            return 0.0
        step, most = _step_of(self._looked_at)
        return min(most, math.log2(1 + (self._high - self._low) / step))

    def even_bits(self) -> float:
        """Return the same where values stand at even distances: the days of a year, say."""
        step, _ = _step_of(self._looked_at)
        places = np.unique(np.rint(self._looked_at / step))
        if self._low < self._high and len(places) > 1 and abs(places).max() < 2.0**53:
            common = int(np.gcd.reduce(np.diff(places).astype(np.int64)))
            return min(self.bits(), math.log2(1 + (self._high - self._low) / (step * common)))
        return self.bits()


def _step_of(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the largest power of ten that all are multiples of, and the most bits to believe."""
    for decimals in range(-_MOST_ZEROS, _MOST_DECIMALS + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = values * 10.0**decimals
            off = np.abs(scaled - np.rint(scaled))
            # A decimal is no float, and its multiples are off by some units in the last place.
            fits = off <= 1e-9 * np.maximum(1.0, np.abs(scaled))
        if fits.all():
            return 10.0**-decimals, _INTEGER_BITS if decimals <= 0 else _FLOAT_BITS
    return 10.0**-_MOST_DECIMALS, _FLOAT_BITS


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
        """Return the inverse of :meth:`facts`."""
        labels, alike = tuple(map(str, facts["labels"])), float(facts["alike"])
        return cls(labels, Sample.of(facts, digests), float(facts["bits"]), alike)


@dataclass(frozen=True, slots=True)
class RowDigests:
    """The digests of a table.

    ``key`` identifies the key that made them. ``whole`` is the digest of all
    rows with their counts, None when too many are different, and ``whole_bits``
    how unlikely chance is to repeat them. ``people`` are those whose rows they are, where the spec
    has a unit.
    """

    key: str
    kept: tuple[Kept, ...]
    whole: str | None
    whole_bits: float
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
        return RowDigests(self.key, (*kept, *theirs.values()), None, 0.0, people)

    def to_bytes(self) -> bytes:
        """Return the stored form: a line of JSON, then the samples' digests."""
        header = {
            "version": VERSION,
            "key": self.key,
            "whole": self.whole,
            "whole_bits": self.whole_bits,
            "samples": [kept.facts() for kept in self.kept],
            "people": None if self.people is None else self.people.facts(),
        }
        samples = [kept.sample for kept in self.kept]
        if self.people is not None:
            samples.append(self.people)
        body = b"".join(sample.digests.astype("<u8").tobytes() for sample in samples)
        line = json.dumps(header, separators=(",", ":")).encode()
        return line + b"\n" + body

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
            if header["version"] != VERSION:
                raise ValueError("another version")
            people = [] if header["people"] is None else [header["people"]]
            sizes = [int(facts["size"]) for facts in (*header["samples"], *people)]
            if min(sizes, default=0) < 0 or 8 * sum(sizes) != len(body):
                raise ValueError("other sizes")
            digests = np.frombuffer(body, dtype="<u8").astype(np.uint64, copy=False)
            pieces = np.split(digests, np.cumsum(sizes)[:-1])
            kept = tuple(map(Kept.of, header["samples"], pieces))
            return cls(
                header["key"],
                kept,
                header["whole"],
                float(header["whole_bits"]),
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
        hold = max(64, min(_HOLD_COLUMN, _HOLD_COLUMNS // max(1, len(numbers))))
        # These show which columns are lists; they are not stored.
        self._numbers = {name: Sampler(hold) for name in numbers}
        places = {name: place for place, name in enumerate(self._columns)}
        looking = [(sampler, [places[name]]) for name, sampler in self._numbers.items()]
        looking += [
            (sampler, [places[name] for name in columns]) for columns, _, sampler in self._subsets
        ]
        self._prefilter = Prefilter(len(places), looking)
        self._held = _HeldRows([*self._columns][:_MOST_COLUMNS_HELD])

    def add(self, cells: Cells) -> None:
        """Take in some rows: per column plain values (numbers) or codes, and what is missing.

        Where nothing is, the ends of numbers may be given too.
        """
        digests = {name: column.digests(*cells[name]) for name, column in self._columns.items()}
        self._prefilter.add([*digests.values()])
        self._held.add(digests)

    def finish(self) -> RowDigests:
        """Return the digests of everything that was added."""
        bits = {name: column.bits() for name, column in self._columns.items()}
        lists = {name for name in self._numbers if self._is_list(name, bits[name])}
        complete = lists < self._columns.keys()
        rows, *halves = (
            Kept(
                labels,
                sample,
                math.fsum(bits[name] for name in columns),
                # a table of lists alone is compared like any other: it has no other evidence
                self._held.alike(columns - lists) if columns & lists and complete else 0.0,
            )
            for columns, labels, sampler in self._subsets
            if (sample := sampler.sample()) is not None
        )
        kept = (rows, *(each for each in halves if _is_telling(each)))
        counts = self._subsets[0][2].counts()
        if counts is None:
            return RowDigests(key_name(self._key), kept, None, 0.0)
        whole = hashlib.sha256(rows.sample.digests.tobytes() + counts.tobytes()).hexdigest()
        return RowDigests(key_name(self._key), kept, whole, repeat_bits(counts.tolist()))

    def _is_list(self, name: str, bits: float) -> bool:
        """Return whether a column numbers the rows, or lists the days."""
        sample = self._numbers[name].sample()
        return sample is not None and is_list(
            rows=sample.rows, distinct=int(sample.distinct), bits=bits
        )


class _HeldRows:
    """Some rows, spread evenly over the file, that show how often two of them agree."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._rows = 0
        self._step = 1
        self._held: list[Digests] = []
        self._size = 0

    def add(self, digests: Mapping[str, Digests]) -> None:
        """Take in some rows' digests by column."""
        # The interval counts rows of the file, wherever its blocks begin.
        some = slice(-self._rows % self._step, None, self._step)
        self._rows += len(digests[self._names[0]])
        self._hold(np.stack([digests[name][some] for name in self._names]))
        if self._size > _MOST_HELD:
            thinning = -(-self._size // _MOST_HELD)
            held, self._held, self._size = np.hstack(self._held), [], 0
            self._hold(held[:, ::thinning])
            self._step *= thinning

    def _hold(self, rows: Digests) -> None:
        self._held.append(rows)
        self._size += rows.shape[1]

    def alike(self, names: Collection[str]) -> float:
        """Return the chance that two rows agree in these columns."""
        places = [place for place, name in enumerate(self._names) if name in names]
        if not self._held or not places:
            return 1.0
        cells = np.hstack(self._held)[places]
        # odd factors: the same cells in other columns are no equal rows
        rows = np.arange(1, 2 * len(places), 2, dtype=np.uint64) @ cells
        _, counts = np.unique(rows, return_counts=True)
        pairs = int((counts * (counts - 1)).sum()) // 2
        return chance_of_pair(pairs, rows=len(rows), bits=math.inf)


def _is_telling(kept: Kept) -> bool:
    """Say whether a sample could ever show an overlap, alone or with others of an account.

    Rows of columns with few values, such as ages, are in nearly every table. Stored, each of them
    would be found in all earlier data sets.
    """
    shape = kept.shape
    if shape.rows <= _FEW_ROWS:  # or none at all
        return True
    chance = chance_of_equal(smaller=shape, larger=shape)
    return -shape.distinct * math.log2(chance) >= MIN_BITS


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


class Newcomer:
    """A table that is compared with others, one after the other.

    Parameters
    ----------
    digests
        The digests of its rows.
    """

    def __init__(self, digests: RowDigests) -> None:
        self._digests = digests

    @property
    def is_small(self) -> bool:
        """Say whether it is too small to be compared with what others have uploaded."""
        rows = [kept.shape for kept in self._digests.kept if ALL in kept.labels]
        return any(is_below(OTHERS, shape) for shape in rows)

    def overlaps(self, old: RowDigests, floor: Floor = OWN) -> bool:
        """Say whether both hold largely the same rows; see :mod:`app.domain.overlap`."""
        new = self._digests
        if _people_overlap(new.people, old.people, floor):
            return True
        if new.whole is not None and new.whole == old.whole and new.whole_bits >= MIN_BITS:
            return len(new.kept[0].sample.digests) >= floor.compared
        return any(_samples_overlap(*pair, floor) for pair in _same_columns(new, old))

    def shares(self, old: RowDigests) -> bool:
        """Say whether any row or person is in both, by all columns of the spec."""
        new = self._digests
        pairs = [(new.people, old.people)]
        pairs += [
            (one.sample, other.sample)
            for one in new.kept
            for other in old.kept
            if ALL in one.labels and ALL in other.labels
        ]
        return any(
            in_both(one.digests, other.digests) > 0
            for one, other in pairs
            if one is not None and other is not None
        )


def tables_overlap(new: RowDigests, old: RowDigests) -> bool:
    """Say whether two tables hold largely the same rows; see :mod:`app.domain.overlap`."""
    return Newcomer(new).overlaps(old)


def _same_columns(new: RowDigests, old: RowDigests) -> Iterator[tuple[Kept, Kept]]:
    """Yield the samples over columns that go by the same label in both tables."""
    by_label = {label: kept for kept in old.kept for label in kept.labels}
    for kept in new.kept:
        yield from {
            id(by_label[label]): (kept, by_label[label])
            for label in kept.labels
            if label in by_label
        }.values()


def _people_overlap(one: Sample | None, other: Sample | None, floor: Floor) -> bool:
    if one is None or other is None:
        return False
    limit = min(one.limit, other.limit)
    ours, theirs = one.below(limit), other.below(limit)
    compared = min(len(ours), len(theirs))
    return same_people(compared=compared, common=in_both(ours, theirs), floor=floor)


def _samples_overlap(one: Kept, other: Kept, floor: Floor) -> bool:
    limit = min(one.sample.limit, other.sample.limit)
    ours, theirs = one.sample.below(limit), other.sample.below(limit)
    compared = min(len(ours), len(theirs))
    # The rule says no, too. Most pairs of tables end here, before their shapes are looked at.
    if compared < floor.compared or (common := in_both(ours, theirs)) < floor.common:
        return False
    first = (len(ours), one.sample.rows) <= (len(theirs), other.sample.rows)
    smaller, larger = (one, other) if first else (other, one)
    return overlaps(
        smaller=smaller.shape,
        larger=larger.shape,
        compared=compared,
        common=common,
        floor=floor,
    )
