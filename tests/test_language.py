"""The words of screens, documents, sources and clients: the field's, and few of our own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROSE: Mapping[str, Sequence[str]] = {
    "sources": ("app/**/*.py", "mechanisms/**/*.py", "migrations/**/*.py", "studies/**/*.py"),
    "documents": ("*.md", "docs/**/*.md"),
    "screens": ("app/desk/templates/*", "app/desk/**/*.js"),
    "clients": ("clients/r/**/*.R", "clients/r/**/*.Rd", "clients/**/*.md"),
}
OWN_WORDS = re.compile(
    r"\b(?:tell|tells|told|beside|anew|whoever|nobody|anybody|so many|meanwhile|foretold|foreseen"
    r"|twins?|strangers?|let in|who asks|who waits)\b",
    re.IGNORECASE,
)
"""Words that a reader has to translate back."""
MOST = 3.0
"""Of 10,000 words."""
FIELD = (
    "CPU time", "cache", "clamped", "confidence interval", "data set", "decimal mark", "delimiter",
    "mechanism", "noise", "privacy budget", "privacy loss", "rate limit", "sensitivity",
    "thousands separator", "timeout",
)  # fmt: skip


def text_of(kind: str) -> str:
    """Return all prose of a kind."""
    return "\n".join(
        path.read_text("utf-8")
        for pattern in PROSE[kind]
        for path in sorted(ROOT.glob(pattern))
        if path.is_file()
    )


def share(text: str) -> float:
    """Return how many of 10,000 words are of our own."""
    return 1e4 * len(OWN_WORDS.findall(text)) / len(re.findall("[A-Za-z]+", text))


@pytest.mark.parametrize("kind", PROSE)
def test_few_words_are_our_own(kind: str) -> None:
    text = text_of(kind)
    assert len(text) > 20_000
    assert share(text) < MOST


def test_a_page_in_a_dialect_is_found_out() -> None:
    assert share("Nobody is told so many, and whoever asks anew waits beside the others.") > 100
    assert share("No one with a reviewer's key has read the message yet.") == 0


def test_the_terms_of_the_field_are_used() -> None:
    text = text_of("documents").lower()
    assert not [term for term in FIELD if term.lower() not in text]
