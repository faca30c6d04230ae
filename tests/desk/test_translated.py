"""Every page in German and French, with a release of every kind: no English is left.

The pages are those that links lead to (:mod:`tests.desk.crawling`). A text is English where it has
a word that English alone has. What stays so on purpose is listed here, with the reason. What people
have written is theirs, and here it is in German. The same holds for pages that refuse a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from lxml import html

from tests.browser.furnished import furnish
from tests.contract.service import ADMIN_KEY, Service, ask, running, settled, upload
from tests.desk.browsing import Browsing, Page, signed_in
from tests.desk.crawling import Crawl, routes
from tests.desk.fuzzing import Sent, forms_of, page_of, send
from tests.desk.test_every_number import COLUMNS, QUESTIONS, ROWS
from tests.desk.test_languages import OTHERS

pytestmark = pytest.mark.slow

_ENGLISH = re.compile(
    r"\b(?:the|of|and|is|are|with|by|for|to|this|that|from|it|than|each|every|its|be|has|have|"
    r"their|you|your|yes|which|must|rows|number|category|boolean|integer|data set|mean|lower|upper|"
    r"answer|noise|error|record|records|count|share|left|spent|reserved|active|archived)\b"
)
"""Words of English that German and French do not have, not even as a loan."""
_READ_OUT = ("title", "alt", "placeholder", "aria-label", "data-png", "data-of", "data-copy")
_APART = ("code", "pre", "script", "style", "textarea", "kbd")
"""Elements of code, and of what people have written."""
ON_PURPOSE = (
    (r"\(count(?:, [^()]*\)?)?\)|für count freigegebene|diffusé pour count",
     "a number's place in the answer"),
    (r"\((?:mean|sd|median|\w+_quartile) of", "the same, in a summary"),
    (r"\(hazard to \d+\)", "a coefficient's name, as in the answer"),
    (r"log_income = .*|rest = income .*|„spend = sum“.*|« spend = sum ».*|^(?:yes|of)$",
     "what is written into fields"),
    (r"^.* · (?:Python, R and curl|HTTP conventions)$|^Choosing bounds and epsilon$",
     "titles of documents, which are in English"),
    (r"https?://\S+|\b(?:rel|ds|key|plan)_\w+", "addresses and ids"),
)  # fmt: skip
"""What stays English, and why."""
_NAMES = {
    "income": "betrag", "count": "anzahl", "born": "geburt", "term": "bezirk", "owner": "besitz",
}  # fmt: skip
_VALUES = {"north": "nord", "south": "sued", "the north": "Norden", "the south": "Sueden"}
_WRITTEN = re.compile(
    r"A survey with a very long name [\w ,]*\d(?:, again|, and once again)?|Wages, the second year"
    r"|Belgian households, 1857|235 working-class households; [^.]*\.|Figure 2 of the yearly report"
    r"|Asked of the wrong column; see the figure of the yearly report\.|For the yearly report"
    r"|Half of this price would do\.|The protocol asks for no extremes\.|See the sheet\."
    r"|Would 0\.5\d be right for the first table\?|The second year of the study|Tables 1 and 2"
    r"|Table 3, by the end of May"
)
"""What people have written at the furnished desk."""


def in_german(part: Any, field: str = "") -> Any:
    """Return a question, or declared columns, with names and values that are no English."""
    if isinstance(part, dict):
        named = field in ("", "edges", "derive", "columns")
        return {
            _NAMES.get(name, name) if named else name: in_german(each, name)
            for name, each in part.items()
        }
    if isinstance(part, list):
        return [in_german(each, field) for each in part]
    if isinstance(part, str) and field not in ("kind", "test", "op"):
        return _NAMES.get(part, _VALUES.get(part, part))
    return part


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("translated") / "data") as found:
        yield found


@pytest.fixture(scope="module")
def starts(service: Service) -> Sequence[str]:
    """Return where to begin: a furnished desk, and a public release of every kind."""
    with service.client() as admin:
        dataset = haushalte(admin)
        for question, (statistic, more) in QUESTIONS.items():
            asked = ask(admin, dataset, in_german(statistic), epsilon="4", **more)
            answer = settled(admin, asked).json()
            assert answer.get("status") == "released", (question, answer)
            public = f"/v1/releases/{answer['id']}/publication"
            admin.post(public, json={"reason": "gut"}, headers={"If-Match": "*"})
        asking = (
            f"/desk/datasets/{dataset}/ask?statistic={statistic['kind']}"
            for statistic, _ in QUESTIONS.values()
        )
        pages = furnish(service).pages
    return ["/desk", "/desk/sign-in", "/desk/search?q=income", "/public", *pages.values(), *asking]


def haushalte(admin: httpx.Client) -> str:
    """Return a data set whose names and values are German."""
    rows = ROWS
    for english, german in {**_NAMES, "north": "nord", "south": "sued"}.items():
        rows = re.sub(rf"\b{english}\b", german, rows)
    columns = {_NAMES[name]: in_german(column) for name, column in COLUMNS.items()}
    columns["bezirk"]["labels"] = {"nord": "Norden", "sued": "Sueden"}
    more = {"budget": {"epsilon": "1000"}, "overlap": {"reason": "erfunden"}}
    return str(upload(admin, rows, name="Haushalte", columns=columns, **more)["id"])


def texts_of(element: html.HtmlElement) -> Iterator[str]:
    """Yield what a page shows and reads out, an element's text at a time."""
    if not isinstance(element.tag, str) or element.tag in _APART:
        return
    if "code" in (element.get("class") or "").split():
        return
    yield from filter(None, map(element.get, _READ_OUT))
    yield element.text or ""
    for child in element:
        yield from texts_of(child)
        yield child.tail or ""


