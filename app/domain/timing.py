"""When an answer may leave: at moments that public facts alone decide.

How long an exact draw takes says something about the noise drawn, and, for
some statistics, about the data. So an answer waits for a tick of a public
clock. Times are milliseconds since 1970 in UTC; ticks are the multiples of
the slot, the same for every server process.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """The moments ``start + wait``, ``start + 2 wait``, ``start + 4 wait``, ... of one answer.

    The first is the answer's public deadline. One that is not ready by then
    leaves at a later one, which reveals the time it took to a factor of two and
    no better. With ``wait`` 0 an answer leaves when it is ready.
    """

    start_ms: int
    wait_ms: int

    @property
    def deadline_ms(self) -> int:
        """Return the first of the moments."""
        return self.start_ms + self.wait_ms

    def first_from(self, moment_ms: int) -> int:
        """Return the first of the moments that is not before this one.

        >>> [Schedule(1000, 200).first_from(ready) for ready in (0, 1200, 1201, 1500, 1801)]
        [1200, 1200, 1400, 1800, 2600]
        """
        if self.wait_ms == 0:
            return moment_ms
        leaves = self.deadline_ms
        while leaves < moment_ms:
            leaves += leaves - self.start_ms
        return leaves


def response_schedule(*, arrived_ms: int, slot_ms: int) -> Schedule:
    """Return when the answer to a request may leave.

    Its deadline is the first tick that is at least one full slot after the
    arrival. The next tick would not do: how often a draw just misses it reveals
    how long draws take. Every later moment is a tick too.

    >>> response_schedule(arrived_ms=1001, slot_ms=100)
    Schedule(start_ms=1000, wait_ms=200)
    """
    if slot_ms == 0:
        return Schedule(arrived_ms, 0)
    next_tick = -(-arrived_ms // slot_ms) * slot_ms
    return Schedule(next_tick - slot_ms, 2 * slot_ms)
