"""What type a column has, by how its first cells are spelt; and how numbers and times are written.

A guess says how cells are to be read and nothing of what they hold: of the texts in a column none
is repeated. What is proposed, such as a pattern of dates or the spellings of true and false, is
from the fixed lists here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

MARKERS = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", ".", "-", "?", "#N/A")
"""Texts that often stand for a missing cell."""
TRUTHS: Sequence[tuple[Sequence[str], Sequence[str]]] = (
    (("true",), ("false",)),
    (("1",), ("0",)),
    (("yes", "y"), ("no", "n")),
    (("ja", "j"), ("nein", "n")),
    (("oui", "o"), ("non", "n")),
    (("sí", "si", "s"), ("no", "n")),
    (("t",), ("f",)),
    (("wahr",), ("falsch",)),
    (("vrai",), ("faux",)),
)
"""Spellings of true and false that belong together; the first two need no declaration."""
_DECLARED_FROM = 2
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y")
_CLOCKS = ("%H:%M:%S", "%H:%M")
_MOMENTS = tuple(f"{day} {clock}" for day in _DATES for clock in _CLOCKS)
_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:?\d{2})?", re.ASCII
)
_SHAPED = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}( \d{1,2}:\d{2}(:\d{2})?)?", re.ASCII)
_AMBIGUOUS = {"%d/%m/%Y": "%m/%d/%Y"}
_WHOLE = r"^[+-]?\d+(\.0+)?$"
_PADDED = r"^[+-]?0\d"
_NUMBERS: Mapping[tuple[str, str | None], str] = {
    (".", None): r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$",
    (",", None): r"^[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d{1,3})?$",
    (".", ","): r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$|^[+-]?\d{1,3}(\.\d*)?$",
    (",", "."): r"^[+-]?\d{1,3}(\.\d{3})+(,\d*)?$|^[+-]?\d{1,3}(,\d*)?$",
    (".", "'"): r"^[+-]?\d{1,3}(['’]\d{3})+(\.\d*)?$|^[+-]?\d{1,3}(\.\d*)?$",
    (",", " "): r"^[+-]?\d{1,3}([ \x{a0}\x{202f}\x{2009}]\d{3})+(,\d*)?$|^[+-]?\d{1,3}(,\d*)?$",
    (".", " "): r"^[+-]?\d{1,3}([ \x{a0}\x{202f}\x{2009}]\d{3})+(\.\d*)?$|^[+-]?\d{1,3}(\.\d*)?$",
}
"""How numbers are written, by the decimal mark and the thousands separator."""
_MOST_VALUES = 1_000
_LONGEST_VALUE = 100
_FEW_ROWS = 20
_FREE = (
    "nearly each cell has a text of its own, as names, ids and free text have, so it is left out; "
    "declare it as a category where its values are a public list"
)

_CODED = re.compile(
    r"(.*[_ .-])?(sex|gender|region|state|province|county|district|country|nation\w*|zone|ward|"
    r"race|ethnic\w*|religion|marital\w*|status|education|edu|degree|occupation|occ|industry|"
    r"sector|job|profession|type|kind|class|category|cat|group|grp|code|zip\w*|postcode|plz|tract|"
    r"fips|icd\w*|isco\w*|nace\w*|cluster|stratum|strata|language|party|site|clinic|hospital|"
    r"ward|school|treatment|arm|cohort)([_ .-]?\d*)?([_ .-](code|id|cat|grp|group|type))?",
    re.IGNORECASE,
)
"""Names of columns whose numbers stand for something: 1 and 2 of sex are no amounts."""
ID_NAME = re.compile(
    r"(.*[_ .-])?(id|uuid|guid|ssn|pid)|"
    r"(patient|person|subject|user|customer)[_ ]?(no|nr|number|id)",
    re.IGNORECASE,
)
_TRUTH_NAME = re.compile(r"(is|has)[_ ].+", re.IGNORECASE)
_DATE_NAME = re.compile(r"(.*[_ ])?(date|day|dob|birth|born|birthday)([_ ].*)?", re.IGNORECASE)
_MOMENT_NAME = re.compile(r"(.*[_ ])?(datetime|timestamp)|.+[_ ]at", re.IGNORECASE)
_COUNTED = {"#", "count", "n", "number"}


@dataclass(frozen=True, slots=True)
class Guess:
    """A column's type, what of its reading is not by default, and what to look at.

    ``type`` is None for what should be left out.
    """

    type: str | None
    reading: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


def number_style(rows: pl.DataFrame) -> tuple[str, str | None]:
    """Return the decimal mark and the thousands separator that most columns of numbers have."""
    best: tuple[str, str | None] = (".", None)
    most = 0
    columns = [present(column) for column in rows if column.dtype == pl.String]
    columns = [column for column in columns if len(column)]
    for style, pattern in _NUMBERS.items():
        found = sum(bool(column.str.contains(pattern).all()) for column in columns)
        if found > most:
            best, most = style, found
    return best


def markers_in(rows: pl.DataFrame) -> list[str]:
    """Return which of the well-known texts for a missing cell occur in columns that have others."""
    found: dict[str, None] = {}
    for column in rows:
        if column.dtype == pl.String:
            values = column.str.strip_chars().unique()
            found.update(dict.fromkeys(each for each in MARKERS if (values == each).any()))
    return list(found)


def present(column: pl.Series) -> pl.Series:
    """Return a text column's cells that are not missing, without white space around them."""
    stripped = column.drop_nulls().str.strip_chars()
    return stripped.filter((stripped != "") & ~stripped.is_in(MARKERS))


