"""Frictionless table schemas and CSVW metadata: JSON about the columns of a CSV file.

A table schema has ``fields``, and may be a resource of a data package. CSVW has a ``tableSchema``
with ``columns``, and may describe one of several ``tables``: then the first one counts. What
either refers to by an address is not fetched.

Frictionless: https://datapackage.org/standard/table-schema/. CSVW: W3C, *Metadata Vocabulary for
Tabular Data*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.uploads.dictionaries.described import (
    Described,
    Dictionary,
    DictionaryError,
    code_text,
    number_in,
)

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
