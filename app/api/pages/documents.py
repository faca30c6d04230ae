"""The documents at ``/docs``: the Markdown files of the project's ``docs``, which are read once.

The folder is the list of pages: ``docs/a/b.md`` is ``/docs/a/b``, and a folder's
``README.md`` is the folder's own page. The order of the navigation is that of
the links in ``docs/README.md``; a folder's pages follow its own, by title.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from app.api.pages.layout import page
from app.api.pages.markdown import links, parse, render
from app.domain.problems import Problem

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).resolve().parents[3] / "docs"
"""Beside ``app``, in a checkout and where a wheel is installed."""

_INDEX = "README.md"


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
        """Return the folder it lies in."""
        return posixpath.dirname(self.path)


@cache
def library() -> Mapping[str, Page]:
    """Return every page by its path below ``docs``."""
    paths = sorted(FOLDER.rglob("*.md"))
    texts = {path.relative_to(FOLDER).as_posix(): path.read_text("utf-8") for path in paths}
    return {path: Page(path, _title(text), text) for path, text in texts.items()}


@cache
def images() -> Mapping[str, Path]:
    """Return every picture by its path below ``docs``."""
    pictures = (*FOLDER.glob("images/*.png"), *FOLDER.glob("images/studies/*.svg"))
    return {path.relative_to(FOLDER).as_posix(): path for path in pictures}


@cache
def tables() -> Mapping[str, Path]:
    """Return every table of figures by its path below ``docs``."""
    return {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.glob("studies/*.csv")}


@router.get("/")
def get_root(request: Request) -> Response:
    """Lead a person to the documents, and a program to the document that it can read."""
    person = "text/html" in request.headers.get("accept", "")
    return RedirectResponse("/docs" if person else "/openapi.json", headers={"Vary": "Accept"})


@router.get("/docs")
def get_documents() -> Response:
    """Show the index, which says what there is to read."""
    return _show("/docs")


@router.get("/docs/images/{picture:path}")
def get_image(picture: str) -> Response:
    """Show a picture of the documents; the name is looked up and is never part of a path."""
    found = images().get(f"images/{picture}")
    if found is None:
        raise Problem("not-found")
    return FileResponse(found, headers={"Cache-Control": "public, max-age=3600"})


@router.get("/docs/studies/{table}.csv")
def get_table(table: str) -> Response:
    """Show a table of figures; the name is looked up and is never part of a path."""
    found = tables().get(f"studies/{table}.csv")
    if found is None:
        raise Problem("not-found")
    return FileResponse(found, media_type="text/csv; charset=utf-8")


@router.get("/docs/{name:path}")
def get_document(name: str) -> Response:
    """Show one document."""
    return _show(f"/docs/{name}")


def _show(address: str) -> Response:
    """Show the page at an address; the address is looked up and is never part of a path."""
    found = {each.address: each for each in library().values()}.get(address)
    if found is None:
        raise Problem("not-found")
    return page(found.title, _body(found.path), navigation=_navigation(found.path))


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
    if path in images() or path in tables():
        return f"/docs/{path}"
    return f"{_address(path)}{mark}{anchor}" if path in library() else None


def _address(path: str) -> str:
    name = path.removesuffix(".md")
    if posixpath.basename(path) == _INDEX:
        name = posixpath.dirname(path)
    return f"/docs/{name}".rstrip("/")


def _title(text: str) -> str:
    first = next(line for line in text.splitlines() if line.startswith("# "))
    return first.removeprefix("# ").replace("`", "")


@cache
def _navigation(current: str) -> str:
    pages = library()
    parts = []
    for path in _ordered():
        parts.append(_item(pages[path], path == current))
        folder = pages[path].folder
        if folder and folder == pages[current].folder:
            inside = (each for each in pages.values() if each.folder == folder)
            rest = sorted((each for each in inside if each.path != path), key=lambda it: it.title)
            items = "".join(_item(each, each.path == current) for each in rest)
            parts[-1] = parts[-1].replace("</li>", f"<ul>{items}</ul></li>")
    return f"<ul>{''.join(parts)}</ul>"


def _item(target: Page, here: bool) -> str:
    mark = ' aria-current="page"' if here else ""
    return f'<li><a href="{escape(target.address)}"{mark}>{escape(target.title)}</a></li>'


def _ordered() -> Iterator[str]:
    """Yield the index, the pages that it names in its order, and those it has forgotten."""
    pages = library()
    named = [target for _, target in links(parse(pages[_INDEX].text)) if target in pages]
    top = [
        path for path, each in pages.items() if not each.folder or path == f"{each.folder}/{_INDEX}"
    ]
    yield from dict.fromkeys([_INDEX, *(path for path in named if path in top), *top])
