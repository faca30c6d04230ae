"""A spec to fill in, from the header of a file and from nothing else.

Types come from a Parquet file's own, else from names: ``is_`` and ``has_`` begin what is true or
false, ``date`` is in the name of a date. A unit in brackets behind a name is a unit of measure.
What no header tells stays empty, for a person to fill in from public knowledge.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import polars as pl

from app.domain.columns import MAX_NAME_LENGTH, is_text
from app.uploads.csv_records import Records
from app.uploads.ingest import GZIP
from app.uploads.limits import Limits
from app.uploads.parquet_file import MAGIC
from app.uploads.trouble import UnreadableError

_DELIMITERS = (",", ";", "\t", "|")
_UNIT = re.compile(r"(?P<label>.*\S)\s*[\[(](?P<unit>[^\])]+)[\])]\s*")
_TRUTH = re.compile(r"(is|has)[_ ].+", re.IGNORECASE)
_DATE = re.compile(r"(.*[_ ])?(date|day|dob|birth|born|birthday)([_ ].*)?", re.IGNORECASE)
_ID = re.compile(r"(.*[_ ])?id", re.IGNORECASE)
_COUNTED = {"#", "count", "n", "number"}
_BOUNDS: Mapping[str, Any] = {"lower": None, "upper": None}
_TYPES: Mapping[str, Callable[[pl.DataType], bool]] = {
    "boolean": lambda kind: kind == pl.Boolean,
    "date": lambda kind: kind == pl.Date,
    "datetime": lambda kind: kind == pl.Datetime,
    "integer": lambda kind: kind.is_integer(),
    "number": lambda kind: kind.is_numeric(),
}


def drafted(file: Path, *, name: str) -> tuple[dict[str, Any], list[str]]:
    """Return a spec with empty places, and notes about columns that are not in it.

    Raises
    ------
    click.ClickException
        The file has no header that can be read.
    """
    try:
        delimiter, kinds = _header(file)
    except UnreadableError as error:
        raise click.ClickException(str(error)) from None
    columns: dict[str, Any] = {}
    notes = []
    for column, kind in kinds:
        if not is_text(column, MAX_NAME_LENGTH):
            notes.append("a column is left out: its name is empty, too long or not printable")
        elif _ID.fullmatch(column):
            notes.append(
                f"{column} is left out, since its name is that of an id; name it in `unit` if a "
                "person may have several rows"
            )
        elif column in columns:
            notes.append(f"{column} is in the file twice, and must be renamed to be declared")
        else:
            columns[column] = _drafted(column, kind)
    spec: dict[str, Any] = {"name": name, "description": "", "adjacency": None}
    if delimiter != ",":
        spec["delimiter"] = delimiter
    return spec | {"columns": columns, "budget": {"epsilon": None}}, notes


def _header(file: Path) -> tuple[str, list[tuple[str, pl.DataType | None]]]:
    """Return what stands between cells, and the columns with their types as far as told."""
    with file.open("rb") as stream:
        start = stream.read(len(MAGIC))
    if start == MAGIC:
        try:
            return ",", list(pl.read_parquet_schema(file).items())
        except Exception:
            raise UnreadableError("the file is no whole Parquet file") from None
    headers = {delimiter: _names(file, start, delimiter) for delimiter in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda each: len(headers[each]))
    return delimiter, [(name, None) for name in headers[delimiter]]


def _names(file: Path, start: bytes, delimiter: str) -> list[str]:
    limits = Limits()
    with gzip.open(file) if start.startswith(GZIP) else file.open("rb") as stream:
        records = Records(
            stream,
            chunk_bytes=1 << 16,
            max_record_bytes=limits.max_record_bytes,
            delimiter=delimiter,
        )
        return records.header()


def _drafted(name: str, kind: pl.DataType | None) -> dict[str, Any]:
    found = _UNIT.fullmatch(name)
    unit = None if found is None else found["unit"].strip()
    told = _type(name if found is None else found["label"], kind, unit)
    body: dict[str, Any] = {"type": told, **dict(_empty(told))}
    if found is not None:
        body["label"] = found["label"]
        if told in ("number", "integer"):
            body["unit_of_measure"] = unit
    return body


def _empty(kind: str) -> Iterator[tuple[str, Any]]:
    """Yield the places of a column that a person must fill."""
    if kind == "category":
        yield "values", []
    elif kind != "boolean":
        yield from _BOUNDS.items()


def _type(name: str, kind: pl.DataType | None, unit: str | None) -> str:
    if kind is not None:
        return next((told for told, fits in _TYPES.items() if fits(kind)), "category")
    if _TRUTH.fullmatch(name):
        return "boolean"
    if _DATE.fullmatch(name):
        return "date"
    return "integer" if unit is not None and unit.lower() in _COUNTED else "number"
