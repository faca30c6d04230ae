"""A process that dies in the middle of an upload.

It opens a service in a directory, begins an upload, and kills itself before a step that is
named, or after so many seconds. There are many: each is forked from one that has loaded all.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.domain.policies import Role
from app.places import open_store
from app.processes.build import build_processes
from app.processes.uploads import StoringProcesses
from app.services.build import Services, build_services
from app.services.datasets.lineage import LineageService
from app.services.people.keys import Caller
from app.store import Store
from app.store.ledger.datasets import UploadsWriter
from app.uploads.storing import Intake
from app.vault.vault import Vault
from app.web.requests.schemas import DatasetSpec
from tests.app.callers import register
from tests.app.chosen import chosen
from tests.app.forked_hosts import LOADED, fork_hosts
from tests.app.ledgers import Place

ADA = Caller(key="key_ada", person="ada", role=Role.CURATOR)
ROWS = 300
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
    column = {"type": "number", "lower": 0, "upper": 10**6}
    budget = {"epsilon": "1"}
    fields = {"name": name, "adjacency": "replace_one", "columns": {"x": column}, "budget": budget}
    return DatasetSpec.model_validate(fields)


async def upload(services: Services, name: str = "somebody", people: int = 7) -> str:
    """Upload rows, always the same of the same people."""
    rows = b"x\n" + b"".join(b"%d\n" % (ROWS * people + row) for row in range(ROWS))
    view, _ = await services.datasets.create(spec(name).declared(), io.BytesIO(rows), caller=ADA)
    return view.facts.id


@asynccontextmanager
async def serving(
    directory: Path, url: str | None = None, **settings: Any
) -> AsyncIterator[tuple[Store, Services]]:
    """Open a service that takes uploads in."""
    config, constants = chosen(data_dir=directory, job_processes=1, database_url=url, **settings)
    store = open_store(config)
    try:
        services = build_services(
            config, store, build_processes(config, store, constants), constants
        )
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


async def _begin_to_die(place: Place, point: str, people: int) -> None:
    async with serving(place.directory, place.url, worker_lease_s=0.5) as (_, services):
        if point in BEFORE:
            setattr(*BEFORE[point], _die)
        else:
            signal.setitimer(signal.ITIMER_REAL, float(point))  # SIGALRM kills as well
        started = time.monotonic()
        await upload(services, f"number {people}", people)
        os.write(1, f"\n{time.monotonic() - started}".encode())


def _run(place: Place, point: str, people: int, reported: str) -> None:
    stream = os.open(reported, os.O_WRONLY)
    for printed in (1, 2):
        os.dup2(stream, printed)
    fork_hosts()
    asyncio.run(_begin_to_die(place, point, people))


def kill(place: Place, point: str, people: int = 7) -> float | None:
    """Begin an upload in a process that dies at a point of it; return its seconds if it was done.

    Other ``people`` are in other rows.
    """
    with tempfile.NamedTemporaryFile() as reported:
        died = LOADED.Process(target=_run, args=(place, point, people, reported.name))
        died.start()
        died.join(200)
        assert died.exitcode is not None, "it lives"
        assert -died.exitcode in (0, signal.SIGKILL, signal.SIGALRM), reported.read().decode()
        return None if died.exitcode else float(reported.read().split()[-1])
