r"""Zero-concentrated differential privacy: what releases cost, and an (epsilon, delta) target.

A mechanism is rho-zCDP if for neighbours D, D' and every alpha > 1 the Rényi divergence obeys
``D_alpha(M(D) || M(D')) <= alpha rho`` (Bun & Steinke 2016). Costs:

- an epsilon-DP draw is ``epsilon**2 / 2``-zCDP (Bun & Steinke 2016, Prop. 1.4);
- one of *bounded range* epsilon, whose log-ratio ``log(P(y | D) / P(y | D'))`` varies by at most
  epsilon over y, is ``epsilon**2 / 8``-zCDP (Cesar & Rogers 2021, Theorem 2). A law
  ``∝ exp(-E(y; D))`` on a base measure free of data has a log-ratio ``E(y; D') - E(y; D)`` plus a
  constant, so its range is that of the change of E. The K-norm gradient mechanism's
  ``E = epsilon N / (2 Delta)`` changes by at most epsilon / 2 either way, and the exponential
  mechanism's likewise (or by epsilon one way): both have bounded range epsilon.
  Permute-and-flip is no such law and is charged as epsilon-DP;
- independent draws add up (Bun & Steinke 2016, Lemma 1.7), and so do adaptive ones:

**The filter.** Analysts choose each release after seeing the ones before; release i, given the
past, is rho_i-zCDP, rho_i a function of the past. If every run stops before ``sum rho_i``
passes rho, the whole transcript is rho-zCDP. *Proof.* Write ``L_i`` for the likelihood ratio
``P(Y_i | past, D) / P(Y_i | past, D')``, and let ``W_i = prod_{j<=i} L_j**alpha
exp(-alpha (alpha - 1) rho_j)``. Under D', ``E[L_i**alpha | past] <= exp(alpha (alpha - 1) rho_i)``,
since that is what release i's zCDP says; so ``E[W_i | past] <= W_{i-1}``, W is a supermartingale
from 1, and it stays one when the run stops at a time that the past decides. At the end
``sum rho_j <= rho`` always, hence ``E[prod L_j**alpha] <= exp(alpha (alpha - 1) rho) E[W] <=
exp(alpha (alpha - 1) rho)``, which is ``D_alpha <= alpha rho`` for the transcript. (The same
account for both directions of neighbours, and for every alpha, because no rho_i depends on
alpha; compare Whitehouse, Ramdas, Rogers & Wu 2023.) A refusal is a function of the past's
charges and the request, so it is post-processing.

**The target.** rho-zCDP gives (epsilon, delta)-DP if for some alpha > 1 (Canonne, Kamath &
Steinke 2020, Corollary 13)

    delta >= exp((alpha - 1) (alpha rho - epsilon)) (1 - 1/alpha)**alpha / (alpha - 1).

Floats look for a good alpha; the inequality is then certified in ball arithmetic, so any alpha
that passes is a proof, and the conversions err on the safe side only.

**A target is fixed.** The filter's rho is a number and no function of the past. A target that
depends on answers is not safe: it is raised only while the privacy loss is at most the present
epsilon. So each target in turn is another chance of delta. Gaussian noise at exactly rho-zCDP, its
target raised 13 times, misses its final target by 2.4 times its delta; the tests compute it. After
k targets, each certified at delta, ``k delta`` is what holds: the runs that end at target i are
those of a filter at rho_i, for each i. So an account's target never grows.

Amounts of an account are whole numbers of :data:`RHO_UNIT`, costs rounded up.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p

from scipy.optimize import minimize_scalar

from mechanisms.exact.balls import rational
from mechanisms.exact.floats import working_precision
from mechanisms.privacy import MAX_EPSILON_NANOS, NANOS_PER_EPSILON, Epsilon
from mechanisms.words import worded

RHO_UNIT = Fraction(1, 10**12)
"""One step of a zCDP account."""

LARGEST_DELTA = Fraction(1, 1000)  # more would let a method pass that shows a row in a thousand
SMALLEST_DELTA = Fraction(1, 10**30)  # beyond it the certified bits would not be enough

_DECIMAL = re.compile(r"\d+(\.\d+)?([eE][+-]?\d{1,2})?", re.ASCII)
_MAX_TEXT_LENGTH = 40  # longer texts are no amounts, only work for the parser
_BITS = 192  # far more than 30 decimals of delta ask for
_LOG_SPAN = (log(1e-7), log(1e12))


def parse_delta(text: str) -> Fraction:
    """Read a delta as plain decimal text, e.g. ``"0.000001"`` or ``"1e-6"``.

    Raises
    ------
    ValueError
        Not such a text, or out of range; the message never repeats it.
    """
    match = _DECIMAL.fullmatch(text) if len(text) <= _MAX_TEXT_LENGTH else None
    if match is None:
        raise ValueError(worded("must be a decimal number"))
    return _checked(Fraction(text))


def units(rho: Fraction) -> int:
    """Return a cost in whole units, rounded up.

    >>> units(Fraction(1, 8))
    125000000000
    """
    steps = rho / RHO_UNIT
    return -(-steps.numerator // steps.denominator)


@lru_cache(maxsize=256)
def total_units(epsilon: Fraction, delta: Fraction) -> int:
    """Return the largest zCDP total, in units, that certainly stays within (epsilon, delta).

    It is the largest but for the search for alpha, which costs it less than one unit.

    Parameters
    ----------
    epsilon
        Above 0, at most 10,000.
    delta
        From 1e-30 to 1e-3.

    Raises
    ------
    ValueError
        One of them is out of range.
    """
    if not 0 < epsilon <= Fraction(MAX_EPSILON_NANOS, NANOS_PER_EPSILON):
        raise ValueError("epsilon lies above 0 and is at most 10,000")
    _checked(delta)
    # The largest rho is below 3 delta**2 at epsilon = 0, and its slope, 1 / alpha, below 1.
    low, high = 0, units(epsilon + delta) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _within(middle * RHO_UNIT, epsilon, delta):
            low = middle
        else:
            high = middle
    return low


@lru_cache(maxsize=4096)
def epsilon_of(amount: int, delta: Fraction) -> Epsilon:
    """Return an epsilon, rounded up, that an amount of zCDP certainly stays within at this delta.

    It inverts :func:`total_units`: ``epsilon_of(total_units(e, delta), delta) <= e``.

    Raises
    ------
    ValueError
        The amount is negative, or delta is out of range.
    """
    _checked(delta)
    if amount < 0:
        raise ValueError("an amount is not negative")
    if amount == 0:
        return Epsilon(0)
    rho = amount * RHO_UNIT
    low, high = 0, NANOS_PER_EPSILON
    while not _within(rho, Fraction(high, NANOS_PER_EPSILON), delta):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _within(rho, Fraction(middle, NANOS_PER_EPSILON), delta):
            high = middle
        else:
            low = middle
    return Epsilon(high)


def _checked(delta: Fraction) -> Fraction:
    if not SMALLEST_DELTA <= delta <= LARGEST_DELTA:
        raise ValueError(worded("lies between 1e-30 and 0.001"))
    return delta


def _within(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether an order was found that proves (epsilon, delta)-DP; False is no proof."""
    cost, target = float(rho), float(epsilon)

    def log_delta(place: float) -> float:
        beyond = exp(place)  # alpha - 1
        alpha = 1 + beyond
        return beyond * (alpha * cost - target) - alpha * log1p(1 / beyond) - place

    found = minimize_scalar(log_delta, bounds=_LOG_SPAN, method="bounded", options={"xatol": 1e-9})
    # Any alpha proves it, so the float that the search ended at may stand for an exact number.
    beyond = Fraction(exp(float(found.x)))
    # Hopeless by more than floats err: not worth the balls. A near miss is left to them.
    if float(found.fun) > log(float(delta)) + 1e-6:
        return False
    with working_precision(_BITS):
        gap, alpha = rational(beyond), rational(1 + beyond)
        exponent = gap * (alpha * rational(rho) - rational(epsilon)) + alpha * (gap / alpha).log()
        return bool((exponent.exp() / gap) <= rational(delta))
