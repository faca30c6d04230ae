"""One server for the whole area; each test makes its own data sets in it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.service import Service, lying, make_key, running, upload


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("contract") / "data"
    with running(data, source_roots=lying(data).rpartition("/")[0]) as found:
        yield found


@pytest.fixture(scope="session")
def admin(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


@pytest.fixture(scope="session")
def curator(service: Service, admin: httpx.Client) -> Iterator[httpx.Client]:
    with service.client(make_key(admin, "curator")["secret"]) as client:
        yield client


@pytest.fixture(scope="session")
def analyst(service: Service, admin: httpx.Client) -> Iterator[httpx.Client]:
    with service.client(make_key(admin, "analyst")["secret"]) as client:
        yield client


@pytest.fixture(scope="session")
def anonymous(service: Service) -> Iterator[httpx.Client]:
    with service.client(None) as client:
        yield client


@pytest.fixture
def dataset(curator: httpx.Client) -> str:
    return str(upload(curator)["id"])


@pytest.fixture(scope="session")
def untouched(curator: httpx.Client) -> str:
    """Return a data set that everyone asks what is refused or free: nothing is ever charged."""
    return str(upload(curator)["id"])
