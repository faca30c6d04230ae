"""What the figures are made of: data, non-private fits, and the laws of the printed formulas."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm

from mechanisms.domain import CODE_MAX, SUM_MAX
from mechanisms.sketches import exact_gram
from studies.figures import kng_1, kng_2, printed_errors, printed_laws, ss_1
from studies.figures.page import kept_rows
from tests.documents import ROOT


@pytest.mark.wide
def test_sums_of_blocks_are_sums_of_all_rows() -> None:
    """KNG's Algorithm 1 in blocks: the second begins a row before the end here."""
    rows = (1 << 19) + 1
    sums = kng_1.sums_of(rows, 7)
    blocks = list(kng_1.blocks(rows, 7))
    assert [len(target) for _, target in blocks] == [1 << 19, 1]
    codes = np.concatenate([each for each, _ in blocks], axis=1)
    target = np.concatenate([each for _, each in blocks])
    assert sums.scale == np.abs(target).max()
    scaled = np.rint(target * (SUM_MAX / sums.scale)).astype(np.int64)
    assert np.abs(scaled).max() == SUM_MAX
    finer = codes.astype(np.int64) * (SUM_MAX // CODE_MAX)
    assert sums.gram((*(f"x{j}" for j in range(1, 12)), "y")) == (
        exact_gram([*finer, scaled], rows).tolist()
    )
    design = np.vstack([np.ones(rows), codes / CODE_MAX]).T
    fit = np.linalg.lstsq(design, target, rcond=None)[0]
    assert sums.fit == pytest.approx(fit, abs=1e-6)
    assert fit == pytest.approx(kng_1.THETA, abs=0.02)
    with pytest.raises(ValueError, match="all columns"):
        sums.gram(("x1", "y"))


def test_the_papers_coefficients() -> None:
    """KNG 4.3 and 4.5.1."""
    assert pytest.approx([0, *(-1 + 2 * j / 11 for j in range(11))]) == kng_1.THETA
    assert kng_2.truth(kng_2.MEDIAN).tolist() == [0, -1]
    assert kng_2.truth(kng_2.HIGH) == pytest.approx([1.2816, -1], abs=1e-4)


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_the_non_private_fit_is_that_of_statsmodels(tau: float) -> None:
    rng = np.random.default_rng(3)
    feature = rng.uniform(-1, 1, 301)
    table = kng_2.Table(feature, -feature + rng.standard_normal(301))
    design = np.column_stack([np.ones(301), feature])
    other = sm.QuantReg(table.target, design).fit(q=tau, p_tol=1e-10, max_iter=10_000)
    assert kng_2.fitted(table, tau) == pytest.approx(other.params, abs=1e-4)


def test_the_printed_quantile_is_private_up_to_the_median_alone() -> None:
    for tenth in range(1, 10):
        level = Fraction(tenth, 10)
        assert printed_laws.quantile_loss(level, printed=False) <= 1
        assert (printed_laws.quantile_loss(level, printed=True) <= 1) == (tenth <= 5)


@pytest.mark.parametrize("trial", printed_laws.TRIALS, ids=lambda trial: trial.panel)
def test_what_is_exact_bounds_what_was_audited(trial: printed_laws.Trial) -> None:
    rows = kept_rows(printed_errors.FIGURE, ROOT / "docs/research")
    found = {row.method: row.error_mean for row in rows if row.panel == trial.panel}
    for version in (printed_errors.PRINTED, printed_errors.RIGHT):
        exact = found.get(f"{version}, {printed_errors.EXACT}")
        audited = found[f"{version}, {printed_errors.AUDITED}"]
        printed = version == printed_errors.PRINTED
        assert (exact is None) == (trial.infinite and printed)
        if exact is not None:
            assert trial.exact(printed) == pytest.approx(exact, rel=1e-5)
            assert audited <= exact
    assert found[f"{printed_errors.RIGHT}, {printed_errors.EXACT}"] <= 1


def test_the_balls_of_example_3_1() -> None:
    outline = ss_1.outline()
    for norm in ss_1.NORMS:
        order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
        size = ss_1.PRINTED[norm]
        assert np.linalg.norm(outline, order, axis=1).max() == pytest.approx(size, rel=1e-3)
        assert np.linalg.norm(ss_1.ball(norm, size), order, axis=1) == pytest.approx(size)
