"""A spec to fill in, from a file's format, a guess of its columns' types, and a dictionary.

Types come from a Parquet file's own, else from how the first cells are spelt, else from names. A
unit in brackets behind a name is a unit of measure. Bounds and a category's values come from a
dictionary alone, where one states them: from rows neither is proposed, since both are public.

A guess says how cells are to be read and nothing of what they hold: of the texts in a column none
is repeated. What is proposed, such as a pattern of dates or the spellings of true and false, is
from the fixed lists here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import combinations
from typing import Any, BinaryIO

import polars as pl

from app.domain.columns import MAX_NAME_LENGTH, is_text
from app.domain.problems import invalid_request
from app.uploads.drafting.dictionaries import dictionary_in
from app.uploads.drafting.samples import Described, Dictionary, DictionaryError, Sample, sample_of
from app.uploads.spellings import bare_numbers
from app.uploads.trouble import Limits, UnreadableError
from mechanisms.words import worded

MARKERS = (
    "NA", "N/A", "n/a", "N.A.", "n.a.", "n. a.", "n.d.", "<NA>", "NaN", "nan", "NaT", "NULL",
    "null", "None", ".", "-", "?", "#N/A", "#NV", "k.A.", "k. A.", "k.a.", "keine Angabe",
)  # fmt: skip
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
_SIGNS = r"(?:[\p{Sc}%\s]|EUR|Euro|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|CZK)*"
"""What is around numbers that a draft takes for amounts: signs and names of currencies, and %."""
_TWO_DIGITS = worded("its years of two digits are read as 1970 to 2069")
_FUTURE = worded(
    "some of its dates are then in the future: those of birth are most likely 100 years earlier; "
    "write years with four digits in the file"
)
_LAST_EARLIER = 1969
_FORMATS = (2, 3)
"""How many formats the dates of one column may have."""
_UNITS = ("€", "$", "£", "¥", "%")
_MOSTLY, _FEW_OTHERS = 0.8, 5
"""A column is of numbers where this share of its cells are, and the rest are so few texts."""
_OTHERS = worded(
    "a few of its cells are no numbers: put their texts into `na`, or set `unreadable` to missing"
)
_MOST_VALUES = 1_000
_LONGEST_VALUE = 100
_FEW_ROWS = 20
_FREE = worded(
    "nearly each cell has a text of its own, as names, ids and free text have, so it is left out; "
    "declare it as a category where its values are a public list, or name it in `unit` where it "
    "says whose a row is"
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

    ``type`` is None for what should be left out. ``unit`` is the sign that amounts have.
    """

    type: str | None
    reading: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    unit: str | None = None


def number_style(rows: pl.DataFrame, codes: Sequence[str] = ()) -> tuple[str, str | None]:
    """Return the decimal mark and the thousands separator that most columns of numbers have.

    A separator that only one of them needs is that of all: numbers without one are read as well.
    """
    best: tuple[str, str | None] = (".", None)
    most = 0
    texts = [present(column, codes) for column in rows if column.dtype == pl.String]
    columns = [bare_numbers(column, _SIGNS) for column in texts if len(column)]
    fits = {style: [_spelt(column, style) for column in columns] for style in _NUMBERS}
    for style, found in fits.items():
        if sum(found) > most:
            best, most = style, sum(found)
    for style, found in fits.items() if best[1] is None else ():
        if style[0] == best[0] and any(
            fit and not any(fits[mark, None][at] for mark in ".,") for at, fit in enumerate(found)
        ):
            return style
    return best


def _spelt(cells: pl.Series, *styles: tuple[str, str | None]) -> bool:
    """Return whether each cell is a number in one of some styles."""
    return bool(cells.str.contains("|".join(_NUMBERS[each] for each in styles)).all())


def markers_in(rows: pl.DataFrame) -> list[str]:
    """Return which of the well-known texts for a missing cell occur in columns that have others."""
    found: dict[str, None] = {}
    for column in rows:
        if column.dtype == pl.String:
            values = column.str.strip_chars().unique()
            found.update(dict.fromkeys(each for each in MARKERS if (values == each).any()))
    return list(found)


def present(column: pl.Series, codes: Sequence[str] = ()) -> pl.Series:
    """Return a text column's cells that are not missing, without white space around them.

    ``codes`` stand for a missing cell besides the well-known texts.
    """
    stripped = column.drop_nulls().str.strip_chars()
    return stripped.filter((stripped != "") & ~stripped.is_in([*MARKERS, *codes]))


