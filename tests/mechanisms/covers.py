"""The law of what covers draw, beside every point's own exponent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mechanisms.samplers.envelopes import Trial, first_kept
from mechanisms.testing import Law, check_draws, draws_needed, seeded_randomness

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
