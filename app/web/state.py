"""What the lifespan builds and every request sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from app.services.build import Services
from app.services.people.rates import RateLimiter
from app.settings import Settings
from app.web.clock import PublicClock
from app.web.crowd import Crowd
from app.web.requests.uploads import UploadGate


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """The running application."""

    services: Services
    settings: Settings
    clock: PublicClock
    crowd: Crowd
    rates: RateLimiter
    uploads: UploadGate


class LifespanState(TypedDict):
    """The shape of ``request.state``."""

    app: AppState
