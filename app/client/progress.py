"""One line that tells of a job or an upload while it runs, where somebody is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from app.client.models import Release

OnWait = Callable[[Release, float], None]
"""Called before each pause, with the running release and the seconds of the pause."""

_CLEAR = "\x1b[K"
_MEGABYTE = 1_000_000
_EVERY_S = 0.2


class _Line:
    """A line on a terminal or in a notebook, gone at the end; elsewhere nothing."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._write("")

    @property
    def passed_s(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began_s

    def say(self, text: str) -> None:
        """Put a text in the line's place."""
        if self._seen:
            self._write(text)
            self._shown = True

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{_CLEAR}{text}")
        sys.stderr.flush()


class Progress(_Line):
    """What is waited for. It is an :data:`OnWait`, and a context in which it is shown."""

    def __call__(self, release: Release, pause_s: float) -> None:
        """Say what is waited for, and how long until the next look."""
        self.say(
            f"{release.id} is running: {self.passed_s:.0f} s, looking again in {pause_s:.0f} s"
        )


class Sending(_Line):
    """A file that says how much of it has been read to be sent, and a context of that.

    Its methods are those that httpx asks for.
    """

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        super().__init__()
        self._name = path.name
        self._stream = stream
        self._size = path.stat().st_size
        self._next_s = 0.0

    def fileno(self) -> int:
        """Return the file's descriptor, which tells its length."""
        return self._stream.fileno()

    def seek(self, place: int) -> int:
        """Begin again at a place."""
        return self._stream.seek(place)

    def tell(self) -> int:
        """Return where it is."""
        return self._stream.tell()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, and say from time to time how far it is."""
        found, sent = self._stream.read(size), self._stream.tell()
        if sent >= self._size:
            self.say(f"{self._name} is sent; the service reads it")
        elif self.passed_s >= self._next_s:
            self._next_s = self.passed_s + _EVERY_S
            self.say(
                f"{self._name}: {sent / _MEGABYTE:,.0f} of {self._size / _MEGABYTE:,.0f} MB sent, "
                f"{self.passed_s:.0f} s"
            )
        return found
