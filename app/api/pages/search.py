"""Search in the documents: the sections that hold every word of a query, the best first.

A page is split at its headings. A word counts most in a heading, then in the page's title, then in
the text, where a section of few words counts more than a long one with the same matches. Documents
are public, so a query says nothing about data; it is shown again, escaped, and not stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import log

from app.api.pages.markdown import anchor_of

MOST_FOUND = 20
MOST_CHARACTERS = 200
_AROUND = 90
"""Characters of text shown on each side of the first match."""
_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r"#{1,6} +(.*)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_PLAIN = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[`*]{1,3}")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with the text below it, up to the next heading; the first has the page's title."""

    page: str
    heading: str
    address: str
    text: str


def sections(text: str, address: str) -> Iterator[Section]:
    """Yield the sections of a page's Markdown, which is shown at an address."""
    title, heading, anchor = "", "", ""
    lines, anchors, in_listing = list[str](), list[str](), False
    for line in _COMMENT.sub("", text).splitlines():
        in_listing ^= line.startswith("```")
        found = None if in_listing else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        if title:
            yield Section(title, heading, address + anchor, _words_alone(lines))
        heading = _PLAIN.sub(r"\1", found[1])
        anchors.append(anchor_of(heading, anchors))
        anchor = f"#{anchors[-1]}" if title else ""
        title, lines = title or heading, []
    yield Section(title, heading, address + anchor, _words_alone(lines))


def _words_alone(lines: Sequence[str]) -> str:
    """Return text without the marks of links, code and tables."""
    return " ".join(_PLAIN.sub(r"\1", " ".join(lines)).replace("|", " ").split())


def found(query: str, within: Sequence[Section]) -> list[Section]:
    """Return the sections that hold every word of a query, at most :data:`MOST_FOUND`."""
    words = _words(query[:MOST_CHARACTERS])
    if not words:
        return []
    ranked = [(_score(words, each), at) for at, each in enumerate(within)]
    ranked = sorted((pair for pair in ranked if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))
    return [within[at] for _, at in ranked[:MOST_FOUND]]


def excerpt(query: str, text: str) -> str:
    """Return the text around the first word of a query, as HTML with the words marked."""
    words = _words(query[:MOST_CHARACTERS])
    matches = [text.lower().find(word) for word in words]
    first = min((at for at in matches if at >= 0), default=0)
    start, end = max(first - _AROUND, 0), first + 2 * _AROUND
    cut = f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    if not pattern:
        return escape(cut)
    pieces = re.split(f"({pattern})", cut, flags=re.IGNORECASE)
    return "".join(
        f"<mark>{escape(piece)}</mark>" if place % 2 else escape(piece)
        for place, piece in enumerate(pieces)
    )


def _words(query: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(query.lower())))


def _score(words: Sequence[str], section: Section) -> float:
    page, heading, text = section.page.lower(), section.heading.lower(), section.text.lower()
    total = 0.0
    for word in words:
        score = 8.0 * (word in heading) + 2 * (word in page)
        score += log(1 + 100 * text.count(word) / (40 + len(text.split())))
        if not score:
            return 0.0
        total += score
    return total
