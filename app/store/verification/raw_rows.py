"""Rows as the driver gives them, a page at a time, which a walk over millions of them needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any

from sqlalchemy import Connection

from app.store.verification.blocks import Row

PAGE = 1000
_WALKS = count()
_NAMED = re.compile(r":(\w+)")


def rows(
    connection: Connection, query: str, values: Mapping[str, Any], *, page: int = PAGE
) -> Iterator[Row]:
    """Yield the rows of a query one by one."""
    return chain.from_iterable(blocks(connection, query, values, page=page))


def blocks(
    connection: Connection, query: str, values: Mapping[str, Any], *, page: int = PAGE
) -> Iterator[Sequence[Row]]:
    """Yield the driver's own tuples, a page in memory at a time, of one transaction's snapshot."""
    if not connection.in_transaction():
        connection.begin()
    driver = connection.connection.dbapi_connection
    assert driver is not None
    if connection.dialect.name == "sqlite":
        cursor = driver.cursor()
    else:
        # A named one stays on the server, which then sends no more than is asked for.
        cursor = driver.cursor(f"walk_{next(_WALKS)}")
        query = _NAMED.sub(r"%(\1)s", query)
    try:
        cursor.execute(query, values)
        while block := cursor.fetchmany(page):
            yield block
    finally:
        cursor.close()
