"""What covers draw and laws bound, beside every point's own exponent."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from mechanisms.samplers.envelopes import Trial, first_kept
from mechanisms.samplers.polytopes import PolytopeLaw, Stack
from mechanisms.samplers.polytopes.polytope import Frame
from mechanisms.testing import Law, check_draws, draws_needed, seeded_randomness

_PATHS, _CUTS = 9, 30
_EACH = 200  # draws by one cover: the first ones cut it, the others find it as it is


def require_law(
    cover: Callable[[], Trial],
    exponents: Mapping[tuple[int, ...], float],
    *,
    twins: tuple[float, float] = (0.3, 3.0),
) -> None:
    """Require that draws by new covers follow ``exp(-exponent)``, and neither twin.

    The twins have the exponents so many times.
    """
    lowest = min(exponents.values())
    order = {point: i for i, point in enumerate(sorted(exponents, key=exponents.__getitem__))}
    truth, *others = (
        Law.discrete(
            list(order.values()), [math.exp(-scale * (exponents[p] - lowest)) for p in order]
        )
        for scale in (1.0, *twins)
    )
    gap = min(truth.gap(other, list(order.values())) for other in others)
    randomness, covers = seeded_randomness(5), draws_needed(gap) // _EACH + 2
    draws = [
        order[first_kept([one], randomness)]
        for one in (cover() for _ in range(covers))
        for _ in range(_EACH)
    ]
    check_draws(draws, truth, twins=others)


def below_on_paths(
    law: PolytopeLaw[Any], exact: Callable[[tuple[int, ...]], float]
) -> tuple[int, int]:
    """Return how many points of polytopes down random paths of cuts are below their bounds.

    And how many polytopes have a bound that says something.
    """
    rng, randomness, wrong, informative = random.Random(3), seeded_randomness(3), 0, 0
    parts = law.start()
    for part in [*parts, *parts[-1:] * (_PATHS - 1)]:
        stack, known, exponent = Stack([part.polytope]), part.known, part.exponent
        for _ in range(_CUTS):
            chosen = rng.randrange(len(stack.polytopes))
            polytope, frame = stack.polytopes[chosen], Frame.around(stack)[chosen]
            view = law.views([known] * len(stack.polytopes), stack)[chosen]
            known, exponent = view.known, max(exponent, view.exponent)
            informative += view.exponent > 1
            for point in (frame.draw_point(randomness) for _ in range(4)):
                wrong += polytope.holds(point) and exponent > exact(point) * (1 + 1e-12)
            cut = view.cut or frame.halving(len(polytope.walls))
            kept = [half for half in polytope.halves(cut) if half is not None] if cut else []
            if not kept:
                break
            stack = Stack(kept)
    return wrong, informative
