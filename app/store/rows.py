"""Many rows in one statement, for the writer's bulk path.

A statement that carries its rows is one call of the driver: it takes the
interpreter's lock once and not once per row, which is what bounds a writer
thread beside a busy event loop. Few different sizes keep the statements prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Row

_SIZES = (64, 16, 4, 1)


def execute_rows(
    connection: Connection, statement: str, rows: Sequence[Sequence[object]]
) -> list[Row[Any]]:
    """Run a statement over many rows and return all that it returns.

    ``statement`` holds ``{values}`` where the list of rows belongs, e.g.
    ``INSERT INTO t (a, b) VALUES {values}``, and no other placeholder.
    """
    found: list[Row[Any]] = []
    for part in _parts(rows):
        text = _text(statement, len(part), len(part[0]), connection.dialect.paramstyle)
        result = connection.exec_driver_sql(text, tuple(chain.from_iterable(part)))
        if result.returns_rows:
            found += result.fetchall()
    return found


def _parts(rows: Sequence[Sequence[object]]) -> Iterator[Sequence[Sequence[object]]]:
    start = 0
    while start < len(rows):
        size = next(size for size in _SIZES if size <= len(rows) - start)
        yield rows[start : start + size]
        start += size


@cache
def _text(statement: str, rows: int, width: int, paramstyle: str) -> str:
    mark = "?" if paramstyle == "qmark" else "%s"
    row = f"({', '.join([mark] * width)})"
    return statement.format(values=", ".join([row] * rows))
