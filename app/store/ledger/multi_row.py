"""Many rows in one statement, for the writer's batched path.

A statement that carries its rows is one call of the driver: it takes the
interpreter's lock once and not once per row, which is what bounds a writer
thread next to a busy event loop. The list of rows is filled up with NULLs to one
of a few sizes, so that few texts are ever prepared: a statement must pass over
a row whose first column is NULL. Its columns are ``column1``, ``column2`` and so
on, on both databases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection, CursorResult, Row

_MOST = 256  # rows of a statement: databases limit how many values one may have


def insert_of(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts a list of rows."""
    return (
        f"INSERT INTO {table} ({', '.join(columns)})"  # noqa: S608 - names of ours
        " SELECT * FROM (VALUES {values}) AS given WHERE column1 IS NOT NULL"
    )


def change_rows(connection: Connection, statement: str, rows: Sequence[Sequence[object]]) -> int:
    """Run a statement on a list of rows, given where it holds ``{values}``; count what changed."""
    return sum(result.rowcount for result in _run(connection, statement, rows))


def select_rows(
    connection: Connection, statement: str, rows: Sequence[Sequence[object]]
) -> list[Row[Any]]:
    """Run a query on a list of rows, given where it holds ``{values}``."""
    return [row for result in _run(connection, statement, rows) for row in result.fetchall()]


def _run(
    connection: Connection, statement: str, rows: Sequence[Sequence[object]]
) -> Iterator[CursorResult[Any]]:
    for start in range(0, len(rows), _MOST):
        part = rows[start : start + _MOST]
        size, width = _size(len(part)), len(part[0])
        text = _text(statement, size, width, connection.dialect.paramstyle)
        nothing = (None,) * (width * (size - len(part)))
        yield connection.exec_driver_sql(text, (*chain.from_iterable(part), *nothing))


def _size(rows: int) -> int:
    """Return the least power of two, or three quarters of one, that is at least ``rows``."""
    power = 1 << (rows - 1).bit_length()
    return power * 3 // 4 if power > 2 and rows <= power * 3 // 4 else power


@cache
def _text(statement: str, rows: int, width: int, paramstyle: str) -> str:
    mark = "?" if paramstyle == "qmark" else "%s"
    row = f"({', '.join([mark] * width)})"
    return statement.format(values=", ".join([row] * rows))
