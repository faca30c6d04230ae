"""Dictionaries that are tables: Excel workbooks, CSV and Markdown, read as rows by one reader.

Each is made rows of texts. The header is the first row with a name for columns and another word of
:data:`HEADERS`, below any title. In a workbook the first sheet that has one counts, and in Markdown
the first table. A row describes a column of the file. A row without a name goes on with the column
above it, as in codebooks with a line for each value.

Other sheets and tables may list values alone, a line each, with the column or the list that they
belong to. They are joined to the columns, by the name of the column or of the list that it states.

A cell lists values as ``1=male; 2=female``, one a line, or with bars or commas between them.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from typing import Any

from app.domain.problems import Problem
from app.uploads.drafting.samples import (
    Described,
    Dictionary,
    DictionaryError,
    Number,
    code_text,
    decoded,
    number_in,
    records_in,
)
from app.uploads.recognition import DELIMITERS, is_workbook, likely_encoding
from app.uploads.trouble import Limits, UnreadableError
from app.uploads.workbook import DAMAGED, cell_text, sheets_of
from mechanisms.words import worded

Row = Sequence[str]

MOST_BYTES = 1 << 26
"""Of a workbook's content, once it is unpacked."""
MOST_TEXT = 1 << 23
"""Characters of all cells, or of a text."""
MOST_ROWS, MOST_COLUMNS, MOST_TABLES = 100_000, 500, 1_000
_MOST_ABOVE = 50  # rows above the header
_MOST_CODES = 100  # of a range of codes
_BAR = re.compile(r"(?<!\\)\|")
_EMPHASIS = re.compile(r"^(\*\*|__|[*_`])(.+)\1$", re.DOTALL)
_LINE_END = re.compile(r"<br ?/?>")

