"""The frame of every page, its style sheet, and the policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from pathlib import Path

from starlette.responses import HTMLResponse, Response

_STYLE = (Path(__file__).parent / "style.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CSP = (
    f"default-src 'none'; img-src 'self'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"
)


def page(title: str, body: str, *, navigation: str = "") -> Response:
    """Return a whole page; ``body`` and ``navigation`` are HTML already."""
    beside = f'<nav aria-label="Documents">{navigation}</nav>' if navigation else ""
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · Release Desk</title><style>{_STYLE}</style></head>"
        '<body><header><a href="/docs">Release Desk</a> · <a href="/docs/reference">Reference</a>'
        ' · <a href="/problems">Problems</a></header>'
        f'<div class="sheet">{beside}<main><h1>{escape(title)}</h1>{body}</main></div>'
        "</body></html>",
        headers={"Content-Security-Policy": _CSP},
    )


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
