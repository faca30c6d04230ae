"""What reading the documents can check: links, anchors, languages, and short sentences."""

from __future__ import annotations

import json
import posixpath
import re
from functools import cache

import pytest

from app.api.pages.markdown import links, parse
from tests.documents import ROOT, Document, documents

PAGES = documents()
LANGUAGES = {"bash", "python", "r", "json", "text", "mermaid", "http"}
MOST_WORDS = 35


@cache
def anchors(path: str) -> tuple[str, ...]:
    return parse(PAGES[path].text).anchors


@pytest.mark.parametrize("path", PAGES)
def test_every_link_leads_somewhere(path: str) -> None:
    for text, target in links(parse(PAGES[path].text)):
        if re.match(r"https?://", target):
            continue
        assert not target.startswith("/"), f"{target}: a repository viewer finds relative links"
        name, _, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
        assert (ROOT / place).is_file(), f"[{text}]({target}): link the file, not its folder"
        if anchor:
            assert anchor in anchors(place), f"[{text}]({target}) is none of {anchors(place)}"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_begins_with_its_title(path: str) -> None:
    text = PAGES[path].text
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", PAGES[path].prose, re.MULTILINE)) == 1


def test_the_index_names_every_page() -> None:
    """A folder's pages may be named by the folder's own page instead."""
    named = {
        posixpath.normpath(posixpath.join(posixpath.dirname(path), target.partition("#")[0]))
        for path, page in PAGES.items()
        if path.endswith("/README.md")
        for _, target in links(parse(page.text))
    }
    top = {path for path in PAGES if path.count("/") == 1 or path.endswith("/README.md")}
    assert top - named == {"docs/README.md"}
    for path in PAGES:
        folder = posixpath.dirname(path)
        assert not folder or f"{folder}/README.md" in PAGES, f"{folder} has no page of its own"


@pytest.mark.parametrize("path", PAGES)
def test_every_block_has_a_language_that_somebody_checks(path: str) -> None:
    blocks = PAGES[path].blocks
    assert len(re.findall(r"^ *```", PAGES[path].text, re.MULTILINE)) == 2 * len(blocks)
    for block in blocks:
        assert block.language in LANGUAGES, f"{path}:{block.line}"
        if block.language == "json":
            json.loads(block.text)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_but_comments_is_html(path: str) -> None:
    for token in parse(PAGES[path].text).tokens:
        for each in (token, *(token.children or ())):
            if each.type.startswith("html_"):
                left = re.sub(r"<!--.*?-->", "", each.content, flags=re.DOTALL)
                assert not left.strip(), f"{path}: {left}"


@pytest.mark.parametrize("path", sorted(PAGES.keys() - {"README.md"}))
def test_sentences_are_short(path: str) -> None:
    long = [each for each in sentences(PAGES[path]) if len(each.split()) > MOST_WORDS]
    assert not long, long


def sentences(page: Document) -> list[str]:
    """Return a page's sentences outside tables; quoted code is one word."""
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", page.prose):
        if re.match(r"\s*(?:\||#)", block):
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", block))
        words = " ".join(re.sub(r"^\s*(?:[-*>]|\d+\.) ", "", text, flags=re.MULTILINE).split())
        found += re.split(r"(?<=[.!?])[)\"*_]*\s+(?=[\"'(*_]*[A-Zc])", words)
    return found


def test_the_count_of_words_sees_what_is_long() -> None:
    page = Document(
        "x.md", "# T\n\nOne `two three` [four five](six). Seven\neight.\n\n- nine\n- ten\n"
    )
    assert sentences(page) == ["One code four five.", "Seven eight.", "nine", "ten"]
