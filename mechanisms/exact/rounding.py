"""Certified rounding: a vector known as balls becomes one point of a public grid, or waits.

A value x is rounded to the index ``floor(x / step + 1/2)`` of the grid
``step * Z``. When x is known only as a ball, the index is certain exactly if
both ends of the ball give the same one. Rounding an exact draw this way is
post-processing: the caller answers "undecided" with more random bits or more
working precision, never with a float.

python-flint keeps its working precision in one process-wide setting. Every
computation whose *tightness* matters runs inside :func:`working_precision`;
its *validity* never depends on the precision, since balls certify themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flint import arb, ctx

_PRECISION_LOCK = threading.RLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Run the block with this many bits of ball arithmetic, one thread at a time.

    The lock is re-entrant, so an evaluation at more bits may nest; the
    precision found on entry is put back on exit.
    """
    with _PRECISION_LOCK:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


def grid_index(ball: arb, step_exponent: int) -> int | None:
    """Return the index of the grid point ``k * 2**step_exponent`` the ball rounds to, if one.

    Parameters
    ----------
    ball : arb
        An enclosure of the value.
    step_exponent : int
        The grid step is ``2**step_exponent``.

    Returns
    -------
    int or None
        ``floor(x / step + 1/2)`` when it is the same for every x in the ball.
    """
    if not ball.is_finite():
        return None
    index = (arb(ball) * arb((1, -step_exponent)) + arb((1, -1))).floor().unique_fmpz()
    return None if index is None else int(index)


def grid_point(balls: Sequence[arb], step_exponent: int) -> tuple[int, ...] | None:
    """Return the grid point the whole vector rounds to, or None while any coordinate is open."""
    indices: list[int] = []
    for ball in balls:
        index = grid_index(ball, step_exponent)
        if index is None:
            return None
        indices.append(index)
    return tuple(indices)