HEADERS: Mapping[str, Sequence[str]] = {
    "name": (
        "variable", "variable name", "variablename", "varname", "var", "column", "column name",
        "field", "field name", "variable field name", "name", "variables", "spalte", "spaltenname",
        "merkmal", "feld", "feldname", "variablenname", "nom de la variable", "colonne", "champ",
        "nom",
    ),
    "label": (
        "label", "variable label", "field label", "title", "description", "meaning", "definition",
        "question", "variablenlabel", "bezeichnung", "beschreibung", "bedeutung", "titel", "frage",
        "libellé", "intitulé", "signification",
    ),
    "type": (
        "text validation type or show slider number", "type", "data type", "datatype",
        "variable type", "field type", "typ", "datentyp", "variablentyp", "type de données",
        "type de variable",
    ),
    "values": (
        "values", "value", "codes", "code", "categories", "category", "levels", "choices",
        "allowed values", "permitted values", "value codes",
        "choices calculations or slider labels", "ausprägungen", "ausprägung", "werte", "wert",
        "kategorien", "valeurs", "valeur", "modalités", "modalité",
    ),
    "meaning": (
        "value label", "value labels", "code label", "code labels", "category label", "labels",
        "value description", "wertelabel", "wertelabels", "wertebezeichnung",
        "libellé de la modalité", "libellé de la valeur",
    ),
    "missing": (
        "missing values", "missing value", "missing codes", "missing code", "missing value codes",
        "missing value code", "na", "fehlende werte", "fehlwerte", "valeurs manquantes",
        "codes manquants",
    ),
    "list": (
        "codelist", "code list", "code list name", "codelist name", "list name", "value set",
        "label set", "codeliste", "werteliste", "liste de codes", "nomenclature",
    ),
    "unit": ("unit", "units", "unit of measure", "unit of measurement", "einheit", "unité"),
    "lower": (
        "minimum", "min", "lower", "lower bound", "text validation min", "untergrenze",
        "kleinster wert",
    ),
    "upper": (
        "maximum", "max", "upper", "upper bound", "text validation max", "obergrenze",
        "größter wert",
    ),
    "range": ("range", "valid range", "value range", "wertebereich", "plage", "intervalle"),
}  # fmt: skip
"""The words of a header, in lower case and without signs, by what is below them."""
_ROLES = {word: (role, rank) for role, words in HEADERS.items() for rank, word in enumerate(words)}
_BOUNDS = ("lower", "upper", "range")
_SUMMARIES = {
    "mean", "sd", "std", "std dev", "standard deviation", "median", "n", "count", "frequency",
    "freq", "percent", "unique", "mittelwert", "standardabweichung", "häufigkeit", "anzahl",
    "moyenne", "écart type", "médiane", "effectif", "fréquence",
}  # fmt: skip
"""Headers of what is computed from rows: a minimum next to one is the rows' own."""
_OBSERVED = worded(
    "minimum and maximum of the dictionary are next to summaries of rows, so they are not read as "
    "bounds"
)
_STATED = worded(
    "bounds are those of the dictionary: keep them only where they say what is valid, not what "
    "occurs in the rows"
)
_ONE_VALUE = {"value", "code", "category", "wert", "ausprägung", "valeur", "modalité"}
"""Headers of a line for each value: a label next to one is the value's."""
_TYPES = {
    word: kind
    for kind, words in {
        "integer": "integer int ganzzahl ganzzahlig ganze whole count entier long smallint bigint",
        "number": "number numeric numerisch float double decimal real continuous quantitative zahl "
        "dezimalzahl kommazahl metrisch nombre numérique décimal réel calc",
        "category": "category categorical nominal ordinal factor string text character char "
        "varchar dropdown radio qualitative kategorie kategorial zeichenkette catégorie "
        "catégorielle catégoriel texte chaîne",
        "boolean": "boolean bool logical yesno yes truefalse wahrheitswert ja booléen oui logique",
        "date": "date datum",
        "datetime": "datetime timestamp zeitstempel horodatage",
    }.items()
    for word in words.split()
}
"""The first word of a type, without digits."""
_NOTHING = {"-", "–", "—", "none", "keine", "keiner", "aucun", "aucune"}
_PLACEHOLDERS = _NOTHING | {"n/a", "na"}
_NUMBER = r"[+-]?\d+(?:[.,]\d+)?"
_RANGE = re.compile(
    rf"(?P<low>{_NUMBER})\s*(?:-|–|—|\bto\b|\bbis\b|\bà\b|\.\.+|…)\s*(?P<high>{_NUMBER})"
    rf"|[\[(]\s*(?P<first>{_NUMBER})\s*[,;]\s*(?P<last>{_NUMBER})\s*[\])]",
    re.ASCII,
)
_PAIRS = (
    re.compile(r"(?P<code>[^=:]{1,200}?)\s*[=:]\s*(?P<label>.+)", re.DOTALL),
    re.compile(r"(?P<code>\S{1,200})\s+[-–—]\s+(?P<label>.+)", re.DOTALL),
    re.compile(r"\(?(?P<code>-?\d{1,15})[.)]\s+(?P<label>.+)", re.DOTALL),
)
EXAMPLE = "name | label | type | values"


def table_dictionary(content: bytes) -> Dictionary:
    """Return what a table says of columns.

    Raises
    ------
    DictionaryError
        It is above the limits or damaged, or has no header that is known.
    """
    try:
        found = _first_known(content)
    except (DictionaryError, MemoryError):
        raise
    except Problem:
        raise DictionaryError(
            f"the dictionary is an Excel workbook of more than {MOST_BYTES} bytes once it is "
            "unpacked: send its table as CSV"
        ) from None
    except UnreadableError as error:
        raise DictionaryError(str(error)) from None
    except Exception:  # whatever the reader thinks of a workbook that is none
        raise DictionaryError(DAMAGED) from None
    if found is None:
        raise DictionaryError(worded(
            "the dictionary is a table, and none of its first %(count)s rows is a header: one cell "
            "must be `name` (or variable, column, field), and others `label`, `type`, `values`, "
            "`missing values`, `unit`, `minimum` or `maximum`; for example: %(example)s",
            count=_MOST_ABOVE, example=EXAMPLE,
        ))  # fmt: skip
    if not found.columns:
        raise DictionaryError(
            "the dictionary has a header and no rows below it: each row must have the name of a "
            "column, and what it says of it"
        )
    return found


