"""Markdown to HTML: no HTML of the text's own, anchors as repository viewers make them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

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
