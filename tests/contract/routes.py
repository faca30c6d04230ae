"""The contract's calls as the routes themselves state them, and a sound request of each.

A new endpoint appears here by itself: its role is its route's, its request is made of the
examples in its models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from starlette.routing import Route

from app.api.application import bare_application, snapshot
from app.api.dependencies import Endpoint
from app.domain.policies import Right

DOCUMENT: dict[str, Any] = json.loads(snapshot())
_SCHEMAS: Mapping[str, Any] = DOCUMENT["components"]["schemas"]
Call = tuple[str, str]


@dataclass(frozen=True)
class Stated:
    """What a route says of itself; without a right anyone may call it."""

    right: Right | None
    operation: Mapping[str, Any] | None
    """Its part of the OpenAPI document; None where that leaves it out."""

    @property
    def successes(self) -> set[int]:
        """Return the statuses of its answers that are no refusals."""
        reported = self.operation["responses"] if self.operation else {"200": None}
        return {int(status) for status in reported if status < "300"}


def _stated() -> dict[Call, Stated]:
    found = {}
    for route in bare_application().routes:
        # nothing but routes of these kinds, whose methods are known: no mount, no socket
        assert isinstance(route, Route), route
        path = route.path.replace(":path}", "}")
        for method in set(route.methods or ()) - {"HEAD"}:  # which goes with every GET
            right = route.right if isinstance(route, Endpoint) else None
            operation = DOCUMENT["paths"].get(path, {}).get(method.lower())
            found[method, path] = Stated(right, operation)
    return dict(sorted(found.items()))


ROUTES: Mapping[Call, Stated] = _stated()
ENDPOINTS: Mapping[Call, Stated] = {c: each for c, each in ROUTES.items() if each.operation}


def example(schema: Mapping[str, Any]) -> Any:
    """Return the example of a schema, or one made of those of the members it requires."""
    if schema.get("examples"):
        return schema["examples"][0]
    if "$ref" in schema:
        return example(_SCHEMAS[schema["$ref"].rsplit("/", 1)[-1]])
    return {name: example(schema["properties"][name]) for name in schema["required"]}


def send(
    client: httpx.Client, call: Call, ids: Mapping[str, str], *, rows: str, answer: bytes
) -> httpx.Response:
    """Send a sound request; ``rows`` are those of an upload, ``answer`` is sent back as it is."""
    method, path = call
    stated = ROUTES.get(("GET", path) if method == "HEAD" else call)
    operation = (stated.operation or {}) if stated else {}
    content = operation.get("requestBody", {}).get("content", {})
    headers = {"Idempotency-Key": str(uuid4()), "Content-Type": "application/json"}
    for each in operation.get("parameters", ()):
        if each["name"] == "If-Match":
            headers["If-Match"] = example(each["schema"])
    if "multipart/form-data" in content:
        spec = content["multipart/form-data"]["schema"]["properties"]["spec"]
        said = json.dumps({**example(spec), "name": str(uuid4())})
        files = {"file": ("rows.csv", rows), "spec": (None, said)}
        return client.post(path.format(**ids), files=files)
    body = b""
    for each in content.values():
        sent_back = each["schema"]["$ref"].endswith("/ReceiptRequest")
        body = answer if sent_back else json.dumps(example(each["schema"])).encode()
    asked = {
        each["name"]: example(each["schema"])
        for each in operation.get("parameters", ())
        if each["in"] == "query" and each["required"]
    }
    return client.request(method, path.format(**ids), params=asked, content=body, headers=headers)
