"""From cells to integer codes, with the row numbers of whatever does not fit.

A column arrives either *typed* (floats that the CSV or Parquet reader parsed)
or as *text* (booleans, categories, and numbers that the typed reader refused).
Both give the same codes for the same cell.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.domain.datasets import BooleanSpec, CategorySpec, ColumnSpec, ColumnsSpec, Fill, Missing
from app.engine.schema import column_of, derived_of
from app.uploads.people.sending import PeopleWords
from app.uploads.prf import BLANK, Prf
from app.uploads.row_digests import RowDigester
from app.uploads.trouble import (
    MAX_LISTED,
    MISSING,
    NOT_A_BOOLEAN,
    NOT_A_NUMBER,
    NOT_FINITE,
    UNKNOWN_VALUE,
    Trouble,
    Troubles,
)
from mechanisms.domain import CODE_MAX, NumberColumn
from mechanisms.expressions.derived import DerivedColumn

DROPPED = ""
"""The key of the count of rows left out; a column's name is the key of its filled cells."""

_BOOLEANS = pl.Enum(["false", "true", "0", "1"])

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]


class _Read(NamedTuple):
    """Codes, arbitrary where ``missing``; None when nothing is. ``reason`` words one row.

    ``numbers`` are a number column's values as they are in the file.
    """

    codes: Codes
    missing: Mask | None
    reason: Callable[[int], str]
    numbers: NDArray[np.float64] | None = None

    @property
    def plain(self) -> tuple[NDArray[np.float64] | Codes, Mask | None]:
        """Return the cells before any bounds: numbers, or places in the list of values."""
        if self.numbers is not None:
            return self.numbers, self.missing
        return self.codes, self.missing


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes one declared column."""

    read: Callable[[pl.Series], _Read]
    missing: Missing
    fill: int

    @classmethod
    def of(cls, spec: ColumnSpec) -> Encoder:
        """Return the encoder a declaration asks for."""
        value = spec.missing.value if isinstance(spec.missing, Fill) else None
        column = column_of(spec)
        match spec:
            case CategorySpec():
                kind = pl.Enum(spec.values)
                fill = spec.values.index(value) if isinstance(value, str) else 0
                return cls(lambda cells: _read_category(cells, kind), spec.missing, fill)
            case BooleanSpec():
                return cls(_read_boolean, spec.missing, CODE_MAX if value else -CODE_MAX)
        assert isinstance(column, NumberColumn)
        fill = column.encode_one(float(value)) if isinstance(value, Fraction) else 0
        return cls(lambda cells: _read_number(cells, column), spec.missing, fill)


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encodes rows of all declared columns; ``counts`` tallies what was filled or left out.

    ``derived`` says how more columns are made of those. ``digester`` sees every row's cells as
    they are in the file. ``people`` says whose rows are whose.
    """

    encoders: Mapping[str, Encoder]
    derived: Mapping[str, DerivedColumn]
    counts: Counter[str]
    digester: RowDigester | None = None
    people: PeopleWords | None = None

    @classmethod
    def of(
        cls,
        spec: ColumnsSpec,
        counts: Counter[str],
        digester: RowDigester | None = None,
        ids: Prf | None = None,
    ) -> RowEncoder:
        """Return the encoder of a declaration; ``ids`` digests ids where there are any."""
        encoders = {name: Encoder.of(column) for name, column in spec.in_file.items()}
        people = None if spec.unit is None or ids is None else PeopleWords(spec, ids)
        # what a person's rows are reduced to is what columns are derived from
        later = spec.unit is not None and spec.unit.reduce is not None
        return cls(encoders, {} if later else derived_of(spec), counts, digester, people)

    def encode(
        self,
        frame: pl.DataFrame,
        first_row: int,
        troubles: Troubles,
        looked_at: Sequence[str] = (),
    ) -> dict[str, Codes]:
        """Return the block of codes of some rows, and add to ``troubles`` what is refused.

        Derived columns come last; they are made of the codes, with what is missing filled in.

        ``first_row`` is the number of the frame's first row. Where something
        is refused the codes mean nothing. The digester sees the columns that are
        ``looked_at`` as it would if none were declared.
        """
        block: dict[str, Codes] = {}
        plain = {}
        refused: list[Iterator[tuple[int, int, str, str]]] = []
        dropped: Mask | None = None
        masks: dict[str, Mask] = {}
        for place, (name, encoder) in enumerate(self.encoders.items()):
            read = encoder.read(frame[name])
            codes, missing, reason = read.codes, read.missing, read.reason
            plain[name] = read.plain
            if missing is not None:
                masks[name] = missing
                if encoder.missing == "reject":
                    rows = np.flatnonzero(missing)[:MAX_LISTED].tolist()
                    refused.append(_listing(rows, place, name, reason))
                elif encoder.missing == "drop":
                    dropped = missing if dropped is None else dropped | missing
                else:
                    codes = np.where(missing, np.int32(encoder.fill), codes)
                    self.counts[name] += int(missing.sum())
            block[name] = codes
        troubles.extend(
            Trouble(first_row + row, name, reason) for row, _, name, reason in heapq.merge(*refused)
        )
        if self.digester is not None:
            self.digester.add(plain, {name: frame[name] for name in looked_at})
        for name, column in self.derived.items():
            block[name] = column.codes(block, masks)
        if self.people is not None:
            block = self.people.words(frame, block, plain, masks)
        if dropped is not None:
            self.counts[DROPPED] += int(dropped.sum())
            block = {name: codes[~dropped] for name, codes in block.items()}
        return block


