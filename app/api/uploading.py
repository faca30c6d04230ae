"""How files are sent, as the description of the API says it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel

from app.api.answers.datasets import CheckedUploadAnswer
from app.web.requests.leaving import LONGEST_READING

OF_UPLOADS = (
    "malformed-request", "name-taken",
    "invalid-upload", "source-unreadable", "source-changed", "overlapping-dataset",
    "too-few-rows", "too-many-overlaps",
    "lineage-lost", "busy", "not-ready", "clock-behind",
)  # fmt: skip
"""What an upload may be refused for."""


Check = Annotated[
    bool,
    Query(
        description="Only say how the file would be read: 200 with the report. Nothing is stored, "
        "and no budget is opened.",
        examples=[False],
    ),
]
CHECKED: dict[str, Any] = {
    "model": CheckedUploadAnswer,
    "description": "How the file would be read, where `check` is true.",
}
"""The answer to an upload that is only checked."""

_READING = {
    "name": "Reading",
    "in": "header",
    "required": False,
    "description": "A text of your choice, by which `/v1/readings` shows only you how far the "
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
