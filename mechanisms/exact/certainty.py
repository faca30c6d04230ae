"""Questions about exact reals, asked with more bits until the answer is certain.

A random real is drawn lazily, and looked at as a ball. A question about it
(is it above that threshold? which integer is nearest?) is open while the ball holds both answers.
Guessing then would change the law, so nothing is ever decided but for certain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flint import arb

from mechanisms.exact.floats import working_precision

Answer = TypeVar("Answer")


class UnsoundEnvelopeError(ArithmeticError):
    """A law is above the envelope it is drawn from, so accepted points have another law.

    The sampler's own arithmetic is wrong then. The draw ends with nothing to release.
    """

    def __init__(self) -> None:
        super().__init__("a law is above its envelope: nothing is drawn")


def settled(
    look: Callable[[int], Answer | None], *, first_bits: int = 64, guard_bits: int = 0
) -> Answer:
    """Return the first answer of ``look(bits)`` that is not None, for bits doubling each time.

    Parameters
    ----------
    look : callable
        Reads the given number of bits of every real involved; None while the question is open. It
        is called at ``bits + guard_bits`` bits of working precision.
    first_bits, guard_bits : int
        How many bits to begin with, and how many more the arithmetic may lose.
    """
    bits = first_bits
    while True:
        with working_precision(bits + guard_bits):
            answer = look(bits)
        if answer is not None:
            return answer
        bits *= 2


def exceeds(left: arb, right: arb) -> bool | None:
    """Return whether one number is above another, or None where their balls overlap.

    >>> exceeds(arb(2), arb(1)), exceeds(arb(1), arb(2)), exceeds(arb(1, 1), arb(2))
    (True, False, None)
    """
    if left > right:
        return True
    return False if left < right else None
