"""What the lifespan builds and every request sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from starlette.requests import Request
from starlette.responses import Response

from app.constants import Constants
from app.domain.problems import Problem
from app.services.build import Services
from app.services.people.rates import RateLimiter
from app.settings import Settings
from app.web.anonymous import Anonymous
from app.web.clock import PublicClock
from app.web.crowd import Crowd
from app.web.requests.uploads import UploadGate


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """The running application."""

    services: Services
    settings: Settings
    constants: Constants
    anonymous: Anonymous
    clock: PublicClock
    crowd: Crowd
    rates: RateLimiter
    uploads: UploadGate
    refusal_page: Callable[[Request, Problem, Mapping[str, str]], Response]
    """Shows a refusal to people; its headers are sent along."""


class LifespanState(TypedDict):
    """The shape of ``request.state``."""

    app: AppState
