"""The documents as the service shows them: every page, its links, and nothing but pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from html import escape

import httpx
import pytest

from app.api.pages.documents import (
    FOLDER,
    SHELVES,
    images,
    lead,
    library,
    parse,
    render,
    sections,
    tables,
)
from tests.contract.service import assert_problem
from tests.documents import ROOT
from tests.tiers import in_one

PAGES = library()
ADDRESSES = """
    architecture audit backup before-you-pay bibliography checking choosing-bounds-and-epsilon
    clients combining curator dataset-spec deployment derived-columns desk development
    development/adding-a-figure development/adding-a-mechanism development/adding-a-page
    development/adding-a-setting development/adding-a-statistic development/adding-an-endpoint
    development/debugging development/releasing development/tests enumeration filters-and-groups
    glossary growing http library licences many-machines mechanisms noise-intervals operations
    peers proofs publishing quickstart reviews scale several-desks sources standard-errors
    statistics statistics/correlation statistics/count statistics/covariance
    statistics/geometric_median statistics/histogram statistics/linear_regression
    statistics/logistic_regression statistics/mean statistics/moments statistics/quantile
    statistics/quantile_regression statistics/stack statistics/std statistics/sum
    statistics/variance studies threat-model tried tutorial units weights
"""
"""Pages that links and bookmarks may name: these addresses work in every later version."""
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@in_one("path", PAGES)
def test_every_page_is_shown(anonymous: httpx.Client, path: str) -> None:
    answer = anonymous.get(PAGES[path].address)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = (
        r"default-src 'none'; img-src 'self'; style-src 'sha256-[\w+/=]+'; frame-ancestors 'none'"
    )
    assert re.fullmatch(policy, answer.headers["content-security-policy"])
    assert f"<h1>{escape(PAGES[path].title)}</h1>" in answer.text
    assert not re.search(r"<script|\bstyle=|\bon\w+=|<!--|```|href=\"[^\"]*\.md\b", answer.text)
    assert answer.text.count('aria-current="page"') == 1


@pytest.fixture(scope="module")
def found(anonymous: httpx.Client) -> Callable[[str], httpx.Response]:
    """Return what gets a page as a browser does, each once: pages link to most of the others."""
    asked = partial(anonymous.get, headers={"Accept": BROWSER}, follow_redirects=True)
    return cache(asked)


@in_one("path", PAGES)
def test_every_link_of_a_page_is_answered(
    found: Callable[[str], httpx.Response], path: str
) -> None:
    page = found(PAGES[path].address).text
    for target in set(re.findall(r'(?:href|src)="(/[^"]*|#[^"]*)"', page)):
        place, _, anchor = target.partition("#")
        there = found(place) if place else None
        assert there is None or there.status_code == 200, target
        if anchor:
            assert f'id="{anchor}"' in (page if there is None else there.text), target


_TYPES = {"png": "image/png", "svg": "image/svg+xml"}


def test_a_table_of_figures_is_shown_and_linked(anonymous: httpx.Client) -> None:
    page = anonymous.get("/docs/studies").text
    assert {"studies/kng-1.csv", "studies/peers.csv"} <= tables().keys()
    for path in tables():
        answer = anonymous.get(f"/docs/{path}")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.content == tables()[path].read_bytes()
    assert 'href="/docs/studies/kng-1.csv"' in page
    assert anonymous.get("/docs/studies/no.csv").status_code == 404


def test_a_picture_is_shown_and_nothing_else(anonymous: httpx.Client) -> None:
    for path in images():
        answer = anonymous.get(f"/docs/{path}")
        assert answer.headers["content-type"] == _TYPES[path.rpartition(".")[2]]
    assert {path.rpartition(".")[2] for path in images()} == set(_TYPES)
    for path in ("none.png", "studies/none.svg", "..%2fdesk.md.png", "desk.md"):
        assert anonymous.get(f"/docs/images/{path}").status_code == 404


def test_the_index_leads_to_every_page(anonymous: httpx.Client) -> None:
    shown = {"/docs"}
    waiting = ["/docs"]
    while waiting:
        for target in re.findall(r'href="(/docs[^"#]*)', anonymous.get(waiting.pop()).text):
            if target not in shown:
                shown.add(target)
                waiting.append(target)
    pages = {page.address for page in PAGES.values()}
    assert shown == {"/docs/reference", *pages, *(f"/docs/{path}" for path in tables())}


@pytest.mark.parametrize(
    "name",
    [
        "", "nothing", "quickstart.md", "quickstart/", "README", "../pyproject.toml",
        "..%2fpyproject.toml", "%2e%2e/pyproject.toml", "development%2f..%2fquickstart",
        "/etc/passwd", "quickstart%00", "Quickstart", "x" * 5000,
    ],
    ids=lambda name: name[:30],
)  # fmt: skip
def test_nothing_else_is_there(anonymous: httpx.Client, name: str) -> None:
    assert_problem(anonymous.get(f"/docs/{name}"), 404, "not-found")


def test_the_pages_are_the_folder_s() -> None:
    assert set(PAGES) == {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.md")}
    assert FOLDER == ROOT / "docs"
    addresses = [page.address for page in PAGES.values()]
    assert len(set(addresses)) == len(addresses)
    assert "/docs/reference" not in addresses


def test_an_address_does_not_say_on_which_shelf_a_page_is() -> None:
    """Addresses in links and bookmarks stay when a page moves to another shelf."""
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} >= set(SHELVES)
    for path, page in PAGES.items():
        shelf, _, rest = path.removesuffix(".md").removesuffix("/README").partition("/")
        if shelf in SHELVES:
            assert page.address == f"/docs/{rest or shelf}"
        assert page.above in {"", *(each.address for each in PAGES.values())}
    for address in ADDRESSES.split():
        assert f"/docs/{address}" in {page.address for page in PAGES.values()}


def test_the_navigation_has_the_folders_in_the_order_of_the_index(anonymous: httpx.Client) -> None:
    page = anonymous.get("/docs/statistics/mean").text
    index = re.findall(r"^## ([\w-]+):", PAGES["README.md"].text, re.MULTILINE)
    assert re.findall(r"<li>([\w-]+)<ul>", page) == index
    reference = page.partition("<li>Reference<ul>")[2].partition("<li>Explanation<ul>")[0]
    assert 'href="/docs/statistics/mean" aria-current="page"' in reference
    assert (
        'href="/docs/statistics/sum"'
        not in anonymous.get("/docs/mechanisms").text.split("<main")[0]
    )


def test_html_in_a_page_is_text() -> None:
    text = "# A `t`\n\n<script>a</script>\n\n## B & c\n\nx <b onclick=y> [z](javascript:a)\n"
    text += "\n<!-- told\nto tests --> <i>\n\n## B & c\n\n[a](../LICENSE) `/problems/forbidden`\n"
    document = parse(text)
    assert document.title == "A t"
    assert document.anchors == ("a-t", "b--c", "b--c-1")
    page = render(document, address=lambda target: lead(target, ""))
    assert not re.search(r"<(?:script|b|i)\b|(?<!\()javascript|told|LICENSE", page)
    assert '<a href="/problems/forbidden"><code>/problems/forbidden</code></a>' in page
    assert '<h2 id="b--c-1">B &amp; c</h2>' in page


@pytest.mark.parametrize("accept", ["*/*", "application/json"])
def test_the_root_leads_a_program_to_the_interface(anonymous: httpx.Client, accept: str) -> None:
    answer = anonymous.get("/", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["location"]) == (307, "/openapi.json")
    assert answer.headers["vary"] == "Accept"
    assert anonymous.get("/openapi.json").status_code == 200


def test_the_root_shows_a_person_where_to_go(anonymous: httpx.Client) -> None:
    answer = anonymous.get("/", headers={"Accept": BROWSER})
    assert (answer.status_code, answer.headers["vary"]) == (200, "Accept")
    for target in ("/desk", "/public", "/docs"):
        assert f'<dt><a href="{target}">' in answer.text


def test_browsers_find_an_icon(anonymous: httpx.Client) -> None:
    answer = anonymous.get("/favicon.ico")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.content.startswith(b"<svg")


def test_a_search_finds_sections_by_their_words(anonymous: httpx.Client) -> None:
    page = anonymous.get("/docs/search", params={"q": "restore postgresql"}).text
    assert '<a href="/docs/backup#restore-on-postgresql">Restore on PostgreSQL</a>' in page
    assert "<mark>" in page
    for target in set(re.findall(r'class="found".*?</ol>', page, re.DOTALL)[0].split('"')):
        place, _, anchor = target.partition("#")
        if place.startswith("/docs/"):
            shown = anonymous.get(place).text
            assert not anchor or f'id="{anchor}"' in shown, target


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "Enter one or more words."),
        ("kwijibo", "No section holds all of these words"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("!!! ???", "No section holds all of these words"),
        ("privacy " * 500, "<ol"),
    ],
)
def test_a_search_is_answered_whatever_is_asked(
    anonymous: httpx.Client, query: str, said: str
) -> None:
    answer = anonymous.get("/docs/search", params={"q": query})
    assert answer.status_code == 200
    assert said in answer.text
    assert "<script" not in answer.text


def test_sections_have_the_anchors_of_their_headings() -> None:
    for path, page in PAGES.items():
        anchors = {f"#{each}" for each in parse(page.text).anchors[1:]}
        found = {
            each.address.removeprefix(page.address) for each in sections(page.text, page.address)
        }
        assert found == anchors | {""}, path
