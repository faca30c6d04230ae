"""What reading the documents can check: links, anchors, languages, short sentences, and tables.

Refresh the table of settings with ``python -m tests.test_documents``.
"""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
from functools import cache

import click
import pytest

from app.api.pages.documents import SHELVES, links, parse
from app.cli import main
from app.domain.problems import PROBLEMS
from app.settings import PREFIX, Settings
from mechanisms.catalog import STATISTICS, offers
from mechanisms.statistics.facts.defaults import Facts
from tests.documents import ROOT, Document, documents
from tests.tiers import in_one

PAGES = documents()
LANGUAGES = {"bash", "python", "r", "json", "text", "mermaid", "http"}
MOST_WORDS = 35
OPERATIONS = "docs/operations/README.md"
SETTINGS = re.compile(r"(<!-- settings -->\n)(.*?)(\n<!-- /settings -->)", re.DOTALL)


@cache
def anchors(path: str) -> tuple[str, ...]:
    return parse(PAGES[path].text).anchors


@in_one("path", PAGES)
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


@in_one("path", PAGES)
def test_a_page_begins_with_its_title(path: str) -> None:
    text = PAGES[path].text
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", PAGES[path].prose, re.MULTILINE)) == 1


def test_the_index_names_every_page() -> None:
    """It has a line per page; the pages below another, such as a statistic's, are that page's."""
    index = named_by("docs/README.md")
    for path in set(PAGES) - {"docs/README.md"}:
        folder = posixpath.dirname(path)
        own = f"{folder}/README.md"
        if folder.removeprefix("docs/") in SHELVES or own not in PAGES or path == own:
            assert path in index, f"{path} has no line in the index"
        else:
            assert path in named_by(own), f"{path} has no line in {own}"


def named_by(path: str) -> set[str]:
    """Return the files that a page links to."""
    targets = (target.partition("#")[0] for _, target in links(parse(PAGES[path].text)))
    folder = posixpath.dirname(path)
    return {posixpath.normpath(posixpath.join(folder, target)) for target in targets}


@in_one("path", PAGES)
def test_every_block_has_a_language_that_somebody_checks(path: str) -> None:
    blocks = PAGES[path].blocks
    assert len(re.findall(r"^ *```", PAGES[path].text, re.MULTILINE)) == 2 * len(blocks)
    for block in blocks:
        assert block.language in LANGUAGES, f"{path}:{block.line}"
        if block.language == "json":
            json.loads(block.text)


@in_one("path", PAGES)
def test_nothing_but_comments_is_html(path: str) -> None:
    for token in parse(PAGES[path].text).tokens:
        for each in (token, *(token.children or ())):
            if each.type.startswith("html_"):
                left = re.sub(r"<!--.*?-->", "", each.content, flags=re.DOTALL)
                assert not left.strip(), f"{path}: {left}"


def test_the_first_page_is_short() -> None:
    assert PAGES["README.md"].text.count("\n") <= 150


@in_one("path", PAGES)
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


def settings_table() -> str:
    """Return the rows of the settings table as the code has them."""
    rows = []
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`"
        rows.append(f"| `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows])


def test_the_settings_table_is_the_code_s() -> None:
    found = SETTINGS.search(PAGES[OPERATIONS].text)
    assert found
    assert found[2] == settings_table(), "run: python -m tests.test_documents"


def test_every_setting_that_is_named_exists() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    known |= {f"{name}_FILE" for name in known} | {f"{PREFIX}URL", f"{PREFIX}KEY"}
    for page in PAGES.values():
        named = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", page.text))
        assert named <= known, f"{page.path}: {named - known}"


def test_every_problem_that_is_named_exists() -> None:
    for page in PAGES.values():
        for code in re.findall(r"\b(?:4\d\d|50[0-9]) `([a-z-]+)`", page.text):
            assert code in PROBLEMS, f"{page.path}: {code}"


_WORDS = r"[a-z]+(?: [a-z]+(?:-[a-z]+)*)*"


def test_the_command_line_that_is_named_exists() -> None:
    for page in PAGES.values():
        for text in re.findall(rf"(?:`|^ *)release-desk ({_WORDS})", page.text, re.MULTILINE):
            command: click.Command = main
            for word in text.split():
                if not isinstance(command, click.Group):
                    break
                assert word in command.commands, f"{page.path}: {text}"
                command = command.commands[word]


def test_the_mechanisms_table_is_the_catalog_s() -> None:
    text = (
        PAGES["docs/reference/mechanisms.md"]
        .text.split("## Which mechanism draws")[1]
        .split("\n## ")[0]
    )
    rows = [row.split("|")[1:3] for row in text.splitlines() if row.startswith("| `")]
    documented = {
        (kind, mechanism)
        for kinds, mechanism_cell in rows
        for kind in re.findall(r"`(\w+)`", kinds)
        for mechanism in re.findall(r"`(\w+)`", mechanism_cell)
    }
    offered = {(offer.statistic, offer.mechanism) for offer in offers()}
    assert documented <= offered
    # what is made of noisy sums, or read off another answer, need not be named: its page says so
    read_off = {kind for kind, each in STATISTICS.items() if each.drawn_by is not Facts.drawn_by}
    missing = {
        (kind, mechanism) for kind, mechanism in offered - documented if kind not in read_off
    }
    assert {mechanism for _, mechanism in missing} <= {"k_norm", "gaussian"}


def test_the_places_that_are_named_are_there() -> None:
    tops = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir()))
    for page in PAGES.values():
        for name in re.findall(rf"`((?:{tops})/[\w./]+)`", page.text):
            assert (ROOT / name).exists(), f"{page.path}: {name}"


def test_the_commits_that_are_named_are_there() -> None:
    for page in PAGES.values():
        for commit, subject in re.findall(r'commit `([0-9a-f]{7})`,\s"([^"]+)"', page.text):
            asked = ["git", "log", "-1", "--format=%s", commit]
            done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip("NOT CHECKED: the project's history is not here")
            assert done.stdout.strip() == " ".join(subject.split()), page.path


if __name__ == "__main__":
    (ROOT / OPERATIONS).write_text(
        SETTINGS.sub(
            lambda found: f"{found[1]}{settings_table()}{found[3]}", PAGES[OPERATIONS].text
        ),
        "utf-8",
    )
