"""A desk that has been used for long: a thousand releases, and the entries of each."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.contract.service import ADMIN_KEY, Service, ask, upload
from tests.desk.browsing import Browsing, signed_in

pytestmark = pytest.mark.slow

RELEASES = 1_000
LONGEST_S = 0.3
LARGEST_BYTES = 60_000


@pytest.fixture(scope="module")
def busy(service: Service, admin: httpx.Client) -> str:
    """Return a data set of which a thousand releases have been made."""
    dataset = str(upload(admin, name="n" * 100, budget={"epsilon": "1000"})["id"])
    with ThreadPoolExecutor(8) as pool:
        asked = pool.map(lambda _: ask(admin, dataset, epsilon="0.001"), range(RELEASES))
        assert {answer.status_code for answer in asked} == {201}
    return dataset


@pytest.mark.parametrize(
    "path",
    [
        "/desk/releases", "/desk/datasets/{dataset}", "/desk/audit", "/desk/search?q=mean",
        "/desk/search?q=nothing-like-this",
    ],
)  # fmt: skip
def test_a_page_of_a_busy_desk_takes_little(service: Service, busy: str, path: str) -> None:
    """Processor time, which unlike waiting does not hang on what else the machine does."""
    with signed_in(service, ADMIN_KEY) as browsing:
        address = path.format(dataset=busy)
        assert len(browsing.open(address).answer.content) < LARGEST_BYTES
        began = time.process_time()
        for _ in range(5):
            browsing.client.get(address)
        assert (time.process_time() - began) / 5 < LONGEST_S


def test_a_list_goes_on_to_its_end(service: Service, busy: str) -> None:
    with signed_in(service, ADMIN_KEY) as browsing:
        found = set(links_of(browsing, f"/desk/releases?dataset={busy}"))
        assert len(found) == RELEASES


def links_of(browsing: Browsing, address: str | None) -> list[str]:
    """Return where the releases of a list are shown, on all of its pages."""
    found: list[str] = []
    while address is not None:
        page = browsing.open(address)
        found += page.tree.xpath("//tbody//td[1]/a/@href")
        address = next(iter(page.tree.xpath("//a[@rel='next']/@href")), None)
    return found
