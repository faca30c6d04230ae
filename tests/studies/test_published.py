"""The published methods as written from their formulas: their noise, their privacy, their fits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from studies.peers import published, urban
from studies.peers.cells import Interval, Values

COLUMNS: list[Interval] = [(0.0, 2.0), (-1.0, 3.0), (-2.0, 1.0)]
EPSILON = 1.5


def table() -> Values:
    rng = np.random.default_rng(11)
    x = rng.uniform([0.0, -1.0], [2.0, 3.0], (400, 2))
    y = np.clip(0.1 + x @ [0.3, -0.4] + rng.normal(0, 0.2, 400), -2, 1)
    return np.column_stack([np.ones(400), x, y])


def test_no_replaced_row_moves_a_moment_further() -> None:
    """And each entry is moved so far by some row, or the widths would waste epsilon."""
    places = [np.linspace(low, high, 13) for low, high in COLUMNS]
    products = [np.outer((1.0, *row), (1.0, *row)) for row in itertools.product(*places)]
    reached = np.ptp(products, axis=0)
    reached[0, 0] = 1.0  # a count, which a replaced row leaves alone
    assert published.widths(COLUMNS) == pytest.approx(reached)


def test_a_true_epsilon_is_spent_by_all_entries_but_the_count() -> None:
    columns = [(0.0, 2.0), (0.0, 5.0), (0.0, 1.0)]
    moved = published.widths(columns)
    count = published.distinct(len(moved))
    stated = published.stated_epsilon(EPSILON, columns=len(columns))
    low, high = (np.array([1.0, *ends]) for ends in zip(*columns, strict=True))
    change = np.abs(np.outer(high, high) - np.outer(low, low))
    scales = moved * count / stated
    spent = sum(change[place] / scales[place] for place in zip(*np.triu_indices(4), strict=True))
    assert spent == pytest.approx(EPSILON)


def test_each_distinct_moment_has_a_draw_of_its_own() -> None:
    moved = published.widths(COLUMNS)
    drawn = published.laplace(moved, EPSILON, 40_000, np.random.default_rng(3))
    assert np.array_equal(drawn, drawn.transpose(0, 2, 1))
    # A Laplace variable of scale b is b from zero in the mean, and 2 b^2 is its variance.
    scales = moved * 10 / EPSILON
    assert np.abs(drawn).mean(axis=0) == pytest.approx(scales, rel=0.03)
    assert (drawn**2).mean(axis=0) == pytest.approx(2 * scales**2, rel=0.06)
    entries = drawn[:, *np.triu_indices(4)]
    alike = np.corrcoef(entries, rowvar=False) - np.eye(10)
    assert np.abs(alike).max() < 0.03


def test_without_noise_the_fit_is_least_squares() -> None:
    rows = table()
    moved = published.widths(COLUMNS)
    fits = published.noisy_moments(rows, moved, 1e9, np.random.default_rng(5))
    fit = OLS(rows[:, -1], rows[:, :-1]).fit()
    # The published variance takes one degree of freedom for each column, and one more for luck.
    spread = fit.bse * math.sqrt((400 - 3) / (400 - 5)) * 1.959964
    expected = np.column_stack([fit.params - spread, fit.params + spread])
    for kind, width in (("asymptotic", 1e-5), ("bootstrap", 0.1)):
        assert fits[kind].estimates == pytest.approx(fit.params, abs=1e-3)
        found = np.array(fits[kind].intervals)
        assert found - expected == pytest.approx(0, abs=width * 2 * spread.min())


def test_the_bootstrap_knows_of_the_noise_and_the_asymptotic_interval_does_not() -> None:
    """Around what the rows give without privacy: 95% of one, and few of the other."""
    rows, moved = table(), published.widths(COLUMNS)
    truth = np.linalg.lstsq(rows[:, :-1], rows[:, -1])[0]
    rng = np.random.default_rng(17)
    drawn = [published.noisy_moments(rows, moved, 10.0, rng) for _ in range(100)]
    held = {}
    for kind in ("asymptotic", "bootstrap"):
        ends = np.array([fits[kind].intervals for fits in drawn])
        held[kind] = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean()
    assert held["bootstrap"] > 0.9
    assert held["asymptotic"] < 0.6


def test_a_ridge_comes_only_when_it_is_needed() -> None:
    moved = published.widths(COLUMNS)
    simulated = published.laplace(moved, EPSILON, 2_000, np.random.default_rng(9))
    reach = abs(np.quantile([np.linalg.eigvalsh(each)[0] for each in simulated], 0.01))
    sound = 50.0 * np.eye(4)
    assert published.ridged(sound, moved, simulated) is sound
    shares = np.diag(moved) / np.diag(moved).sum()
    nearly = np.diag([10.0, 10.0, 10.0, -0.5 * reach * shares[3]])
    public = published.ridged(nearly, moved, simulated)
    assert public - nearly == pytest.approx(np.diag(reach * shares))
    far = np.diag([10.0, 10.0, 10.0, -2.0 * reach])
    last = published.ridged(far, moved, simulated)
    assert last - far == pytest.approx(6.0 * reach * np.eye(4))
    assert np.linalg.eigvalsh(last)[0] > 0


def test_a_count_below_the_coefficients_gives_no_interval() -> None:
    rows, moved = table()[:1], published.widths(COLUMNS)
    fits = published.noisy_moments(rows, moved, 1e9, np.random.default_rng(1))
    assert fits["asymptotic"].intervals is None
    assert fits["bootstrap"].estimates == fits["asymptotic"].estimates


GRID = (0.0, 0.01, 0.99, 1.0)
"""Short gaps beside a long one, where a replaced row tells most."""


def densities(rows: tuple[float, ...], level: float) -> list[float]:
    """Return the density of a quantile in each gap of the grid."""
    ends = published.gaps(rows, (0.0, 1.0))
    law = published.gap_law(ends, level, EPSILON)
    places = np.searchsorted(ends, (0.005, 0.5, 0.995)) - 1
    return [float(law[place] / (ends[place + 1] - ends[place])) for place in places]


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_quantile_costs_epsilon_for_all_neighbours(level: float) -> None:
    """Also no less, nearly: what is left is the share of the short gaps."""
    tables = itertools.combinations_with_replacement(GRID, 10)
    found: dict[tuple[float, ...], list[float]] = {rows: densities(rows, level) for rows in tables}
    worst = 0.0
    for rows, place, value in itertools.product(found, range(10), GRID):
        other = tuple(sorted((*rows[:place], value, *rows[place + 1 :])))
        pairs = zip(found[rows], found[other], strict=True)
        worst = max(worst, *(abs(math.log(one / two)) for one, two in pairs))
    assert 0.9 * EPSILON < worst <= EPSILON


def test_the_law_of_a_quantile_is_length_times_score() -> None:
    ends = published.gaps([0.7, 0.2, 5.0], (0.0, 1.0))
    assert ends.tolist() == [0.0, 0.2, 0.7, 1.0, 1.0]
    weights = [0.2 * math.exp(-1.5), 0.5 * math.exp(-0.5), 0.3 * math.exp(-0.5), 0.0]
    expected = [each / sum(weights) for each in weights]
    assert published.gap_law(ends, 0.5, 2.0) == pytest.approx(expected)


def test_deciles_share_epsilon_and_are_sorted() -> None:
    ends, levels = published.gaps([0.2, 0.7, 0.8], (0.0, 1.0)), [0.25, 0.75]
    rng = np.random.default_rng(13)
    drawn = np.array(
        [published.independent_exponential(ends, levels, 4.0, rng) for _ in range(20_000)]
    )
    assert (drawn[:, 0] <= drawn[:, 1]).all()
    # Sorting keeps the sum, so that the mean of both is that of two unsorted draws.
    middle = (ends[1:] + ends[:-1]) / 2
    mean = np.mean([published.gap_law(ends, level, 2.0) @ middle for level in levels])
    assert drawn.mean() == pytest.approx(mean, abs=0.005)


def test_published_methods_stand_beside_ours() -> None:
    study = urban.STUDIES[0]
    asymptotic, bootstrap = urban.published_regressions(study, study.table(), "5", 3)
    deciles = urban.published_quantiles(study, study.table(), "5", 3)
    assert asymptotic.method == f"{urban.MOMENTS}, asymptotic"
    assert bootstrap.method == f"{urban.MOMENTS}, bootstrap"
    assert asymptotic.replicate_count == bootstrap.replicate_count == deciles.replicate_count == 3
    assert bootstrap.width_ratio is not None
    assert asymptotic.width_ratio is not None
    assert bootstrap.width_ratio > asymptotic.width_ratio > 0
    assert bootstrap.coverage is not None
    assert asymptotic.coverage is not None
    assert bootstrap.coverage > asymptotic.coverage >= 0
    assert 0 < deciles.relative_bias < 1
    assert deciles.overlap is None
