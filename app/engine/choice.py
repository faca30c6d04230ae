"""Where passes over rows are made: here, in other local processes, or on a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from app.domain.problems import DataUnreadableError
from app.engine.executor import Executor, ProcessExecutor, SerialExecutor

if TYPE_CHECKING:
    from app.engine.dask import DaskExecutor


class NoClusterError(Exception):
    """Passes cannot be made where they are to be; the message says why, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Where passes are made; every process that makes some gets it.

    Attributes
    ----------
    processes
        How many next to the calling process; 1: none, it makes them itself.
    scheduler
        Address of a Dask scheduler, in place of processes; empty for none.
    authority, certificate, key
        What TLS needs, as PEM: the cluster's own authority, our certificate and its key.
    """

    processes: int = 1
    scheduler: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)

    @property
    def elsewhere(self) -> bool:
        """Return whether others make them than the process that asks."""
        return bool(self.scheduler) or self.processes > 1

    def executor(self, *, keep_bytes: int = 0) -> Executor:
        """Return what makes them.

        ``keep_bytes`` are for blocks that processes keep: for who ends once they are erased.
        """
        if self.scheduler:
            return self._cluster()
        if self.processes > 1:
            return ProcessExecutor(workers=self.processes, keep_bytes=keep_bytes)
        return SerialExecutor(keep_bytes=keep_bytes)

    def require(self) -> None:
        """Pass where passes can be made there, as far as can be checked before one is.

        Raises
        ------
        NoClusterError
            They cannot.
        """
        # Processes of this machine can be begun when they are needed: nothing to find out before.
        if not self.scheduler:
            return
        if find_spec("distributed") is None:
            raise NoClusterError("a Dask scheduler needs the extra `dask`")
        executor = self._cluster()
        try:
            executor.connected()
        except DataUnreadableError:
            reason = "no Dask scheduler answers there, or none that TLS trusts"
            raise NoClusterError(reason) from None
        finally:
            executor.close()

    def _cluster(self) -> DaskExecutor:
        # only who makes passes there waits for it to load, or needs to have it
        from app.engine.dask import DaskExecutor  # noqa: PLC0415

        tls = (self.authority, self.certificate, self.key) if self.authority else None
        return DaskExecutor(self.scheduler, tls)


HERE = Passes()
"""In the process that asks."""
