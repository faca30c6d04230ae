"""The reference at ``/docs/reference``, from the same OpenAPI document that programs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.pages.layout import inline, page, paragraphs, table

router = APIRouter(include_in_schema=False)


@router.get("/docs/reference")
def get_reference(request: Request) -> Response:
    """Show every operation and every body."""
    return page("Reference", _reference(json.dumps(request.app.openapi())))


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
            f"<code>{escape(each['name'])}</code>",
            escape(each["in"]),
            escape(each.get("description", "")),
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
        + (table(("Parameter", "In", ""), parameters) if operation.get("parameters") else "")
        + (f"<p>Body: {_links(operation['requestBody'])}</p>" if "requestBody" in operation else "")
        + f"{table(('Answer', '', 'Body'), answers)}</section>"
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
            inline(part.get("description", "")),
        )
        for field, part in schema.get("properties", {}).items()
    )
    return (
        f'<section id="schema-{escape(name)}"><h3><code>{escape(name)}</code></h3>'
        f"{paragraphs(schema.get('description', '').split(chr(10) + chr(10))[0])}"
        f"{table(('Field', 'Type', ''), rows)}</section>"
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
