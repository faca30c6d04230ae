"""The published methods as written from their formulas: their noise, their privacy, their fits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chi2, laplace, norm, wishart
from statsmodels.regression.linear_model import OLS

from studies.peers import urban
from studies.peers.cells import Interval, Values
from studies.peers.published import (
    estimates,
    fits,
    moments,
    promises,
    quantiles,
    resampled,
    scaled,
)
from studies.peers.published.fits import Asked
from studies.peers.published.methods import DELTA, METHODS
from studies.peers.run import kept
from tests.documents import ROOT
from tests.tiers import in_one

COLUMNS: list[Interval] = [(0.0, 2.0), (-1.0, 3.0), (-2.0, 1.0)]
EPSILON = 1.5


def table(rows: int = 400) -> Values:
    rng = np.random.default_rng(11)
    x = rng.uniform([0.0, -1.0], [2.0, 3.0], (rows, 2))
    y = np.clip(0.1 + x @ [0.3, -0.4] + rng.normal(0, 0.2, rows), -2, 1)
    return np.column_stack([np.ones(rows), x, y])


def asked(epsilon: float, *, rows: int = 400) -> Asked:
    return Asked(rows=table(rows), bounds=COLUMNS, epsilon=epsilon, delta=DELTA)


def hockey_stick(there: Values, back: Values, epsilon: float, step: float) -> float:
    """Return the delta of two densities on a grid."""
    return float(np.maximum(there - math.exp(epsilon) * back, 0).sum() * step)


def test_no_replaced_row_moves_a_moment_further() -> None:
    """And each entry is moved so far by some row, or the widths would waste epsilon."""
    places = [np.linspace(low, high, 13) for low, high in COLUMNS]
    products = [np.outer((1.0, *row), (1.0, *row)) for row in itertools.product(*places)]
    reached = np.ptp(products, axis=0)
    reached[0, 0] = 1.0  # a count, which a replaced row leaves alone
    assert moments.widths(COLUMNS) == pytest.approx(reached)


def corner_change(columns: list[Interval]) -> Values:
    """Return what the row changes that goes from every lower bound to every upper one."""
    low, high = (np.array([1.0, *ends]) for ends in zip(*columns, strict=True))
    return np.abs(np.outer(high, high) - np.outer(low, low))[np.triu_indices(len(low))]


CORNER: list[Interval] = [(0.0, 2.0), (0.0, 5.0), (0.0, 1.0)]


def test_a_true_epsilon_is_spent_by_all_entries_but_the_count() -> None:
    moved = moments.widths(CORNER)
    count = moments.distinct(len(moved))
    stated = moments.stated_epsilon(EPSILON, columns=len(CORNER))
    scales = moved[np.triu_indices(4)] * count / stated
    assert (corner_change(CORNER) / scales).sum() == pytest.approx(EPSILON)


def test_each_distinct_moment_has_a_draw_of_its_own() -> None:
    moved = moments.widths(COLUMNS)
    drawn = moments.laplace(moved, EPSILON, 40_000, np.random.default_rng(3))
    assert np.array_equal(drawn, drawn.transpose(0, 2, 1))
    # A Laplace variable of scale b is b from zero in the mean, and 2 b^2 is its variance.
    scales = moved * 10 / EPSILON
    assert np.abs(drawn).mean(axis=0) == pytest.approx(scales, rel=0.03)
    assert (drawn**2).mean(axis=0) == pytest.approx(2 * scales**2, rel=0.06)
    entries = drawn[:, *np.triu_indices(4)]
    alike = np.corrcoef(entries, rowvar=False) - np.eye(10)
    assert np.abs(alike).max() < 0.03


@pytest.mark.parametrize(("epsilon", "shift"), [(0.2, 0.5), (1.0, 0.5), (1.0, 2.0), (4.0, 1.0)])
def test_the_delta_of_normal_noise_is_what_the_densities_say(epsilon: float, shift: float) -> None:
    grid, step = np.linspace(-12, 12, 200_001, retstep=True)
    found = hockey_stick(norm.pdf(grid, shift), norm.pdf(grid), epsilon, step)
    assert promises.gaussian_delta(epsilon, shift) == pytest.approx(found, rel=1e-6)


def test_normal_noise_spends_all_of_its_epsilon_and_delta() -> None:
    question = Asked(rows=table(), bounds=CORNER, epsilon=EPSILON, delta=DELTA)
    moved = moments.widths(CORNER)
    scales = moved[np.triu_indices(4)] * moments.gaussian_scale(question)
    shift = float(np.linalg.norm(corner_change(CORNER) / scales))
    assert promises.gaussian_delta(EPSILON, shift) == pytest.approx(DELTA)
    drawn = moments.gaussian(moved, 2.5, 20_000, np.random.default_rng(23))
    assert drawn.std(axis=0) == pytest.approx(2.5 * moved, rel=0.03)
    assert np.array_equal(drawn, drawn.transpose(0, 2, 1))


def test_scaled_rows_lie_in_the_unit_ball_and_touch_it() -> None:
    corners = np.array([(1.0, *row) for row in itertools.product(*COLUMNS)])
    found = scaled.scaled(Asked(rows=corners, bounds=COLUMNS, epsilon=1.0))
    assert np.linalg.norm(found, axis=1).max() == pytest.approx(1.0)
    assert found.min() == 0


@pytest.mark.parametrize("size", [2, 3, 4])
def test_no_scaled_row_changes_more_than_the_furthest(size: int) -> None:
    places = itertools.product(np.linspace(0, 1, 5), repeat=size - 1)
    rows = np.array([(1.0, *place) for place in places]) / math.sqrt(size)
    squares = (rows**2).sum(axis=1)
    changes = np.add.outer(squares**2, squares**2) - 2 * (rows @ rows.T) ** 2
    assert math.sqrt(changes.max()) == pytest.approx(scaled.furthest(size))


def test_spherical_noise_spends_epsilon_along_its_radius() -> None:
    """Its density is exp(-epsilon r / furthest): its radius is a gamma variable of d^2."""
    size, epsilon = 3, 2.0
    drawn = scaled.spherical(size, epsilon, 40_000, np.random.default_rng(29))
    rate = epsilon / scaled.furthest(size)
    variance = (size**2 + 1) / rate**2  # d^2 (d^2 + 1) / rate^2 is the mean of the square of r
    halves = np.where(np.eye(size) == 1, 1.0, 0.5)  # two halves are averaged off the diagonal
    assert drawn.var(axis=0) == pytest.approx(variance * halves, rel=0.05)
    assert np.array_equal(drawn, drawn.transpose(0, 2, 1))


def test_concentrated_noise_keeps_more_than_is_stated() -> None:
    question = asked(EPSILON)
    shift = scaled.furthest(4) / scaled.normal_scale(question)
    assert promises.concentrated(EPSILON, DELTA) == pytest.approx(shift**2 / 2)
    assert promises.gaussian_delta(EPSILON, shift) < DELTA
    drawn = scaled.normal(4, 3.0, 20_000, np.random.default_rng(31))
    halves = np.where(np.eye(4) == 1, 3.0, 3.0 / math.sqrt(2))
    assert drawn.std(axis=0) == pytest.approx(halves, rel=0.03)


def test_wishart_noise_has_the_published_degrees_of_freedom() -> None:
    held = scaled.degrees(0.5, 1e-6, 4)
    assert held == 4 + math.floor(14 / 0.25 * 2 * math.log(4e6))
    drawn = wishart.rvs(df=held, scale=np.eye(2), size=20_000, random_state=5)
    assert drawn.mean(axis=0) == pytest.approx(held * np.eye(2), abs=0.01 * held)


@in_one("epsilon", [0.05, 0.2, 0.7])
@in_one("length", [0.5, 1.0])
def test_the_delta_of_wishart_noise_is_what_the_densities_say(
    epsilon: float, length: float
) -> None:
    """In one dimension a Wishart variable is chi-square distributed."""
    grid, step = np.linspace(0, 200, 400_001, retstep=True)
    held = 12
    there, back = chi2.pdf(grid - length, held), chi2.pdf(grid, held)
    both = [hockey_stick(*pair, epsilon, step) for pair in ((there, back), (back, there))]
    assert promises.wishart_delta(epsilon, held, 1, length) == pytest.approx(max(both), rel=1e-3)


def test_the_delta_of_wishart_matrices_is_what_simulations_say() -> None:
    size, held, epsilon = 3, 20, 0.25
    noise = wishart.rvs(df=held, scale=np.eye(size), size=60_000, random_state=37)
    row = np.full(size, 1 / math.sqrt(size))
    half = (held - size - 1) / 2

    def loss(change: Values) -> Values:
        """Return the log density of the noise less that of what another table makes of it."""
        moved = noise - change
        positive = np.linalg.eigvalsh(moved)[:, 0] > 0
        logs = np.linalg.slogdet(noise)[1] - np.linalg.slogdet(moved)[1]
        found = half * logs - np.trace(change) / 2
        return np.where(positive, found, np.inf)

    deltas = [
        np.maximum(-np.expm1(epsilon - loss(sign * np.outer(row, row))), 0).mean()
        for sign in (1, -1)
    ]
    assert promises.wishart_delta(epsilon, held, size) == pytest.approx(max(deltas), rel=0.06)


def test_longer_rows_cost_more_wishart_noise() -> None:
    deltas = [promises.wishart_delta(0.2, 429, 3, length) for length in np.linspace(0.05, 1, 20)]
    assert deltas == sorted(deltas)


def test_wishart_noise_keeps_less_than_a_third_of_what_it_states() -> None:
    held = scaled.degrees(1.0, DELTA, 3)
    found = promises.wishart_epsilon(DELTA, held, 3)
    assert (1 + math.exp(found / 2)) * promises.wishart_delta(found / 2, held, 3) == pytest.approx(
        DELTA
    )
    assert 0.3 < found < 1 / 3


def test_a_sample_is_drawn_with_replacement() -> None:
    rows, moved = table(), moments.widths(COLUMNS)
    rng = np.random.default_rng(41)
    drawn = np.array([resampled.sample(rows, moved, 0.01, rng) for _ in range(300)])
    assert drawn[:, 0, 0] == pytest.approx(400, abs=0.06)
    squares = rows[:, -1] ** 2
    spread = math.sqrt(400 * squares.var())
    assert drawn[:, -1, -1].mean() == pytest.approx(squares.sum(), abs=4 * spread / math.sqrt(300))
    assert drawn[:, -1, -1].std() == pytest.approx(spread, rel=0.2)


def test_the_parts_of_a_samples_noise_add_up_to_that_of_a_table() -> None:
    times = np.arange(30)
    assert (times * binom.pmf(times, 400, 1 / 400)).sum() == pytest.approx(1.0)
    shift = resampled.shift(EPSILON, DELTA)
    rho = promises.concentrated(EPSILON / resampled.SAMPLES, DELTA / resampled.SAMPLES)
    assert shift**2 / 2 == pytest.approx(rho)


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_the_delta_of_a_sample_is_what_the_densities_say(epsilon: float) -> None:
    shift, rows = 0.3, 235
    grid, step = np.linspace(-10, 20, 60_001, retstep=True)
    times = np.arange(30)
    weights = binom.pmf(times, rows, 1 / rows)
    there = weights @ norm.pdf(grid - shift * times[:, None])
    found = hockey_stick(there, norm.pdf(grid), epsilon, step)
    assert promises.sample_delta(epsilon, shift, rows) == pytest.approx(found, rel=1e-4)
    assert promises.resampled_delta(epsilon, shift, rows, 1) > found


def test_all_samples_together_are_as_if_their_numbers_were_seen() -> None:
    shift, rows, epsilon = 0.2, 235, 0.5
    rng = np.random.default_rng(43)
    drawn = (rng.binomial(rows, 1 / rows, (20_000, 10)) ** 2).sum(axis=1)
    squares, times = np.unique(drawn[drawn > 0], return_counts=True)
    deltas = [promises.gaussian_delta(epsilon, shift * math.sqrt(each)) for each in squares]
    found = float(times @ deltas) / len(drawn)
    assert promises.resampled_delta(epsilon, shift, rows, 10) == pytest.approx(found, rel=0.03)


def test_one_sample_breaks_its_promise_and_all_together_keep_the_sum() -> None:
    shift, share = resampled.shift(5.0, DELTA), 1 / resampled.SAMPLES
    assert promises.sample_delta(5.0 * share, shift, 235) > 2 * DELTA * share
    assert promises.resampled_delta(5.0, shift, 235, resampled.SAMPLES) < DELTA


Draw = Callable[[Asked, np.random.Generator], dict[str, fits.Fit]]


@pytest.mark.parametrize("draw", [moments.by_laplace, scaled.by_sphere])
def test_without_noise_the_fit_is_least_squares(draw: Draw) -> None:
    rows = table()
    found = draw(asked(1e9), np.random.default_rng(5))
    fit = OLS(rows[:, -1], rows[:, :-1]).fit()
    # The published variance takes one degree of freedom for each column, and one more for luck.
    spread = fit.bse * math.sqrt((400 - 3) / (400 - 5)) * 1.959964
    expected = np.column_stack([fit.params - spread, fit.params + spread])
    for kind, width in (("asymptotic", 1e-5), ("bootstrap", 0.1)):
        assert found[kind].estimates == pytest.approx(fit.params, abs=1e-3)
        ends = np.array(found[kind].intervals)
        assert ends - expected == pytest.approx(0, abs=width * 2 * spread.min())


@pytest.mark.wide
@pytest.mark.parametrize("draw", [moments.by_laplace, moments.by_gaussian])
def test_the_bootstrap_knows_of_the_noise_and_the_asymptotic_interval_does_not(draw: Draw) -> None:
    """Around what the rows give without privacy: 95% of one, and few of the other."""
    question = asked(10.0)
    truth = np.linalg.lstsq(question.rows[:, :-1], question.rows[:, -1])[0]
    rng = np.random.default_rng(17)
    drawn = [draw(question, rng) for _ in range(60)]
    held = {}
    for kind in ("asymptotic", "bootstrap"):
        ends = np.array([fits[kind].intervals for fits in drawn])
        held[kind] = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean()
    assert held["bootstrap"] > 0.9
    assert held["asymptotic"] < 0.7


def test_a_bootstrap_far_from_the_fit_is_made_again_above_the_floor() -> None:
    released = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 900.0]])
    noise = np.zeros((500, 3, 3))
    noise[:, 0, 0] = 12.0
    rng = np.random.default_rng(47)
    theta = np.array([0.5, 1.0])
    plain = fits.from_moments(released, noise, 2.0e6, rng)["bootstrap"]
    assert plain.estimates == pytest.approx(theta * (1 - 6.0, 1), abs=0.01)
    count = 2.0e6
    again = fits.from_moments(released, noise, count, rng, floor=1e-7)["bootstrap"]
    share = np.array([1e-7, 1 / count]) * count / (2.0, 1.0)
    assert again.estimates == pytest.approx(theta * share, abs=0.01)


def test_a_ridge_comes_only_when_it_is_needed() -> None:
    moved = moments.widths(COLUMNS)
    simulated = moments.laplace(moved, EPSILON, 2_000, np.random.default_rng(9))
    reach = abs(np.quantile([np.linalg.eigvalsh(each)[0] for each in simulated], 0.01))
    sound = 50.0 * np.eye(4)
    assert moments.ridged(sound, moved, simulated) is sound
    shares = np.diag(moved) / np.diag(moved).sum()
    nearly = np.diag([10.0, 10.0, 10.0, -0.5 * reach * shares[3]])
    public = moments.ridged(nearly, moved, simulated)
    assert public - nearly == pytest.approx(np.diag(reach * shares))
    far = np.diag([10.0, 10.0, 10.0, -2.0 * reach])
    last = moments.ridged(far, moved, simulated)
    assert last - far == pytest.approx(6.0 * reach * np.eye(4))
    assert np.linalg.eigvalsh(last)[0] > 0


def test_a_count_below_the_coefficients_gives_no_interval() -> None:
    found = moments.by_laplace(asked(1e9, rows=1), np.random.default_rng(1))
    assert found["asymptotic"].intervals is None
    assert found["bootstrap"].estimates == found["asymptotic"].estimates


GRID = (0.0, 0.01, 0.99, 1.0)
"""Short gaps next to a long one, where a replaced row shows most."""


def densities(rows: tuple[float, ...], level: float) -> list[float]:
    """Return the density of a quantile in each gap of the grid."""
    ends = quantiles.gaps(rows, (0.0, 1.0))
    law = quantiles.gap_law(ends, level, EPSILON)
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
    ends = quantiles.gaps([0.7, 0.2, 5.0], (0.0, 1.0))
    assert ends.tolist() == [0.0, 0.2, 0.7, 1.0, 1.0]
    weights = [0.2 * math.exp(-1.5), 0.5 * math.exp(-0.5), 0.3 * math.exp(-0.5), 0.0]
    expected = [each / sum(weights) for each in weights]
    assert quantiles.gap_law(ends, 0.5, 2.0) == pytest.approx(expected)


@pytest.mark.wide
def test_deciles_share_epsilon_and_are_sorted() -> None:
    ends, levels = quantiles.gaps([0.2, 0.7, 0.8], (0.0, 1.0)), [0.25, 0.75]
    rng = np.random.default_rng(13)
    drawn = np.array(
        [quantiles.independent_exponential(ends, levels, 4.0, rng) for _ in range(20_000)]
    )
    assert (drawn[:, 0] <= drawn[:, 1]).all()
    # Sorting keeps the sum, so that the mean of both is that of two unsorted draws.
    middle = (ends[1:] + ends[:-1]) / 2
    mean = np.mean([quantiles.gap_law(ends, level, 2.0) @ middle for level in levels])
    assert drawn.mean() == pytest.approx(mean, abs=0.005)


TABLES = list(itertools.combinations_with_replacement(GRID, 4))


def neighbours(rows: tuple[float, ...]) -> set[tuple[float, ...]]:
    """Return the tables that differ in one row, as sorted rows."""
    replaced = itertools.product(range(len(rows)), GRID)
    return {tuple(sorted((*rows[:at], value, *rows[at + 1 :]))) for at, value in replaced}


@pytest.mark.parametrize("level", [0.25, 0.5, 0.9])
def test_a_smooth_sensitivity_is_the_largest_of_all_tables(level: float) -> None:
    """By its definition: a local sensitivity so many replaced rows away, times exp(-beta k)."""
    beta, middle = 0.7, quantiles.place(level, 4)
    local = {
        rows: max(abs(rows[middle - 1] - other[middle - 1]) for other in neighbours(rows))
        for rows in TABLES
    }
    for rows in TABLES:
        away = {rows: 0}
        for steps in range(1, 5):
            away |= {each: steps for other in list(away) for each in neighbours(other) - set(away)}
        largest = max(math.exp(-beta * away[other]) * local[other] for other in TABLES)
        ends = quantiles.gaps(rows, (0.0, 1.0))
        assert quantiles.smooth_sensitivity(ends, middle, beta) == pytest.approx(largest)


def test_a_smooth_quantile_costs_its_epsilon_and_delta_for_all_neighbours() -> None:
    epsilon, delta = 1.0, 0.02
    grid, step = np.linspace(-60, 60, 60_001, retstep=True)
    laws = {}
    for rows in TABLES:
        ((centre, scale),) = quantiles.smooth_laws(
            quantiles.gaps(rows, (0.0, 1.0)), [0.5], epsilon, delta
        )
        laws[rows] = laplace.pdf(grid, centre, scale)
    worst = max(
        hockey_stick(laws[rows], laws[other], epsilon, step)
        for rows in TABLES
        for other in neighbours(rows)
    )
    assert 0 < worst <= delta


def test_a_smooth_quantile_has_two_smooth_sensitivities_of_noise_for_each_epsilon() -> None:
    ends, epsilon, delta = quantiles.gaps([0.2, 0.7, 0.8], (0.0, 1.0)), 0.5, 0.02
    ((centre, scale),) = quantiles.smooth_laws(ends, [0.5], epsilon, delta)
    smooth = quantiles.smooth_sensitivity(ends, 2, epsilon / (2 * math.log(2 / delta)))
    assert (centre, scale) == (0.7, pytest.approx(2 * smooth / epsilon))


def test_levels_share_epsilon_and_delta() -> None:
    ends = quantiles.gaps([0.2, 0.7, 0.8], (0.0, 1.0))
    shared = quantiles.smooth_laws(ends, [0.5, 0.5], 2.0, 0.02)
    assert shared == quantiles.smooth_laws(ends, [0.5], 1.0, 0.01) * 2
    drawn = np.array(
        [quantiles.smooth(shared, (-50, 50), np.random.default_rng(seed)) for seed in range(4_000)]
    )
    assert (drawn[:, 0] <= drawn[:, 1]).all()
    centre, scale = shared[0]
    assert np.abs(drawn - centre).mean() == pytest.approx(scale, rel=0.05)


@pytest.mark.wide
def test_published_methods_stand_beside_ours() -> None:
    study = urban.STUDIES[0]
    found = {
        each.method: each for each in urban.published_regressions(study, study.table(), "5", 3)
    }
    kinds = ("asymptotic", "bootstrap")
    names = [method.name for method in METHODS if method.most >= 5]
    assert set(found) == {f"published, {name}, {kind}" for name in names for kind in kinds}
    asymptotic, bootstrap = (found[f"published, noisy moments, {kind}"] for kind in kinds)
    assert asymptotic.replicate_count == bootstrap.replicate_count == 3
    assert bootstrap.width_ratio is not None
    assert asymptotic.width_ratio is not None
    assert bootstrap.width_ratio > asymptotic.width_ratio > 0
    assert bootstrap.coverage is not None
    assert asymptotic.coverage is not None
    assert bootstrap.coverage > asymptotic.coverage >= 0
    ranked, smooth = urban.published_quantiles(study, study.table(), "5", 3)
    assert 0 < ranked.relative_bias < smooth.relative_bias
    assert (ranked.delta, smooth.delta) == (0, DELTA)
    assert smooth.overlap is None


def test_the_page_has_every_measure_of_every_published_method() -> None:
    found = kept(ROOT / "docs/research/peers.md").findings
    for study, epsilon in itertools.product(urban.STUDIES, ("1", "5")):
        here = {
            each.method: each
            for each in found
            if (each.study, each.epsilon) == (study.name, epsilon)
        }
        for method, kind in itertools.product(METHODS, ("asymptotic", "bootstrap")):
            name = f"published, {method.name}, {kind}"
            if float(epsilon) > method.most:
                assert name not in here
                continue
            row = here[name]
            assert row.delta == method.delta
            assert 0 < row.true_epsilon <= float(epsilon)
            measures = row.overlap, row.width_ratio, row.sign_match, row.zero_match, row.coverage
            assert None not in measures
            assert row.replicate_count >= 60
        for name in ("independent exponential", "smooth sensitivity"):
            assert here[f"published, {name}"].replicate_count >= 200
        assert set(urban.WAYS) <= set(here)


def test_the_tables_of_the_page_have_as_many_cells_as_their_heads() -> None:
    written = list(urban.lines(kept(ROOT / "docs/research/peers.md").findings))
    promised = next(at for at, line in enumerate(written) if line.startswith("\n"))
    assert {line.count(" | ") for line in written[:promised] if "---" not in line} == {11}
    assert {line.count(" | ") for line in written[promised:] if "---" not in line} == {4}
    reported = {line.split(" | ")[0].strip("| \n") for line in written[promised + 2 :]}
    assert reported == {method.name for method in METHODS} | {
        "independent exponential",
        "smooth sensitivity",
    }


# Regressions with a delta


def rows_of(count: int, epsilon: float) -> estimates.Rows:
    rng = np.random.default_rng(5)
    design = np.column_stack([np.ones(count), rng.uniform(-1, 1, (count, 2))])
    target = design @ [0.1, 0.4, -0.2] + rng.normal(0, 0.05, count)
    return estimates.Rows(
        design=design, target=target, length=math.sqrt(3), epsilon=epsilon, delta=DELTA
    )


def least_squares(rows: estimates.Rows) -> Values:
    return np.asarray(np.linalg.lstsq(rows.design, rows.target, rcond=None)[0], np.float64)


def error_of(draw: estimates.Draw, rows: estimates.Rows, draws: int) -> float:
    rng = np.random.default_rng(6)
    truth = least_squares(rows)
    found = [draw(rows, rng) for _ in range(draws)]
    return float(np.mean([np.linalg.norm(each - truth) for each in found if each is not None]))


@pytest.mark.parametrize(
    ("draw", "largest"),
    [
        (estimates.adaptive_moments, 0.003),
        (estimates.Descent(steps=80, clip=1.0, rate=1.0), 0.002),
        (estimates.deep_model, 0.02),
    ],
)
def test_with_a_large_epsilon_methods_with_a_delta_are_near_least_squares(
    draw: estimates.Draw, largest: float
) -> None:
    near = error_of(draw, rows_of(1_500, 100.0), 6)
    assert near < largest
    assert error_of(draw, rows_of(1_500, 3.0), 6) > near


def test_noise_of_adaptive_moments_is_for_what_a_replaced_row_moves() -> None:
    """X'X moves by sqrt(2) of the squared length, its least eigenvalue by one, X'y by twice it."""
    rng = np.random.default_rng(8)
    rows = rows_of(50, 1.0)
    gram, moved = rows.design.T @ rows.design, []
    for _ in range(200):
        first, second = rng.uniform(-1, 1, (2, 2))
        other = gram + np.outer([1, *first], [1, *first]) - np.outer([1, *second], [1, *second])
        least = np.linalg.eigvalsh(other)[0] - np.linalg.eigvalsh(gram)[0]
        moved.append((np.linalg.norm(other - gram), abs(least)))
    worst = np.outer([1, 1, 1], [1, 1, 1]) - np.outer([1, -1, -1], [1, -1, -1])
    largest, eigenvalue = np.max(moved, axis=0)
    assert largest < math.sqrt(2) * rows.length**2
    assert np.linalg.norm(worst) > 0.9 * math.sqrt(2) * rows.length**2
    assert eigenvalue <= rows.length**2


def test_descent_clips_what_a_row_adds() -> None:
    """So one wild target moves a noiseless descent no further than the clip."""
    rows = rows_of(200, 500.0)
    wild = rows.target.copy()
    wild[0] = 1e6
    rng = np.random.default_rng(9)
    one = estimates.Descent(steps=1, clip=0.1, rate=1.0)
    calm, moved = one(rows, rng), one(replace(rows, target=wild), rng)
    assert calm is not None
    assert moved is not None
    assert np.linalg.norm(calm - moved) < 2 * 0.1 / 200 + 1e-3


def test_a_test_that_needs_many_models_refuses_few() -> None:
    assert estimates.deep_model(rows_of(300, 1.0), np.random.default_rng(1)) is None
    assert estimates.deep_model(rows_of(2_000, 12.0), np.random.default_rng(1)) is not None


def test_more_models_may_be_moved_where_boxes_shrink_slowly() -> None:
    slow = np.log(np.linspace(2.0, 1.0, 400))
    fast = np.log(np.linspace(2.0, 1.0, 400)) - np.arange(400.0)
    safe = estimates.unsafe_after(slow, 1.0, 1e-6, 200)
    assert safe > 0
    assert estimates.unsafe_after(slow, 4.0, 1e-6, 200) > safe
    assert estimates.unsafe_after(fast, 1.0, 1e-6, 200) < safe


def test_a_point_of_a_shell_is_in_no_deeper_box() -> None:
    ends = np.sort(np.random.default_rng(3).normal(size=(41, 2)), axis=0)
    rng = np.random.default_rng(4)
    for depth in (1, 10, 20):
        point = estimates.in_shell(ends, depth, rng)
        below = (ends <= point).sum(axis=0)
        assert np.minimum(below, len(ends) - below).min() == depth


def test_tuned_descent_is_no_worse_than_the_plain_one() -> None:
    rows = rows_of(100, 1.0)
    best = estimates.tuned_descent(rows, least_squares(rows), np.random.default_rng(2))
    assert error_of(best, rows, 20) < error_of(estimates.PLAIN, rows, 20)