def guessed(
    name: str, column: pl.Series, *, style: tuple[str, str | None], unit: str | None = None
) -> Guess:
    """Return what a column is, by its name and its first cells.

    ``style`` says how numbers are written, ``unit`` what stands in brackets behind the name.
    """
    if column.dtype != pl.String:
        return _by_dtype(name, column)
    cells = present(column)
    if not len(cells):
        notes = ["no cell of it is filled in what was looked at"] if len(column) else []
        return Guess(_by_name(name, unit), notes=notes)
    return _truth(name, cells) or _time(cells) or _number(name, cells, style) or _text(cells)


def _by_dtype(name: str, column: pl.Series) -> Guess:
    kind = column.dtype
    if isinstance(kind, pl.Datetime):
        return _by_moments(name, column, kind.time_zone)
    if kind.is_integer() and _CODED.fullmatch(name):
        return Guess("category")
    kind_of = next((kind_of for kind_of, fits in _DTYPES.items() if fits(kind)), None)
    notes = [] if kind_of else ["its type in the file is none that can be declared"]
    return Guess(kind_of, notes=notes)


def _by_moments(name: str, column: pl.Series, zone: str | None) -> Guess:
    """Return a moment, or a date where each time without a zone is midnight."""
    moments = column.drop_nulls()
    midnight = zone is None and len(moments) and (moments == moments.dt.truncate("1d")).all()
    if midnight and not _MOMENT_NAME.fullmatch(name):
        return Guess("date")
    return Guess("datetime", {} if zone is None else {"timezone": zone})


_DTYPES: Mapping[str, Callable[[pl.DataType], bool]] = {
    "boolean": lambda kind: kind == pl.Boolean,
    "date": lambda kind: kind == pl.Date,
    "integer": lambda kind: kind.is_integer(),
    "number": lambda kind: kind.is_numeric(),
    "category": lambda kind: isinstance(kind, pl.Categorical | pl.Enum | pl.Null),
}


def _by_name(name: str, unit: str | None) -> str:
    if _TRUTH_NAME.fullmatch(name):
        return "boolean"
    if _DATE_NAME.fullmatch(name):
        return "date"
    if _MOMENT_NAME.fullmatch(name):
        return "datetime"
    if _CODED.fullmatch(name):
        return "category"
    return "integer" if unit is not None and unit.lower() in _COUNTED else "number"


def _truth(name: str, cells: pl.Series) -> Guess | None:
    spelt = set(cells.str.to_lowercase().unique())
    for place, (true, false) in enumerate(TRUTHS):
        if not spelt <= {*true, *false}:
            continue
        both = not spelt.isdisjoint(true) and not spelt.isdisjoint(false)
        if not both and (place == 1 or max(map(len, spelt)) == 1):
            continue  # a column of ones, or of n, may be anything
        if place == 1 and _CODED.fullmatch(name):
            return None  # 0 and 1 of sex are codes
        if place < _DECLARED_FROM:
            return Guess("boolean")
        return Guess("boolean", {"true": list(true), "false": list(false)})
    return None


def _time(cells: pl.Series) -> Guess | None:
    some = cells.unique().head(_MOST_VALUES).to_list()
    if all(_ISO.fullmatch(text) for text in some):
        return Guess("datetime")
    if not all(_SHAPED.fullmatch(text) for text in some):
        return None
    for kind, patterns in (("date", _DATES), ("datetime", _MOMENTS)):
        fits = [each for each in patterns if all(_reads(text, each) for text in some)]
        if not fits:
            continue
        first = fits[0]
        other = _AMBIGUOUS.get(first.split(" ")[0])
        notes = []
        if other is not None and any(each.startswith(other) for each in fits):
            notes.append(f"day and month are ambiguous: it is {first}, or {other}")
        plain = first == "%Y-%m-%d"
        return Guess(kind, {} if plain else {"format": first}, notes)
    return None


def _reads(text: str, pattern: str) -> bool:
    if "%Y" in pattern and not re.search(r"\d{4}", text):
        return False
    try:
        datetime.strptime(text, pattern)
    except ValueError:
        return False
    return True


def _number(name: str, cells: pl.Series, style: tuple[str, str | None]) -> Guess | None:
    own: dict[str, Any] = {}
    if not cells.str.contains(_NUMBERS[style]).all():
        for other, pattern in _NUMBERS.items():
            if cells.str.contains(pattern).all():
                own = {"decimal": other[0], "thousands": other[1]}
                break
        else:
            return None
    if cells.str.contains(_PADDED).any():
        # 01234 is a code: as a number it would lose its zero
        return _text(cells)
    decimal, thousands = (own["decimal"], own["thousands"]) if own else style
    whole = bool(cells.str.contains(_WHOLE).all()) or (
        thousands is not None and not cells.str.contains(decimal, literal=True).any()
    )
    if whole and _CODED.fullmatch(name):
        return Guess("category")
    return Guess("integer" if whole else "number", own)


def _text(cells: pl.Series) -> Guess:
    distinct = cells.n_unique()
    long = bool((cells.str.len_chars() > _LONGEST_VALUE).any())
    unlike = len(cells) > _FEW_ROWS and distinct > max(_FEW_ROWS, 0.5 * len(cells))
    if long or unlike or distinct > _MOST_VALUES:
        return Guess(None, notes=[_FREE])
    return Guess("category")


def repeats(column: pl.Series) -> bool:
    """Return whether a column of ids has one twice."""
    filled = column.drop_nulls()
    return filled.n_unique() < len(filled)


def styled(style: tuple[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield the members of a spec that say how numbers are written, where not by default."""
    decimal, thousands = style
    if decimal != ".":
        yield "decimal", decimal
    if thousands is not None:
        yield "thousands", thousands
