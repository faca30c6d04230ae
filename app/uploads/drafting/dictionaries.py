"""Dictionaries that come with a file: what they say of its columns, by the kind they are of.

*Frictionless table schemas and CSVW metadata (JSON).* A table schema has ``fields``, and may be a
resource of a data package. CSVW has a ``tableSchema`` with ``columns``, and may describe one of
several ``tables``: then the first one counts. What either refers to by an address is not fetched.

*DDI codebooks (XML, DDI 1.x and 2.x): what archives of surveys say of variables.* The reader knows
elements and text alone. A document type, and with it every entity, is refused; nothing is fetched.
Frequencies and summaries, which many codebooks print, are counts of rows and are not read: bounds
come from ``valrng`` alone.

*Tables: Excel, CSV and Markdown* (:mod:`app.uploads.drafting.tables`).

Frictionless: https://datapackage.org/standard/table-schema/. CSVW: W3C, *Metadata Vocabulary for
Tabular Data*. DDI Alliance, *DDI Codebook 2.5*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from app.uploads.drafting.samples import (
    Described,
    Dictionary,
    DictionaryError,
    code_text,
    number_in,
)
from app.uploads.drafting.tables import table_dictionary
from app.uploads.recognition import is_workbook, likely_encoding, recognised
from mechanisms.words import worded

_DEEPEST = 100
_MOST_ELEMENTS = 2_000_000
_MOST_CODES = 100  # of a range of codes for missing values


@dataclass(slots=True)
class Element:
    """An element: its name without a namespace, its attributes in lower case, and what is in it."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        """Yield the children of a name."""
        return (each for each in self.children if each.name == name)

    def text(self, name: str | None = None) -> str:
        """Return its own text, or that of its first child of a name."""
        if name is None:
            return " ".join("".join(self.pieces).split())
        return next((each.text() for each in self.all(name)), "")

    def walk(self, name: str) -> Iterator[Element]:
        """Yield every element of a name in it."""
        for each in self.children:
            if each.name == name:
                yield each
            yield from each.walk(name)


def read_xml(content: bytes) -> Element:
    """Return the root of a document.

    Raises
    ------
    DictionaryError
        It is not well-formed, has a document type or entities, or is too deep or too large.
    """
    root = Element("")
    stack, count = [root], 0

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(stack) > _DEEPEST or count > _MOST_ELEMENTS:
            raise DictionaryError("the dictionary is an XML document that is too deep or too large")
        named = {key.rpartition(":")[2].lower(): value for key, value in attributes.items()}
        made = Element(name.rpartition(":")[2], named)
        stack[-1].children.append(made)
        stack.append(made)

    def end(_: str) -> None:
        stack.pop()

    def refuse(*_: object) -> None:
        raise DictionaryError(
            "the dictionary is XML with a document type (<!DOCTYPE ...>) or entities, which are "
            "not read: remove that line"
        )

    def add(text: str) -> None:
        stack[-1].pieces.append(text)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = add
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse  # type: ignore[assignment]
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise DictionaryError(
            f"the dictionary is no well-formed XML (line {error.lineno})"
        ) from None
    except (LookupError, ValueError):
        raise DictionaryError("the dictionary is XML in an unknown encoding") from None
    return root.children[0]


def codebook(content: bytes) -> Dictionary:
    """Return what a DDI codebook says.

    Raises
    ------
    DictionaryError
        It is no DDI codebook.
    """
    root = read_xml(content)
    variables = [each for each in root.walk("var") if each.attributes.get("name")]
    if root.name != "codeBook" or not variables:
        raise DictionaryError(
            "the dictionary is XML, but no DDI codebook with variables (codeBook, dataDscr, var)"
        )
    title = next((each.text() for each in root.walk("titl")), "")
    return Dictionary(
        columns={each.attributes["name"]: _variable(each) for each in variables},
        name=title[:100] or None,
        description=next((each.text() for each in root.walk("abstract")), "")[:2000],
    )


def _variable(variable: Element) -> Described:
    form = next(variable.all("varFormat"), Element("varFormat")).attributes
    values: list[str] = []
    labels: dict[str, str] = {}
    missing = [*_missing_codes(variable)]
    for each in variable.all("catgry"):
        value, label = each.text("catValu"), each.text("labl")
        if not value:
            continue
        if each.attributes.get("missing", "").upper() in ("Y", "YES", "TRUE"):
            missing.append(value)
        else:
            values.append(value)
            labels[value] = label
    kept = [each for each in values if each not in missing]
    continuous = variable.attributes.get("intrvl") == "contin"
    ranges = [each.attributes for each in _ranges(variable, "valrng")]
    character = form.get("type") == "character"
    notes: list[str] = []
    if form.get("category") in ("date", "time"):
        kind: str | None = "date" if form["category"] == "date" else None
    elif (kept and not continuous) or character:
        kind = "category"
    else:
        kind = "integer" if variable.attributes.get("dcml", "") == "0" else "number"
        if kept:
            notes.append(worded(
                "some of its numbers have labels in the dictionary; where one stands for a missing "
                "value, put it into `na`"
            ))  # fmt: skip
    numbers = kind in ("number", "integer")
    return Described(
        type=kind,
        label=variable.text("labl") or None,
        values=kept if kind == "category" else (),
        labels=labels if kind == "category" else {},
        na=[code_text(_plain(each)) for each in missing],
        unit=_unit(variable) if numbers else None,
        lower=_outermost([each.get("min") for each in ranges], min) if numbers else None,
        upper=_outermost([each.get("max") for each in ranges], max) if numbers else None,
        notes=notes,
    ).tidied()


def _plain(text: str) -> object:
    number = number_in(text)
    return text if number is None else number


def _ranges(variable: Element, name: str) -> Iterator[Element]:
    for each in variable.all(name):
        yield from each.all("range")


def _missing_codes(variable: Element) -> Iterator[str]:
    for each in variable.all("invalrng"):
        for item in each.all("item"):
            if value := item.attributes.get("value", ""):
                yield value
    for each in _ranges(variable, "invalrng"):
        low, high = (number_in(each.attributes.get(end)) for end in ("min", "max"))
        if isinstance(low, int) and isinstance(high, int) and 0 <= high - low < _MOST_CODES:
            yield from map(str, range(low, high + 1))


def _unit(variable: Element) -> str | None:
    found = variable.attributes.get("measunit", "")
    units = (each.attributes.get("units", "") for each in _ranges(variable, "valrng"))
    found = found or next((each for each in units if each not in ("", "INT", "REAL")), "")
    return found or None


def _outermost(
    texts: list[str | None], outermost: Callable[[list[int | float]], int | float]
) -> int | float | None:
    """Return the outermost end of the ranges, None where one of them is open."""
    found = [number_in(each) for each in texts]
    numbers = [each for each in found if each is not None]
    return outermost(numbers) if numbers and len(numbers) == len(found) else None


_ENCODINGS = {
    "utf-8": "utf-8", "utf8": "utf-8", "windows-1252": "windows-1252", "cp1252": "windows-1252",
    "iso-8859-1": "iso-8859-1", "latin1": "iso-8859-1", "utf-16": "utf-16",
}  # fmt: skip
_FRICTIONLESS: Mapping[str, str] = {
    "integer": "integer", "year": "integer", "number": "number", "boolean": "boolean",
    "string": "category", "date": "date", "datetime": "datetime",
}  # fmt: skip
_CSVW: Mapping[str, str] = {
    **dict.fromkeys(
        ("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger",
         "nonPositiveInteger", "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort",
         "unsignedByte", "gYear"), "integer"
    ),
    **dict.fromkeys(("decimal", "double", "float", "number"), "number"),
    **dict.fromkeys(("dateTime", "datetime", "dateTimeStamp"), "datetime"),
    **dict.fromkeys(("string", "token", "normalizedString", "Name", "NMTOKEN"), "category"),
    "boolean": "boolean", "date": "date",
}  # fmt: skip
_PATTERN_PARTS = (
    ("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"),
    ("M", "%m"), ("d", "%d"),
)  # fmt: skip
_UNITS = ("schema:unitText", "unitText", "unit", "qudt:unit", "csvw:unit")
_LISTED = re.compile(r"[\w .-]+(?:\|[\w .-]+)+")
_Json = Mapping[str, Any]


def json_dictionary(content: bytes) -> Dictionary:
    """Return what a table schema, a data package or CSVW metadata says.

    Raises
    ------
    DictionaryError
        It is neither.
    """
    try:
        read = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise DictionaryError("the dictionary is no JSON text in UTF-8") from None
    if isinstance(read, Mapping):
        for read_as in (_frictionless, _csvw):
            if (found := read_as(read)) is not None:
                return found
    raise DictionaryError(
        'the dictionary is JSON, but neither a Frictionless table schema, which has "fields", nor '
        'CSVW metadata, which have "tableSchema"'
    )


def _first(value: object) -> _Json:
    """Return the first object of a list of objects, or nothing."""
    found = value[0] if isinstance(value, Sequence) and value else None
    return found if isinstance(found, Mapping) else {}


def _objects(value: object) -> Iterator[_Json]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, Mapping))


def _text(value: object) -> str | None:
    """Return a text, or the first one of those by language."""
    if isinstance(value, Mapping):
        value = next(iter(value.values()), None)
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, Mapping):
        value = value.get("@value")
    return value.strip() or None if isinstance(value, str) else None


def _texts(value: object) -> list[str]:
    every = value if isinstance(value, list) else [] if value is None else [value]
    return [code_text(each) for each in every if not isinstance(each, Mapping | list)]


def _dialect(dialect: object, encoding: object) -> dict[str, Any]:
    dialect_of = dialect if isinstance(dialect, Mapping) else {}
    found: dict[str, Any] = {}
    if dialect_of.get("delimiter") in (";", "\t", "|"):
        found["delimiter"] = dialect_of["delimiter"]
    known = _ENCODINGS.get(str(dialect_of.get("encoding") or encoding or "").lower())
    if known not in (None, "utf-8"):
        found["encoding"] = known
    skipped = number_in(dialect_of.get("skipRows"))
    if isinstance(skipped, int) and 0 < skipped <= 100:
        found["skip_rows"] = skipped
    return found


# Frictionless


def _frictionless(read: _Json) -> Dictionary | None:
    resource = read if "resources" not in read else _first(read["resources"])
    schema = resource.get("schema", resource)
    if not isinstance(schema, Mapping) or not isinstance(schema.get("fields"), list):
        return None
    columns = {
        str(each["name"]): _field(each, _texts(schema.get("missingValues")))
        for each in _objects(schema["fields"])
        if each.get("name")
    }
    return Dictionary(
        columns=columns,
        na=[each for each in _texts(schema.get("missingValues")) if each],
        name=_text(read.get("title") or resource.get("title")),
        description=(_text(read.get("description") or resource.get("description")) or "")[:2000],
        dialect=_dialect(resource.get("dialect"), resource.get("encoding")),
    )


def _field(field: _Json, missing: Sequence[str]) -> Described:
    kind = _FRICTIONLESS.get(str(field.get("type", "any")))
    given = field.get("constraints")
    limits: _Json = given if isinstance(given, Mapping) else {}
    values = _texts(limits.get("enum"))
    labels: dict[str, str] = {}
    categories = field.get("categories")
    if isinstance(categories, list):
        for each in categories:
            value = each.get("value") if isinstance(each, Mapping) else each
            values.append(code_text(value))
            if isinstance(each, Mapping) and _text(each.get("label")):
                labels[code_text(value)] = str(each["label"])
    if values and kind not in ("boolean", "date", "datetime"):
        kind = "category"
    reading: dict[str, Any] = {}
    if kind in ("date", "datetime") and "%" in str(field.get("format", "")):
        reading["format"] = str(field["format"]).removeprefix("fmt:")
    if kind == "boolean":
        for name, member in (("trueValues", "true"), ("falseValues", "false")):
            if field.get(name):
                reading[member] = _texts(field[name])
    if kind in ("number", "integer"):
        reading |= _signs(field.get("decimalChar"), field.get("groupChar"))
        reading |= {"bare_number": False} if field.get("bareNumber") is False else {}
    own = [each for each in _texts(field.get("missingValues")) if each and each not in missing]
    return Described(
        type=kind,
        label=_text(field.get("title")) or _text(field.get("description")),
        values=values if kind == "category" else (),
        labels=labels,
        na=own,
        unit=_text(field.get("unit")),
        lower=_end(kind, limits.get("minimum")),
        upper=_end(kind, limits.get("maximum")),
        reading=reading,
    ).tidied()


def _signs(decimal: object, thousands: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if decimal == ",":
        found["decimal"] = ","
    if isinstance(thousands, str) and thousands in (",", ".", " ", "'") and thousands != decimal:
        found["thousands"] = thousands
    return found


def _end(kind: str | None, value: object) -> Any:
    """Return an end of what is valid, as a column of this type states it."""
    if value is None or kind in ("category", "boolean", None):
        return None
    return str(value) if kind in ("date", "datetime") else number_in(value)


# CSVW


def _csvw(read: _Json) -> Dictionary | None:
    table = read if "tables" not in read else _first(read["tables"])
    schema = table.get("tableSchema", read.get("tableSchema"))
    if not isinstance(schema, Mapping) or not isinstance(schema.get("columns"), list):
        return None
    inherited = schema.get("null", table.get("null", read.get("null")))
    columns = {
        name: _column(each)
        for each in _objects(schema["columns"])
        if not each.get("virtual")
        and (name := _text(each.get("titles")) or _text(each.get("name")))
    }
    return Dictionary(
        columns=columns,
        na=[each for each in _texts(inherited) if each],
        name=_text(read.get("dc:title")),
        description=(_text(read.get("dc:description")) or "")[:2000],
        dialect=_dialect(table.get("dialect", read.get("dialect")), None),
    )


def _column(column: _Json) -> Described:
    given = column.get("datatype", "string")
    datatype: _Json = given if isinstance(given, Mapping) else {"base": given}
    kind = _CSVW.get(str(datatype.get("base", "string")))
    form = datatype.get("format")
    reading: dict[str, Any] = {}
    values: list[str] = []
    if kind in ("number", "integer") and isinstance(form, Mapping):
        reading |= _signs(form.get("decimalChar"), form.get("groupChar"))
    elif isinstance(form, str):
        if kind == "boolean" and form.count("|") == 1:
            reading["true"], reading["false"] = ([each] for each in form.split("|"))
        elif kind in ("date", "datetime"):
            reading |= _pattern(form)
        elif kind == "category" and _LISTED.fullmatch(form):
            values = form.split("|")
    lower = datatype.get("minimum", datatype.get("minInclusive"))
    upper = datatype.get("maximum", datatype.get("maxInclusive"))
    return Described(
        type=kind,
        label=_text(column.get("dc:description")) or _text(column.get("dc:title")),
        values=values,
        na=[each for each in _texts(column.get("null")) if each],
        unit=next(filter(None, (_text(column.get(name)) for name in _UNITS)), None),
        lower=_end(kind, lower),
        upper=_end(kind, upper),
        reading=reading,
    ).tidied()


def _pattern(form: str) -> dict[str, str]:
    """Return a pattern of Unicode's as one of strptime's, where each part has one."""
    made, rest = "", form
    while rest:
        for part, letter in _PATTERN_PARTS:
            if rest.startswith(part):
                made, rest = made + letter, rest[len(part) :]
                break
        else:
            if rest[0].isalpha() and rest[0] != "T":
                return {}
            made, rest = made + rest[0], rest[1:]
    return {} if made in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S") else {"format": made}


def _is_binary(content: bytes) -> bool:
    return b"\x00" in content and likely_encoding(content) != "utf-16"


MAX_DICTIONARY_BYTES = 1 << 26


def dictionary_in(content: bytes) -> Dictionary:
    """Return what a dictionary says.

    Raises
    ------
    DictionaryError
        It is of no known kind, or cannot be read.
    """
    if len(content) > MAX_DICTIONARY_BYTES:
        raise DictionaryError(f"the dictionary is larger than {MAX_DICTIONARY_BYTES} bytes")
    start = content.lstrip(b" \t\r\n\xef\xbb\xbf")
    if start.startswith(b"{"):
        return json_dictionary(content)
    if start.startswith(b"<") and not content.startswith(b"<stata_dta>"):
        return codebook(content.lstrip(b" \t\r\n"))
    kind = recognised(content)
    if kind is None and (is_workbook(content) or (start and not _is_binary(content))):
        return table_dictionary(content)
    said = worded(
        "the dictionary is not a Frictionless table schema (JSON), CSVW metadata (JSON), a DDI "
        "codebook (XML) or a table (Excel .xlsx, CSV or Markdown)"
    )
    if kind is not None:
        said += "; " + worded("the file is %(kinds)s", kinds=kind.name)
    ways = worded(
        "files of SPSS, Stata and SAS are dictionaries of their own on the command line: "
        "release-desk datasets draft FILE --dictionary FILE"
    )
    raise DictionaryError(f"{said}; {ways}")
