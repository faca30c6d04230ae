"""Texts of a file as numbers, by how the file spells them; and texts that it does not spell out.

Numbers may have a decimal comma and signs between groups of three digits. Dates and moments
are ISO 8601, and become days and seconds since 1970 (UTC), as in :mod:`mechanisms.times`.

Truths, dictionaries and small whole numbers stand for few different texts, those that a CSV file
of the same cells has. They are places in a list of them, so that each text is read once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.uploads.prf import BLANK
from mechanisms.times import SECONDS_PER_DAY, TEXT, TimeKind

_FLOAT = pl.Float64()
_DAY = "%Y-%m-%d"
_KINDS: Mapping[str, str] = dict.fromkeys(" \u00a0\u2009\u202f", "[ \u00a0\u2009\u202f]") | (
    dict.fromkeys("'\u2019", "['\u2019]")
)
"""Signs between groups of digits that stand for one another, as patterns."""
_HOURS, _SIXTY = 24, 60
_MOST_PLACES = 1 << 16
"""Cells count by their own numbers below this: a list of that length is cheap to make."""

_AS_ARRAYS: Mapping[pl.DataType, pl.DataType] = {
    pl.Boolean(): pl.UInt8(), pl.Int128(): pl.Float64(), pl.UInt128(): pl.Float64()
}  # fmt: skip
"""What no array holds: truths, and more than 64 bits, of which places are exact."""

Places = NDArray[np.intp]


def plain_numbers(texts: pl.Series, kind: pl.DataType = _FLOAT) -> pl.Series:
    """Return numbers that are spelt as programs do; null where a text is none."""
    return texts.str.strip_chars(BLANK).cast(kind, strict=False)


def spelt_numbers(
    texts: pl.Series, *, decimal: str, thousands: str | None, kind: pl.DataType = _FLOAT
) -> pl.Series:
    """Return numbers that are spelt in a way that was declared; null where a text is none.

    Signs between groups count only where each group has three digits: ``1.5`` is no fifteen.
    """
    stripped = texts.str.strip_chars(BLANK)
    point = re.escape(decimal)
    plain = rf"^[+-]?[0-9]*(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?$"
    fits = stripped.str.contains(plain)
    numbers = stripped
    if thousands is not None:
        sign = _KINDS.get(thousands, re.escape(thousands))
        grouped = rf"^[+-]?[0-9]{{1,3}}(?:{sign}[0-9]{{3}})+(?:{point}[0-9]*)?$"
        fits = fits | stripped.str.contains(grouped)
        numbers = numbers.str.replace_all(sign, "")
    numbers = numbers.str.replace(decimal, ".", literal=True)
    found = numbers.cast(kind, strict=False)
    # The parser knows more spellings than were declared, such as inf.
    return found.set(~fits.fill_null(value=False), None)


def iso_parts(texts: pl.Series) -> pl.DataFrame:
    """Return the parts of ISO 8601 texts, null where there is none."""
    return (
        texts.str.strip_chars(BLANK)
        .str.extract_groups(TEXT)
        .struct.rename_fields(["day", "hour", "minute", "second", "fraction", "offset"])
        .struct.unnest()
    )


def times(texts: pl.Series, kind: TimeKind) -> pl.Series:
    """Return the days of dates, or the seconds of moments; null where a text is none.

    A moment without an offset is one in UTC; :mod:`app.uploads.moments` reads other zones.
    """
    parts = iso_parts(texts)
    # polars counts days from 1970 too
    day = pl.col("day").str.strptime(pl.Date, _DAY, strict=False).cast(pl.Int32).cast(pl.Float64)
    if kind == "date":
        found = pl.when(pl.col("hour").is_null()).then(day)
        return parts.select(found.alias("found"))["found"]
    hour, minute, second = (
        pl.col(name).cast(pl.Float64).fill_null(0) for name in ("hour", "minute", "second")
    )
    clock = (hour * 60 + minute) * 60 + second + pl.col("fraction").cast(pl.Float64).fill_null(0)
    ahead = pl.when(pl.col("offset").str.starts_with("-")).then(-1.0).otherwise(1.0)
    hours = pl.col("offset").str.slice(1, 2).cast(pl.Float64, strict=False).fill_null(0)
    minutes = pl.col("offset").str.slice(-2, 2).cast(pl.Float64, strict=False).fill_null(0)
    sound = (hour < _HOURS) & (minute < _SIXTY) & (second < _SIXTY) & (hours < _HOURS)
    moment = day * SECONDS_PER_DAY + clock - ahead * (hours * 60 + minutes) * 60
    found = pl.when(sound & (minutes < _SIXTY)).then(moment)
    return parts.select(found.alias("found"))["found"]


def dictionary_of(cells: pl.Series) -> tuple[pl.Series, Places | None]:
    """Return different texts, each in use, and which of them every cell is.

    Null is one of them where some cell is. Texts themselves, large dictionaries and other whole
    numbers come back as texts, row by row, and None.
    """
    if cells.dtype == pl.String:
        return cells, None
    written = isinstance(cells.dtype, pl.Categorical | pl.Enum)
    numbers = cells.to_physical() if written else cells
    numbers = numbers.cast(_AS_ARRAYS.get(numbers.dtype, numbers.dtype))
    # of an array, since each question to a column costs as much as thousands of rows
    present = (numbers.drop_nulls() if numbers.null_count() else numbers).to_numpy()
    ends = (int(present.min()), int(present.max())) if len(present) else ()
    if not all(0 <= end < _MOST_PLACES for end in ends):
        return cells.cast(pl.String), None
    none = 1 + max(ends, default=-1)
    if len(present) < len(numbers):
        present = numbers.cast(pl.Int64).fill_null(none).to_numpy()
    rows = present.astype(np.intp)
    used = np.flatnonzero(np.bincount(rows))
    own = [None if place == none else place for place in used.tolist()]
    different = pl.Series(own, dtype=pl.UInt32)
    kept = different.cat.to(cells.dtype) if written else different.cast(cells.dtype)
    if len(used) <= used.max(initial=-1):  # some places are of no cell
        places = np.empty(none + 1, dtype=np.intp)
        places[used] = np.arange(len(used))
        rows = places[rows]
    return kept.cast(pl.String), rows
