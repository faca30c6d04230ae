"""zCDP costs and conversions: safe by exact laws, and too large a claim is caught."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import log_ndtr

from app.services.datasets.accounting import PureMeter, ZcdpMeter
from mechanisms.accounting import (
    LARGEST_DELTA,
    RHO_UNIT,
    epsilon_of,
    total_units,
    units,
)
from mechanisms.catalog import calibrate
from mechanisms.domain import Schema
from mechanisms.privacy import ZCDP, Adjacency, Epsilon, Guarantee, bounded_range_rho, pure_rho
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.stack import Part, Stack
from tests.mechanisms.offers import COLUMNS, REPLACE
from tests.mechanisms.test_every_offer import CASES, Case
from tests.tiers import in_one

DELTA = Fraction(1, 10**6)
ORDERS = (1.0001, 1.01, 1.1, 1.5, 2, 3, 5, 10, 30, 100, 1000)
Floats = NDArray[np.float64]


def gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact delta of the Gaussian mechanism that is rho-zCDP (Balle & Wang 2018)."""
    mu = math.sqrt(2 * rho)
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(np.exp(first) - np.exp(second))


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3", "10", "100"])
@pytest.mark.parametrize("delta", [LARGEST_DELTA, DELTA, Fraction(1, 10**12)])
def test_totals_are_safe_and_better_than_the_simple_bound(epsilon: str, delta: Fraction) -> None:
    """Never more than the Gaussian allows, which is exactly rho-zCDP; 1.6 times is caught."""
    target = Epsilon.parse(epsilon)
    total = total_units(target.fraction, delta)
    rho, eps = float(total * RHO_UNIT), float(target.fraction)
    assert gaussian_delta(rho, eps) <= float(delta) < gaussian_delta(1.6 * rho, eps)
    log_inverse = math.log(1 / float(delta))
    assert rho >= (math.sqrt(log_inverse + eps) - math.sqrt(log_inverse)) ** 2
    back = epsilon_of(total, delta)
    assert back <= target
    assert epsilon_of(total + 1 + total // 1000, delta) > target


@pytest.mark.wide
@given(st.integers(0, 10**13), st.integers(0, 10**13), st.sampled_from([LARGEST_DELTA, DELTA]))
def test_epsilon_grows_with_what_is_spent(one: int, other: int, delta: Fraction) -> None:
    low, high = sorted((one, other))
    assert epsilon_of(low, delta) <= epsilon_of(high, delta)
    assert epsilon_of(0, delta) == Epsilon(0)


def largest_total(epsilon: Epsilon, delta: Fraction) -> Decimal:
    """The largest zCDP total by 60 digits and a search that knows nothing of floats, in units."""
    with localcontext(prec=60):
        target = Decimal(epsilon.nanos) / 10**9
        log_delta = (Decimal(delta.numerator) / delta.denominator).ln()

        def total(place: Decimal) -> Decimal:
            gap = place.exp()  # alpha - 1
            constant = (1 + gap) * (gap / (1 + gap)).ln() - place
            return (target + (log_delta - constant) / gap) / (1 + gap)

        low, high = Decimal(-17), Decimal(100)
        share = (Decimal(5).sqrt() - 1) / 2
        for _ in range(130):
            left, right = high - share * (high - low), low + share * (high - low)
            low, high = (left, high) if total(left) < total(right) else (low, right)
        return total((low + high) / 2) * 10**12


DELTAS = [LARGEST_DELTA, DELTA, Fraction(1, 10**30)]
TARGETS = st.floats(0, 13).map(lambda digits: Epsilon(min(int(10**digits), 10**13)))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", ["0.000000001", "0.000002", "0.001", "1", "100", "10000"])
def test_a_total_is_the_largest_but_for_rounding(epsilon: str, delta: Fraction) -> None:
    target = Epsilon.parse(epsilon)
    assert 0 <= largest_total(target, delta) - total_units(target.fraction, delta) < 2


def missed_by(targets: Sequence[Fraction], *, points: int = 400) -> float:
    """How many times its delta an account misses by whose target is raised after looking.

    Gaussian noise is exactly rho-zCDP: its privacy loss is a Brownian motion in rho with drift 1
    and variance 2 per unit. All that a target allows is spent; whoever sees a loss beyond the
    target by then stops there, and otherwise it is raised to the next one. The sum over the
    targets of ``E[(1 - exp(target - loss))+; stopped there]`` is the delta that is really needed.
    """
    spent, losses, weights, needed = 0.0, np.zeros(1), np.ones(1), 0.0
    for target in targets:
        rho, epsilon = float(total_units(target, DELTA) * RHO_UNIT), float(target)
        drift = rho - spent
        spread, beyond = math.sqrt(2 * drift), epsilon - losses
        above = np.exp(log_ndtr((drift - beyond) / spread))
        needed += weights @ (above - np.exp(beyond + log_ndtr(-(beyond + drift) / spread)))
        below = np.linspace(rho - 8 * math.sqrt(2 * rho), epsilon, points)
        steps = (below[:, None] - losses - drift) / spread
        density = np.exp(-(steps**2) / 2) @ weights / (spread * math.sqrt(2 * math.pi))
        width = np.full(points, below[1] - below[0])
        width[[0, -1]] /= 2
        spent, losses, weights = rho, below, density * width
    return float(needed / float(DELTA))


def test_a_target_that_follows_answers_misses_its_delta() -> None:
    """Why an account in zCDP takes no grant; fixed in advance, a target holds."""
    targets = [Fraction(2**k, 10) for k in range(14)]
    assert 1.6 < missed_by(targets[:8]) < 1.7
    assert 2.4 < missed_by(targets) < 2.5
    assert missed_by(targets) < len(targets)  # each of them counted, it holds again
    for target in targets:
        alone = missed_by([target])
        rho = float(total_units(target, DELTA) * RHO_UNIT)
        assert alone == pytest.approx(gaussian_delta(rho, float(target)) / float(DELTA))
        assert alone < 1


def test_costs_round_up() -> None:
    assert units(Fraction(1, 8)) == 125 * 10**9
    assert units(Fraction(1, 3)) == 333_333_333_334
    assert units(Fraction(1, 10**30)) == 1
    assert units(Fraction(0)) == 0


def test_out_of_range_is_refused() -> None:
    for epsilon, delta in ((Fraction(0), DELTA), (Fraction(10**5), DELTA), (Fraction(1), 0)):
        with pytest.raises(ValueError, match=r"lies"):
            total_units(epsilon, Fraction(delta))
    with pytest.raises(ValueError, match="lies"):
        epsilon_of(1, Fraction(1, 2))
    with pytest.raises(ValueError, match="amount"):
        epsilon_of(-1, DELTA)


# What a draw costs


def renyi(p: Floats, q: Floats, order: float) -> float:
    """``D_order(p || q)`` of two laws given as logs of probabilities."""
    return float(np.logaddexp.reduce(order * p + (1 - order) * q) / (order - 1))


def worst_rho(p: Floats, q: Floats) -> float:
    return max(renyi(*pair, order) / order for pair in ((p, q), (q, p)) for order in ORDERS)


def normalised(logs: Floats) -> Floats:
    return logs - float(np.logaddexp.reduce(logs))


def scores(records: list[int], cells: int = 9) -> Floats:
    """Distance of n/2 to [#{y < t}, #{y <= t}]: the loss of a median at every t."""
    below = np.array([sum(y < t for y in records) for t in range(cells)])
    upto = np.array([sum(y <= t for y in records) for t in range(cells)])
    middle = len(records) / 2
    return np.maximum(0, np.maximum(below - middle, middle - upto))


PAIRS = [([0, 0, 8, 8], [0, 8, 8, 8]), ([4] * 4, [4] * 3 + [0]), ([1, 3, 5, 7], [8, 3, 5, 7])]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_a_gradient_draw_has_bounded_range(epsilon: float) -> None:
    """The median by KNG: the log-ratio varies by at most epsilon, so rho is epsilon^2 / 8."""
    found = []
    for pair in PAIRS:
        p, q = (normalised(-epsilon / 2 * scores(records)) for records in pair)
        ratio = p - q
        assert ratio.max() - ratio.min() <= epsilon + 1e-12
        found.append(worst_rho(p, q))
    assert max(found) <= epsilon**2 / 8 + 1e-12
    assert max(found) > 0.2 * epsilon**2 / 8


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_integer_laplace_costs_more_than_a_bounded_range_would(epsilon: float) -> None:
    """The twin: charged as bounded range, a count's K-norm draw would be undercharged."""
    support = np.arange(-400, 401)
    p, q = (normalised(-epsilon * np.abs(support - shift)) for shift in (0, 1))
    assert epsilon**2 / 8 < worst_rho(p, q) <= epsilon**2 / 2


def permute_and_flip(records: list[int], rate: float) -> Floats:
    heads = np.exp(-rate * (scores(records) - scores(records).min()))

    def share(t: int) -> float:
        others = np.delete(heads, t)
        return float(heads[t] * quad(lambda u: np.prod(1 - others * u), 0, 1, epsabs=1e-13)[0])

    return np.log([share(t) for t in range(len(heads))])


def test_permute_and_flip_is_not_of_bounded_range() -> None:
    """Its log-ratio varies by more than epsilon somewhere: it is charged as epsilon-DP."""
    epsilon = 1.0
    ranges = []
    for pair in PAIRS:
        p, q = (permute_and_flip(records, epsilon / 2) for records in pair)
        assert np.exp(p).sum() == pytest.approx(1)
        ratio = p - q
        assert np.abs(ratio).max() <= epsilon + 1e-9
        ranges.append(ratio.max() - ratio.min())
    assert max(ranges) > epsilon


@in_one("case", CASES)
def test_every_offer_is_charged_by_its_kind(case: Case) -> None:
    plan = case.plan("0.5", 5)
    spent = plan.guarantee.zcdp
    if case.proof.mechanism == "composition":  # of pure draws, each at its share of epsilon
        shares = [Fraction(part["epsilon"]) for part in plan.details["parts"]]  # type: ignore[attr-defined]
        assert sum(shares) == Fraction(1, 2)
        assert spent == sum(share**2 / 2 for share in shares)
        return
    drawn = case.proof.statistic.drawn_by() or case.proof.statistic
    kng = case.proof.mechanism == "kng"
    ranged = kng or (case.proof.mechanism == "exponential" and drawn.kind != "quantile")
    if kng and case.norm == "linf" and len(getattr(drawn, "levels", ())) == 2:
        assert spent == 2 * bounded_range_rho(Epsilon.parse("0.25")), "one level after the other"
    else:
        epsilon = Epsilon.parse("0.5")
        assert spent == (bounded_range_rho(epsilon) if ranged else pure_rho(epsilon))


def test_a_stack_costs_the_sum_of_its_parts() -> None:
    epsilon, schema = Epsilon.parse("1"), Schema(COLUMNS, REPLACE, 5, 5)
    parts = (
        Part(statistic=Mean(columns=("x",)), share=1),
        Part(statistic=Quantile(column="x", levels=(0.5,)), share=3),
    )
    plan = calibrate(Stack(parts=parts), schema, epsilon)
    assert plan.guarantee.zcdp == Fraction(1, 16) / 2 + Fraction(9, 16) / 8
    assert plan.guarantee.zcdp < pure_rho(epsilon)


def test_levels_one_by_one_cost_less_than_jointly() -> None:
    schema, levels = Schema(COLUMNS, REPLACE, 5, 5), Quantile(column="x", levels=(0.2, 0.8))
    plans = [calibrate(levels, schema, Epsilon.parse("1"), norm=norm) for norm in ("linf", "l1")]
    assert [plan.guarantee.zcdp for plan in plans] == [Fraction(1, 16), Fraction(1, 8)]


def test_what_is_not_pure_has_no_price_in_epsilon() -> None:
    """If such a release came to be planned for an account in epsilon, nothing would pay for it."""
    gaussian = Guarantee(
        epsilon=Epsilon.parse("1"), adjacency=Adjacency.ADD_REMOVE, sensitivity="1",
        sensitivity_unit="rows", theorem="a test", definition=ZCDP, rho=Fraction(1, 2),
    )  # fmt: skip
    assert ZcdpMeter(DELTA).cost(gaussian) == Fraction(1, 2) / RHO_UNIT
    with pytest.raises(ValueError, match="no price in epsilon"):
        PureMeter().cost(gaussian)
    with pytest.raises(ValueError, match="states its rho"):
        replace(gaussian, rho=None)
