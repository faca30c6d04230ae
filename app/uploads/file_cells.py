"""One column of a file, declared or not, as plain values: the same in every format.

A number is a number in any spelling and of any type, with a decimal comma and signs or
spaces between groups of three digits too; true is 1 and false is 0. A date or a time is its
milliseconds since 1970. Other texts count without surrounding blanks and without case.
What is empty or no finite number counts as missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.uploads.grids import Ends
from app.uploads.prf import BLANK, Prf
from app.uploads.samples import Digests
from app.uploads.spellings import Places, dictionary_of, spelt_numbers

_LOOKED_AT = 1 << 10  # cells that show whether a column repeats itself
_FEW = 0.25  # of the cells: fewer different ones are read once each, and looked up
_DATE, _TIME = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f"
_DATE_CHARS, _TIME_CHARS = 10, 19
_TRUTHS = {"true": 1.0, "false": 0.0}
_SPACES = r"[\u00a0\u2000-\u200a\u202f\u205f]"
"""Thin spaces, and those at which no line ends: they stand between groups of digits, too."""
_WITH_SIGNS = r"^[+-]?[0-9]*(?:[ .,'][0-9]+)+(?:e[+-]?[0-9]+)?$"
_SIGNS = ((",", "."), (",", " "), (",", "'"), (".", ","), (".", " "), (".", "'"))
"""Decimal mark and thousands separator: the first pair that fits is used."""
_GROUPED = r"^[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?$"

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FileCells:
    """The cells of one column in some rows.

    ``digests`` are 0 where a cell is missing; ``numeric`` are those of what the file
    has as numbers, 0 elsewhere. ``read`` are those numbers, and ``plain`` dates and truths
    too, each different one at least once. ``texts`` says of each different cell, at least
    once, whether it is neither; None where none is. ``ends`` are those of all numbers, where
    they are known.
    """

    digests: Digests
    numeric: Digests
    read: Numbers
    plain: Numbers
    texts: Mask | None = None
    ends: Ends | None = None


class Known(NamedTuple):
    """What is known of a column's numbers from its declaration: digests, and perhaps ends."""

    digests: Digests
    ends: Ends | None = None


class CellReader:
    """Reads one column, which arrives in blocks."""

    def __init__(self, prf: Prf) -> None:
        self._prf = prf
        self._known = pl.Enum([])
        self._table: FileCells | None = None

    def read(self, cells: pl.Series, known: Known | None = None) -> FileCells:
        """Return a block's plain cells; the column holds floats, or texts and what stands for them.

        ``known`` is of its numbers.
        """
        cells = cells.alias("")  # a name that is spelt like a pattern would be one
        if cells.dtype.is_float():
            numbers = _floats(cells)
            if known is None or known.ends is None:
                return self._numbers(numbers, known)
            return FileCells(known.digests, known.digests, numbers, numbers, ends=known.ends)
        if len(cells) > _LOOKED_AT and _seem_few(cells):
            return self._few(cells)
        return self._texts(cells.cast(pl.String), known)

    def _few(self, cells: pl.Series) -> FileCells:
        """Return the cells of a column of few different texts, each of which is read once."""
        texts, of_cells = dictionary_of(cells)
        places = texts.cast(self._known, strict=False)
        # A text that is not known: a new table is made, of this block's texts.
        if self._table is None or places.null_count() != texts.null_count():
            different = texts.unique().drop_nulls()
            if len(different) >= _FEW * len(cells):
                return self._texts(cells.cast(pl.String), None)
            self._known, self._table = pl.Enum(different), self._texts(different, None)
            places = texts.cast(self._known)
        codes, table = places.to_physical(), self._table
        # Missing cells have the place behind the last text, where the tables hold nothing.
        if codes.null_count():
            codes = codes.fill_null(len(self._known.categories))
        of_texts = codes.to_numpy().astype(np.intp)
        words = None if table.texts is None else np.append(table.texts, False)[of_texts]
        digests, numeric = (
            _of_cells(x, of_texts, of_cells) for x in (table.digests, table.numeric)
        )
        return FileCells(digests, numeric, table.read, table.plain, words)

    def _numbers(self, numbers: Numbers, known: Known | None) -> FileCells:
        finite = np.isfinite(numbers)
        read = numbers if finite.all() else numbers[finite]
        if known is not None:
            return FileCells(known.digests, known.digests, read, read)
        numeric = np.zeros(len(numbers), dtype=np.uint64)
        numeric[finite] = self._prf.of_numbers(read)
        return FileCells(numeric, numeric, read, read)

    def _texts(self, cells: pl.Series, known: Known | None) -> FileCells:
        stripped = cells.str.strip_chars(BLANK)
        numbers = stripped.cast(pl.Float64, strict=False)
        found = self._numbers(_floats(numbers), known)
        if numbers.null_count() == cells.null_count():
            return found
        others = (numbers.is_null() & (stripped != "")).fill_null(value=False)
        left = stripped.filter(others).str.to_lowercase()
        values = _spelt(left, _times(left))
        for text, truth in _TRUTHS.items():
            values[(left == text).to_numpy()] = truth
        finite = np.isfinite(values)
        more = np.empty(len(left), dtype=np.uint64)
        more[finite] = self._prf.of_numbers(values[finite])
        more[~finite] = self._prf.of_texts(left.filter(pl.Series(~finite)))
        rows = others.to_numpy()
        digests, texts = found.digests.copy(), rows.copy()
        digests[rows], texts[rows] = more, ~finite
        both = np.concatenate([found.read, values[finite]])
        return FileCells(digests, found.numeric, found.read, both, texts)