def guessed(
    name: str,
    column: pl.Series,
    *,
    style: tuple[str, str | None],
    unit: str | None = None,
    codes: Sequence[str] = (),
) -> Guess:
    """Return what a column is, by its name and its first cells.

    ``style`` says how numbers are written, ``unit`` what stands in brackets behind the name, and
    ``codes`` what a dictionary says stands for a missing cell.
    """
    if column.dtype != pl.String:
        return _by_dtype(name, column)
    cells = present(column, codes)
    if not len(cells):
        notes = [worded("no cell of it is filled in what was looked at")] if len(column) else []
        return Guess(_by_name(name, unit), notes=notes)
    return _truth(name, cells) or _time(cells) or _number(name, cells, style) or _text(cells)


def _by_dtype(name: str, column: pl.Series) -> Guess:
    kind = column.dtype
    if isinstance(kind, pl.Datetime):
        return _by_moments(name, column, kind.time_zone)
    if kind.is_integer() and _CODED.fullmatch(name):
        return Guess("category")
    kind_of = next((kind_of for kind_of, fits in _DTYPES.items() if fits(kind)), None)
    notes = [] if kind_of else [worded("its type in the file is none that can be declared")]
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
        reads = {each: [text for text in some if _reads(text, each)] for each in patterns}
        fits = [each for each in patterns if len(reads[each]) == len(some)]
        if fits:
            first = fits[0]
            other = _AMBIGUOUS.get(first.split(" ")[0])
            notes = []
            if other is not None and any(each.startswith(other) for each in fits):
                notes.append(worded(
                    "day and month are ambiguous: it is %(first)s, or %(other)s",
                    first=first, other=other,
                ))  # fmt: skip
            plain = first == "%Y-%m-%d"
            notes += _of_two_digits([first], some)
            return Guess(kind, {} if plain else {"format": first}, notes)
        several = _divided(reads, len(some))
        if several:
            notes = [worded("its cells have %(count)s formats", count=len(several[0]))]
            if len(several) > 1:
                names = " and ".join(several[1])
                said = worded("which formats is ambiguous: they may be %(names)s", names=names)
                notes.append(said)
            notes += _of_two_digits(several[0], some)
            return Guess(kind, {"format": list(several[0])}, notes)
    return None


