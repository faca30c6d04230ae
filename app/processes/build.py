"""The processes that help a server or a worker, as its settings say; most begin when needed."""

from __future__ import annotations

from typing import Any

from app.constants import CONSTANTS, Constants
from app.places import passes_of
from app.processes.calculations import CalculatingProcesses
from app.processes.draws import DrawOrder
from app.processes.jobs import JobProcesses
from app.processes.small_draws import SmallDraws
from app.processes.upload_reading import DraftingProcesses
from app.processes.uploads import StoringProcesses
from app.services.build import HelperProcesses, upload_limits
from app.settings import Settings
from app.store import Store
from app.uploads.sources.places import ObjectAccess

_CALCULATED = (
    "app.services.plans.dry_runs",
    "app.services.plans.previews",
    "app.services.releases.cells",
    "app.services.releases.derivations",
    "app.services.releases.synthetic",
)
"""Modules whose functions calculate for the use cases, and all that those need."""


def build_processes(
    settings: Settings,
    store: Store,
    constants: Constants = CONSTANTS,
    *,
    calculated: tuple[str, ...] = (),
) -> HelperProcesses:
    """Return the processes that help this one.

    ``calculated`` names further modules whose functions will be calculated, so that a
    process has them loaded before it is forked.
    """
    where: dict[str, Any] = {"data_dir": settings.data_dir, "log_level": settings.log_level}
    passes = passes_of(settings)
    order = DrawOrder.of(identity=store.identity, key=store.key, passes=passes, **where)
    uploads = StoringProcesses(
        memory_bytes=settings.upload_memory_bytes,
        access=_access(settings),
        passes=passes,
        **where,
    )
    drafting = DraftingProcesses(limits=upload_limits(settings), scratch=settings.data_dir)
    return HelperProcesses(
        take_in=uploads.take_in,
        close_uploads=uploads.close,
        compare=uploads.compare,
        index=uploads.index,
        jobs=JobProcesses(count=settings.resolved_job_processes, order=order),
        small_draws=SmallDraws(order) if constants.resolved_draw_process else None,
        draft=drafting.draft,
        calculator=CalculatingProcesses(
            log_level=settings.log_level, modules=(*_CALCULATED, *calculated)
        ),
    )


def _access(settings: Settings) -> ObjectAccess:
    """Return how the store of objects is asked."""
    secret, token = settings.s3_secret_access_key, settings.s3_session_token
    return ObjectAccess(
        endpoint=settings.s3_endpoint or None,
        region=settings.s3_region,
        key_id=settings.s3_access_key_id,
        secret=None if secret is None else secret.get_secret_value(),
        token=None if token is None else token.get_secret_value(),
    )
