"""Having checkpoints of the public log time-stamped, in the background.

No request waits for a stamp: checkpoints are signed, and releases published, whether the authority
answers or not. While it does not, the operator reads so in the log, and it is asked again after
longer and longer pauses. What has been signed until then is stamped afterwards.
"""

from __future__ import annotations

import logging

import anyio
import anyio.to_thread

from app.domain.problems import Problem
from app.logs import describe
from app.services.transparency.authority import Authority, NotStampedError
from app.store import Reader, Store

_LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 2.0
FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 3600.0


class StampService:
    """Keeps stamps of the log's checkpoints.

    Parameters
    ----------
    store
        The ledger.
    authority
        Who is asked for stamps; None for no authority.
    """

    def __init__(self, store: Store, authority: Authority | None) -> None:
        self._store = store
        self._authority = authority

    def stamp(self, size: int | None = None) -> bytes:
        """Return the newest stamp, or that of the checkpoint of a size.

        Raises
        ------
        Problem
            ``not-found``.
        """

        def read(reader: Reader) -> bytes:
            wanted = reader.stamps.newest() if size is None else size
            found = None if wanted is None else reader.stamps.of(wanted)
            if found is None:
                raise Problem("not-found")
            return found

        if size is not None:
            return self._store.read_public(read)
        with self._store.reading() as reader:  # the newest must not seem to go back
            return read(reader)

    async def stamp_next(self) -> bool:
        """Have the next checkpoint stamped, and return whether there was one to be stamped.

        Raises
        ------
        NotStampedError
            The authority has given no stamp.
        Problem
            ``busy``, ``ledger-frozen``.
        """
        if self._authority is None:
            return False
        due = await anyio.to_thread.run_sync(self._due)
        if due is None:
            return False
        size, note = due
        # a stopping server waits for its own store, not for somebody else's answer
        stamp = await anyio.to_thread.run_sync(
            self._authority.stamp, note.encode(), abandon_on_cancel=True
        )
        await self._store.awrite(lambda work: work.stamps.add(size, stamp))
        return True

    def _due(self) -> tuple[int, str] | None:
        with self._store.reading() as reader:
            return reader.stamps.due()

    async def keep(self) -> None:
        """Have checkpoints stamped, while somebody serves."""
        failed = 0
        while self._authority is not None:
            failed += 1
            try:
                await self.stamp_next()
                failed = 0
            except NotStampedError as error:
                _LOG.warning("a checkpoint was not stamped", extra={"reason": str(error)})
            except Problem as problem:  # busy, or frozen
                _LOG.info("a checkpoint was not stamped", extra={"code": problem.code})
            except Exception as error:
                _LOG.error("a checkpoint was not stamped", extra=describe(error))
            await anyio.sleep(pause_after(failed))


def pause_after(failed: int) -> float:
    """Return the pause in seconds after a number of failures of the authority in a row."""
    if failed == 0:
        return LOOK_EVERY_S
    return min(FIRST_PAUSE_S * 2.0 ** min(failed - 1, 16), LONGEST_PAUSE_S)
