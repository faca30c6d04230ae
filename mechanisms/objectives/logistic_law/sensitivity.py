"""How much one record can move the gradient of the logistic loss, by ||theta||_1 =: rho alone.

A record's gradient is sigma(zeta'theta) zeta, |zeta_j| <= 1, so its entries lie in
[-sigma(rho), sigma(rho)]. Two records differ by at most 2 sigma(rho), reached where an entry of
theta is 0: zeta = (1, s) and (-1, s), s the signs of the rest.

*One coefficient*, of which none is 0 but theta itself: zeta sigma(zeta theta) lies, for theta > 0,
between -max a sigma(-a rho) over a in [0, 1] and sigma(rho), both reached. a sigma(-a rho) grows up
to a rho = t*, the root of t sigma(t) = 1, 1.2784..., so that two records differ by at most

    sigma(rho) + sigma(-rho) = 1  for rho <= t*,    sigma(rho) + (t* - 1) / rho  beyond,

as t* sigma(-t*) = t* - 1. The second is below 1.052: it is largest near rho = 4, where it is
1.0517. So 1 up to rho = 5/4 and 1.052 beyond bounds it, and both are never less than
sigma(rho), what adding a record can do.

:class:`Reach` is half of that difference, so that the cube of this half width holds all gradients
up to a shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import rational
from mechanisms.exact.floats import sigmoid
from mechanisms.objectives.sigmoid import ball_sigmoid

NEAR = Fraction(5, 4)
"""Up to this length of one coefficient two records differ by at most 1."""

FAR_DIFFERENCE = Fraction(263, 250)
"""What they differ by at most beyond it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Half of what two records can differ by; ``single`` for one coefficient, else sigma(rho)."""

    single: bool = False

    def floats(self, lengths: Floats) -> Floats:
        """Return the largest over all shorter theta, to a few units in the last place."""
        if self.single:
            near = lengths <= float(NEAR)
            return np.where(near, 0.5, float(FAR_DIFFERENCE) / 2)
        return sigmoid(lengths)[0]

    def ball(self, length: arb) -> arb:
        """Return a ball around it at a length, a dyadic number held exactly."""
        if self.single:
            return arb(1) / 2 if length <= rational(NEAR) else rational(FAR_DIFFERENCE) / 2
        return ball_sigmoid(length)
