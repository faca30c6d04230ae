"""The discrete Gaussian follows its law exactly, and two near ones are refused."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2

from mechanisms.accounting import units
from mechanisms.exact.floats import Floats
from mechanisms.geometry.laws import discrete_gaussian_law
from mechanisms.samplers.knorm import draw_discrete_gaussian, gaussian_rho
from mechanisms.testing import FLAKE, Law, check_draws, draws_to_refuse, seeded_randomness

VARIANCES = [Fraction(1, 5), Fraction(1), Fraction(9, 4), Fraction(1000, 7)]


def weights(points: Floats, variance: float) -> Floats:
    return np.exp(-(points**2) / (2 * variance))


def rounded_normal(points: Floats, variance: float) -> Floats:
    """The weights of a continuous normal variable that is rounded to whole numbers."""
    ends = np.append(points - 0.5, points[-1] + 0.5) / math.sqrt(2 * variance)
    return np.diff([math.erf(each) for each in ends])


def reach(variance: Fraction) -> Floats:
    far = math.ceil(12 * math.sqrt(variance)) + 2
    return np.arange(-far, far + 1, dtype=np.float64)


@pytest.mark.statistical
@pytest.mark.parametrize("variance", VARIANCES)
def test_draws_follow_the_law_and_no_other_scale(variance: Fraction) -> None:
    points = reach(variance)
    law = Law.discrete(points, weights(points, float(variance)))
    controls = [
        Law.discrete(points, weights(points, float(variance) * scale**2)) for scale in (0.7, 1.3)
    ]
    count = draws_to_refuse(controls, law, points)
    draws = draw_discrete_gaussian(seeded_randomness(3), count, variance)
    check_draws(draws, law, twins=controls)


def chi_square(draws: list[int], points: Floats, law: Floats) -> tuple[float, int]:
    """Return the statistic of Pearson's test, and its degrees of freedom, on cells of at least 20.

    Cells at both ends are joined.
    """
    expected = law / law.sum() * len(draws)
    seen = np.array([np.count_nonzero(np.array(draws) == point) for point in points])
    full = np.flatnonzero(expected >= 20)
    ends = [0, *range(full[0] + 1, full[-1] + 1), len(points)]
    parts = [(seen[a:b].sum(), expected[a:b].sum()) for a, b in pairwise(ends)]
    return sum((s - e) ** 2 / e for s, e in parts), len(parts) - 1


@pytest.mark.statistical
def test_three_percent_of_sigma_and_a_rounded_normal_are_refused() -> None:
    """Pearson's test on every point: the law fits, sigma off by 3 % and a rounded normal do not."""
    variance = Fraction(4, 5)
    points = reach(variance)
    draws = draw_discrete_gaussian(seeded_randomness(5), 60_000, variance)
    fits, freedom = chi_square(draws, points, weights(points, float(variance)))
    threshold = chi2.isf(FLAKE, freedom)
    assert fits < threshold
    near = float(variance)
    for wrong in (
        weights(points, near * 1.03**2),
        weights(points, near * 0.97**2),
        rounded_normal(points, near),
    ):
        # the draws themselves, tested against each wrong law
        assert chi_square(draws, points, wrong)[0] > threshold


@pytest.mark.parametrize("variance", [Fraction(1, 10**6), Fraction(10**24), Fraction(10**13, 7)])
def test_extreme_variances_end_in_time(variance: Fraction) -> None:
    draws = draw_discrete_gaussian(seeded_randomness(1), 50, variance)
    assert len(draws) == 50
    assert all(v * v < 80 * variance + 1 for v in draws)


def test_no_draws_and_no_variance() -> None:
    assert draw_discrete_gaussian(seeded_randomness(1), 0, Fraction(1)) == []
    with pytest.raises(ValueError, match="positive"):
        draw_discrete_gaussian(seeded_randomness(1), 1, Fraction(0))


@pytest.mark.parametrize("variance", [0.2, 1.0, 30.0, 2e6])
def test_the_described_law_is_the_law(variance: float) -> None:
    points = reach(Fraction(variance))
    mass = weights(points, variance)
    mass /= math.fsum(mass)
    described = discrete_gaussian_law(variance)
    assert described.std == pytest.approx(math.sqrt(mass @ points**2), rel=1e-6)
    assert described.mean_size == pytest.approx(mass @ np.abs(points), rel=1e-5)
    half = described.half_width_95
    assert mass[np.abs(points) > half].sum() <= 0.05 * (1 + 1e-4)
    assert mass[np.abs(points) > half - 1].sum() > 0.05 * (1 - 1e-4)


def test_rho_is_exact_and_is_the_divergence() -> None:
    """Renyi divergences of shifted laws stay below alpha rho, and reach it for whole shifts."""
    variance, shift = Fraction(9, 4), 2
    rho = gaussian_rho(Fraction(shift**2), variance)
    assert rho == Fraction(8, 9)
    assert units(rho) == -(-(10**12) * 8 // 9)
    points = reach(variance)
    law = weights(points, float(variance))
    law /= law.sum()
    other = np.roll(law, shift)
    for alpha in (1.5, 2.0, 4.0):
        divergence = math.log(np.sum(law**alpha * other ** (1 - alpha))) / (alpha - 1)
        assert divergence <= alpha * float(rho) * (1 + 1e-9)
        if alpha == 2.0:  # the tilted law is again on whole numbers, so equality is reached
            assert divergence == pytest.approx(alpha * float(rho), rel=1e-6)
