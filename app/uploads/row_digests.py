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

*Subsets.* Rows are sampled over all declared columns; over 16 halves of the columns,
told by 8 bits of each name's keyed hash, so that some halves survive when a few
columns are dropped or added; and over every single number column, which finds
people again by one telling column whatever else was dropped or renamed. And over the
numbers in the first columns of the file, declared or not: whoever declares half a
file's columns, and then the other half, brings the same people. They count together
alone, since single columns that nobody declares are often shared by strangers: ranks,
dates, places.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from app.domain.datasets import CategorySpec, ColumnSpec, ColumnsSpec, NumberSpec
from app.domain.overlap import TableShape, chance_of_equal, repeat_bits
from app.uploads.samples import Digests, Sample, Sampler

KEY_BYTES = 32
ALL = "all"
SINGLE = "single"
FILE = "file"
VERSION = 1
_HALVING_BITS = 8
_KEEP_ROWS = 1 << 17
_KEEP_HALF = 1 << 12
_KEEP_SINGLE = 1 << 11
_KEEP_SINGLES = 1 << 18
"""Digests of single columns kept in all: what a table of very many columns may take."""
_LOOKED_AT = 1 << 12
_MOST_DECIMALS = 9
_MOST_ZEROS = 6
_INTEGER_BITS, _FLOAT_BITS = 50.0, 24.0
_EXACT_INTEGERS = 2.0**53
_BLANK = " \t"

Values = NDArray[np.float64] | NDArray[np.int32]
Cells = Mapping[str, tuple[Values, NDArray[np.bool_] | None]]


class MalformedError(ValueError):
    """The bytes are not those of row digests."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One sample with the columns it is over: its labels, and the bits they could hold."""

    labels: tuple[str, ...]
    sample: Sample
    bits: float

    @property
    def shape(self) -> TableShape:
        """Return what the public rule asks of a table."""
        sample = self.sample
        return TableShape(
            rows=sample.rows, distinct=sample.distinct, twins=sample.twins, bits=self.bits
        )


@dataclass(frozen=True, slots=True)
class RowDigests:
    """The digests of a table.

    ``key`` tells under which key they were made. ``whole`` is the digest of all
    rows with their counts, None when too many are different, and ``whole_bits``
    how unlikely chance is to repeat them.
    """

    key: str
    kept: tuple[Kept, ...]
    whole: str | None
    whole_bits: float

    def to_bytes(self) -> bytes:
        """Return the stored form: a line of JSON, then the samples' digests."""
        header = {
            "version": VERSION,
            "key": self.key,
            "whole": self.whole,
            "whole_bits": self.whole_bits,
            "samples": [_facts(kept) for kept in self.kept],
        }
        body = b"".join(kept.sample.digests.astype("<u8").tobytes() for kept in self.kept)
        return json.dumps(header, separators=(",", ":")).encode() + b"\n" + body

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
            sizes = [int(facts["size"]) for facts in header["samples"]]
            digests = np.frombuffer(body, dtype="<u8").astype(np.uint64, copy=False)
            if min(sizes, default=0) < 0 or sum(sizes) != len(digests):
                raise ValueError("other sizes")
            pieces = np.split(digests, np.cumsum(sizes)[:-1])
            kept = tuple(map(_kept, header["samples"], pieces))
            whole = header["whole"]
            return cls(header["key"], kept, whole, float(header["whole_bits"]))
        except (ValueError, KeyError, TypeError) as error:
            raise MalformedError("these are no row digests") from error


