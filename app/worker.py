"""A worker: draws jobs from the database next to the servers, and serves nothing."""

from __future__ import annotations

import asyncio
import signal

from app.constants import CONSTANTS, Constants
from app.logs import configure_logs
from app.places import open_store, written_directories
from app.processes.build import build_processes
from app.services.build import Services, build_services, in_background
from app.settings import Settings
from app.store import Store, StoreError


def run_worker(settings: Settings, constants: Constants = CONSTANTS) -> None:
    """Draw jobs until SIGTERM or Ctrl-C; then hand back what does not finish in time.

    Raises
    ------
    StoreError
        The database cannot be used, or the ledger is frozen.
    """
    configure_logs(level=settings.log_level, directories=written_directories(settings).values())
    asyncio.run(_work(settings, constants))


async def _work(settings: Settings, constants: Constants = CONSTANTS) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    store = await asyncio.to_thread(open_store, settings)
    try:
        if store.frozen is not None:
            raise StoreError("the ledger is frozen: nothing may be drawn until it is reconciled")
        services = await asyncio.to_thread(_build, settings, store, constants)
        store.share()
        await services.lease.begin()
        services.jobs.start()
        try:
            async with in_background(services.erasing.keep_erasing()):
                await stop.wait()
        finally:
            await services.releases.close(timeout_s=settings.drain_timeout_s)
            await services.lease.end()
    finally:
        await asyncio.to_thread(store.close)


def _build(settings: Settings, store: Store, constants: Constants) -> Services:
    processes = build_processes(settings, store, constants)
    return build_services(settings, store, processes, constants)
