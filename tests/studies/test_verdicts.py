"""A release says what its preview said; ``python -m studies.verdicts 200`` asks more of them."""

from __future__ import annotations

from typing import Any

import pytest

from app.demo import HOUSING
from studies.verdicts import bare, calibrated, judged, questions


def test_a_release_seldom_contradicts_its_preview() -> None:
    stated = list(judged(questions(6, seed=4)))
    different = [each.sentences for each in stated if not each.agrees]
    assert len(different) <= 1, different
    assert all(each.before != "depends" for each in stated)


def test_realised_errors_are_near_expected_ones() -> None:
    """``python -m studies.verdicts 60 --errors``: 286 of 296 are within a factor of 2."""
    found = list(calibrated(3, draws=8, seed=5))
    assert len(found) >= 12
    outside = [(each.mean, each.question) for each in found if not 1 / 3 <= each.mean <= 3]
    assert len(outside) <= 1, outside
    for each in found:
        assert each.verdict != "good" or max(each.ratios) < 4, each


def test_without_a_word_about_spreads_a_verdict_is_not_contradicted() -> None:
    """Values that spread less than evenly made errors up to 500 times as large as expected."""
    line: dict[str, Any] = {"kind": "linear_regression", "bound": 3}
    asked = [
        ({**line, "target": "median_income", "features": ["households", "total_bedrooms"]}, "3"),
        ({**line, "target": "households", "features": ["latitude", "longitude"]}, "0.5"),
        ({"kind": "correlation", "columns": ["housing_median_age", "households"]}, "0.1"),
        ({"kind": "correlation", "columns": ["total_rooms", "median_house_value"]}, "0.02"),
        ({"kind": "std", "columns": ["population"]}, "0.02"),
    ]
    found = [
        {"statistic": each, "epsilon": epsilon, "norm": "auto",
         "mechanism": "functional" if each["kind"] == "linear_regression" else "auto"}
        for each, epsilon in asked
    ]  # fmt: skip
    for each in judged(found, bare(HOUSING)):
        assert each.before == "depends", each.sentences
        assert each.after in ("weak", "noise"), each.sentences


ROOMS = {"kind": "mean", "columns": ["total_rooms"]}
AGES = {"kind": "variance", "columns": ["housing_median_age"]}
TOGETHER = {"kind": "correlation", "columns": ["households", "longitude"]}
BY_COAST: dict[str, Any] = {"by": ["ocean_proximity"]}
ISLAND = {"where": [{"column": "ocean_proximity", "op": "==", "value": "ISLAND"}]}
MANY_PEOPLE = {"where": [{"column": "population", "op": ">=", "value": 17043}]}


@pytest.mark.parametrize("chosen", [BY_COAST, ISLAND, MANY_PEOPLE])
def test_without_a_word_about_sizes_a_verdict_is_left_open(chosen: dict[str, Any]) -> None:
    """Whatever the rows are: the first are few, and of equal groups the answer would be good."""
    asked = [
        {"statistic": {**each, **chosen}, "epsilon": "3", "mechanism": "auto", "norm": "auto"}
        for each in (ROOMS, AGES, TOGETHER)
    ]
    for each in judged(asked, bare(HOUSING)):
        assert each.before == "depends", each.sentences
        assert each.after != "good", "the promise of equal groups would have been broken"