def key_name(key: bytes) -> str:
    """Return what tells one key from another without giving it away."""
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
        self._columns = {name: _column_of(key, column) for name, column in spec.columns.items()}
        # the set of all columns comes first
        self._subsets = tuple(
            (
                columns,
                labels,
                Sampler(_KEEP_ROWS if ALL in labels else _KEEP_HALF, patient=ALL in labels),
            )
            for columns, labels in _subsets(key, tuple(spec.columns)).items()
        )
        numbers = [name for name, column in self._columns.items() if column.table is None]
        keep = max(64, min(_KEEP_SINGLE, _KEEP_SINGLES // max(1, len(numbers))))
        self._singles = {name: Sampler(keep) for name in numbers}
        self._first: dict[str, _Column] = {}
        self._file = Sampler(_KEEP_HALF)

    def add(self, cells: Cells, first: Cells | None = None) -> None:
        """Take in some rows: per column plain values (numbers) or codes, and what is missing.

        ``first`` are the numbers in the first columns of the file, whatever is declared.
        """
        rows = len(next(iter(cells.values()))[0])
        sums = [np.zeros(rows, dtype=np.uint64) for _ in self._subsets]
        for name, column in self._columns.items():
            digests = column.digests(*cells[name])
            if name in self._singles:
                self._singles[name].add(digests)
            for place, (columns, _, _) in enumerate(self._subsets):
                if name in columns:
                    sums[place] += digests
        for (_, _, sampler), found in zip(self._subsets, sums, strict=True):
            sampler.add(found)
        together = np.zeros(rows, dtype=np.uint64)
        for name, (values, missing) in (first or {}).items():
            column = self._first.setdefault(name, _Column(_Prf(self._key), None))
            together += column.digests(values, missing)
        self._file.add(together)

    def finish(self) -> RowDigests:
        """Return the digests of everything that was added."""
        bits = {name: column.bits() for name, column in self._columns.items()}
        rows, *halves = (
            Kept(labels, sample, sum(bits[name] for name in columns))
            for columns, labels, sampler in self._subsets
            if (sample := sampler.sample()) is not None
        )
        singles = (
            Kept((SINGLE,), sample, bits[name])
            for name, sampler in self._singles.items()
            if (sample := sampler.sample()) is not None
        )
        more = (*halves, *singles, *self._whole_file())
        kept = (rows, *(each for each in more if _is_telling(each)))
        counts = self._subsets[0][2].counts()
        if counts is None:
            return RowDigests(key_name(self._key), kept, None, 0.0)
        whole = hashlib.sha256(rows.sample.digests.tobytes() + counts.tobytes()).hexdigest()
        return RowDigests(key_name(self._key), kept, whole, repeat_bits(counts.tolist()))

    def _whole_file(self) -> Iterator[Kept]:
        """Yield the sample over the file's first columns, if several of them hold numbers."""
        found = [bits for column in self._first.values() if (bits := column.bits()) > 0]
        sample = self._file.sample()
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


class _Prf:
    """A pseudo-random function of 64-bit words and of texts."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305 - a PRF of one block each

    def of_words(self, words: NDArray[np.uint64]) -> Digests:
        """Return the first half of each block AES(word, 0)."""
        blocks = np.zeros((len(words), 2), dtype=np.uint64)
        blocks[:, 0] = words
        sealed = self._cipher.encryptor().update(blocks.tobytes())
        return np.frombuffer(sealed, dtype=np.uint64)[::2]

    def of_text(self, text: str) -> int:
        """Return a keyed hash of a text, or that of the number it reads as."""
        plain = text.strip(_BLANK).casefold()
        number = _TRUTHS.get(plain)
        if number is None:
            try:
                number = float(plain)
            except ValueError:
                number = math.nan
        if math.isfinite(number):
            return int(self.of_numbers(np.array([number]))[0])
        content = plain.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(content, digest_size=8, key=self._key, person=b"cell text")
        return int.from_bytes(digest.digest(), "little")

    def of_numbers(self, values: NDArray[np.float64]) -> Digests:
        """Return the digests of finite numbers."""
        with np.errstate(over="ignore"):
            single = values.astype(np.float32).astype(np.float64)
        whole = (np.rint(values) == values) & (np.abs(values) < _EXACT_INTEGERS)
        # adding zero turns -0.0 into 0.0
        return self.of_words((np.where(whole, values, single) + 0.0).view(np.uint64))


_TRUTHS = {"true": 1.0, "false": 0.0}


class _Column:
    """Digests of one column's cells, and how many bits its values could hold."""

    def __init__(self, prf: _Prf, table: Digests | None, *, signed: bool = False) -> None:
        self._prf = prf
        self.table = table
        self._signed = signed
        self._seen = np.zeros(0 if table is None else len(table), dtype=np.bool_)
        self._low, self._high = math.inf, -math.inf
        self._looked_at = np.zeros(0)

    def digests(self, values: Values, missing: NDArray[np.bool_] | None) -> Digests:
        """Return one digest per cell, 0 where it is missing."""
        if missing is not None and missing.all():
            return np.zeros(len(values), dtype=np.uint64)
        present = values if missing is None else values[~missing]
        found = self._numbers(present) if self.table is None else self._codes(present)
        if missing is None:
            return found
        digests = np.zeros(len(values), dtype=np.uint64)
        digests[~missing] = found
        return digests

    def _numbers(self, values: Values) -> Digests:
        numbers = values.astype(np.float64, copy=False)
        if len(numbers):
            self._low = min(self._low, float(numbers.min()))
            self._high = max(self._high, float(numbers.max()))
        if (room := _LOOKED_AT - len(self._looked_at)) > 0:
            self._looked_at = np.concatenate([self._looked_at, numbers[:room]])
        return self._prf.of_numbers(numbers)

    def _codes(self, codes: Values) -> Digests:
        assert self.table is not None
        # booleans are coded by their sign
        places = (codes > 0).astype(np.intp) if self._signed else codes.astype(np.intp, copy=False)
        self._seen[places] = True
        return self.table[places]

    def bits(self) -> float:
        """Return the logarithm of how many values the column could hold, as it is written."""
        if self.table is not None:
            return math.log2(max(1, int(self._seen.sum())))
        if not self._low < self._high:
            return 0.0
        step, most = _step_of(self._looked_at)
        return min(most, math.log2(1 + (self._high - self._low) / step))


def _column_of(key: bytes, column: ColumnSpec) -> _Column:
    prf = _Prf(key)
    match column:
        case NumberSpec():
            return _Column(prf, None)
        case CategorySpec():
            texts = [prf.of_text(value) for value in column.values]
            return _Column(prf, np.array(texts, dtype=np.uint64))
    return _Column(prf, prf.of_numbers(np.array([0.0, 1.0])), signed=True)


def _step_of(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the largest power of ten that all are multiples of, and the most bits to believe."""
    for decimals in range(-_MOST_ZEROS, _MOST_DECIMALS + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = values * 10.0**decimals
            off = np.abs(scaled - np.rint(scaled))
            fits = off <= 1e-9 * np.maximum(1.0, np.abs(scaled))
        if fits.all():
            return 10.0**-decimals, _INTEGER_BITS if decimals <= 0 else _FLOAT_BITS
    return 10.0**-_MOST_DECIMALS, _FLOAT_BITS


def _facts(kept: Kept) -> dict[str, object]:
    sample = kept.sample
    return {
        "labels": kept.labels,
        "size": len(sample.digests),
        "limit": sample.limit,
        "rows": sample.rows,
        "twins": sample.twins,
        "bits": kept.bits,
    }


def _kept(facts: Mapping[str, Any], digests: Digests) -> Kept:
    sample = Sample(
        digests=digests,
        limit=int(facts["limit"]),
        rows=int(facts["rows"]),
        twins=float(facts["twins"]),
    )
    return Kept(tuple(map(str, facts["labels"])), sample, float(facts["bits"]))
