"""Every page there is: found from the first one by its links, and counted by the routes.

A page that is added has a route, and so is asked for without being named anywhere: a route that no
page leads to is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.routing import Match

from app.desk.pages import ROUTERS
from tests.desk.browsing import Browsing, Page

_FILES = (".json", ".csv", ".svg", ".md", ".tex", ".docx", "/file", "/script", "{ending}", "{name}")
_ABROAD = ("/desk/sign-in/{provider}", "/desk/sign-in/{provider}/callback", "/desk/{rest:path}")
"""Those lead to another service, or are of no page."""
_PARTS = ("/desk/readings",)
"""What script asks for: a part of a page, and never shown alone."""


def routes() -> list[str]:
    """Return the patterns of the addresses of all pages."""
    found = {
        route.path
        for router in ROUTERS
        for route in router.routes
        if "GET" in route.methods  # type: ignore[attr-defined]
    }
    return sorted(each for each in found - {*_ABROAD, *_PARTS} if not each.endswith(_FILES))


def route_of(path: str) -> str | None:
    """Return the pattern of an address, or None if it is of no page."""
    scope = {"type": "http", "path": path, "root_path": "", "method": "GET"}
    for router in ROUTERS:
        for route in router.routes:
            if route.matches(scope)[0] is Match.FULL:
                return str(route.path)  # type: ignore[attr-defined]
    return None


@dataclass
class Crawl:
    """What the pages are that someone comes to: by route, each once."""

    browsing: Browsing
    most: int
    """Pages of one route that are opened."""
    pages: dict[str, list[tuple[str, Page]]] = field(default_factory=dict)

    def from_(self, starts: Iterable[str]) -> Mapping[str, list[tuple[str, Page]]]:
        """Open pages, and those that they lead to."""
        known = set(routes())
        waiting, seen = deque(starts), set[str]()
        while waiting:
            address = waiting.popleft()
            route = route_of(urlsplit(address).path)
            if address in seen or route not in known:
                continue
            seen.add(address)
            if len(self.pages.setdefault(route, [])) >= self.most:
                continue
            answer = self.browsing.client.get(address)
            if answer.status_code in (200, 404, 410):
                page = Page(answer)
                self.pages[route].append((address, page))
                waiting.extend(_links(page))
        return {route: found for route, found in self.pages.items() if found}


def _links(page: Page) -> Iterator[str]:
    for link in page.tree.xpath("//a[@href]"):
        parts = urlsplit(link.get("href"))
        if not parts.netloc and "lang=" not in parts.query and link.get("download") is None:
            yield f"{parts.path}?{parts.query}" if parts.query else parts.path
