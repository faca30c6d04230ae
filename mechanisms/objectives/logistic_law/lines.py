"""Two lines that sigma lies between on an interval.

Below 0 sigma is convex, above 0 concave. A tangent at some d <= 0 is below sigma up to 0. Lowered
until it is at most sigma at the interval's upper end, it is below sigma there as well: sigma less a
line is concave above 0, and not negative at 0 and at the end. Where the tangent at the lower end
would be above sigma at the upper end, as it is on all of the right, the chord takes its place: up
to 0 it is below that tangent, above 0 sigma less the chord is concave again. ``sigma(t) = 1 -
sigma(-t)`` gives the upper line. Any d serves. It is near the lower end, as a steep line is far
below 0 there, and no further up than about where nothing is lowered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechanisms.exact.arrays import Floats
from mechanisms.exact.floats import sigmoid

_INWARD = 0.7  # where a tangent touches at most, from the lower end: about 0 there, or above
_REACH = 0.55  # -asinh of this times the upper end: about where a tangent meets sigma there


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines around sigma at each row's t: values at the middle of its interval, and slopes.

    ``least`` and ``most`` are sigma's ends there.
    """

    below: Floats
    rise: Floats
    above: Floats
    climb: Floats
    least: Floats
    most: Floats

    @classmethod
    def around(cls, middle: Floats, move: Floats) -> Lines:
        """Return lines that sigma is between where ``|t - middle| <= move``, and move > 0."""
        centre = np.stack([middle, -middle])  # sigma(t) = 1 - sigma(-t): both are lines below
        low, high = centre - move, centre + move
        reached = -np.arcsinh(_REACH * np.maximum(high, 0))
        touched = np.maximum(low, np.minimum(reached, low + np.minimum(move, _INWARD)))
        value, rest = sigmoid(np.stack([low, high, touched]))
        least, most, touch = value
        slope, chord = touch * rest[2], (most - least) / 2 / move
        over = np.maximum(touch + slope * (high - touched) - most, 0)
        tangent = touch + slope * (centre - touched) - over
        bent = least * rest[0] >= chord
        under = np.where(bent, (least + most) / 2, tangent)
        slope = np.where(bent, chord, slope)
        return cls(under[0], slope[0], 1 - under[1], slope[1], least[0], most[0])
