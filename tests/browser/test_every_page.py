"""Every page of the desk and of the public, on a phone and on a screen, in light and in dark.

The pages are those that links lead to from the first one, so a new page is among them
(:mod:`tests.desk.crawling`). Each is looked at with all that is folded open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.furnished import furnish
from tests.browser.visiting import LOOKS, Visits, faults_of, look_like
from tests.contract.service import ADMIN_KEY, Service, ask, settled, upload
from tests.desk.browsing import signed_in
from tests.desk.crawling import Crawl, route_of, routes
from tests.tiers import wide

pytestmark = pytest.mark.slow

FURTHER_LOOKS = tuple(
    {**look, "color_scheme": other["color_scheme"]}
    for look, other in zip(LOOKS, reversed(LOOKS), strict=True)
)
"""The other pairs of a width and a theme."""
_OPEN = "all => all.forEach(one => { one.open = true })"
SEEN = r"""
() => {
  const found = [];
  const say = (what, it) => found.push(`${what}: ${it.outerHTML.slice(0, 140)}`);
  const shown = it => it.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const scrolls = it => {
    for (let up = it; up; up = up.parentElement) {
      if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)) return true;
      if (getComputedStyle(up).clipPath !== 'none') return true; // for screen readers alone
    }
    return false;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const text = walker.currentNode, it = text.parentElement;
    if (!text.data.trim() || !shown(it) || it.closest('script, style, noscript, option')) continue;
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect(), style = getComputedStyle(it);
    if (!box.width || box.right < 0) continue; // off to the left: for screen readers alone
    if (parseFloat(style.fontSize) < 12) say(`text of ${style.fontSize}`, it);
    if (box.right > innerWidth + 1 && !scrolls(it)) say('cut at the edge', it);
  }
  for (const it of document.querySelectorAll('body *')) {
    const style = getComputedStyle(it);
    if (style.overflowX === 'hidden' && style.clipPath === 'none' && shown(it)
        && it.scrollWidth > it.clientWidth + 1) say('cut within', it);
  }
  const pressed = 'a[href], button, input, select, textarea, summary';
  const targets = [...document.querySelectorAll(pressed)]
    .filter(it => shown(it) && it.type !== 'hidden')
    .map(it => [it, (it.closest('label') ?? it).getBoundingClientRect()])
    .filter(([, box]) => box.width && box.right > 0);
  const inline = it => getComputedStyle(it).display === 'inline' && it.tagName === 'A';
  const near = (box, other) => {
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const dx = Math.max(other.left - x, 0, x - other.right);
    const dy = Math.max(other.top - y, 0, y - other.bottom);
    return Math.hypot(dx, dy) < 12;
  };
  for (const [it, box] of targets) {
    if (box.width >= 24 && box.height >= 24) continue;
    const alone = !targets.some(([other, own]) => other !== it && !it.contains(other)
      && (it.closest('label') ?? it) !== (other.closest('label') ?? other) && near(box, own));
    if (!inline(it) && !alone) say(`target of ${box.width} x ${box.height}`, it);
  }
  return found;
}
"""
"""What is too small or cut. A link in a line of text has the height of the line, and a small target
is large enough where no other one is within 12 pixels of its middle (WCAG 2.2, 2.5.8)."""


def answers(service: Service) -> Iterator[str]:
    """Yield releases with a chart and a table of each kind, public ones."""
    columns: Mapping[str, Any] = {
        "wage": {"type": "number", "lower": 0, "upper": 100, "unit_of_measure": "EUR"},
        "arm": {"type": "category", "values": ["the new drug", "placebo"]},
        "ill": {"type": "boolean"},
    }
    rows = "wage,arm,ill\n" + "".join(
        f"{20 + n % 50},{('the new drug', 'placebo')[n % 2]},{str(n % 3 == 0).lower()}\n"
        for n in range(600)
    )
    kinds: Sequence[Mapping[str, Any]] = (
        {"kind": "test", "test": "welch", "columns": ["wage"], "groups": "arm"},
        {"kind": "summary", "columns": ["wage", "ill"], "by": ["arm"], "differences": True},
        {"kind": "tables", "columns": ["arm", "ill"]},
    )
    with service.client() as admin:
        overlap = {"reason": "invented rows"}
        dataset = upload(
            admin, rows, name="Wages", columns=columns, budget={"epsilon": "100"}, overlap=overlap
        )["id"]
        for kind in kinds:
            answer = settled(admin, ask(admin, dataset, kind, epsilon="4")).json()
            public = f"/v1/releases/{answer['id']}/publication"
            admin.post(public, json={"reason": "for all"}, headers={"If-Match": "*"})
            yield f"/desk/releases/{answer['id']}"
            yield f"/public/releases/{answer['id']}"


OTHERS = ("/desk", "/desk/components", "/desk/search?q=income", "/public")


@pytest.fixture(scope="module")
def addresses(service: Service) -> Sequence[str]:
    """Return the addresses of all pages: of each route at least one."""
    desk = furnish(service)
    starts = [*answers(service), *desk.pages.values()]
    with signed_in(service, ADMIN_KEY) as chief:
        pages = Crawl(chief, 5).from_([*starts, *OTHERS])
    assert {*routes()} - {*pages} <= {"/desk/datasets/{upload}/create", "/desk/sign-in"}
    found = [opened[0][0] for opened in pages.values()]
    return list(dict.fromkeys([*starts, *found]))


def looked_at(addresses: Sequence[str], *, whole: bool) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield addresses with their looks: of each route one has both, and the others one in turn."""
    seen: Counter[str | None] = Counter()
    for address in addresses:
        route = route_of(urlsplit(address).path)
        turn = seen[route]
        seen[route] += 1
        if whole:
            yield address, (*LOOKS, *FURTHER_LOOKS)
        else:
            yield address, LOOKS if not turn else (LOOKS[turn % len(LOOKS)],)