def _first_known(content: bytes) -> Dictionary | None:
    """Return what the first table with a known header says, None where none has one.

    Tables that list values alone are joined to it; without any other the first of them counts.
    """
    found: _Table | None = None
    listing, count = list[_Table](), 0
    for name, rows in _of_workbook(content) if is_workbook(content) else _of_text(content):
        count += name is not None
        table = _read(" ".join((name or "").split())[:60], _bounded(rows))
        if table is not None and table.lists_values and name is not None:
            listing.append(table)
        elif found is None:
            found = table
    if found is None:
        found = next((each for each in listing if "name" in each.roles), None)
        listing = [each for each in listing if each is not found]
    if found is None:
        return None
    joined = [each for each in listing if found.join(each)]
    known = Dictionary(columns=dict(found.columns()), notes=found.notes)
    if count < 2:
        return known
    if joined:
        note = worded(
            "the dictionary has %(count)s sheets or tables; columns are read from %(name)s, and "
            "values from %(others)s",
            count=count, name=found.name, others=", ".join(each.name for each in joined),
        )  # fmt: skip
    else:
        note = worded(
            "the dictionary has %(count)s sheets or tables, and the first one with a known header "
            "is read: %(name)s",
            count=count, name=found.name,
        )  # fmt: skip
    return replace(known, notes=[note, *known.notes])


# Bytes to rows of texts

Table = tuple[str | None, Iterable[Sequence[str]]]


def _of_workbook(content: bytes) -> Iterator[Table]:
    with closing(sheets_of(io.BytesIO(content), Limits(max_expanded_bytes=MOST_BYTES))) as sheets:
        for name, rows in sheets:
            yield name, ([_plain(each) for each in row] for row in rows)


def _plain(cell: Any) -> str:
    return "" if cell is None else cell_text(cell).removesuffix("T00:00:00")


def _of_text(content: bytes) -> Iterator[Table]:
    """Yield the tables of a Markdown text, or a CSV text by each delimiter."""
    text = decoded(content, likely_encoding(content) or "utf-8").removeprefix("\ufeff")
    if len(text) > MOST_TEXT:
        raise _too_long()
    lines = text.splitlines()
    rules = (place for place, line in enumerate(lines) if place and _is_rule(line))
    tables = list(islice(rules, MOST_TABLES))
    for number, rule in enumerate(tables, 1):
        yield str(number), _in_markdown(lines, rule)
    if not tables:
        yield from ((None, records_in(text, each)) for each in DELIMITERS)


def _is_rule(line: str) -> bool:
    """Return whether a line is what is below the header of a Markdown table."""
    return "-" in line and "|" in line and set(line) <= set("|:- \t")


def _in_markdown(lines: Sequence[str], rule: int) -> Iterator[Row]:
    """Yield the header above a rule, and the lines with bars below it."""
    yield _cells(lines[rule - 1])
    below = (lines[place] for place in range(rule + 1, len(lines)))
    yield from map(_cells, takewhile(lambda line: "|" in line, below))


def _cells(line: str) -> Row:
    bare = line.strip().removeprefix("|")
    cells = _BAR.split(bare.removesuffix("|") if not bare.endswith("\\|") else bare)
    return [
        _LINE_END.sub("\n", _EMPHASIS.sub(r"\2", cell.strip()).replace("\\|", "|"))
        for cell in cells
    ]


