"""What the lifespan builds and every request sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from app.api.clock import PublicClock
from app.api.uploads import UploadGate
from app.services.audit import AuditService
from app.services.budgets import BudgetService
from app.services.catalog import CatalogService
from app.services.datasets import DatasetService
from app.services.derivations import DerivationService
from app.services.erasing import ErasingService
from app.services.health import HealthService
from app.services.jobs import JobRunner
from app.services.keys import KeyService
from app.services.leases import Lease
from app.services.planning import Aside
from app.services.previews import PreviewService
from app.services.rates import RateLimiter
from app.services.receipts import Receipts
from app.services.releases import ReleaseService
from app.services.reviews import ReviewService
from app.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The use cases."""

    audit: AuditService
    budgets: BudgetService
    catalog: CatalogService
    datasets: DatasetService
    derivations: DerivationService
    erasing: ErasingService
    health: HealthService
    jobs: JobRunner
    keys: KeyService
    lease: Lease
    previews: PreviewService
    reading: Aside
    receipts: Receipts
    releases: ReleaseService
    reviews: ReviewService


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """The running application."""

    services: Services
    settings: Settings
    clock: PublicClock
    rates: RateLimiter
    uploads: UploadGate


class LifespanState(TypedDict):
    """The shape of ``request.state``."""

    app: AppState