def _of_two_digits(patterns: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return how years of two digits are read, and whether some dates are then in the future."""
    short = [each for each in patterns if "%y" in each]
    days = [datetime.strptime(t, each) for t in texts for each in short if _reads(t, each)]
    if not days:
        return []
    # of Python 69 is 1969, and of the reader 2069
    later = any(day > datetime.now() or day.year == _LAST_EARLIER for day in days)
    return [_TWO_DIGITS, *([_FUTURE] if later else [])]


def _divided(reads: Mapping[str, Sequence[str]], count: int) -> Sequence[Sequence[str]]:
    """Return the fewest formats, two or three, of which each text has one: all ways to choose."""
    used = [each for each, texts in reads.items() if texts]
    for number in _FORMATS:
        found = [
            chosen
            for chosen in combinations(used, number)
            if sum(len(reads[each]) for each in chosen) == count
            and len(set[str]().union(*(reads[each] for each in chosen))) == count
        ]
        if found:
            return found
    return []


def _reads(text: str, pattern: str) -> bool:
    if "%Y" in pattern and not re.search(r"\d{4}", text):
        return False
    try:
        datetime.strptime(text, pattern)
    except ValueError:
        return False
    return True


def _number(name: str, cells: pl.Series, style: tuple[str, str | None]) -> Guess | None:
    found = _all_numbers(name, cells, style)
    if found is not None:
        return found
    bare = bare_numbers(cells, _SIGNS)
    if not (bare == cells).all():
        found = _all_numbers(name, bare, style)
        if found is not None and found.type in ("number", "integer"):
            unit = next(
                (each for each in _UNITS if cells.str.contains(each, literal=True).all()), None
            )
            return replace(found, reading={**found.reading, "bare_number": False}, unit=unit)
    numbers = bare.str.contains("|".join(_NUMBERS.values()))
    others = cells.filter(~numbers)
    if len(others) > (1 - _MOSTLY) * len(cells) or others.n_unique() > _FEW_OTHERS:
        return None
    found = _number(name, cells.filter(numbers), style)
    if found is None or found.type not in ("number", "integer"):
        return None
    return replace(found, notes=[*found.notes, _OTHERS])


def _all_numbers(name: str, cells: pl.Series, style: tuple[str, str | None]) -> Guess | None:
    """Return what a column is in which each cell is a number; None where one is not."""
    own: dict[str, Any] = {}
    if not _spelt(cells, style, (style[0], None)):
        for other in _NUMBERS:
            if _spelt(cells, other):
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


NEVER = worded("Fill in empty bounds and values from public knowledge, never from the rows")
_UNIT = re.compile(r"(?P<label>.*\S)\s*[\[(](?P<unit>[^\])]+)[\])]\s*", re.DOTALL)
_PLAIN = re.compile(r"[\w .,:/%°€$£#()\[\]+-]+")
"""What a column's name may be made of; any other header gets a short name, and is its source."""
_SHORT = 40
_IF_SEVERAL = worded(
    "%(name)s is left out, since its name is that of an id; name it in `unit` if a person may have "
    "several rows"
)
_SEVERAL = worded(
    "%(name)s is left out, since its name is that of an id; name it in `unit` since some have "
    "several rows"
)
_BOUNDS = ("lower", "upper")


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec with empty places, and notes about its columns and those that are not in it.

    ``headers`` are all columns of the file that can be declared, by their names in order: those
    that the spec leaves out as well.
    """

    spec: Mapping[str, Any]
    notes: Sequence[str]
    headers: Mapping[str, str] = field(default_factory=dict)


def drafted_file(
    stream: BinaryIO,
    *,
    name: str,
    dictionary: Dictionary | None = None,
    limits: Limits | None = None,
) -> Draft:
    """Return the draft of a file, of which the first megabyte or the first rows are looked at.

    Raises
    ------
    UnreadableError
        The file is no table, or has no header.
    """
    return drafted(sample_of(stream, limits), name=name, dictionary=dictionary)


def drafted(sample: Sample, *, name: str, dictionary: Dictionary | None = None) -> Draft:
    """Return the draft of a file by its first rows."""
    known = dictionary or Dictionary()
    style = known.style or number_style(sample.rows, known.na)
    markers = [*dict.fromkeys((*known.na, *markers_in(sample.rows)))]
    notes = [*sample.notes, *known.notes]
    if not sample.whole:
        notes.append(worded(
            "types are guessed from the first %(rows)s rows of a longer file: check those that may "
            "look different further down",
            rows=f"{sample.rows.height:,}",
        ))  # fmt: skip
    columns: dict[str, Any] = {}
    headers: dict[str, str] = {}
    seen: set[str] = set()
    for place, header in enumerate(sample.header):
        text, cells = header.strip(), sample.rows[str(place)]
        described = known.of(text)
        if not text:
            notes.append(worded(
                "column %(count)s is left out: its header is empty", count=place + 1
            ))  # fmt: skip
        elif text in seen:
            notes.append(worded(
                "%(name)s is in the file twice, and must be renamed to be declared",
                name=_shown(text),
            ))  # fmt: skip
        elif described.names_texts and ID_NAME.fullmatch(text):
            headers[_key(text, headers)] = text
            several = repeats(cells)
            said = _SEVERAL if several else _IF_SEVERAL
            notes.append(said % {"name": _shown(text)})
        else:
            found = _UNIT.fullmatch(text)
            label, unit = (text, None) if found is None else (found["label"], found["unit"].strip())
            codes = (*known.na, *described.na)
            guess = guessed(label, cells, style=style, unit=unit, codes=codes)
            if guess.type is None and described.states_numbers:
                described = replace(described, type="number")
            open_texts = guess.type is None and described.names_texts
            # Of a type that the dictionary replaces nothing is to be looked at.
            own = guess.notes if open_texts or described.type in (None, guess.type) else ()
            notes += [f"{_shown(text)}: {note}" for note in (*own, *described.notes)]
            key = _key(text, headers)
            headers[key] = text
            if not open_texts and (described.type or guess.type) is not None:
                columns[key] = dict(_members(key, text, guess, described, label=label, unit=unit))
                if described.na:  # in place of those of all columns
                    columns[key]["na"] = [*dict.fromkeys((*described.na, *markers))]
        seen.add(text)
    notes += [
        worded("%(name)s is in the dictionary and not in the file", name=_shown(each))
        for each in known.missing_from(sample.header)
    ]
    if columns:
        notes.append(NEVER)
    named = known.name or name
    spec = _spec(sample, named, style, known, markers=markers, columns=columns)
    return Draft(dict(spec), notes, headers)


def _spec(
    sample: Sample,
    name: str,
    style: tuple[str, str | None],
    known: Dictionary,
    *,
    markers: Sequence[str],
    columns: Mapping[str, Any],
) -> Iterator[tuple[str, Any]]:
    yield "name", name
    yield "description", known.description
    yield "adjacency", None
    yield from {**known.dialect, **sample.dialect}.items()
    yield from styled(style)
    if markers:
        yield "na", markers
    yield "columns", columns
    yield "budget", {"epsilon": None}
    yield "same_people", None


def _members(
    key: str, header: str, guess: Guess, known: Described, *, label: str, unit: str | None
) -> Iterator[tuple[str, Any]]:
    kind = known.type or guess.type
    yield "type", kind
    yield "missing", "keep"
    if kind == "category":
        yield "values", list(known.values)
        if known.labels:
            yield "labels", dict(known.labels)
    elif kind != "boolean":
        for end in _BOUNDS:
            yield end, getattr(known, end)
    reading = guess.reading if kind == guess.type else {}
    yield from {**reading, **known.reading}.items()
    if key != header:
        yield "source", header
    known_label = known.label or (label if label != key and is_text(label, 200) else None)
    if known_label:
        yield "label", known_label[:200]
    measure = known.unit or unit or guess.unit
    if measure is not None and kind in ("number", "integer"):
        yield "unit_of_measure", measure[:200]


def _key(header: str, taken: Mapping[str, Any]) -> str:
    """Return the name of a column: its header, or a short one where that cannot be a name."""
    if is_text(header, MAX_NAME_LENGTH) and _PLAIN.fullmatch(header):
        return header
    words = "_".join(re.findall(r"\w+", header)).lower()
    short = words[:_SHORT].rpartition("_")[0] if len(words) > _SHORT else words
    short = short or words[:_SHORT] or "column"
    key, number = short, 1
    while key in taken:
        number += 1
        key = f"{short}_{number}"
    return key


def _shown(header: str) -> str:
    """Return a header as a note has it: in one line, and not too long."""
    line = " ".join(header.split())
    line = "".join(each if each.isprintable() else "?" for each in line)
    return line if len(line) <= 60 else f"{line[:57]}..."


# The request to the process that drafts a spec, and its answer

_MARK = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftingTask:
    """Draft a spec of a file under a name, with the bytes of a dictionary if there is one."""

    name: str
    limits: Limits
    dictionary: bytes = b""

    def to_json(self) -> bytes:
        """Return the task as it is sent."""
        limits = {each.name: getattr(self.limits, each.name) for each in fields(self.limits)}
        content = {"name": self.name, "dictionary": base64.b64encode(self.dictionary).decode()}
        return json.dumps({_MARK: {**content, "limits": limits}}).encode()

    @classmethod
    def found_in(cls, order: bytes) -> DraftingTask | None:
        """Return the task that an order is, None for any other."""
        fields = json.loads(order).get(_MARK)
        if fields is None:
            return None
        dictionary = base64.b64decode(fields["dictionary"])
        return cls(name=fields["name"], limits=Limits(**fields["limits"]), dictionary=dictionary)

    def done(self, file: BinaryIO) -> Draft:
        """Return the draft of a file.

        Raises
        ------
        Problem
            ``invalid-request``, about the file or the dictionary; ``too-large``.
        """
        try:
            known = dictionary_in(self.dictionary) if self.dictionary else None
        except DictionaryError as error:
            raise invalid_request("dictionary", str(error)) from None
        try:
            return drafted_file(file, name=self.name, dictionary=known, limits=self.limits)
        except UnreadableError as error:
            raise invalid_request("file", str(error)) from None


def draft_json(draft: Draft) -> bytes:
    """Return a draft as it is sent."""
    content = {"spec": draft.spec, "notes": list(draft.notes), "headers": draft.headers}
    return json.dumps(content).encode()


def draft_in(content: bytes) -> Draft:
    """Return the inverse of :func:`draft_json`.

    Raises
    ------
    ValueError
        It is no draft: who sends it has read a file of an untrusted client.
    """
    order = json.loads(content)
    spec, notes, headers = order["spec"], order["notes"], order["headers"]
    columns = spec["columns"] if isinstance(spec, Mapping) else None
    sound = isinstance(columns, Mapping) and all(
        isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in columns.values()
    )
    texts = [*notes, *headers.values()] if isinstance(headers, dict) else [None]
    if not sound or not all(isinstance(each, str) for each in texts):
        raise ValueError("not a draft")
    typed: dict[str, Any] = dict(spec)
    return Draft(typed, tuple(notes), headers)
