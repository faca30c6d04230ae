"""A process that dies in the middle of an upload: ``python -m tests.app.killed_uploads``.

It opens a service in a directory, begins an upload, and kills itself before a step that is
named, or after so many seconds.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.domain.roles import Role
from app.places import open_store
from app.processes.build import build_processes
from app.processes.uploads import StoringProcesses
from app.services.build import Services, build_services
from app.services.datasets.lineage import LineageService
from app.services.people.keys import Caller
from app.settings import Settings
from app.store import Store
from app.store.ledger.uploads import UploadsWriter
from app.uploads.intake import Intake
from app.vault.vault import Vault
from app.web.requests.schemas import DatasetSpec
from tests.app.callers import register

ADA = Caller(key="key_ada", person="ada", role=Role.CURATOR)
ROWS = b"x\n" + b"".join(b"%d\n" % (7 * row % 1009) for row in range(300))
BEFORE: dict[str, tuple[type, str]] = {
    "written down": (Intake, "store"),
    "staged": (StoringProcesses, "take_in"),
    "taken in": (Vault, "publish"),
    "published": (LineageService, "keep"),
    "kept": (LineageService, "compare"),
    "registering": (UploadsWriter, "end"),
}
"""Moments of an upload, and what is about to be done then."""


def spec(name: str) -> DatasetSpec:
    """Return the declaration of a data set."""
    column = {"type": "number", "lower": 0, "upper": 1009}
    budget = {"epsilon": "1"}
    fields = {"name": name, "adjacency": "replace_one", "columns": {"x": column}, "budget": budget}
    return DatasetSpec.model_validate(fields)


async def upload(services: Services, name: str = "the same people") -> str:
    """Upload always the same rows."""
    view, _ = await services.datasets.create(spec(name).declared(), io.BytesIO(ROWS), caller=ADA)
    return view.facts.id


@asynccontextmanager
async def serving(
    directory: Path, url: str | None = None, **settings: Any
) -> AsyncIterator[tuple[Store, Services]]:
    """Open a service that takes uploads in."""
    config = Settings(data_dir=directory, job_processes=1, database_url=url, **settings)
    store = open_store(config)
    try:
        services = build_services(config, store, build_processes(config, store))
        store.share()
        register(store, ADA)
        await services.lease.begin()
        try:
            yield store, services
        finally:
            await services.releases.close(timeout_s=1)
            await services.datasets.close()
            await services.lease.end()
    finally:
        store.close()


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _main(directory: str, url: str, point: str) -> None:
    async with serving(Path(directory), url or None, worker_lease_s=0.5) as (_, services):
        if point in BEFORE:
            setattr(*BEFORE[point], _die)
        else:
            signal.setitimer(signal.ITIMER_REAL, float(point))  # SIGALRM kills as well
        await upload(services)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
