"""How a server stops: it says so first, and then all that it still does has one deadline.

A server that stops closes its socket at once, and a request from a load balancer in the
next moment is refused. So before that it serves on for a while, with ``/readyz`` at 503.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_SHORTEST_S = 1.0
"""What is handed over at the end gets so long in any case."""


class Stop:
    """When a server has begun to stop: the one moment that its last seconds are counted from."""

    def __init__(self) -> None:
        self._at: float | None = None

    def begin(self) -> None:
        """Count from now on."""
        self._at = time.monotonic()

    def left_s(self, timeout_s: float) -> float:
        """Return what is left of a number of seconds: all of them before the stop has begun."""
        gone = 0.0 if self._at is None else time.monotonic() - self._at
        return max(timeout_s - gone, min(timeout_s, _SHORTEST_S))


@contextmanager
def stopping_in_order(*, notice_s: float, say: Callable[[], None]) -> Iterator[Stop]:
    """Have a stopping server report it, and stop after its notice period.

    The server's runner handles the signals. SIGTERM is passed on to it after
    ``notice_s`` seconds, Ctrl-C and any second signal at once. Without a handler, as in a
    thread, nothing is changed.
    """
    stop, loop = Stop(), asyncio.get_running_loop()
    with ExitStack() as restored:
        if threading.current_thread() is threading.main_thread():
            for number, pause_s in ((signal.SIGTERM, notice_s), (signal.SIGINT, 0.0)):
                handler = signal.getsignal(number)
                if callable(handler) and handler is not signal.default_int_handler:
                    hear = _hearing(loop, stop, handler, pause_s, say)
                    restored.callback(signal.signal, number, handler)
                    signal.signal(number, hear)
        yield stop


def _hearing(
    loop: asyncio.AbstractEventLoop,
    stop: Stop,
    handler: Callable[[int, FrameType | None], object],
    pause_s: float,
    say: Callable[[], None],
) -> Callable[[int, FrameType | None], None]:
    """Return a handler that says it, and passes the signal on later; the second time at once."""
    heard = False

    def pass_on(number: int) -> None:
        stop.begin()
        handler(number, None)

    def begin(number: int) -> None:
        say()
        loop.call_later(pause_s, pass_on, number)

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        if heard:
            handler(number, frame)
            return
        heard = True
        # A signal may come in the middle of anything: what it means is done in the loop's turn.
        loop.call_soon_threadsafe(begin, number)

    return hear
