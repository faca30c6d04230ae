"""Pages for people: ``/docs`` and ``/problems``, without a script and without another host.

The reference is rendered from the same OpenAPI document that programs read.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from app.domain.problems import PROBLEMS, Problem, ProblemKind

router = APIRouter(include_in_schema=False)

_STYLE = (Path(__file__).parent.parent / "pages" / "style.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CSP = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"


@router.get("/docs")
def get_docs(request: Request) -> Response:
    """Show the reference."""
    return _page("Reference", _reference(json.dumps(request.app.openapi())))


@router.get("/problems")
def list_problems() -> Response:
    """Show every kind of refusal."""
    rows = (
        (f'<a href="/problems/{kind.code}">{kind.code}</a>', str(kind.status), escape(kind.title))
        for kind in PROBLEMS.values()
    )
    return _page("Problems", _table(("Code", "Status", "Title"), rows))


@router.get("/problems/{code}")
def get_problem(request: Request, code: str) -> Response:
    """Show one kind of refusal: a page, or JSON for a client that asks for it."""
    kind = PROBLEMS.get(code)
    if kind is None:
        raise Problem("not-found")
    if _wants_json(request):
        return JSONResponse(_kind_json(kind))
    return _page(kind.title, _kind_html(kind))


def _wants_json(request: Request) -> bool:
    accept = request.headers.get("accept", "")
    return "json" in accept and "text/html" not in accept


def _kind_json(kind: ProblemKind) -> dict[str, object]:
    return {
        "type": f"/problems/{kind.code}",
        "code": kind.code,
        "title": kind.title,
        "status": kind.status,
        "meaning": kind.meaning,
        "remedy": kind.remedy,
        "extras": dict(kind.extras),
    }


def _kind_html(kind: ProblemKind) -> str:
    extras = ((f"<code>{name}</code>", escape(what)) for name, what in kind.extras.items())
    return (
        f"<p><code>{kind.code}</code>, HTTP status {kind.status}</p>"
        f"<h2>What it means</h2><p>{escape(kind.meaning)}</p>"
        f"<h2>What to do</h2><p>{escape(kind.remedy)}</p>"
        + (f"<h2>Members</h2>{_table(('Member', 'Meaning'), extras)}" if kind.extras else "")
        + '<p><a href="/problems">All problems</a></p>'
    )


@cache
def _reference(document: str) -> str:
    """Return the body of the reference page."""
    described = json.loads(document)
    parts = [_paragraphs(described["info"]["description"])]
    tagged: dict[str, list[str]] = {}
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            for tag in operation.get("tags", ["other"]):
                tagged.setdefault(tag, []).append(_operation(method, path, operation))
    for tag, sections in tagged.items():
        parts.append(f"<h2>{escape(tag.capitalize())}</h2>{''.join(sections)}")
    parts.append("<h2>Bodies</h2>")
    parts += [_schema(name, schema) for name, schema in described["components"]["schemas"].items()]
    return "".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parameters = (
        (
            f"<code>{escape(each['name'])}</code>",
            escape(each["in"]),
            escape(each.get("description", "")),
        )
        for each in operation.get("parameters", ())
    )
    answers = (
        (escape(status), _inline(_told(answer)), _links(answer))
        for status, answer in sorted(operation["responses"].items())
    )
    return (
        f'<section id="{escape(operation["operationId"])}">'
        f"<h3><code>{method.upper()} {escape(path)}</code></h3>"
        f"{_paragraphs(operation.get('description', ''))}"
        + (_table(("Parameter", "In", ""), parameters) if operation.get("parameters") else "")
        + (f"<p>Body: {_links(operation['requestBody'])}</p>" if "requestBody" in operation else "")
        + f"{_table(('Answer', '', 'Body'), answers)}</section>"
    )


def _told(answer: Mapping[str, Any]) -> str:
    """Return what is said of an answer, and which headers it carries."""
    carried = ", ".join(f"`{name}`" for name in answer.get("headers", ()))
    return str(answer.get("description", "")) + (f" (with {carried})" if carried else "")


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = (
        (
            f"<code>{escape(field)}</code>{'' if field in required else ' (optional)'}",
            _type(part),
            _inline(part.get("description", "")),
        )
        for field, part in schema.get("properties", {}).items()
    )
    return (
        f'<section id="schema-{escape(name)}"><h3><code>{escape(name)}</code></h3>'
        f"{_paragraphs(schema.get('description', '').split(chr(10) + chr(10))[0])}"
        f"{_table(('Field', 'Type', ''), rows)}</section>"
    )


def _type(part: Mapping[str, Any]) -> str:
    """Return a schema's type in a few words, with links to named schemas."""
    if "$ref" in part:
        return _link(part["$ref"])
    for name in ("anyOf", "oneOf"):
        if name in part:
            return " or ".join(dict.fromkeys(map(_type, part[name])))
    if "const" in part:
        return f"<code>{escape(json.dumps(part['const']))}</code>"
    if "enum" in part:
        return ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in part["enum"])
    kind = escape(str(part.get("type", "any")))
    return f"{kind} of {_type(part['items'])}" if isinstance(part.get("items"), dict) else kind


def _links(part: Mapping[str, Any]) -> str:
    schemas = (content.get("schema", {}) for content in part.get("content", {}).values())
    return ", ".join(_type(schema) for schema in schemas if schema)


def _link(reference: str) -> str:
    name = escape(reference.rsplit("/", 1)[-1])
    return f'<a href="#schema-{name}">{name}</a>'


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; cells are HTML already."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>" if body else ""


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in text.strip().split("\n\n") if part)


def _inline(text: str) -> str:
    """Return escaped text with `quoted` words as code."""
    pieces = escape(text, quote=False).split("`")
    return "".join(
        f"<code>{piece}</code>" if position % 2 else piece for position, piece in enumerate(pieces)
    )


def _page(title: str, body: str) -> Response:
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · Release Desk</title><style>{_STYLE}</style></head>"
        f'<body><header><a href="/docs">Release Desk</a></header><main><h1>{escape(title)}</h1>'
        f"{body}</main></body></html>",
        headers={"Content-Security-Policy": _CSP},
    )
