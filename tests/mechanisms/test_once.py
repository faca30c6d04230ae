"""Values that are worked out once: kept, and without a lock that draws could wait at for ever."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from mechanisms.exact.floats import working_precision
from mechanisms.exact.fractions import once
from mechanisms.samplers.affine.posterior import AffinePosterior
from mechanisms.samplers.affine.search import draw
from mechanisms.testing import seeded_randomness
from tests.speed import PATIENCE_S


class Counted:
    """Something whose value is asked for again and again."""

    def __init__(self) -> None:
        self.times = 0

    @once
    def value(self) -> int:
        """Return how often it has been worked out."""
        self.times += 1
        return self.times


def test_it_is_worked_out_once_for_each_object() -> None:
    one, other = Counted(), Counted()
    assert (one.value, one.value, other.value, one.times) == (1, 1, 1, 1)
    assert Counted.value.__doc__ == "Return how often it has been worked out."


def held_up(kept: Callable[..., Any], *, patience_s: float = PATIENCE_S) -> bool:
    """Return whether threads wait for one another that work values of two objects out.

    One of them has what the other's value takes, as a draw has the working precision.
    """
    precision, begun, waited = threading.Lock(), threading.Event(), []

    class Law:
        def __init__(self, *, takes: bool) -> None:
            self._takes = takes

        @kept
        def shadow(self) -> int:
            if self._takes:
                begun.set()
                waited.append(not precision.acquire(timeout=PATIENCE_S))
            return 1

    with precision:
        thread = threading.Thread(target=lambda: Law(takes=True).shadow)
        thread.start()
        assert begun.wait(PATIENCE_S)
        reader = threading.Thread(target=lambda: Law(takes=False).shadow)
        reader.start()
        reader.join(patience_s)
        stuck = reader.is_alive()
    thread.join()
    reader.join()
    return stuck


def test_no_value_waits_for_that_of_another_object() -> None:
    assert not held_up(once)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="its lock is gone from Python 3.12 on")
def test_twin_the_library_s_own_waits() -> None:
    assert held_up(functools.cached_property, patience_s=1)  # noqa: TID251


def law(number: int, size: int) -> AffinePosterior:
    """Return that of a linear regression of some coefficients."""
    apart = {(0, 0): Fraction(40 + number, 3)}
    rows = range(size)
    return AffinePosterior(
        matrix=tuple(
            tuple(apart.get((j, k), Fraction(30 if j == k else 1)) for k in rows) for j in rows
        ),
        vector=(Fraction(7, 2), *[Fraction(1)] * (size - 1)),
        rate=Fraction(1, 2),
        bound=Fraction(2),
        replaced=size == 1,
    )


@pytest.mark.wide
def test_threads_that_draw_at_once_all_end() -> None:
    def work(seed: int) -> None:
        randomness = seeded_randomness(seed)
        for number in range(40):
            for size in (1, 2):
                draw(law(number, size), randomness, step_exponent=-10)

    kept = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)
        with working_precision(64):
            pass
    finally:
        sys.setswitchinterval(kept)
