"""All use cases, put together from settings, a store and the processes that help this one.

A server and a worker have the same ones: no web framework is loaded here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from app.constants import CONSTANTS, Constants
from app.engine.data import DataEngine
from app.places import passes_of, require_current, shares_device, source_roots, written_directories
from app.services.audit import AuditService, JournalService
from app.services.datasets.budgets import BudgetService
from app.services.datasets.datasets import DatasetService
from app.services.datasets.drafts import Drafting, DraftService
from app.services.datasets.erasing import (
    ArchivingService,
    DeletingService,
    EditingService,
    ErasingService,
)
from app.services.datasets.extending import ExtendingService
from app.services.datasets.lineage import Comparing, Indexing, LineageService, OverlapRefusals
from app.services.datasets.readable import ReadableData
from app.services.datasets.storing import SourceService
from app.services.datasets.unfinished import UnfinishedUploads
from app.services.health import HealthService
from app.services.people.access import AccessService
from app.services.people.keys import KeyService, KnownAccess
from app.services.people.sessions import SessionService
from app.services.plans.dry_runs import DryRunService
from app.services.plans.lanes import LONGEST_CHARGED_S, Calculator, ProcessLane
from app.services.plans.plans import PlanService
from app.services.plans.previews import PreviewService
from app.services.publishing.publications import PublicationService
from app.services.publishing.published import PublicDocuments
from app.services.releases.cells import CellService
from app.services.releases.charged_draws import ChargedDraws
from app.services.releases.derivations import LONGEST_S, Calculations, DerivationService
from app.services.releases.draws import DrawService, SmallDrawProcess
from app.services.releases.jobs import JobDrawing, JobRunner, Lease, PauseService
from app.services.releases.public_moments import LedgerClock, PublicMoments
from app.services.releases.receipts import Receipts
from app.services.releases.releases import ReleaseService
from app.services.releases.reviews import ReviewService
from app.services.releases.synthetic import SyntheticService
from app.services.reviewing.notices import (
    Channel,
    InboxService,
    Mail,
    SendingService,
    ViewService,
    Webhook,
)
from app.services.reviewing.plan_sheets import PlanSheetService
from app.services.reviewing.sheets import CommentService, SheetService
from app.services.reviewing.study_plans import StudyPlanService
from app.services.scripts import ScriptService
from app.services.searching import SearchService
from app.services.transparency.log import LogService
from app.services.transparency.stamps import Authority, StampService
from app.settings import Settings
from app.store import Store, StoreError, new_id
from app.uploads.storing import Intake, TakeIn
from app.uploads.trouble import Limits
from app.vault.lineage import LineageFiles
from app.vault.stored import CalculatedFiles, WaitingFiles
from app.vault.vault import Vault
from mechanisms.catalog import offers
from mechanisms.privacy import Epsilon

# Work that goes on while something else lasts


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have something done while the block lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# All use cases, put together from settings, a store and the processes that help this one

_LOG = logging.getLogger(__name__)
_DRAFTS = 2
"""How many files are looked at for drafts at once: each may fill the memory of an upload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperProcesses:
    """Processes next to this one; ``small_draws`` is None where threads of this one make them."""

    take_in: TakeIn
    """Takes an upload in; ``close_uploads`` ends those that are being taken in."""
    close_uploads: Callable[[], None]
    compare: Comparing
    """Compares an upload with earlier data sets; ``index`` brings those into their index."""
    index: Indexing
    jobs: JobDrawing
    small_draws: SmallDrawProcess | None
    calculator: Calculator
    draft: Drafting


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The use cases."""

    access: AccessService
    archiving: ArchivingService
    audit: AuditService
    budgets: BudgetService
    catalog: Sequence[dict[str, object]]
    """Every statistic x mechanism x norm on offer, as the mechanisms declare it."""
    cells: CellService
    comments: CommentService
    datasets: DatasetService
    deleting: DeletingService
    calculations: Calculations
    """Of released numbers, that outlast their requests."""
    derivations: DerivationService
    drafts: DraftService
    editing: EditingService
    extending: ExtendingService
    erasing: ErasingService
    health: HealthService
    inbox: InboxService
    jobs: JobRunner
    journal: JournalService
    keys: KeyService
    lease: Lease
    log: LogService
    pauses: PauseService
    plan_sheets: PlanSheetService
    publications: PublicationService
    public_documents: PublicDocuments
    previews: PreviewService
    dry_runs: DryRunService
    reading: ProcessLane
    """Where long bodies of requests are read."""
    readable: ReadableData
    receipts: Receipts
    releases: ReleaseService
    reviews: ReviewService
    sending: SendingService
    sessions: SessionService
    """Of browsers at the desk."""
    scripts: ScriptService
    searching: SearchService
    sheets: SheetService
    views: ViewService
    sources: SourceService
    stamps: StampService
    study_plans: StudyPlanService
    synthetic: SyntheticService
    unfinished: UnfinishedUploads


def build_services(
    settings: Settings,
    store: Store,
    processes: HelperProcesses,
    constants: Constants = CONSTANTS,
) -> Services:
    """Put the use cases together, and clear away what a crash left in the vault.

    Raises
    ------
    StoreError
        No process would draw this database's jobs.
    """
    if processes.jobs.count == 0 and not store.shared:
        raise StoreError(
            "job_processes = 0 leaves jobs to `release-desk worker`, which needs PostgreSQL"
        )
    keys = KeyService(store)
    data = _build_data(settings, constants, store, processes, keys.access)
    proxy = settings.resolved_sign_in_proxy
    providers = {each.id for each in settings.resolved_oidc_providers}
    providers |= set() if proxy is None else {proxy.id}
    drawing = _build_drawing(settings, constants, store, processes, data)
    datasets, plans, releases = data.datasets, drawing.plans, drawing.releases
    sources = SourceService(
        source_roots(settings),
        max_files=constants.max_source_files,
        max_bytes=constants.max_source_bytes,
    )
    log = LogService(store, drawing.receipts.keys, every_s=constants.checkpoint_s)
    most_bytes = settings.max_stored_bytes_per_day or None
    reviews = ReviewService(
        store=store,
        datasets=datasets,
        readable=data.readable,
        plans=plans,
        jobs=drawing.jobs,
        moments=releases.moments,
        ledger_clock=drawing.ledger_clock,
        longest=timedelta(days=settings.review_days),
        most_bytes=most_bytes,
    )
    previews = PreviewService(datasets, plans)
    calculations = Calculations(
        ProcessLane(processes.calculator, most=constants.max_waiting_plans, seconds=LONGEST_S),
        CalculatedFiles(settings.data_dir),
    )
    sheets = SheetService(store, datasets, releases, plans)
    study_plans = StudyPlanService(
        store=store,
        datasets=datasets,
        plans=plans,
        previews=previews,
        releases=releases,
        reviews=reviews,
        valid_for=timedelta(days=settings.study_plan_days),
        most_bytes=most_bytes,
    )
    return Services(
        access=AccessService(store, keys, providers=providers),
        archiving=ArchivingService(store, datasets, releases.finish_running, data.erasing),
        audit=AuditService(store, datasets),
        budgets=BudgetService(store, datasets, most=Epsilon(round(settings.max_grant * 10**9))),
        catalog=tuple(asdict(each) for each in offers()),
        comments=CommentService(store, datasets, releases, study_plans, most_bytes=most_bytes),
        datasets=datasets,
        deleting=DeletingService(store, datasets, data.erasing),
        cells=CellService(releases, plans),
        calculations=calculations,
        derivations=DerivationService(releases, datasets, plans, calculations),
        drafts=DraftService(processes.draft, sources, most=_DRAFTS),
        editing=EditingService(store, datasets),
        extending=ExtendingService(store, datasets),
        erasing=data.erasing,
        inbox=InboxService(store, releases.moments),
        sending=SendingService(store, releases.moments, _channels(settings)),
        sheets=sheets,
        views=ViewService(store),
        sources=sources,
        stamps=StampService(store, _authority(settings)),
        synthetic=SyntheticService(releases, datasets, plans),
        health=HealthService(
            store,
            data.readable,
            drawing.ledger_clock,
            calculates=processes.calculator.is_ready,
            directories=written_directories(settings),
            anchor_shares_device=shares_device(settings),
        ),
        jobs=drawing.jobs,
        journal=JournalService(store, datasets),
        keys=keys,
        lease=Lease(store, data.worker, lease_ms=int(1000 * constants.worker_lease_s)),
        log=log,
        pauses=PauseService(store, drawing.jobs),
        publications=PublicationService(store, datasets, releases, log),
        public_documents=PublicDocuments(log, drawing.receipts),
        previews=previews,
        dry_runs=DryRunService(datasets, plans),
        reading=ProcessLane(
            processes.calculator, most=constants.max_waiting_plans, seconds=LONGEST_CHARGED_S
        ),
        readable=data.readable,
        receipts=drawing.receipts,
        releases=releases,
        sessions=SessionService(store, keys, secret=LineageFiles(settings.data_dir).key()),
        scripts=ScriptService(datasets, releases),
        searching=SearchService(store, releases.moments),
        unfinished=data.unfinished,
        reviews=reviews,
        plan_sheets=PlanSheetService(store, datasets, plans, sheets, study_plans),
        study_plans=study_plans,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """What has to do with rows."""

    worker: str
    """The id of the process that serves or draws, in the ledger."""
    plane: DataEngine
    datasets: DatasetService
    readable: ReadableData
    erasing: ErasingService
    unfinished: UnfinishedUploads


def _build_data(
    settings: Settings,
    constants: Constants,
    store: Store,
    processes: HelperProcesses,
    access: KnownAccess,
) -> _Data:
    worker = new_id("wrk")
    vault, files = Vault(settings.data_dir), LineageFiles(settings.data_dir)
    readers = (processes.jobs, processes.small_draws)
    plane = DataEngine(
        vault,
        executor=passes_of(settings).executor(),
        erased=[each.forget for each in readers if each is not None],
    )
    intake = Intake(
        vault,
        processes.take_in,
        close=processes.close_uploads,
        limits=upload_limits(settings),
        lineage_key=files.key(),
    )
    lineage = LineageService(store, files, processes.compare, processes.index)
    unfinished = UnfinishedUploads(
        store,
        staging=vault,
        published=plane,
        digests=files,
        waiting=WaitingFiles(settings.data_dir),
        worker=worker,
    )
    erasing = ErasingService(store, plane, files)
    datasets = DatasetService(
        store,
        intake,
        lineage,
        unfinished,
        OverlapRefusals(most_per_day=constants.max_overlaps_per_day),
        erase_deleted=erasing.erase_deleted,
        read_access=access.refresh,
        threads=settings.upload_threads,
    )
    data = _Data(
        worker=worker,
        plane=plane,
        datasets=datasets,
        readable=ReadableData(store, plane),
        erasing=erasing,
        unfinished=unfinished,
    )
    # Uploads of other servers look like a crash's leavings, and so do data sets to an old ledger.
    if store.alone and store.frozen is None:
        _clear_up(vault, files, data)
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    """What leads from a question to a stored answer."""

    plans: PlanService
    receipts: Receipts
    jobs: JobRunner
    releases: ReleaseService
    ledger_clock: LedgerClock


def _build_drawing(
    settings: Settings,
    constants: Constants,
    store: Store,
    processes: HelperProcesses,
    data: _Data,
) -> _Drawing:
    plans = PlanService(
        threads=constants.draw_threads,
        max_waiting=constants.max_waiting_draws,
        max_waiting_costly=constants.max_waiting_plans,
        calculator=processes.calculator,
        most_bytes=constants.max_question_bytes,
    )
    receipts = Receipts(store)
    ledger_clock = LedgerClock(store, most_behind_s=settings.max_clock_behind_s)
    store.writer.require_clock = ledger_clock.require_now
    draws = DrawService(
        store=store,
        datasets=data.datasets,
        readable=data.readable,
        charged_draws=ChargedDraws(data.plane, receipts),
        threads=constants.draw_threads,
        worker=data.worker,
        ledger_clock=ledger_clock,
        small_draws=processes.small_draws,
    )
    moments = PublicMoments(settings.response_slot_ms)
    jobs = JobRunner(
        store=store,
        datasets=data.datasets,
        readable=data.readable,
        erasing=data.erasing,
        draws=draws,
        processes=processes.jobs,
        taken_ms=moments.lane_taken_ms,
        late_ms=moments.late_ms,
    )
    releases = ReleaseService(
        store=store,
        datasets=data.datasets,
        readable=data.readable,
        plans=plans,
        draws=draws,
        jobs=jobs,
        moments=moments,
        ledger_clock=ledger_clock,
        max_waiting=constants.max_waiting_draws,
        most_jobs=constants.max_unfinished_jobs,
        most_bytes=settings.max_stored_bytes_per_day or None,
    )
    return _Drawing(
        plans=plans,
        receipts=receipts,
        jobs=jobs,
        releases=releases,
        ledger_clock=ledger_clock,
    )


def _authority(settings: Settings) -> Authority | None:
    """Return who stamps the log's checkpoints."""
    return Authority(url=settings.timestamp_url) if settings.timestamp_url else None


