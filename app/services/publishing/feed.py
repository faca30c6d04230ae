"""What is public as an Atom feed (RFC 4287), newest first."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from app.services.publishing.published import Published

_NOTHING_YET = "1970-01-01T00:00:00Z"


def atom(items: Sequence[Published], base: str) -> str:
    """Return the feed; ``base`` is where the service is, without a slash at its end."""
    own = f"{base}/public/feed.atom"
    updated = items[0].publication.published_at if items else _NOTHING_YET
    entries = "".join(_entry(item, base) for item in items)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<title>Public releases</title><id>{escape(own)}</id>"
        f'<link rel="self" type="application/atom+xml" href={quoteattr(own)}/>'
        f'<link rel="alternate" type="text/html" href={quoteattr(f"{base}/public")}/>'
        f"<author><name>Release Desk</name></author><updated>{updated}</updated>"
        f"{entries}</feed>\n"
    )


def _entry(item: Published, base: str) -> str:
    address = f"{base}{item.path}"
    at = item.publication.published_at
    return (
        f"<entry><title>{escape(item.title)}</title><id>{escape(address)}</id>"
        f'<link rel="alternate" type="text/html" href={quoteattr(address)}/>'
        f'<link rel="alternate" type="application/json" href={quoteattr(address + ".json")}/>'
        f"<published>{at}</published><updated>{at}</updated>"
        f"<summary>Epsilon {escape(item.epsilon)}, data set {escape(item.dataset)}.</summary>"
        "</entry>"
    )
