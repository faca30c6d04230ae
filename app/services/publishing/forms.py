"""The formats of a public release: files, citations and pictures, by file extension."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from app.services.publishing.citations import bibtex, citation, csl_json, ris
from app.services.publishing.linked_data import schema_org
from app.services.publishing.pictures import badge
from app.services.publishing.published import Published
from app.services.publishing.sentences import badge_text
from app.services.releases.tidy import tidy_csv

Form = Callable[[Published, str], bytes]
"""Makes a form of a public release; ``base`` is where the service is."""


def _csv(published: Published, base: str) -> bytes:
    del base
    return tidy_csv(published.answer).encode()


def _linked(published: Published, base: str) -> bytes:
    return json.dumps(schema_org(published, base), ensure_ascii=False).encode()


def _badge(published: Published, base: str) -> bytes:
    del base
    return badge(*badge_text(published)).encode()


def _cited(make: Callable[[Published, str], str]) -> Form:
    return lambda published, base: make(published, f"{base}{published.path}").encode()


FORMS: Mapping[str, Form] = {
    "csv": _csv,
    "jsonld": _linked,
    "csl.json": _cited(csl_json),
    "bib": _cited(bibtex),
    "ris": _cited(ris),
    "txt": _cited(lambda published, address: f"{citation(published, address)}\n"),
    "svg": _badge,
}
"""Every form by how its address ends, but for the document itself, which is signed."""