def english_in(page: Page) -> set[str]:
    """Return the texts of a page that are English and not on purpose."""
    found = set()
    for text in texts_of(page.tree):
        left = _WRITTEN.sub("", " ".join(text.split()))
        for pattern, _ in ON_PURPOSE:
            left = re.sub(pattern, "", left)
        if _ENGLISH.search(left):
            found.add(left[:400])
    return found


@pytest.mark.parametrize("language", OTHERS)
def test_no_page_has_english(service: Service, starts: Sequence[str], language: str) -> None:
    with signed_in(service, ADMIN_KEY) as chief:
        chief.open(f"/desk?lang={language}")
        chief.client.headers["Accept-Language"] = language
        pages = Crawl(chief, 40).from_(starts)
        assert_all_are_there(pages)
        found = {
            address: left
            for opened in pages.values()
            for address, page in opened
            if page.answer.headers["content-type"].startswith("text/html")
            and (left := english_in(page))
        }
        chief.open("/desk?lang=en")
    assert not found, "\n".join(f"{address}: {sorted(left)}" for address, left in found.items())


def assert_all_are_there(pages: Mapping[str, Sequence[tuple[str, Page]]]) -> None:
    """Fail unless every page with a route was opened: this test is about all of them."""
    # one comes after an upload, one is for those who change pages
    assert {*routes()} - {*pages} == {"/desk/datasets/{upload}/create", "/desk/components"}


def test_english_is_found(service: Service) -> None:
    """The control: a page in English, a title, and what is only read out."""
    with signed_in(service, ADMIN_KEY) as chief:
        assert english_in(chief.open("/desk?lang=en"))
    for text in ("<p>a list of names</p>", '<p title="one of them">x</p>'):
        answer = httpx.Response(200, text=f"<html><main>{text}</main></html>")
        assert english_in(Page(answer))
    code = httpx.Response(200, text="<html><main><code>a list of names</code> Namen</main></html>")
    assert not english_in(Page(code))


# Refusals

_SPOILT = ("", "quatsch(", "-1")
"""What all text fields of a form have: nothing, no name, number or expression, and too little."""
_CODES = re.compile(r"'[^']*'|\b[a-z_]+(?:, [a-z_]+){3,}")
"""Names of kinds and choices, as programs write them: quoted, or in a long list."""
_MOST_PAGES = 3


def forms_once(pages: Sequence[Page]) -> Iterator[tuple[Page, Sent]]:
    """Yield each form of pages once, with each of its buttons; signing out has none to refuse."""
    seen = set()
    for page in pages:
        for sent in forms_of(page):
            names, last = frozenset(name for name, _ in sent.pairs), (*sent.pairs, None)[-2:]
            form = (page_of(sent), dict(sent.pairs).get("statistic"), names, last)
            if form not in seen and "lang" not in names and not sent.address.endswith("sign-out"):
                seen.add(form)
                yield page, sent


def refused(chief: Browsing, page: Page, sent: Sent) -> Iterator[Page]:
    """Yield the pages that refuse a form whose text fields are spoilt."""
    texts = page.tree.xpath("//textarea | //input[not(@type) or @type='text' or @type='search']")
    names = {each.get("name") for each in texts}
    for spoilt in _SPOILT:
        pairs = [(name, spoilt if name in names else value) for name, value in sent.pairs]
        answer = send(chief, replace(sent, pairs=pairs, files=sent.files if spoilt else []))
        assert answer.status_code < 500, sent.address
        if answer.is_client_error and "html" in answer.headers["content-type"]:
            yield Page(answer)


@pytest.mark.parametrize("language", OTHERS)
def test_no_refusal_has_english(service: Service, starts: Sequence[str], language: str) -> None:
    """Every form of the desk, sent empty and with values that no field takes."""
    found: dict[str, set[str]] = {}
    count = 0
    with signed_in(service, ADMIN_KEY) as chief:
        chief.open(f"/desk?lang={language}")
        chief.client.headers["Accept-Language"] = language
        opened = Crawl(chief, _MOST_PAGES).from_(starts).values()
        pages = [chief.open(each) for each in starts if "/ask?" in each]  # one for each statistic
        pages += [page for several in opened for _, page in several]
        for page, sent in forms_once(pages):
            for shown in refused(chief, page, sent):
                count += 1
                left = {each for each in english_in(shown) if _ENGLISH.search(_CODES.sub("", each))}
                if left:
                    found.setdefault(sent.address, set()).update(left)
        chief.open("/desk?lang=en")
    assert count > 100, "so many forms are refused at least"
    assert not found, "\n".join(f"{address}: {sorted(left)}" for address, left in found.items())
