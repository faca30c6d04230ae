"""One line that tells of a job while it runs, where somebody is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from app.client.models import Release

OnWait = Callable[[Release, float], None]
"""Called before each pause, with the running release and the seconds of the pause."""

_CLEAR = "\x1b[K"


class Progress:
    """A line on a terminal or in a notebook, gone when the job is done; elsewhere nothing.

    It is an :data:`OnWait`, and a context in which it is shown.
    """

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __call__(self, release: Release, pause_s: float) -> None:
        """Say what is waited for, and how long until the next look."""
        if self._seen:
            waited_s = time.monotonic() - self._began_s
            text = f"{release.id} is running: {waited_s:.0f} s, looking again in {pause_s:.0f} s"
            self._write(text)
            self._shown = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{_CLEAR}{text}")
        sys.stderr.flush()
