"""Texts of a file as numbers, by how the file spells them.

Numbers may have a decimal comma and signs between groups of three digits. Dates and moments
are ISO 8601, and become days and seconds since 1970 (UTC), as in :mod:`mechanisms.times`.
"""

from __future__ import annotations

import re

import polars as pl

from app.uploads.prf import BLANK
from mechanisms.times import SECONDS_PER_DAY, TEXT, TimeKind

_DAY = "%Y-%m-%d"
_HOURS, _SIXTY = 24, 60


def plain_numbers(texts: pl.Series) -> pl.Series:
    """Return numbers that are spelt as programs do; null where a text is none."""
    return texts.str.strip_chars(BLANK).cast(pl.Float64, strict=False)


def spelt_numbers(texts: pl.Series, *, decimal: str, thousands: str | None) -> pl.Series:
    """Return numbers that are spelt in a way that was declared; null where a text is none.

    Signs between groups count only where each group has three digits: ``1.5`` is no fifteen.
    """
    stripped = texts.str.strip_chars(BLANK)
    point = re.escape(decimal)
    plain = rf"^[+-]?[0-9]*(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?$"
    fits = stripped.str.contains(plain)
    numbers = stripped
    if thousands is not None:
        grouped = rf"^[+-]?[0-9]{{1,3}}(?:{re.escape(thousands)}[0-9]{{3}})+(?:{point}[0-9]*)?$"
        fits = fits | stripped.str.contains(grouped)
        numbers = numbers.str.replace_all(thousands, "", literal=True)
    numbers = numbers.str.replace(decimal, ".", literal=True)
    found = numbers.cast(pl.Float64, strict=False)
    return found.set(~fits.fill_null(value=False), None)


def times(texts: pl.Series, kind: TimeKind) -> pl.Series:
    """Return the days of dates, or the seconds of moments; null where a text is none."""
    parts = (
        texts.str.strip_chars(BLANK)
        .str.extract_groups(TEXT)
        .struct.rename_fields(["day", "hour", "minute", "second", "fraction", "offset"])
        .struct.unnest()
    )
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
