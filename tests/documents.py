"""The project's documents as tests read them: pages, their blocks, and what comments say of them.

A comment, hidden from readers, may say how a page or a block is run:

- ``<!-- run: by tests/e2e/test_runbook.py -->``: that test runs the page's blocks;
- ``<!-- run: after quickstart.md -->``: where that page has been run, and after it;
- ``<!-- run: printed -->`` above a block of JSON or text: the block before it printed this. More
  members or lines may have come, numbers and texts of JSON may differ, and ``...`` stands for
  anything in a line of text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(
    r"(?:^<!-- run: (?P<how>\w+) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PAGE = re.compile(r"^<!-- run: (by|after) (\S+) -->$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, what it holds, and how its comment wants it run."""

    page: str
    line: int
    language: str
    text: str
    how: str | None


@dataclass(frozen=True, slots=True)
class Document:
    """A page by its path in the project, such as ``docs/tutorials/quickstart.md``."""

    path: str
    text: str

    @property
    def blocks(self) -> list[Block]:
        return [
            Block(
                self.path,
                1 + self.text.count("\n", 0, found.start("text")),
                found["language"],
                found["text"],
                found["how"],
            )
            for found in _FENCE.finditer(self.text)
        ]

    @property
    def prose(self) -> str:
        """Return the page without its blocks and comments."""
        return re.sub(r"<!--.*?-->", "", _FENCE.sub("", self.text), flags=re.DOTALL)

    @property
    def by(self) -> str | None:
        """Return the test that runs the page, if it is not the one for all."""
        return next((what for how, what in _PAGE.findall(self.text) if how == "by"), None)

    @property
    def after(self) -> str | None:
        """Return the page that this one goes on from."""
        folder = posixpath.dirname(self.path)
        found = (what for how, what in _PAGE.findall(self.text) if how == "after")
        return next((posixpath.normpath(posixpath.join(folder, what)) for what in found), None)


def documents() -> dict[str, Document]:
    """Return the README and every page of ``docs``, by path."""
    return {
        path: Document(path, (ROOT / path).read_text("utf-8"))
        for path in ["README.md", *_below(ROOT / "docs")]
    }


def _below(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.md")):
        yield path.relative_to(ROOT).as_posix()


def tours() -> dict[str, list[Document]]:
    """Return the pages that are run together, each list by its first page."""
    pages = documents()
    found: dict[str, list[Document]] = {
        path: [page] for path, page in pages.items() if page.after is None and page.by is None
    }
    for page in pages.values():
        if page.after is not None:
            found[page.after].append(page)
    return {path: each for path, each in found.items() if any(page.blocks for page in each)}
