"""The ledger's tests run on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.homes import Home, home_on
from tests.app.ledgers import Place, place_on
from tests.generated import load_examples

load_examples()

ON_BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=ON_BOTH)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where this test's ledger is; nothing is there yet but the tables."""
    with place_on(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=ON_BOTH)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Such a place with an anchor, which on PostgreSQL is in another database."""
    with home_on(request.param, tmp_path) as found:
        yield found
