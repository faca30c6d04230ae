"""Stated sensitivities against the exact largest change, over all rows of a grid of values."""

from __future__ import annotations

from fractions import Fraction

import pytest

from mechanisms.geometry.smooth import BALLS
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.registry import SINGLE_STATISTICS
from tests.enumeration.sensitivities import (
    QUESTIONS,
    RELATIONS,
    Tried,
    is_a_sum,
    largest_squared,
    require_sensitivity,
)
from tests.tiers import in_one

F = Fraction
EVERY = [
    pytest.param(tried, relation, id=f"{tried.name}-{relation}")
    for tried in QUESTIONS
    for relation in tried.relations()
]
BY_NAME = {tried.name: tried for tried in QUESTIONS}


@pytest.mark.parametrize(("tried", "relation"), EVERY)
def test_the_largest_change_is_the_one_stated(tried: Tried, relation: str) -> None:
    form = tried.form(relation)
    space, changes = form.space, tried.changes(form, relation)
    for norm in BALLS:
        # where a row only comes or goes the ends of the bounds are the worst, and are on any grid
        exact = relation == "add_remove"
        require_sensitivity(
            space.squared(norm),
            largest_squared(changes, norm, space.unit),
            tight=exact or norm in tried.tight,
            nearly=norm in tried.nearly and not exact,
        )
    ball = space.optimal_ball
    if ball is not None and not isinstance(ball, str):
        assert all(ball.contains(change, space.unit) for change in changes)
        assert not all(ball.contains(change, space.unit - 1) for change in changes)


@in_one("relation", ["replace_one", "add_remove"])
@in_one("tried", QUESTIONS)
def test_no_missing_cell_moves_an_answer_by_more(tried: Tried, relation: str) -> None:
    """A record with a missing cell is in no answer that needs it, so it may come to be, and go."""
    kept = tried.with_missing_cells()
    form = kept.form(relation)
    space, changes = form.space, kept.changes(form, relation)
    for norm in BALLS:
        require_sensitivity(
            space.squared(norm), largest_squared(changes, norm, space.unit), tight=False
        )
    ball = space.optimal_ball
    if ball is not None and not isinstance(ball, str):
        assert all(ball.contains(change, space.unit) for change in changes)


def test_counts_whose_sum_is_taken_for_public_are_caught() -> None:
    """Where a cell may be missing, a replaced record may leave all cells and enter none."""
    tried = BY_NAME["histogram"]
    kept = tried.with_missing_cells()
    changes = kept.changes(kept.form("replace_one"), "replace_one")
    ball = tried.form("replace_one").space.optimal_ball
    assert ball is not None
    assert not isinstance(ball, str)
    assert not all(ball.contains(change, 1) for change in changes)


@in_one("relation", RELATIONS)
@in_one("name", ["sum, weighed", "mean", "histogram", "moments"])
def test_the_statistics_are_sums_over_rows(name: str, relation: str) -> None:
    tried = BY_NAME[name]
    assert is_a_sum(tried.form(relation), tried.rows[:: max(len(tried.rows) // 9, 1)])


def test_every_additive_statistic_is_tried() -> None:
    tried = {type(each.statistic) for each in QUESTIONS}
    offered = {kind for kind in SINGLE_STATISTICS.values() if "k_norm" in kind.mechanisms}
    assert offered <= tried


def test_a_sensitivity_that_is_too_small_or_too_large_is_caught() -> None:
    tried = BY_NAME["variance"]
    form = tried.form("replace_one")
    changes = tried.changes(form, "replace_one")
    found = largest_squared(changes, "l1", form.space.unit)
    assert found == F(25, 8) ** 2
    with pytest.raises(AssertionError, match="more than"):
        require_sensitivity(F(3) ** 2, found, tight=True)  # as if x moved or its square did
    with pytest.raises(AssertionError, match="not reached"):
        require_sensitivity(F(4) ** 2, found, tight=True)  # m Delta_inf, of a cube


def test_the_printed_space_of_squares_is_larger_than_what_rows_can_do() -> None:
    """SS Example 8.1 prints 2 - (1 - u)^2 where 2 - 2 (1 - u)^2 is right."""
    tried = BY_NAME["variance"]
    form = tried.form("replace_one")
    unit, u = form.space.unit, F(5, 4)
    heights = [
        F(abs(change[1]), unit)
        for change in tried.changes(form, "replace_one")
        if F(abs(change[0]), unit) == u
    ]
    right, printed = 2 - 2 * (1 - u) ** 2, 2 - (1 - u) ** 2
    require_sensitivity(right, max(heights), tight=True)
    with pytest.raises(AssertionError, match="not reached"):
        require_sensitivity(printed, max(heights), tight=True)


def test_only_moments_of_several_columns_have_bounds_that_are_not_reached() -> None:
    loose = {tried.name for tried in QUESTIONS if tried.form("replace_one").space.bounds_only}
    assert loose == {"moments", "covariance", "correlation"}
    form = BY_NAME["moments"].form("replace_one")
    assert isinstance(BY_NAME["moments"].statistic, Moments)
    found = largest_squared(BY_NAME["moments"].changes(form, "replace_one"), "l1", form.space.unit)
    assert F(7) ** 2 < found < form.space.l1**2
