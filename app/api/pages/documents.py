"""The documents at ``/docs``: the Markdown files of the project's ``docs``, which are read once.

The folder is the list of pages: ``docs/a/b.md`` is ``/docs/a/b``, and a folder's
``README.md`` is the folder's own page. The folders of :data:`SHELVES` sort pages by the
reader's need. An address leaves them out, so it stays when a page moves to another of
them. The navigation has the folders and pages in the order of the links in
``docs/README.md``; the pages below another page, such as those of ``/docs/statistics``,
follow it by title.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from app.api.pages.layout import page
from app.api.pages.markdown import links, parse, render
from app.api.pages.search import MOST_CHARACTERS, Section, excerpt, found, sections
from app.domain.problems import Problem
from app.web.anonymous import KeptRoute

router = APIRouter(include_in_schema=False, route_class=KeptRoute)

FOLDER = Path(__file__).resolve().parents[3] / "docs"
"""Next to ``app``, in a checkout and where a wheel is installed."""

SHELVES = ("tutorials", "how-to", "reference", "explanation", "operations", "research")
"""Folders that are in no address: ``docs/how-to/desk.md`` is ``/docs/desk``."""

_INDEX = "README.md"
_ICON = FOLDER.parent / "app" / "desk" / "static" / "icon.svg"


@dataclass(frozen=True, slots=True)
class Page:
    """A file below ``docs``, by its path there."""

    path: str
    title: str
    text: str

    @property
    def address(self) -> str:
        """Return where the service shows it."""
        return _address(self.path)

    @property
    def folder(self) -> str:
        """Return the folder of its file below ``docs``."""
        return posixpath.dirname(self.path)

    @property
    def above(self) -> str:
        """Return the page that its address is below: ``/docs/statistics`` of a statistic's."""
        return posixpath.dirname(self.address) if self.address != "/docs" else ""


@cache
def library() -> Mapping[str, Page]:
    """Return every page by its path below ``docs``."""
    paths = sorted(FOLDER.rglob("*.md"))
    texts = {path.relative_to(FOLDER).as_posix(): path.read_text("utf-8") for path in paths}
    return {path: Page(path, _title(text), text) for path, text in texts.items()}


@cache
def images() -> Mapping[str, Path]:
    """Return every picture by its address below ``/docs/``."""
    return _files("images/*.png", "research/images/studies/*.svg")


@cache
def tables() -> Mapping[str, Path]:
    """Return every table of figures by its address below ``/docs/``."""
    return _files("research/studies/*.csv")


def _files(*patterns: str) -> dict[str, Path]:
    paths = (path for pattern in patterns for path in FOLDER.glob(pattern))
    return {_place(path.relative_to(FOLDER).as_posix()): path for path in paths}


_HOME = """<p>This service releases statistics about people without revealing data about any one
of them. Each release is charged to the privacy budget of its data set.</p>
<dl class="home">
<dt><a href="/desk">The desk</a></dt>
<dd>Upload data sets, set budgets, ask questions, review and publish. Sign in with a key.</dd>
<dt><a href="/public">Public releases</a></dt>
<dd>Published statistics, with citations and downloads. No key needed.</dd>
<dt><a href="/docs">Documentation</a></dt>
<dd>Start with the <a href="/docs/quickstart">quickstart</a>; the
<a href="/docs/reference">API reference</a> lists every endpoint.</dd>
</dl>"""


@router.get("/")
def get_root(request: Request) -> Response:
    """Show a person where to go, and redirect a program to the OpenAPI document."""
    if "text/html" not in request.headers.get("accept", ""):
        return RedirectResponse("/openapi.json", headers={"Vary": "Accept"})
    response = page("Release Desk", _HOME)
    response.headers["Vary"] = "Accept"
    return response


@router.get("/favicon.ico")
def get_icon() -> Response:
    """Send the icon for browsers, which ask for it under this name."""
    headers = {"Cache-Control": "public, max-age=86400"}
    return FileResponse(_ICON, media_type="image/svg+xml", headers=headers)


@router.get("/docs")
def get_documents() -> Response:
    """Show the index, which says what there is to read."""
    return _show("/docs")


