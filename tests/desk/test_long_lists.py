"""A desk that has been used for years: no page of it takes long, or is long."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tests.contract.service import ADMIN_KEY, Service, running
from tests.desk.browsing import Browsing, Page, signed_in, signed_out
from tests.desk.furnished import DATASETS, RELEASES, RETURNED, WAITING, fill
from tests.speed import in_time

pytestmark = pytest.mark.slow

LONGEST_S, LARGEST_BYTES, TIMES = 0.1, 60_000, 5
FIRST_S = 0.3
"""The first view of a page by a process compiles its template, and fills caches."""


class Full(NamedTuple):
    """A server on a full store, the keys of its people, and the ids of what pages show."""

    service: Service
    keys: Mapping[str, str]
    ids: Mapping[str, str]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Full]:
    made = fill(tmp_path_factory.mktemp("full") / "data")
    with running(made.data_dir) as service:
        yield Full(service, {**made.keys, "admin": ADMIN_KEY}, made.ids)


@contextmanager
def somebody(full: Full, who: str) -> Iterator[Browsing]:
    if who == "everyone":
        with signed_out(full.service) as browsing:
            yield browsing
        return
    with signed_in(full.service, full.keys[who]) as browsing:
        yield browsing


def test_the_store_is_full_and_its_chain_is_sound(full: Full) -> None:
    with full.service.client() as admin:
        found = admin.get("/v1/ledger/verification").json()
        assert found["ok"] is True
        assert found["entries"] > DATASETS + RELEASES
    with somebody(full, "everyone") as anybody:
        assert anybody.open("/public").tree.xpath("//a[@rel='next']")


PAGES = [
    ("curator", "/desk"),
    ("curator", "/desk/datasets"),
    ("curator", "/desk/datasets?q=wave+3&status=archived"),
    ("curator", "/desk/datasets?sort=name"),
    ("curator", "/desk/datasets?sort=-name&after=500"),
    ("curator", "/desk/datasets/new"),
    ("curator", "/desk/datasets/{dataset}"),
    ("curator", "/desk/datasets/{dataset}/ask"),
    ("curator", "/desk/datasets/{dataset}/caps"),
    ("curator", "/desk/datasets/{dataset}/access"),
    ("curator", "/desk/datasets/{dataset}/edit"),
    ("curator", "/desk/releases"),
    ("curator", "/desk/releases?sort=date"),
    ("curator", "/desk/releases?after=5000"),
    ("curator", "/desk/releases?dataset={dataset}&person=person+2"),
    ("curator", "/desk/releases?status=awaiting_review"),
    ("curator", "/desk/releases?status=rejected"),
    ("curator", "/desk/releases/{release}"),
    ("curator", "/desk/reviews"),
    ("curator", "/desk/reviews?status=changes_requested"),
    ("curator", "/desk/reviews?status=expired"),
    ("curator", "/desk/reviews/{review}"),
    ("curator", "/desk/reviews/{returned}"),
    ("curator", "/desk/study-plans"),
    ("curator", "/desk/study-plans?sort=name"),
    ("curator", "/desk/study-plans/{plan}"),
    ("curator", "/desk/audit"),
    ("curator", "/desk/audit?page=50"),
    ("curator", "/desk/audit?kind=debit"),
    ("curator", "/desk/audit?kind=decisions"),
    ("curator", "/desk/audit?kind=cap_set"),
    ("curator", "/desk/audit?account={account}"),
    ("curator", "/desk/audit?person=person+2"),
    ("curator", "/desk/audit/report?account={account}"),
    ("curator", "/desk/search?q=mean"),
    ("curator", "/desk/search?q=nothing-like-this"),
    ("curator", "/desk/search?q=household+wave+3"),
    ("analyst", "/desk"),
    ("analyst", "/desk/datasets"),
    ("analyst", "/desk/releases"),
    ("analyst", "/desk/reviews"),
    ("analyst", "/desk/audit"),
    ("analyst", "/desk/search?q=mean"),
    ("analyst", "/desk/study-plans"),
    ("admin", "/desk/keys"),
    ("admin", "/desk/keys?sort=name"),
    ("admin", "/desk/groups"),
    ("everyone", "/public"),
    ("everyone", "/public?q=mean"),
    ("everyone", "/public?sort=date&after=300"),
    ("everyone", "/public?dataset={dataset}"),
    ("everyone", "/public?statistic=count"),
    ("everyone", "/public/releases/{public}"),
    ("everyone", "/public/releases/{public}/certificate"),
    ("everyone", "/public/feed.atom"),
]


def test_every_page_takes_little(full: Full) -> None:
    """CPU time, which unlike waiting does not depend on what else the machine does."""
    slow, long = dict[str, tuple[float, float]](), dict[str, int]()
    for who in dict.fromkeys(who for who, _ in PAGES):
        with somebody(full, who) as browsing:
            for path in (path.format(**full.ids) for of, path in PAGES if of == who):
                first = cpu_s(browsing, path)
                took = statistics.median(cpu_s(browsing, path) for _ in range(TIMES))
                if not (in_time(first, FIRST_S) and in_time(took, LONGEST_S)):
                    slow[f"{who} {path}"] = first, took
                size = len(browsing.open(path).answer.content)
                if size > LARGEST_BYTES:
                    long[f"{who} {path}"] = size
    assert (slow, long) == ({}, {})


def cpu_s(browsing: Browsing, path: str) -> float:
    """Return the CPU time of one request, of server and client."""
    began = time.process_time()
    browsing.client.get(path)
    return time.process_time() - began


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/desk/releases?status=awaiting_review", WAITING - RETURNED),
        ("/desk/reviews", WAITING),
        ("/desk/reviews?sort=date", WAITING),
        ("/desk/datasets?status=archived", 99),
        ("/desk/datasets?q=Households+77", 19),
        ("/desk/datasets?sort=name", DATASETS),
    ],
)
def test_a_list_goes_on_to_its_end_and_back_to_its_beginning(
    full: Full, path: str, count: int
) -> None:
    with somebody(full, "curator") as browsing:
        found = links_of(browsing, path)
        assert len(found) == len(set(found)) == count
        last = [path, *_pages(browsing, path)][-1]
        back = links_of(browsing, last, way="prev")
        assert {*back} == {*found}, "no row is left out on the way back"


def test_a_queue_may_begin_with_what_has_waited_longest(full: Full) -> None:
    with somebody(full, "curator") as browsing:
        newest = links_of(browsing, "/desk/reviews")
        assert links_of(browsing, "/desk/reviews?sort=date") == newest[::-1]


@pytest.mark.parametrize(
    ("who", "path", "name"),
    [
        ("curator", "/desk/releases", "dataset"), ("curator", "/desk/reviews", "dataset"),
        ("curator", "/desk/study-plans", "dataset"), ("curator", "/desk/audit", "account"),
        ("everyone", "/public", "dataset"),
    ],
)  # fmt: skip
def test_any_of_a_thousand_data_sets_is_found_by_its_name(
    full: Full, who: str, path: str, name: str
) -> None:
    """They are too many for a list of choices: its oldest and its largest, the first one."""
    with somebody(full, who) as browsing:
        page = browsing.open(path)
        (field,) = page.tree.xpath(f"//input[@name='{name}'][@list]")
        assert len(page.tree.xpath(f"//datalist[@id='{field.get('list')}']/option")) > 20
        found = browsing.open(f"{path}?{name}=Household+budgets")
        assert found.tree.xpath(f"//input[@name='{name}']/@value") == ["Household budgets"]
        rows = found.tree.xpath("//table[contains(@class, 'list')][.//a]/tbody/tr")
        own = [row for row in rows if "Household budgets" in row.text_content()]
        assert len(own) >= 25
        nothing = browsing.open(f"{path}?{name}=no+such+name")
        assert nothing.tree.xpath(f"//input[@name='{name}']/@value") == ["no such name"]


def links_of(browsing: Browsing, address: str | None, way: str = "next") -> list[str]:
    """Return what the first column of a list leads to, on all of its pages one way."""
    found: list[str] = []
    while address is not None:
        page = browsing.open(address)
        found += page.tree.xpath("(//table)[1]/tbody//td[1]/a/@href")
        address = _beside(page, way)
    return found


def _pages(browsing: Browsing, address: str) -> list[str]:
    """Return the addresses of the pages after the first one."""
    found: list[str] = []
    following: str | None = address
    while (following := _beside(browsing.open(following), "next")) is not None:
        found.append(following)
    return found


def _beside(page: Page, way: str) -> str | None:
    links = page.tree.xpath(f"//nav[@aria-label='Pages']/a[@rel='{way}']/@href")
    return next(iter(links), None)
