"""A connection pooler of a test's own: each transaction may meet another server connection.

It does what PgBouncer does with ``pool_mode = transaction``, and more: whatever a transaction
leaves in its session is noted, and then discarded. So who counts on a session fails, and who
leaves something there is found. It speaks as much of the protocol as a client needs that waits
for each answer, over sockets in a directory, without passwords.
"""

from __future__ import annotations

import queue
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.engine import make_url

_CONNECTIONS = 3
"""To the server, for each database."""
_LEFT = (
    "SELECT (SELECT string_agg(name, ' ') FROM pg_settings WHERE source = 'session'),"
    " (SELECT 'role ' || current_user WHERE current_user <> session_user),"
    " (SELECT string_agg(statement, ' ') FROM pg_prepared_statements),"
    " (SELECT string_agg(locktype, ' ') FROM pg_locks"
    "  WHERE locktype = 'advisory' AND pid = pg_backend_pid()),"
    " (SELECT string_agg(name, ' ') FROM pg_cursors WHERE is_holdable),"
    " (SELECT string_agg(c, ' ') FROM pg_listening_channels() AS c),"
    " (SELECT string_agg(relname, ' ') FROM pg_class WHERE relnamespace = pg_my_temp_schema())"
)
_QUERY, _SYNC, _TERMINATE, _READY, _ROW, _ERROR = b"Q", b"S", b"X", b"Z", b"D", b"E"
_IDLE = b"I"
_AUTHENTICATED = b"R" + struct.pack("!ii", 8, 0)


class _Line:
    """A connection as messages."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")

    def startup(self) -> bytes:
        """Return what a client says first, without its length."""
        return self._exactly(struct.unpack("!i", self._exactly(4))[0] - 4)

    def message(self) -> tuple[bytes, bytes]:
        """Return the next message's kind, and all of it."""
        head = self._exactly(5)
        return head[:1], head + self._exactly(struct.unpack("!i", head[1:])[0] - 4)

    def send(self, content: bytes) -> None:
        self._connection.sendall(content)

    def close(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._connection.close()

    def _exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise EOFError
        return found


class _Server:
    """One connection to a database of the server."""

    def __init__(self, place: str, user: str, database: str) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(place)
        self.line = _Line(connection)
        said = f"user\0{user}\0database\0{database}\0\0".encode()
        self.line.send(struct.pack("!ii", len(said) + 8, 3 << 16) + said)
        kind, self.greeting = b"", b""
        while kind != _READY:
            kind, content = self.line.message()
            assert kind != _ERROR, content
            self.greeting += b"" if kind in (b"R", _READY) else content

    def ask(self, statement: str) -> bytes:
        """Return the first row of what a statement gives, as it is sent."""
        said = statement.encode() + b"\0"
        self.line.send(_QUERY + struct.pack("!i", len(said) + 4) + said)
        kind, row = b"", b""
        while kind != _READY:
            kind, content = self.line.message()
            assert kind != _ERROR, content
            row = row or (content if kind == _ROW else b"")
        return row


class Pooler:
    """Listens in a directory, and lends server connections for one transaction each.

    Attributes
    ----------
    left
        What transactions have left in a session.
    lent
        How many transactions there were.
    """

    def __init__(self, directory: Path, server: str) -> None:
        self._directory = directory
        self._server = server
        self._pools: dict[tuple[str, str], queue.Queue[_Server]] = {}
        self._making = threading.Lock()
        self._lines: list[_Line] = []
        self.left: list[bytes] = []
        self.lent = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """Return the address of a database of the server, by way of the pooler."""
        parsed = make_url(url).set(query={"host": str(self._directory)})
        return parsed.render_as_string(hide_password=False)

    def close(self) -> None:
        """End every connection."""
        self._listener.close()
        for line in self._lines:
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            line = _Line(connection)
            self._lines.append(line)
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, client: _Line) -> None:
        with suppress(EOFError, OSError, ValueError):
            said = client.startup()[4:].split(b"\0")
            asked = dict(zip(said[::2], said[1::2], strict=False))
            pool = self._pool(asked[b"user"].decode(), asked[b"database"].decode())
            server = pool.get()
            pool.put(server)
            client.send(_AUTHENTICATED + server.greeting + _READY + struct.pack("!i", 5) + _IDLE)
            while True:
                self._transaction(client, pool, client.message())
        client.close()

    def _pool(self, user: str, database: str) -> queue.Queue[_Server]:
        with self._making:
            pool = self._pools.get((user, database))
            if pool is None:
                pool = self._pools[user, database] = queue.Queue()
                for _ in range(_CONNECTIONS):
                    server = _Server(self._server, user, database)
                    self._lines.append(server.line)
                    pool.put(server)
            return pool

    def _transaction(
        self, client: _Line, pool: queue.Queue[_Server], first: tuple[bytes, bytes]
    ) -> None:
        """Pass on what client and server say until a transaction has ended."""
        kind, content = first
        if kind == _TERMINATE:
            raise EOFError
        server = pool.get()
        try:
            while True:
                server.line.send(content)
                if kind in (_QUERY, _SYNC) and self._answer(client, server) == _IDLE:
                    return
                kind, content = client.message()
        finally:
            self._take_back(pool, server)

    def _answer(self, client: _Line, server: _Server) -> bytes:
        """Pass the server's answer on; return the state in which that leaves the transaction."""
        while True:
            kind, content = server.line.message()
            client.send(content)
            if kind == _READY:
                return content[-1:]

    def _take_back(self, pool: queue.Queue[_Server], server: _Server) -> None:
        server.ask("ROLLBACK")  # of a client that has gone away; else it does nothing
        found = server.ask(_LEFT)
        self.lent += 1
        if found != _nothing(_LEFT):
            self.left.append(found)
        server.ask("DISCARD ALL")
        pool.put(server)


def _nothing(statement: str) -> bytes:
    """Return a row of nulls only, as many as a statement has columns."""
    columns = statement.count("(SELECT ")
    return _ROW + struct.pack("!ih", 6 + 4 * columns, columns) + b"\xff\xff\xff\xff" * columns


@contextmanager
def pooler(directory: Path, url: str) -> Iterator[Pooler]:
    """Put a pooler before the server of an address."""
    there = make_url(url)
    host = there.query["host"]
    found = Pooler(directory, f"{host}/.s.PGSQL.{there.port or there.query.get('port', 5432)}")
    try:
        yield found
    finally:
        found.close()
