"""How files are sent, as the description of the API says it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from app.web.requests.leaving import LONGEST_READING

OF_UPLOADS = (
    "malformed-request", "name-taken",
    "invalid-upload", "source-unreadable", "source-changed", "overlapping-dataset",
    "too-few-rows", "too-many-overlaps",
    "lineage-lost", "busy", "not-ready",
)  # fmt: skip
"""What an upload may be refused for."""


_READING = {
    "name": "Reading",
    "in": "header",
    "required": False,
    "description": "A text of your choice, by which `/v1/readings` tells you alone how far the "
    "upload is.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": LONGEST_READING,
        # Printable ASCII. HTTP drops spaces before it.
        "pattern": "^[!-~][ -~]*$",
        "examples": ["engel-1"],
    },
}


def upload_of(spec: type[BaseModel], sourced: type[BaseModel]) -> dict[str, Any]:
    """Return how a file and its spec are sent, or a spec that names a source."""
    file = {
        "type": "string",
        "format": "binary",
        "description": "CSV with a header, CSV.gz or Parquet.",
    }
    parts = {
        "type": "object",
        "required": ["file", "spec"],
        "additionalProperties": False,
        "properties": {
            "file": file,
            "spec": {"$ref": spec, "description": "What is public about it, as JSON."},
        },
    }
    content = {
        "multipart/form-data": {
            "schema": parts,
            "encoding": {"spec": {"contentType": "application/json"}},
        },
        "application/json": {"schema": {"$ref": sourced}},
    }
    return {"parameters": [_READING], "requestBody": {"required": True, "content": content}}