def _bounded(rows: Iterable[Sequence[str]]) -> Iterator[Row]:
    """Yield the rows that are not empty, up to their last text.

    Raises
    ------
    DictionaryError
        There are more rows, columns or characters than a dictionary may have.
    """
    characters = 0
    for count, row in enumerate(rows):
        cells = [cell.strip() for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        characters += sum(map(len, cells))
        if count >= MOST_ROWS or len(cells) > MOST_COLUMNS or characters > MOST_TEXT:
            raise _too_long()
        if cells:
            yield cells


def _too_long() -> DictionaryError:
    return DictionaryError(
        f"the dictionary is a table of more than {MOST_ROWS} rows, {MOST_COLUMNS} columns or "
        f"{MOST_TEXT} characters: leave out what describes no column"
    )


# Rows to what they say


Line = Mapping[str, str]
"""What a row says, by the roles of its cells."""
_LISTING = {"name", "list", "values", "meaning"}


@dataclass(frozen=True, slots=True)
class _Table:
    """A table with a known header: its rows by the name of their column, or of their list."""

    name: str
    roles: Mapping[str, Sequence[int]]
    lines: dict[str, list[Line]]
    notes: Sequence[str]

    @property
    def lists_values(self) -> bool:
        """Return whether the table says nothing of columns but their values, a line each."""
        several = sum(map(len, self.lines.values())) > len(self.lines)
        return "values" in self.roles and self.roles.keys() <= _LISTING and several

    def join(self, other: _Table) -> bool:
        """Give columns the values that another table lists; return whether there were any.

        A column whose values have labels here keeps them.
        """
        known = {name.casefold(): lines for name, lines in other.lines.items()}
        found = False
        for name, lines in self.lines.items():
            stated = (line.get(role, "") for role in ("list", "values") for line in lines)
            listed = next(
                (known[e] for each in (name, *stated) if (e := each.casefold()) in known), ()
            )
            own = [pair for line in lines for pair in _listed(line.get("values", ""))]
            if listed and not any(_meant(lines)) and not any(label for _, label in own):
                bare = [{**line, "values": ""} for line in lines]
                self.lines[name], found = [*bare, *listed], True
        return found

    def columns(self) -> Iterator[tuple[str, Described]]:
        return ((name, _described(each)) for name, each in self.lines.items())


def _read(name: str, rows: Iterator[Row]) -> _Table | None:
    """Return a table by its rows; None where no header is among the first ones."""
    first = list(islice(rows, _MOST_ABOVE))
    place = next((at for at, row in enumerate(first) if _roles(row)), None)
    if place is None:
        return None
    roles = _roles(first[place])
    notes: list[str] = []
    if any(each in roles for each in _BOUNDS):
        if not _SUMMARIES.isdisjoint(map(_word, first[place])):
            roles = {role: at for role, at in roles.items() if role not in _BOUNDS}
            notes.append(_OBSERVED)
        else:
            notes.append(_STATED)
    below = chain(first[place + 1 :], rows)
    return _Table(name, roles, _lines(roles, below), notes)


def _word(cell: str) -> str:
    return " ".join(re.findall(r"\w+", cell.casefold()))


def _roles(row: Row) -> Mapping[str, Sequence[int]]:
    """Return where what is said stands, the best column first; nothing where a row is no header."""
    found: dict[str, list[tuple[int, int]]] = {}
    before = ""
    for place, cell in enumerate(row):
        word = _word(cell)
        role, rank = _ROLES.get(word, ("", 0))
        if role == "label" and before in _ONE_VALUE:
            role = "meaning"
        if role:
            found.setdefault(role, []).append((rank, place))
        before = word
    if "meaning" in found and "values" not in found:
        found["values"] = found.pop("meaning")
    if len(found) == 1 or not ("name" in found or {"list", "values"} <= found.keys()):
        return {}
    return {role: [place for _, place in sorted(places)] for role, places in found.items()}


def _lines(roles: Mapping[str, Sequence[int]], rows: Iterable[Row]) -> dict[str, list[Line]]:
    """Return what rows say, by the name in them or above them."""
    lines: dict[str, list[Line]] = {}
    key, last = "name" if "name" in roles else "list", ""
    for row in rows:
        cells = {role: _cell(row, role, places) for role, places in roles.items()}
        last = cells.pop(key) or last
        if last and any(cells.values()):
            lines.setdefault(last, []).append(cells)
    return lines


def _cell(row: Row, role: str, places: Sequence[int]) -> str:
    empty = {} if role == "name" else _NOTHING if role in ("missing", "values") else _PLACEHOLDERS
    texts = (row[place] for place in places if place < len(row))
    return next((text for text in texts if text and text.lower() not in empty), "")


def _described(lines: Sequence[Line]) -> Described:
    """Return what the lines of one column say: all its values, and else the first text."""

    def first(role: str) -> str:
        return next((text for line in lines if (text := line.get(role, ""))), "")

    kind = _kind(first("type"))
    low, high = _range(first("range"))
    listed = first("values") if len(lines) == 1 or not any(_meant(lines)) else ""
    if listed and (ends := _range(listed))[0] is not None:
        low, high = ends if low is None else (low, high)
        pairs = _counted(*ends) if kind == "category" else []
    elif any(_meant(lines)):
        pairs = [(code_text(line["values"]), line["meaning"]) for line in lines if line["values"]]
    else:
        pairs = [pair for line in lines for pair in _listed(line.get("values", ""))]
    timed = kind in ("date", "datetime")
    stated_low, stated_high = (
        text or None if timed else _number(text) for text in (first("lower"), first("upper"))
    )
    bounds = (
        low if stated_low is None else stated_low,
        high if stated_high is None else stated_high,
    )
    missing = [code for code, _ in _listed(first("missing"))]
    valid = [code for code, _ in pairs if code not in missing]
    notes: list[str] = []
    if kind in ("integer", "number", None) and (len(pairs) == 1 or _outside(valid, *bounds)):
        if pairs and valid:
            notes.append(worded(
                "some of its numbers have labels in the dictionary; where one stands for a missing "
                "value, put it into `na`"
            ))  # fmt: skip
        pairs = []
    elif pairs and kind not in ("boolean", "date", "datetime"):
        kind = "category"
    bounded = kind not in ("category", "boolean")
    return Described(
        type=kind,
        label=first("label") or None,
        values=[code for code, _ in pairs] if kind == "category" else (),
        labels=dict(pairs) if kind == "category" else {},
        na=missing,
        unit=first("unit") or None,
        lower=bounds[0] if bounded else None,
        upper=bounds[1] if bounded else None,
        notes=notes,
    ).tidied()


def _outside(codes: Sequence[str], low: Number | None, high: Number | None) -> bool:
    """Return whether no code is a number within what is said to be valid, if that is said."""
    bounds = [each if isinstance(each, int | float) else None for each in (low, high)]
    if bounds == [None, None]:
        return not codes
    least = -math.inf if bounds[0] is None else bounds[0]
    most = math.inf if bounds[1] is None else bounds[1]
    numbers = [number_in(code) for code in codes]
    return all(each is not None and not least <= each <= most for each in numbers)


def _meant(lines: Sequence[Line]) -> Iterator[bool]:
    return (bool(line.get("meaning") and line.get("values")) for line in lines)


def _kind(text: str) -> str | None:
    word = re.match(r"[^\W\d_]+", text.casefold())
    return None if word is None else _TYPES.get(word[0])


def _number(text: str) -> int | float | None:
    return number_in(text.replace(",", ".") if text.count(",") == 1 else text)


def _range(text: str) -> tuple[int | float | None, int | float | None]:
    """Return the ends of a range, such as 0-120 or [0, 120]; None twice for any other text."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        return None, None
    return _number(found["low"] or found["first"]), _number(found["high"] or found["last"])


def _counted(low: int | float | None, high: int | float | None) -> list[tuple[str, str]]:
    if isinstance(low, int) and isinstance(high, int) and 0 <= high - low < _MOST_CODES:
        return [(str(code), "") for code in range(low, high + 1)]
    return []


def _listed(text: str) -> list[tuple[str, str]]:
    """Return the codes of a list with their labels, which are empty where it has none.

    >>> _listed("1=male; 2=female"), _listed("f, m")
    ([('1', 'male'), ('2', 'female')], [('f', ''), ('m', '')])
    >>> _listed("1, Yes | 0, No, or unknown")
    [('1', 'Yes'), ('0', 'No, or unknown')]
    >>> _listed("1 = yes, always, 2 = no")
    [('1', 'yes, always'), ('2', 'no')]
    """
    sign = next((each for each in "\n|;" if each in text), ",")
    found: list[tuple[str, str]] = []
    for item in filter(None, map(str.strip, text.split(sign))):
        pair = next((match for each in _PAIRS if (match := each.fullmatch(item))), None)
        if pair is not None:
            found.append((_bare(pair["code"]), pair["label"].strip()))
        elif sign == "," and found and found[-1][1]:  # a comma in a label
            found[-1] = (found[-1][0], f"{found[-1][1]}, {item}")
        elif sign in "\n|" and ", " in item:  # as in codebooks of REDCap
            code, _, label = item.partition(", ")
            found.append((_bare(code), label.strip()))
        else:
            found.append((_bare(item), ""))
    return found


def _bare(code: str) -> str:
    return code.strip().strip("\"'“”„‘’")