def _listing(
    rows: list[int], place: int, name: str, reason: Callable[[int], str]
) -> Iterator[tuple[int, int, str, str]]:
    return ((row, place, name, reason(row)) for row in rows)


def _read_number(cells: pl.Series, column: NumberColumn) -> _Read:
    values, missing, read = _numbers_of(cells)
    if missing is None:
        return _Read(_encode(column, values), None, _missing, values)

    def reason(row: int) -> str:
        text = cells[row]
        if text is None or (isinstance(text, str) and not text.strip(BLANK)):
            return MISSING
        return NOT_A_NUMBER if read[row] is None or np.isnan(values[row]) else NOT_FINITE

    return _Read(_encode(column, np.where(missing, 0.0, values)), missing, reason, values)


def _numbers_of(cells: pl.Series) -> tuple[NDArray[np.float64], Mask | None, pl.Series]:
    """Return a column's numbers, which cells hold no finite one, and the cells as numbers."""
    if cells.dtype == pl.String:
        cells = cells.str.strip_chars(BLANK).cast(pl.Float64, strict=False)
    values = (cells.fill_null(float("nan")) if cells.null_count() else cells).to_numpy()
    finite = np.isfinite(values)
    return values, None if finite.all() else ~finite, cells


def _encode(column: NumberColumn, values: NDArray[np.float64]) -> Codes:
    with np.errstate(over="ignore"):  # far outside the bounds: an infinity, then clamped
        return column.encode(values)


def _read_boolean(cells: pl.Series) -> _Read:
    lowered = cells.str.strip_chars(BLANK).str.to_lowercase()
    read = _read_enum(lowered, _BOOLEANS, NOT_A_BOOLEAN)
    return read._replace(codes=np.where(read.codes & 1, np.int32(CODE_MAX), np.int32(-CODE_MAX)))


def _read_category(cells: pl.Series, kind: pl.Enum) -> _Read:
    return _read_enum(cells, kind, UNKNOWN_VALUE)


def _read_enum(cells: pl.Series, kind: pl.Enum, otherwise: str) -> _Read:
    places = cells.cast(kind, strict=False).to_physical()
    if not places.null_count():
        return _Read(places.to_numpy().astype(np.int32), None, _missing)
    codes = places.fill_null(0).to_numpy().astype(np.int32)
    return _Read(
        codes,
        places.is_null().to_numpy(),
        lambda row: otherwise if cells[row] else MISSING,
    )


def _missing(_: int) -> str:
    return MISSING
