"""The composition root: settings in, an application out."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import FastAPI

from app.api.application import bare_application
from app.api.requests.uploads import UploadGate
from app.api.serving.clock import PublicClock
from app.api.state import AppState, LifespanState, Services
from app.engine.data import DataEngine
from app.logs import configure_logs
from app.places import anchor_place, open_store
from app.processes.calculations import CalculatingProcesses
from app.processes.jobs import JobProcesses
from app.processes.small_draws import SmallDraws
from app.processes.uploads import StoringProcesses
from app.services.audit import AuditService
from app.services.catalog import CatalogService
from app.services.datasets.budgets import BudgetService
from app.services.datasets.datasets import DatasetService
from app.services.datasets.erasing import ErasingService
from app.services.datasets.lineage import LineageService
from app.services.health import HealthService
from app.services.people.keys import KeyService
from app.services.people.rates import RateLimiter
from app.services.plans.lanes import CalculationQueue
from app.services.plans.plans import PlanService
from app.services.plans.previews import PreviewService
from app.services.releases.derivations import DerivationService
from app.services.releases.draws import DrawService
from app.services.releases.jobs import JobRunner
from app.services.releases.leases import Lease
from app.services.releases.public_moments import PublicMoments
from app.services.releases.receipts import Receipts
from app.services.releases.releases import ReleaseService
from app.services.releases.reviews import ReviewService
from app.settings import Settings
from app.store import Store, StoreError, new_id, sqlite_file
from app.uploads.intake import Intake
from app.uploads.limits import Limits
from app.vault.lineage import LineageFiles
from app.vault.vault import Vault

_COLLECT_AFTER = 50_000
"""New objects between two looks for garbage: more than requests under way hold at once."""

_LOG = logging.getLogger(__name__)


def create_app(settings: Settings) -> FastAPI:
    """Return the application; it opens its store when it starts and closes it when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[LifespanState]:
        del app
        configure_logs(level=settings.log_level)
        store = await anyio.to_thread.run_sync(open_store, settings)
        try:
            services = await anyio.to_thread.run_sync(build_services, settings, store)
            store.share()
            if store.frozen is None:
                _show_key(services.keys.bootstrap(_bootstrap_secret(settings)))
                await services.lease.begin()
                services.jobs.start()
            try:
                state = AppState(
                    services=services,
                    settings=settings,
                    clock=PublicClock(settings.response_slot_ms),
                    rates=RateLimiter(settings.rate_limit_per_minute),
                    uploads=UploadGate(settings.max_waiting_uploads),
                )
                async with (
                    beside(services.budgets.keep_expiring()),
                    beside(services.reviews.keep_expiring()),
                    beside(services.erasing.keep_erasing()),
                ):
                    yield {"app": state}
            finally:
                await services.releases.close(timeout_s=settings.drain_timeout_s)
                await services.datasets.close()
                await services.lease.end()
        finally:
            await anyio.to_thread.run_sync(store.close)

    return bare_application(lifespan)


def keep_in_memory() -> None:
    """Tell the garbage collector that what has been built so far stays.

    It would look through every module, model and route again and again, each
    time for a tenth of a second in which nobody is answered. For server
    processes, once, when the application is there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have something done while the block lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def build_services(settings: Settings, store: Store) -> Services:
    """Put the use cases together, and clear away what a crash left in the vault."""
    vault = Vault(settings.data_dir)
    files = LineageFiles(settings.data_dir)
    limits = upload_limits(settings)
    storing = StoringProcesses(
        data_dir=settings.data_dir,
        memory_bytes=limits.upload_memory_bytes,
        log_level=settings.log_level,
    )
    where: dict[str, Any] = {"data_dir": settings.data_dir, "log_level": settings.log_level}
    spawned = JobProcesses(count=settings.resolved_job_processes, **where)
    quick = (
        SmallDraws(identity=store.identity, key=store.key, **where)
        if settings.resolved_draw_process
        else None
    )
    plane = DataEngine(vault, erased=[each.forget for each in (spawned, quick) if each is not None])
    intake = Intake(vault, storing, limits=limits, lineage_key=files.key())
    lineage = LineageService(store, files, storing.compare)
    datasets = DatasetService(store, plane, intake, lineage, threads=settings.upload_threads)
    if store.alone and store.frozen is None:
        _clear_up(vault, datasets)
    calculator = CalculatingProcesses(log_level=settings.log_level)
    plans = PlanService(
        threads=settings.draw_threads,
        max_waiting=settings.max_waiting_draws,
        max_waiting_costly=settings.max_waiting_plans,
        calculator=calculator,
    )
    receipts = Receipts(store)
    draws = DrawService(
        store=store,
        datasets=datasets,
        plans=plans,
        plane=plane,
        receipts=receipts,
        threads=settings.draw_threads,
        worker=new_id("wrk"),
        small_draws=quick,
    )
    if spawned.count == 0 and not store.shared:
        raise StoreError(
            "job_processes = 0 leaves jobs to `release-desk worker`, which needs PostgreSQL"
        )
    jobs = JobRunner(store=store, datasets=datasets, draws=draws, processes=spawned)
    moments = PublicMoments(settings.response_slot_ms)
    releases = ReleaseService(
        store=store,
        datasets=datasets,
        plans=plans,
        draws=draws,
        jobs=jobs,
        moments=moments,
        max_waiting=settings.max_waiting_draws,
    )
    return Services(
        audit=AuditService(store, datasets),
        budgets=BudgetService(store, datasets),
        catalog=CatalogService(),
        datasets=datasets,
        derivations=DerivationService(releases, datasets, plans),
        erasing=ErasingService(store, plane),
        health=HealthService(store, directories=_written(settings)),
        jobs=jobs,
        keys=KeyService(store),
        lease=Lease(store, draws.worker, lease_ms=int(1000 * settings.worker_lease_s)),
        previews=PreviewService(datasets, plans),
        reading=CalculationQueue(calculator, most=settings.max_waiting_plans),
        receipts=receipts,
        releases=releases,
        reviews=ReviewService(
            store=store,
            datasets=datasets,
            plans=plans,
            jobs=jobs,
            moments=moments,
            longest=timedelta(days=settings.review_days),
        ),
    )


def _written(settings: Settings) -> tuple[Path, ...]:
    """Return the directories that releases are written to."""
    database = sqlite_file(settings.resolved_database_url)
    ledger = () if database is None else (database.parent, anchor_place(settings)[0])
    return settings.data_dir, *ledger


def _clear_up(vault: Vault, datasets: DatasetService) -> None:
    unknown = vault.recover(keep=datasets.with_rows(), known=datasets.ids())
    for name in unknown:
        _LOG.warning(
            "a data set is not in the database: its rows are now in stale", extra={"dataset": name}
        )


def upload_limits(settings: Settings) -> Limits:
    """Return what an upload may cost; a limit and its setting have the same name."""
    names = {limit.name for limit in fields(Limits)} & set(Settings.model_fields)
    return Limits(**{name: getattr(settings, name) for name in names})


def _bootstrap_secret(settings: Settings) -> str | None:
    key = settings.bootstrap_key
    return None if key is None else key.get_secret_value().strip()


def _show_key(secret: str | None) -> None:
    """Print a made-up first key: the one moment its secret exists in the open."""
    if secret is not None:
        print(f"first admin key, shown this once: {secret}", flush=True)  # noqa: T201
