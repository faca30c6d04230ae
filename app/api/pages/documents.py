"""The documents at ``/docs``: the Markdown files of the project's ``docs``, which are read once.

The folder is the list of pages: ``docs/a/b.md`` is ``/docs/a/b``, and a folder's
``README.md`` is the folder's own page. The folders of :data:`SHELVES` sort pages by the
reader's need. An address leaves them out, so it stays when a page moves to another of
them. The navigation has the folders and pages in the order of the links in
``docs/README.md``; the pages below another page, such as those of ``/docs/statistics``,
follow it by title.

*Search in the documents: the sections that hold every word of a query, the best first.* A page is
split at its headings. A word counts most in a heading, then in the page's title, then in the text,
where a section of few words counts more than a long one with the same matches. Documents are
public, so a query says nothing about data; it is shown again, escaped, and not stored.

*The packages of the clients, to install them from the service: without a key.* An address with a
digest answers with the same bytes for ever, or not at all. One without serves the package of this
version, for documents and for people.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby, pairwise
from math import log
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from markdown_it import MarkdownIt
from markdown_it.token import Token
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from app.api.dependencies import State
from app.api.pages.layout import page, wants_json
from app.domain.problems import Problem
from app.services.scripts import ClientPackage, client_packages
from app.web.anonymous import KeptRoute, base_of, public_answer

# Markdown to HTML: no HTML of the text's own, anchors as repository viewers make them

_OWN_PAGE = re.compile(r"/(?:docs/reference(?:#[\w-]+)?|problems(?:/[a-z-]+)?)")
"""Addresses of pages that are no files: a text names them as code, and here they are links."""

_COMMENT = re.compile(r"\s*<!--.*?-->\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Document:
    """A page's title, and its other blocks; ``anchors`` are its headings' in order."""

    title: str
    tokens: tuple[Token, ...]
    anchors: tuple[str, ...]


def parse(text: str) -> Document:
    """Return a document; its first line must be its one heading of the first level."""
    tokens = _parser().parse(text)
    anchors: list[str] = []
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            anchors.append(anchor_of(_plain(content), anchors))
            opening.attrSet("id", anchors[-1])
        elif opening.type in {"th_open", "td_open"}:
            opening.attrs.pop("style", None)  # which the pages' policy would not let through
    first = next(
        at for at, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h1"
    )
    kept = (*tokens[:first], *tokens[first + 3 :])
    return Document(_plain(tokens[first + 1]), kept, tuple(anchors))


def render(document: Document, *, address: Callable[[str], str | None]) -> str:
    """Return HTML; ``address`` says where a link of the text leads here, None for nowhere.

    The document is used up: its links are changed in place.
    """
    for token in document.tokens:
        for each in token.children or ():
            if each.type == "link_open":
                _lead(each, address(str(each.attrs["href"])))
            elif each.type == "image":
                each.attrs["src"] = address(str(each.attrs["src"])) or ""
    parser = _parser()
    return str(parser.renderer.render(document.tokens, parser.options, {}))


def links(document: Document) -> list[tuple[str, str]]:
    """Return every link as its text and its target, in order."""
    found: list[tuple[str, str]] = []
    for token in document.tokens:
        children = token.children or []
        for at, each in enumerate(children):
            if each.type == "link_open":
                found.append((children[at + 1].content, str(each.attrs["href"])))
    return found


def _lead(link: Token, target: str | None) -> None:
    """Change where a link leads; one that leads nowhere stays as its text."""
    if target is None:
        link.attrs.pop("href")
    else:
        link.attrs["href"] = target


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    # Parsed as HTML, so that comments for the tests can be left out; none of it is let through.
    parser.add_render_rule("html_block", _own_html)
    parser.add_render_rule("html_inline", _own_html)
    parser.add_render_rule("code_inline", _code)
    parser.add_render_rule("fence", _listing)
    return parser


def _own_html(renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    del renderer
    return escape(_COMMENT.sub("", tokens[at].content))


def _code(renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    del renderer
    text = escape(tokens[at].content)
    code = f"<code>{text}</code>"
    return f'<a href="{text}">{code}</a>' if _OWN_PAGE.fullmatch(text) else code


def _listing(renderer: Any, *arguments: Any) -> str:
    """Return a listing that the keyboard reaches: a wide one is scrolled."""
    return str(renderer.fence(*arguments)).replace("<pre>", '<pre tabindex="0">', 1)


def _plain(content: Token) -> str:
    return "".join(
        each.content for each in content.children or () if each.type in {"text", "code_inline"}
    )


def anchor_of(heading: str, taken: Sequence[str]) -> str:
    """Return the anchor that repository viewers give a heading."""
    base = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    repeats = 0
    while (anchor := f"{base}-{repeats}" if repeats else base) in taken:
        repeats += 1
    return anchor


# Search in the documents: the sections that hold every word of a query, the best first

MOST_FOUND = 20
MOST_CHARACTERS = 200
_AROUND = 90
"""Characters of text shown on each side of the first match."""
_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r"#{1,6} +(.*)")
_ANY_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_PLAIN = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[`*]{1,3}")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with the text below it, up to the next heading; the first has the page's title."""

    page: str
    heading: str
    address: str
    text: str


