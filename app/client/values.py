"""Values as the service reads them: in the JSON of a question, and in the cells of a data frame.

An instant is sent as an instant. A ``datetime`` with a time zone is written in UTC with a ``Z``, so
that no one has to know in which zone it was made, nor which clocks were changed in between. One
without a zone is sent without an offset: the service reads it in the column's ``timezone``, which
is UTC where the spec names none. A date stays a date.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TextIO

_SPECIAL = re.compile(r'[",\r\n]|^\s|\s$')
_EXACT = 2**53
"""Below it each whole number is a float of its own."""
_WRITTEN = {
    "delimiter": ",",
    "encoding": "utf-8",
    "skip_rows": 0,
    "decimal": ".",
    "thousands": None,
}
"""How a data frame is written, by the members of a spec that say so of a file."""


def plain(value: Any) -> Any:
    """Return a value as JSON has it: times as ISO 8601 text, and arrays as lists.

    >>> from datetime import timedelta, timezone
    >>> plain({"op": ">=", "value": datetime(2020, 3, 8, 20, tzinfo=timezone(timedelta(hours=-5)))})
    {'op': '>=', 'value': '2020-03-09T01:00:00Z'}
    """
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, date):
        return time_text(value)
    if type(value).__name__ == "datetime64":  # as a list it would be a number of nanoseconds
        return str(value)
    if hasattr(value, "tolist"):  # an array, a series of pandas, or a number of either
        return plain(value.tolist())
    return plain(value.to_list()) if hasattr(value, "to_list") else value


def time_text(value: date) -> str:
    """Return a date or a time as ISO 8601: an instant in UTC, and a time without a zone as it is.

    >>> time_text(date(2020, 3, 8)), time_text(datetime(2020, 3, 8, 20, 15))
    ('2020-03-08', '2020-03-08T20:15:00')
    """
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.isoformat()


def is_frame(value: object) -> bool:
    """Return whether something is a data frame: of pandas, polars, or with their methods."""
    return hasattr(value, "columns") and (
        hasattr(value, "iter_rows") or hasattr(value, "itertuples")
    )


def write_frame(frame: Any, spec: Mapping[str, Any], file: TextIO) -> None:
    """Write a data frame as CSV that the service reads as it is: missing values as empty cells.

    Raises
    ------
    ValueError
        The spec says that the file is written otherwise than a data frame is.
    """
    refuse_dialect(spec)
    rows: Iterable[Iterable[object]]
    if hasattr(frame, "iter_rows"):
        rows = frame.iter_rows()
    else:
        rows = frame.itertuples(index=False, name=None)
    file.write(_line(map(str, frame.columns)))
    file.writelines(_line(map(_cell, row)) for row in rows)


def _line(cells: Iterable[str]) -> str:
    """Return a record as the service reads it: no cell is changed, as in files that people open."""
    line = ",".join(map(_quoted, cells))
    return (line or '""') + "\n"  # an empty line could be taken for none


def _quoted(cell: str) -> str:
    quoted = '"' + cell.replace('"', '""') + '"'
    return quoted if _SPECIAL.search(cell) else cell


def refuse_dialect(spec: Mapping[str, Any]) -> None:
    """Refuse a spec that has a data frame read with other signs than it is written with."""
    for place, members in [("", spec), *spec.get("columns", {}).items()]:
        for name, usual in _WRITTEN.items():
            if members.get(name, usual) != usual:
                where = f"column {place!r}" if place else "the spec"
                raise ValueError(
                    f"{where} has {name!r}: {members[name]!r}, which says how a text file is "
                    f"written. A data frame is sent with commas and decimal points: leave out "
                    f"{name!r}"
                )


def _cell(value: Any) -> str:
    if value is None or type(value).__name__ in ("NAType", "NaTType") or _is_nan(value):
        return ""
    if isinstance(value, date):
        return time_text(value)
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return str(bool(value)).lower()
    if isinstance(value, float) or type(value).__name__ in ("float16", "float32"):
        return _number_text(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _number_text(value: Any) -> str:
    """Return a float with all digits, never in scientific notation, as ids are compared.

    But a whole float that is not exact has an exponent: it may stand for several ids, and the
    service refuses such an id.
    """
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    if number.is_integer():
        return str(int(number)) if abs(number) < _EXACT else f"{number:.16e}"
    return f"{Decimal(repr(number) if isinstance(value, float) else str(value)):f}"


def _is_nan(value: Any) -> bool:
    numbers = isinstance(value, float | Decimal) or type(value).__name__ in ("float16", "float32")
    return bool(value != value) if numbers else False  # noqa: PLR0124
