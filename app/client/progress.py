"""One line that shows the progress of a job or an upload, on a terminal or in a notebook."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from app.client.models import Release

OnWait = Callable[[Release, float], None]
"""Called before each pause, with the running release and the seconds of the pause."""

_CLEAR = "\x1b[K"
_MEGABYTE = 1_000_000
_EVERY_S = 0.2  # often enough for an eye, and no load for a notebook
_BAR = 20


def expected_words(job: Mapping[str, Any] | None) -> str:
    """Say about how long a job takes, by the public facts in an answer; "" of none.

    >>> expected_words({"deadline_s": 16, "expected_s": 2})
    'drawn in about 2 s, shown 16 s after the charge or at a doubling of that'
    """
    if job is None:
        return ""
    shown = f"shown {job['deadline_s']} s after the charge or at a doubling of that"
    drawn_s = job.get("expected_s")
    return shown if drawn_s is None else f"drawn in about {drawn_s} s, {shown}"


class Line:
    """A line on a terminal or in a notebook, gone at the end; elsewhere nothing."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._shown = False
        self._next_s = 0.0
        self._ended = threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._shown:
            self._write("")

    @property
    def passed_s(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began_s

    @property
    def is_due(self) -> bool:
        """Return whether it is time to say something again."""
        due = self._seen and self.passed_s >= self._next_s
        if due:
            self._next_s = self.passed_s + _EVERY_S
        return due

    @property
    def is_seen(self) -> bool:
        """Return whether somebody is looking."""
        return self._seen

    def say(self, text: str) -> None:
        """Put a text in the line's place."""
        if self._seen:
            self._write(text)
            self._shown = True

    def keep_saying(self, text: str) -> None:
        """Show a text with the elapsed seconds, and refresh it from time to time."""
        if self._seen and self._clock is None:
            self._clock = threading.Thread(target=self._tick, args=(text,), daemon=True)
            self._clock.start()

    def stop(self) -> None:
        """Say nothing more by itself."""
        if self._clock is not None:
            self._ended.set()
            self._clock.join()
            self._clock = None
            self._ended.clear()

    def _tick(self, text: str) -> None:
        self.say(f"{text}, {self.passed_s:.0f} s")
        while not self._ended.wait(_EVERY_S):
            self.say(f"{text}, {self.passed_s:.0f} s")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{_CLEAR}{text}")
        sys.stderr.flush()

    def tell_reading(self, name: str, far: Mapping[str, Any]) -> None:
        """Say how far the service has read a file: bytes of how many, and rows."""
        self.stop()
        size = far["of_bytes"]
        read = "" if size is None else f"{far_of(far['bytes'], size)}, "
        self.keep_saying(f"the service reads {name}: {read}{far['rows']:,} rows")


class Progress(Line):
    """What is waited for. It is an :data:`OnWait`, and a context in which it is shown."""

    def __call__(self, release: Release, pause_s: float) -> None:
        """Say what is waited for, about how long it takes, and how long until the next look."""
        expected = expected_words(release.job)
        self.say(
            f"{release.id} is running: {self.passed_s:.0f} s"
            f"{f' ({expected})' if expected else ''}, looking again in {pause_s:.0f} s"
        )


class Reading(Line):
    """How far a file on this machine has been read: rows, and bytes where they are known."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._name = path.name
        self._size = path.stat().st_size

    def __call__(self, rows: int, place: int | None) -> None:
        """Say from time to time how many rows have been read, and up to which byte."""
        if self.is_due:
            far = "" if place is None else f"{far_of(place, self._size)}, "
            self.say(f"{self._name}: {far}{rows:,} rows, {self.passed_s:.0f} s")


class Sending(Line):
    """A file that says how much of it has been read to be sent, and a context of that.

    Its methods are those that httpx asks for.
    """

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        super().__init__()
        self._name = path.name
        self._stream = stream
        self._size = path.stat().st_size

    def fileno(self) -> int:
        """Return the file's descriptor, which has its length."""
        return self._stream.fileno()

    def seek(self, place: int) -> int:
        """Begin again at a place."""
        self.stop()
        return self._stream.seek(place)

    def tell(self) -> int:
        """Return where it is."""
        return self._stream.tell()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, and say from time to time how far it is."""
        found, sent = self._stream.read(size), self._stream.tell()
        if sent >= self._size:
            self.keep_saying(f"{self._name} is sent; the service reads it")
        elif self.is_due:
            self.say(f"{self._name}: {far_of(sent, self._size)} sent, {self.passed_s:.0f} s")
        return found


def far_of(place: int, size: int) -> str:
    """Return a bar, and how many of a file's bytes are done.

    >>> far_of(250_000_000, 1_000_000_000)
    '[#####...............] 250 of 1,000 MB'
    """
    done = _BAR * min(place, size) // max(size, 1)
    bar = "#" * done + "." * (_BAR - done)
    return f"[{bar}] {place / _MEGABYTE:,.0f} of {size / _MEGABYTE:,.0f} MB"