@router.get("/docs/search")
def get_search(q: str = "") -> Response:
    """Show the sections of the documents that hold every word of a query."""
    query = q.strip()[:MOST_CHARACTERS]
    hits = found(query, _sections())
    if hits:
        items = "".join(
            f'<li><a href="{escape(hit.address)}">{escape(hit.heading)}</a>'
            f"{'' if hit.heading == hit.page else f' · {escape(hit.page)}'}"
            f"<p>{excerpt(query, hit.text)}</p></li>"
            for hit in hits
        )
        body = f'<ol class="found">{items}</ol>'
    elif query:
        body = (
            f"<p>No section holds all of these words: <q>{escape(query)}</q>. Try fewer words, or "
            'see <a href="/docs">all pages</a>.</p>'
        )
    else:
        body = "<p>Enter one or more words.</p>"
    return page("Search", body, navigation=_navigation(_INDEX), query=query)


@router.get("/docs/images/{picture:path}")
def get_image(picture: str) -> Response:
    """Show a picture of the documents; the name is looked up and is never part of a path."""
    path = images().get(f"images/{picture}")
    if path is None:
        raise Problem("not-found")
    return FileResponse(path, headers={"Cache-Control": "public, max-age=3600"})


@router.get("/docs/studies/{table}.csv")
def get_table(table: str) -> Response:
    """Show a table of figures; the name is looked up and is never part of a path."""
    path = tables().get(f"studies/{table}.csv")
    if path is None:
        raise Problem("not-found")
    return FileResponse(path, media_type="text/csv; charset=utf-8")


@router.get("/docs/{name:path}")
def get_document(name: str) -> Response:
    """Show one document."""
    return _show(f"/docs/{name}")


def _show(address: str) -> Response:
    """Show the page at an address; the address is looked up and is never part of a path."""
    shown = {each.address: each for each in library().values()}.get(address)
    if shown is None:
        raise Problem("not-found")
    return page(shown.title, _body(shown.path), navigation=_navigation(shown.path))


@cache
def _sections() -> Sequence[Section]:
    pages = library()
    return [
        section
        for path in _ordered_with_folders()
        for section in sections(pages[path].text, pages[path].address)
    ]


def _ordered_with_folders() -> list[str]:
    first = list(_ordered())
    return [*first, *(path for path in library() if path not in first)]


@cache
def _body(path: str) -> str:
    return render(
        parse(library()[path].text), address=lambda target: lead(target, library()[path].folder)
    )


def lead(target: str, folder: str) -> str | None:
    """Return where a link in a page of ``folder`` leads: None if this service does not show it."""
    if target.startswith(("#", "https://", "http://")):
        return target
    name, mark, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(folder, name))
    if path in library():
        return f"{_address(path)}{mark}{anchor}"
    place = _place(path)
    return f"/docs/{place}" if place in images() or place in tables() else None


def _address(path: str) -> str:
    name = path.removesuffix(".md")
    if posixpath.basename(path) == _INDEX:
        name = posixpath.dirname(path)
    return f"/docs/{_place(name)}".rstrip("/")


def _place(path: str) -> str:
    """Return a path below ``docs`` without its shelf."""
    shelf, _, rest = path.partition("/")
    return rest if rest and shelf in SHELVES else path


def _title(text: str) -> str:
    first = next(line for line in text.splitlines() if line.startswith("# "))
    return first.removeprefix("# ").replace("`", "")


@cache
def _navigation(current: str) -> str:
    """Return the pages by folder; those below another page only there and on their own."""
    parts = []
    for folder, paths in groupby(_ordered(), key=_top_folder):
        items = "".join(_entry(library()[path], library()[current]) for path in paths)
        parts.append(f"<li>{folder.capitalize()}<ul>{items}</ul></li>" if folder else items)
    return f"<ul>{''.join(parts)}</ul>"


def _top_folder(path: str) -> str:
    folder, _, name = path.partition("/")
    return folder if name else ""


def _entry(target: Page, current: Page) -> str:
    """Return a page in the navigation, with the pages below it if one of them is shown, or it."""
    inside = ""
    if target.path != _INDEX and target.address in (current.address, current.above):
        below = (each for each in library().values() if each.above == target.address)
        ordered = sorted(below, key=lambda each: each.title)
        inside = "".join(f"<li>{_link(each, current)}</li>" for each in ordered)
    return f"<li>{_link(target, current)}{f'<ul>{inside}</ul>' if inside else ''}</li>"


def _link(target: Page, current: Page) -> str:
    mark = ' aria-current="page"' if target == current else ""
    return f'<a href="{escape(target.address)}"{mark}>{escape(target.title)}</a>'


def _ordered() -> Iterator[str]:
    """Yield the index, the pages that it names in its order, and those it has forgotten."""
    pages = library()
    named = [target for _, target in links(parse(pages[_INDEX].text)) if target in pages]
    top = [path for path, each in pages.items() if each.above in ("", "/docs")]
    yield from dict.fromkeys([_INDEX, *(path for path in named if path in top), *top])
