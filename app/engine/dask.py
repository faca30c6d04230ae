"""Passes on a Dask cluster. This is the one file that knows Dask.

What travels to a worker is a function with a part's name or another item; what comes back is
its result, or one of a few words for why there is none. Both are bytes to Dask, and a task never
raises: the cluster's logs would quote it. A worker reads rows from the data directory, which it
has at the same path, and they stay there. No randomness travels.

A worker that is lost is the scheduler's to notice: it has others make the pass over its
parts. After several losses, without workers or without the scheduler, the pass fails as one over
data that cannot be read, and nothing of it counts.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from app.domain.problems import DataUnreadableError
from app.engine.executor import Item, Kept, Part, Result
from app.logs import describe
from mechanisms.contract import Block

if TYPE_CHECKING:
    from distributed import Client, Future

_LOG = logging.getLogger(__name__)
CONNECT_S = 20.0
LOOK_S = 5.0  # after so long without an answer it is asked whether there are workers at all
PATIENCE_S = 60.0
"""How long a pass waits while the cluster has no worker."""
_TASKS = 256
"""How many a pass is divided into, about; each costs a millisecond."""
_SAME = ("release-desk", "numpy", "polars", "python-flint", "scipy")
"""Packages of which a worker has the very versions that are here: results depend on them."""


class _Told(Enum):
    """What a worker says of a task."""

    DONE = auto()
    UNREAD = auto()
    STARVED = auto()
    OTHER = auto()
    FAILED = auto()


_REASONS = {
    _Told.UNREAD: "a worker cannot read the data: it needs the data directory at the same path",
    _Told.OTHER: "a worker has other versions of Release Desk or of its packages",
}


class PassFailedError(Exception):
    """The function of a pass has failed on a worker; what it said stays there."""


class DaskExecutor:
    """Makes passes on a Dask cluster, to which it connects when it is first needed.

    Parameters
    ----------
    scheduler
        The scheduler's address, ``tls://host:port``, or ``tcp://`` on this machine.
    tls
        Certificate of the cluster's own authority, our certificate and its key, as PEM; None
        without TLS.
    """

    def __init__(self, scheduler: str, tls: tuple[str, str, str] | None) -> None:
        self._scheduler = scheduler
        self._tls = tls
        self._lock = threading.Lock()
        self._connected: Client | None = None

    def keep(self, parts: Sequence[Part], columns: Sequence[str], /) -> Kept:
        """Name what passes will be made over; workers keep nothing but what their disks do."""
        return Kept.of(parts, columns)

    def map(self, function: Callable[[Block], Result], kept: Kept, /) -> Iterator[Result]:
        """Yield the function's result for each part's block, in the order of the parts."""
        return self.each(partial(_of_part, function, kept.columns), kept.parts)

    def each(
        self, function: Callable[[Item], Result], items: Iterable[Item], /
    ) -> Iterator[Result]:
        """Yield the function's result for each item, in their order."""
        try:
            client = self.connected()
        except DataUnreadableError:
            _LOG.error("the Dask scheduler does not answer")
            raise
        # Counted first, so that a pass of any length is about as many tasks.
        all_of_them = tuple(items)
        together = max(1, len(all_of_them) // _TASKS)
        waiting: deque[Future[bytes]] = deque()
        try:
            for start in range(0, len(all_of_them), together):
                some = all_of_them[start : start + together]
                # Bytes to Dask: it would else open them on its scheduler, whose logs quote
                # what they hold.
                task = pickle.dumps((_versions(), function, some), pickle.HIGHEST_PROTOCOL)
                # Not pure: a task is no key under which Dask may keep an earlier one's result.
                waiting.append(client.submit(_made, task, pure=False))
            while waiting:
                yield from _results(client, waiting.popleft())
        finally:
            for future in waiting:
                # What a draw that was given up still has on the cluster goes at once.
                future.release()

    def connected(self) -> Client:
        """Return the way to the scheduler, opened unless it is open.

        Raises
        ------
        DataUnreadableError
            No scheduler of the cluster answers there.
        """
        with self._lock:
            client = self._connected
            # A way that was lost is not mended by Dask in good time: another is opened.
            if client is None or client.status != "running":
                self._close()
                client = self._connected = self._connect()
            return client

    def close(self) -> None:
        """Close the way to the scheduler; a later pass opens another."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        client, self._connected = self._connected, None
        if client is not None:
            client.close(timeout=1)

    def _connect(self) -> Client:
        # an extra, which is not everywhere
        from distributed import Client, Security  # noqa: PLC0415

        _log_as_we_do()
        security = Security()
        if self._tls is not None:
            authority, certificate, key = self._tls
            security = Security(
                tls_ca_file=authority,
                tls_client_cert=certificate,
                tls_client_key=key,
                require_encryption=True,
            )
        client = Client.__new__(Client)  # at hand where it fails to begin
        with suppress(Exception):
            client.__init__(
                self._scheduler,
                timeout=CONNECT_S,
                set_as_default=False,
                security=security,
                # Through the scheduler: this process need not reach, nor be reached by, any worker.
                direct_to_workers=False,
            )
            return client
        # As garbage it would be closed at any moment, and where another begins just then Dask waits
        # for a lock of its own for ever. Of what failed in time it says so itself.
        client.status = "closed"
        raise DataUnreadableError("the Dask scheduler does not answer")


def _log_as_we_do() -> None:
    """Take away the handlers that Dask gave itself: its lines would quote what they are about."""
    theirs = logging.getLogger("distributed")
    for logger in (theirs, *theirs.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and logger.name.partition(".")[0] == "distributed":
            logger.handlers.clear()
            logger.propagate = True


def _results(client: Client, future: Future[bytes]) -> list[Any]:
    try:
        outcome, results = pickle.loads(_awaited(client, future))  # noqa: S301 - of our own cluster
    except (Exception, CancelledError) as error:
        _LOG.error("the Dask cluster made no pass", extra=describe(error))
        raise DataUnreadableError("the Dask cluster made no pass over the data") from None
    if outcome is _Told.DONE:
        found: list[Any] = results
        return found
    if outcome is _Told.STARVED:
        raise MemoryError
    if outcome is _Told.FAILED:
        raise PassFailedError("a pass has failed on a worker")
    _LOG.error("a Dask worker made no pass", extra={"reason": _REASONS[outcome]})
    raise DataUnreadableError(_REASONS[outcome])


def _awaited(client: Client, future: Future[bytes]) -> bytes:
    """Return what a worker answers, unless there has been none for long."""
    without_since: float | None = None
    while True:
        try:
            # Looked at now and then: Dask waits for ever where a cluster has no worker left.
            answer: bytes = future.result(timeout=LOOK_S)
        except TimeoutError:
            if client.status != "running":
                raise
            now = time.monotonic()
            without_since = None if client.ncores() else without_since or now
            if without_since is not None and now - without_since > PATIENCE_S:
                raise
        else:
            return answer


@cache
def _versions() -> tuple[str, ...]:
    return tuple(map(_version, _SAME))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # a checkout that was not installed
        return ""


def _made(task: bytes) -> bytes:
    """Do a task on a worker; nothing that went wrong leaves but a word for it."""
    try:
        outcome: tuple[_Told, object] = _done(task)
    except DataUnreadableError:
        outcome = _Told.UNREAD, None
    except MemoryError:
        outcome = _Told.STARVED, None
    except BaseException:  # a decoder's panic is no Exception
        outcome = _Told.FAILED, None
    return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)


def _done(task: bytes) -> tuple[_Told, object]:
    try:
        versions, function, items = pickle.loads(task)  # noqa: S301 - of our own cluster
    except (ImportError, AttributeError):  # a name that is not there
        return _Told.OTHER, None
    # Another version might sum otherwise: its result is no use, whatever it is.
    if versions != _versions():
        return _Told.OTHER, None
    return _Told.DONE, [function(item) for item in items]


def _of_part(function: Callable[[Block], Result], columns: tuple[str, ...], part: Part) -> Result:
    return function(part.read(columns))
