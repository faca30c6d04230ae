"""What the lifespan builds and every request sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from app.api.requests.uploads import UploadGate
from app.api.serving.clock import PublicClock
from app.services.audit import AuditService
from app.services.catalog import CatalogService
from app.services.datasets.budgets import BudgetService
from app.services.datasets.datasets import DatasetService
from app.services.datasets.erasing import ErasingService
from app.services.health import HealthService
from app.services.people.keys import KeyService
from app.services.people.rates import RateLimiter
from app.services.plans.lanes import CalculationQueue
from app.services.plans.previews import PreviewService
from app.services.releases.derivations import DerivationService
from app.services.releases.jobs import JobRunner
from app.services.releases.leases import Lease
from app.services.releases.receipts import Receipts
from app.services.releases.releases import ReleaseService
from app.services.releases.reviews import ReviewService
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
    reading: CalculationQueue
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
