"""Where a public release leads, as ``Link`` headers (Signposting, RFC 8288)."""

from __future__ import annotations

from app.services.publishing.published import Published

FORMS = (
    ("json", "application/json", "item"),
    ("csv", "text/csv", "item"),
    ("jsonld", "application/ld+json", "describedby"),
    ("csl.json", "application/vnd.citationstyles.csl+json", "describedby"),
    ("bib", "application/x-bibtex", "describedby"),
    ("ris", "application/x-research-info-systems", "describedby"),
    ("txt", "text/plain", "describedby"),
    ("svg", "image/svg+xml", "icon"),
)
"""Other formats of a public release: how the address ends, the type, the relation."""


def signposts(published: Published, base: str) -> str:
    """Return the ``Link`` header of a public release's page."""
    address = f"{base}{published.path}"
    links = [
        f'<{address}>; rel="cite-as"',
        '<https://schema.org/Dataset>; rel="type"',
        '<https://schema.org/AboutPage>; rel="type"',
        f'<{base}/public>; rel="collection"',
    ]
    links += [
        f'<{address}.{end}>; rel="{relation}"; type="{kind}"'
        for end, kind, relation in FORMS
        if relation != "icon"
    ]
    return ", ".join(links)


def back(published: Published, base: str) -> str:
    """Return the ``Link`` header of another form of it, which leads to the page."""
    address = f"{base}{published.path}"
    return f'<{address}>; rel="describes"; type="text/html", <{address}>; rel="cite-as"'
