"""The frame of every page, its style sheet, and the policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

_NAME = "Release Desk"
_STYLE = (Path(__file__).parent / "style.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CSP = (
    f"default-src 'none'; img-src 'self'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"
)


def page(title: str, body: str, *, navigation: str = "", query: str = "") -> Response:
    """Return a whole page; ``body`` and ``navigation`` are HTML already.

    ``query`` is what was searched for, shown in the form above the navigation.
    """
    sidebar = (
        f'<nav aria-label="Documents">{_search_form(query)}{navigation}</nav>' if navigation else ""
    )
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}{'' if title == _NAME else f' · {_NAME}'}</title>"
        f'<link rel="icon" href="/favicon.ico"><style>{_STYLE}</style></head>'
        f'<body><header><a href="/">{_NAME}</a> · <a href="/docs">Documentation</a>'
        ' · <a href="/docs/reference">API reference</a> · <a href="/problems">Error reference</a>'
        ' · <a href="/public">Public releases</a> · <a href="/client">Clients</a>'
        ' · <a href="/desk">Desk</a></header>'
        f'<div class="sheet">{sidebar}<main><h1>{escape(title)}</h1>{body}</main></div>'
        "</body></html>",
        headers={"Content-Security-Policy": _CSP},
    )


def wants_json(request: Request) -> bool:
    """Return whether a request of a page is a program's, which asks for JSON."""
    accept = request.headers.get("accept", "")
    return "json" in accept and "text/html" not in accept


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, or nothing without rows; cells are HTML already."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>" if body else ""


def paragraphs(text: str) -> str:
    """Return text whose paragraphs are parted by empty lines."""
    return "".join(f"<p>{inline(part)}</p>" for part in text.strip().split("\n\n") if part)


def inline(text: str) -> str:
    """Return escaped text with `quoted` words as code."""
    pieces = escape(text, quote=False).split("`")
    return "".join(
        f"<code>{piece}</code>" if position % 2 else piece for position, piece in enumerate(pieces)
    )


def _search_form(query: str) -> str:
    return (
        '<form role="search" action="/docs/search"><label>Search the documentation '
        f'<input type="search" name="q" maxlength="200" value="{escape(query)}"></label> '
        "<button>Search</button></form>"
    )