def _channels(settings: Settings) -> tuple[Channel, ...]:
    """Return where notices are sent."""
    channels: list[Channel] = []
    if settings.webhook_url is not None and settings.webhook_secret is not None:
        channels.append(
            Webhook(
                url=settings.webhook_url.get_secret_value(),
                secret=settings.webhook_secret.get_secret_value(),
            )
        )
    if settings.smtp_url is not None:
        reviewers = map(str.strip, settings.smtp_reviewers.split(","))
        channels.append(
            Mail(
                url=settings.smtp_url.get_secret_value(),
                sender=settings.smtp_sender,
                reviewers=tuple(filter(None, reviewers)),
                public_url=settings.public_url,
            )
        )
    return tuple(channels)


def _clear_up(vault: Vault, files: LineageFiles, data: _Data) -> None:
    data.unfinished.clear_all()
    files.sweep()
    data.erasing.forget_deleted()
    require_current(vault)
    waiting = data.unfinished.still_waiting()
    unknown = vault.recover(
        keep=data.erasing.with_rows() | waiting, known=data.datasets.ids() | waiting
    )
    for name in unknown:
        _LOG.warning(
            "a data set is not in the database: its rows are now in stale", extra={"dataset": name}
        )


def upload_limits(settings: Settings) -> Limits:
    """Return what an upload may cost."""
    return Limits(
        max_upload_bytes=settings.max_upload_bytes,
        max_upload_rows=settings.max_upload_rows,
        upload_memory_bytes=settings.upload_memory_bytes,
        upload_cpu_s=settings.upload_cpu_s,
    )
