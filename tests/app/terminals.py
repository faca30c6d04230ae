"""A terminal that somebody looks at."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

from tests.speed import PATIENCE_S


class Terminal(io.StringIO):
    """What somebody looks at."""

    def isatty(self) -> bool:
        return True

    @property
    def told(self) -> str:
        """Return what was reported, whatever time it took."""
        return re.sub(r"\d+ s\b", "N s", self.getvalue())


@contextmanager
def looked_at() -> Iterator[Terminal]:
    with redirect_stderr(Terminal()) as terminal:
        assert isinstance(terminal, Terminal)
        yield terminal


def until_told(shown: io.StringIO, words: str) -> None:
    """Wait until some words have been told."""
    deadline = time.monotonic() + PATIENCE_S
    while words not in shown.getvalue():
        assert time.monotonic() < deadline
        time.sleep(0.01)