def sections(text: str, address: str) -> Iterator[Section]:
    """Yield the sections of a page's Markdown, which is shown at an address."""
    title, heading, anchor = "", "", ""
    lines, anchors, in_listing = list[str](), list[str](), False
    for line in _ANY_COMMENT.sub("", text).splitlines():
        in_listing ^= line.startswith("```")
        found = None if in_listing else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        if title:
            yield Section(title, heading, address + anchor, _words_alone(lines))
        heading = _PLAIN.sub(r"\1", found[1])
        anchors.append(anchor_of(heading, anchors))
        anchor = f"#{anchors[-1]}" if title else ""
        title, lines = title or heading, []
    yield Section(title, heading, address + anchor, _words_alone(lines))


def _words_alone(lines: Sequence[str]) -> str:
    """Return text without the marks of links, code and tables."""
    return " ".join(_PLAIN.sub(r"\1", " ".join(lines)).replace("|", " ").split())


def found(query: str, within: Sequence[Section]) -> list[Section]:
    """Return the sections that hold every word of a query, at most :data:`MOST_FOUND`."""
    words = _words(query[:MOST_CHARACTERS])
    if not words:
        return []
    ranked = [(_score(words, each), at) for at, each in enumerate(within)]
    ranked = sorted((pair for pair in ranked if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))
    return [within[at] for _, at in ranked[:MOST_FOUND]]


def excerpt(query: str, text: str) -> str:
    """Return the text around the first word of a query, as HTML with the words marked."""
    words = _words(query[:MOST_CHARACTERS])
    matches = [text.lower().find(word) for word in words]
    first = min((at for at in matches if at >= 0), default=0)
    start, end = max(first - _AROUND, 0), first + 2 * _AROUND
    cut = f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    if not pattern:
        return escape(cut)
    pieces = re.split(f"({pattern})", cut, flags=re.IGNORECASE)
    return "".join(
        f"<mark>{escape(piece)}</mark>" if place % 2 else escape(piece)
        for place, piece in enumerate(pieces)
    )


def _words(query: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(query.lower())))


@cache
def _small(section: Section) -> tuple[str, str, str, int]:
    """Return a section's names and text in small letters, and how many words its text has."""
    text = section.text.lower()
    return section.page.lower(), section.heading.lower(), text, len(text.split())


def _score(words: Sequence[str], section: Section) -> float:
    page, heading, text, length = _small(section)
    total = 0.0
    for word in words:
        score = 8.0 * (word in heading) + 2 * (word in page)
        score += log(1 + 100 * text.count(word) / (40 + length))
        if not score:
            return 0.0
        total += score
    return total


# The documents at ``/docs``: the Markdown files of the project's ``docs``, which are read once

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


def documents_with(query: str) -> Sequence[tuple[str, str]]:
    """Return the heading and the address of each section that holds every word of a query."""
    hits = found(query, _sections())
    return [(" · ".join(dict.fromkeys((each.heading, each.page))), each.address) for each in hits]


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


# The packages of the clients, to install them from the service: without a key

_TITLES = {"python": "Python", "r": "R"}
_IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/client")
def list_client_packages(request: Request, state: State) -> Response:
    """Show how to install each client: a page, or JSON for a program that asks for it."""
    base = base_of(request, state.settings.public_url)
    packages = client_packages().values()
    if wants_json(request):
        body = json.dumps({"packages": [_package_json(each, base) for each in packages]})
        return public_answer(body.encode(), "application/json")
    intro = (
        "<p>Install a client from this service. No package index has these packages: a package of"
        " the same name from anywhere else is not ours.</p>"
    )
    return page("Clients", intro + "".join(_package_html(each, base) for each in packages))


@router.get("/client/{package}")
def get_client_package(package: str) -> Response:
    """Send the package of this version."""
    found = _named(package)
    return public_answer(found.content, found.media_type)


@router.get("/client/{digest}/{package}")
def get_immutable_client_package(digest: str, package: str) -> Response:
    """Send the package whose SHA-256 the address names."""
    found = _named(package)
    if found.digest != digest:
        raise Problem("not-found")
    return public_answer(found.content, found.media_type, headers=_IMMUTABLE)


def _named(name: str) -> ClientPackage:
    for found in client_packages().values():
        if found.name == name:
            return found
    raise Problem("not-found")


def _package_json(package: ClientPackage, base: str) -> dict[str, object]:
    return {
        "language": package.language,
        "name": package.name,
        "version": package.version,
        "address": package.address(base),
        "sha256": package.digest,
        "bytes": len(package.content),
        "install": list(package.install(base)),
    }


def _package_html(package: ClientPackage, base: str) -> str:
    commands = escape("\n".join(package.install(base)))
    where = "In R" if package.language == "r" else "In a shell"
    return (
        f"<h2>{_TITLES[package.language]}</h2><p>{where}:</p><pre><code>{commands}</code></pre>"
        f'<p>File: <a href="{escape(package.address(""))}">{package.name}</a>,'
        f" {len(package.content)} bytes, SHA-256 <code>{package.digest}</code></p>"
    )