def _of_cells(digests: Digests, of_texts: Places, of_cells: Places | None) -> Digests:
    """Return each cell's digest.

    ``of_texts`` are the places of texts in a table of digests, the one behind it for no text, and
    ``of_cells`` those of cells among the texts, None where each cell has a text of its own.
    """
    own = np.append(digests, np.uint64(0))[of_texts]
    if of_cells is None:
        return own
    return own[of_cells] if own.any() else np.zeros(len(of_cells), dtype=np.uint64)


def _seem_few(cells: pl.Series) -> bool:
    """Say whether the first cells have few different values; a short list says so by itself."""
    few = _FEW * _LOOKED_AT
    listed = isinstance(cells.dtype, pl.Enum) and 1 + len(cells.dtype.categories) < few
    return listed or cells.head(_LOOKED_AT).n_unique() < few


def _floats(cells: pl.Series) -> Numbers:
    """Return a column's numbers, NaN where there is none."""
    numbers = cells.cast(pl.Float64)
    return (numbers.fill_null(float("nan")) if numbers.null_count() else numbers).to_numpy()


def _spelt(texts: pl.Series, values: Numbers) -> Numbers:
    """Return the values with those of numbers that are spelt with other signs than programs use.

    These columns have no declared spelling, so each text is read on its own. But 12,345 is a
    whole number where every comma of its block may stand between groups of three digits.
    """
    texts = texts.str.replace_all(_SPACES, " ")
    left = np.flatnonzero(texts.str.contains(_WITH_SIGNS).to_numpy())
    commas = texts.gather(left).str.contains(",", literal=True)
    grouped = texts.gather(left).filter(commas).str.contains(_GROUPED).all()
    for point, sign in [(".", ","), *_SIGNS] if grouped else _SIGNS:
        if len(left):
            numbers = _floats(spelt_numbers(texts.gather(left), decimal=point, thousands=sign))
            values[left] = numbers
            left = left[np.isnan(numbers)]
    return values


def _times(texts: pl.Series) -> Numbers:
    """Return the milliseconds of what is an ISO date, or a time of one; NaN elsewhere."""
    values = np.full(len(texts), np.nan)
    dated = texts.str.slice(4, 1) == "-"
    if not dated.any():
        return values
    sizes = texts.str.len_chars()
    for size, form, kind in ((_DATE_CHARS, _DATE, pl.Date), (_TIME_CHARS, _TIME, pl.Datetime)):
        chosen = dated & ((sizes == size) if kind is pl.Date else (sizes >= size))
        some = texts.filter(chosen).str.replace("t", " ", literal=True)
        times = some.str.strptime(kind, form, strict=False).cast(pl.Datetime("us"))
        values[chosen.to_numpy()] = _floats(times.dt.epoch("us")) / 1_000
    return values
