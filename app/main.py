"""The composition root: settings in, an application out."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread
from fastapi import FastAPI

from app.api.application import bare_application, own_version
from app.api.connections import stopping_in_order
from app.api.pages.documents import documents_with
from app.constants import CONSTANTS, HEAD_ROOM, Constants
from app.desk.pages import add_desk
from app.desk.routes import refused
from app.logs import configure_logs
from app.places import open_store, warn_of_shared_device, written_directories
from app.processes.build import build_processes
from app.processes.confinement import warn_of_what_is_lacking
from app.services.build import Services, build_services, in_background
from app.services.people.rates import RateLimiter, shared_by
from app.settings import Settings, SettingsError
from app.store import Store
from app.vault.lineage import LineageFiles
from app.web.anonymous import Anonymous, ConnectionLimiter
from app.web.providers import ProviderSignIn
from app.web.requests.uploads import UploadGate
from app.web.state import AppState, LifespanState, PublicClock

if TYPE_CHECKING:
    from app.api.traces import Traces

_COLLECT_AFTER = 50_000
"""New objects between two looks for garbage: more than requests under way hold at once."""


def create_app(settings: Settings, constants: Constants = CONSTANTS) -> FastAPI:
    """Return the application; it opens its store when it starts and closes it when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[LifespanState]:
        del app
        configure_logs(level=settings.log_level, directories=written_directories(settings).values())
        store = await anyio.to_thread.run_sync(open_store, settings)
        try:
            services = await anyio.to_thread.run_sync(_build, settings, store, constants)
            store.share()
            if store.frozen is None:
                _show_key(services.keys.bootstrap(_bootstrap_secret(settings)))
                await services.lease.begin()
                await services.log.catch_up()
                services.jobs.start()
            notice_s = constants.stop_notice_s if store.shared else 0.0
            with stopping_in_order(notice_s=notice_s, say=partial(_say_so, services)) as stop:
                try:
                    state = AppState(
                        services=services,
                        settings=settings,
                        constants=constants,
                        anonymous=_anonymous(settings, constants, services),
                        clock=PublicClock(settings.response_slot_ms),
                        limiter=_limiter(settings),
                        rates=_rates(settings, store),
                        sign_in=ProviderSignIn(
                            settings.resolved_oidc_providers,
                            services.sessions,
                            secret=LineageFiles(settings.data_dir).key(),
                            session_s=settings.oidc_session_s,
                            proxy=settings.resolved_sign_in_proxy,
                        ),
                        uploads=UploadGate(constants.max_waiting_uploads),
                        refusal_page=refused,
                        documents_with=documents_with,
                    )
                    async with _at_work(services):
                        yield {"app": state}
                finally:
                    await services.calculations.close()
                    await services.releases.close(timeout_s=stop.left_s(settings.drain_timeout_s))
                    await services.datasets.close()
                    await services.views.try_writing()
                    # The lease last: while it holds, no other process takes over what is still
                    # being drawn.
                    await services.lease.end()
        finally:
            await anyio.to_thread.run_sync(store.close)
            if traces is not None:
                await anyio.to_thread.run_sync(traces.close)

    traces = _traces(settings)
    app = bare_application(lifespan, origins=settings.resolved_cors_origins, traces=traces)
    add_desk(app)
    return app


def _traces(settings: Settings) -> Traces | None:
    """Return what sends spans to the collector of the settings; None without one."""
    if not settings.traces_url:
        return None
    try:
        from app.api.traces import traces_to  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise SettingsError(
            "traces_url needs more packages: "
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        ) from None
    return traces_to(settings.traces_url, own_version())


@asynccontextmanager
async def _at_work(services: Services) -> AsyncIterator[None]:
    """Run the background work while the block lasts."""
    async with (
        in_background(services.budgets.keep_expiring()),
        in_background(services.reviews.keep_expiring()),
        in_background(services.erasing.keep_erasing()),
        in_background(services.unfinished.keep_clearing()),
        in_background(services.readable.keep_looking()),
        in_background(services.log.keep()),
        in_background(services.stamps.keep()),
        in_background(services.views.keep_writing()),
        in_background(services.sending.keep_sending()),
    ):
        yield


def keep_in_memory() -> None:
    """Exempt everything built so far from garbage collection.

    It would look through every module, model and route again and again, each
    time for 0.1 seconds in which no request is answered. For server
    processes, once, when the application is there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    gc.enable()


def _build(settings: Settings, store: Store, constants: Constants) -> Services:
    warn_of_shared_device(settings)
    warn_of_what_is_lacking()
    calculated = ("app.web.requests.questions",)
    processes = build_processes(settings, store, constants, calculated=calculated)
    processes.calculator.start()
    return build_services(settings, store, processes, constants)


def _say_so(services: Services) -> None:
    """Have a load balancer and the other servers hear that this one is about to stop."""
    services.health.stop()
    services.jobs.claim_no_more()


def _rates(settings: Settings, store: Store) -> RateLimiter:
    most = settings.rate_limit_per_minute
    return RateLimiter(most, share=shared_by(store, most))


def _anonymous(settings: Settings, constants: Constants, services: Services) -> Anonymous:
    each = settings.anonymous_rate_limit_per_minute
    return Anonymous(
        each_per_minute=each,
        all_per_minute=each * constants.anonymous_addresses,
        changes=services.publications.changes,
        marks=services.publications.marks,
    )


def _limiter(settings: Settings) -> ConnectionLimiter:
    most, most_each = settings.resolved_max_connections
    return ConnectionLimiter(most=most, most_each=most_each, head_room=HEAD_ROOM)


def _bootstrap_secret(settings: Settings) -> str | None:
    key = settings.bootstrap_key
    return None if key is None else key.get_secret_value()


def _show_key(secret: str | None) -> None:
    """Print a made-up first key: the one moment its secret exists in the open."""
    if secret is not None:
        print(f"first admin key, shown this once: {secret}", flush=True)  # noqa: T201