@pytest.mark.parametrize("whole", [False, *wide(True)], ids=["each", "further"])
def test_every_page_is_whole_and_large_enough(
    visits: Visits, addresses: Sequence[str], whole: bool
) -> None:
    """Each page is opened once, and then looked at in each of its looks."""
    visits.expected |= {404, 410}
    found: dict[str, list[str]] = {}
    for key, pages in ((ADMIN_KEY, addresses), (None, ["/desk/sign-in"])):
        with visits.window(key) as page:
            for address, looks in looked_at(pages, whole=whole):
                page.goto(address)
                expect(page.get_by_role("heading", level=1)).to_be_visible()
                page.locator("details").evaluate_all(_OPEN)
                for look in looks:
                    look_like(page, look)
                    if faults := [*faults_of(page), *page.evaluate(SEEN)]:
                        found[f"{address} {look}"] = faults
    assert not found


def test_what_is_cut_or_too_small_is_found(visits: Visits) -> None:
    """The control: text and targets that are too small, and text that is cut."""
    with visits.window(viewport=LOOKS[0]["viewport"]) as page:
        seen = small_page(page)
    for what in ("text of 9px", "cut at the edge", "cut within", "target of"):
        assert any(each.startswith(what) for each in seen), what


def small_page(page: Page) -> list[str]:
    page.set_content(
        "<html lang=en><title>A page</title><main><h1>A page</h1>"
        "<p style='font-size: 9px'>small</p>"
        "<p style='position: absolute; left: 300px; white-space: nowrap'>beyond the right edge</p>"
        "<p style='width: 40px; overflow: hidden; white-space: nowrap'>cut in its own box</p>"
        "<style>button { width: 15px; height: 15px; padding: 0 }</style>"
        "<div style='display: flex'><button>a</button>"
        "<button>b</button></div></main></html>"
    )
    return [str(each) for each in page.evaluate(SEEN)]
