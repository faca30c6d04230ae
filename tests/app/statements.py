"""Statements that every engine of a test process shares once they are compiled.

SQLAlchemy keeps them by engine and by its dialect. A server has few engines and runs for long; the
tests open a ledger thousands of times, and would compile the same statements for each.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, event


class _Shared(dict[tuple[Any, ...], Any]):
    """Compiled statements by the dialect's kind, where SQLAlchemy has the dialect itself."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        """Return a statement that has been compiled for an engine of this kind."""
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        super().__setitem__((type(key[0]), *key[1:]), value)


_SHARED = _Shared()


def _share(connection: Connection) -> None:
    connection.execution_options(compiled_cache=_SHARED)


def share_compiled() -> None:
    """Have all engines of this process share them from now on."""
    if not event.contains(Engine, "engine_connect", _share):
        event.listen(Engine, "engine_connect", _share)
