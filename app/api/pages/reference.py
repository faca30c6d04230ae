"""The reference at ``/docs/reference``, from the same OpenAPI document that programs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.api.pages.layout import inline, page, paragraphs, table, wants_json
from app.domain.problem_kinds import ProblemKind
from app.domain.problems import PROBLEMS, Problem
from app.web.anonymous import KeptRoute

# The pages that explain refusals, at the address that each problem names as its type

router = APIRouter(include_in_schema=False, route_class=KeptRoute)


@router.get("/problems")
def list_problems() -> Response:
    """Show every kind of refusal."""
    rows = (
        (f'<a href="/problems/{kind.code}">{kind.code}</a>', str(kind.status), escape(kind.title))
        for kind in PROBLEMS.values()
    )
    return page("Problems", table(("Code", "Status", "Title"), rows))


@router.get("/problems/{code}")
def get_problem(request: Request, code: str) -> Response:
    """Show one kind of refusal: a page, or JSON for a client that asks for it."""
    kind = PROBLEMS.get(code)
    if kind is None:
        raise Problem("not-found")
    if wants_json(request):
        return JSONResponse(_kind_json(kind))
    return page(kind.title, _kind_html(kind))


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
        + (f"<h2>Members</h2>{table(('Member', 'Meaning'), extras)}" if kind.extras else "")
        + '<p><a href="/problems">All problems</a></p>'
    )


# The reference at ``/docs/reference``, from the same OpenAPI document that programs read


@router.get("/docs/reference")
def get_reference(request: Request) -> Response:
    """Show every operation and every body."""
    return page("Reference", _reference(request.app.state.openapi_text()))


@cache
def _reference(document: str) -> str:
    """Return the body of the reference page."""
    described = json.loads(document)
    parts = [paragraphs(described["info"]["description"])]
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
            _name(each["name"], required=each.get("required", False)),
            escape(each["in"]),
            _default(each["schema"]),
            inline(each["description"]) + _example(each["schema"]),
        )
        for each in operation.get("parameters", ())
    )
    answers = (
        (escape(status), inline(_told(answer)), _links(answer))
        for status, answer in sorted(operation["responses"].items())
    )
    return (
        f'<section id="{escape(operation["operationId"])}">'
        f"<h3><code>{method.upper()} {escape(path)}</code></h3>"
        f"{paragraphs(operation.get('description', ''))}"
        + table(("Parameter", "In", "Default", "Meaning"), parameters)
        + (_body(operation["requestBody"]) if "requestBody" in operation else "")
        + f"{table(('Answer', '', 'Body'), answers)}</section>"
    )


def _told(answer: Mapping[str, Any]) -> str:
    """Return what is said of an answer, and which headers it carries."""
    carried = ", ".join(f"`{name}`" for name in answer.get("headers", ()))
    return str(answer.get("description", "")) + (f" (with {carried})" if carried else "")


def _body(body: Mapping[str, Any]) -> str:
    """Return what a request sends: a link to a schema, or the parts of a form."""
    forms = (content["schema"] for content in body["content"].values())
    return f"<p>Body: {_links(body)}</p>" + "".join(_members(form) for form in forms)


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    return (
        f'<section id="schema-{escape(name)}"><h3><code>{escape(name)}</code></h3>'
        f"{paragraphs(schema.get('description', '').split(chr(10) + chr(10))[0])}"
        f"{_example(schema)}{_members(schema)}</section>"
    )


def _members(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = (
        (
            _name(member, required=member in required),
            _type(part),
            _default(part),
            inline(part["description"]) + _example(part),
        )
        for member, part in schema.get("properties", {}).items()
    )
    return table(("Member", "Type", "Default", "Meaning"), rows)


def _name(name: str, *, required: bool) -> str:
    return f"<code>{escape(name)}</code>{'' if required else ' (optional)'}"


def _default(part: Mapping[str, Any]) -> str:
    return f"<code>{_json(part['default'])}</code>" if "default" in part else ""


def _example(part: Mapping[str, Any]) -> str:
    shown = part.get("examples", ())
    return "".join(f"<p>Example: <code>{_json(each)}</code></p>" for each in shown)


def _json(value: object) -> str:
    return escape(json.dumps(value, ensure_ascii=False), quote=False)


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
