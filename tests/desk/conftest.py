"""One server for all pages; each test signs in its own people."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.service import ADMIN_KEY, Service, running
from tests.desk.browsing import Browsing, person, signed_in


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("desk") / "data") as found:
        yield found


@pytest.fixture(scope="session")
def admin(service: Service) -> Iterator[httpx.Client]:
    """Return a program with the admin's key, to arrange what pages are to show."""
    with service.client() as client:
        yield client


@pytest.fixture(scope="session")
def chief(service: Service) -> Iterator[Browsing]:
    """Return the admin at the desk."""
    with signed_in(service, ADMIN_KEY) as browsing:
        yield browsing


@pytest.fixture(scope="session")
def curator(service: Service, admin: httpx.Client) -> Iterator[Browsing]:
    with person(service, admin, "curator") as browsing:
        yield browsing


@pytest.fixture(scope="session")
def analyst(service: Service, admin: httpx.Client) -> Iterator[Browsing]:
    with person(service, admin, "analyst") as browsing:
        yield browsing
