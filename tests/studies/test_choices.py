"""The study of what ``auto`` takes: its scaled coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.privacy import Epsilon
from mechanisms.testing import seeded_randomness
from studies.choices import (
    OTHERS,
    STORED,
    Other,
    Setting,
    groups,
    others,
    regret_lines,
    regrets,
    stored,
)


@pytest.mark.parametrize("flags", [0, 2])
def test_an_answer_without_noise_is_least_squares_in_scaled_units(flags: int) -> None:
    setting = Setting(500, 4, rho=0.5, flags=flags)
    data, truth = setting.sample(np.random.default_rng(3))
    plan = calibrate(
        setting.statistic, setting.schema(), Epsilon.parse("10000"), mechanism="functional"
    )
    value = plan.draw(data, seeded_randomness(1)).value["coefficients"]
    assert isinstance(value, dict)
    assert setting.scaled(value) == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize("kind", dict.fromkeys(each.kind for each in OTHERS))
def test_every_fixed_choice_of_another_regression_is_planned(kind: str) -> None:
    setting = Other(kind, 200, 1)
    schema, _ = setting.sample(np.random.default_rng(3))
    taken = calibrate(setting.statistic, schema, Epsilon.parse("1"))
    ways = set()
    for statistic, mechanism, norm in setting.candidates().values():
        plan = calibrate(statistic, schema, Epsilon.parse("1"), mechanism=mechanism, norm=norm)
        ways.add((plan.mechanism, plan.norm))
    assert (taken.mechanism, taken.norm) in ways
    assert len(setting.candidates()) > 3


def test_what_auto_takes_has_its_error_to_the_last_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.choices.OTHERS", (Other("poisson", 200, 1),))
    ((_, means, best, over),) = others(1)
    assert means["auto"] == means["objective_perturbation linf"]
    assert over == means["auto"] / means[best] >= 1


def test_the_page_has_the_regrets_of_the_stored_errors() -> None:
    page = (STORED.parents[1] / "choices.md").read_text("utf-8")
    assert "\n".join(regret_lines(stored())) in page
    assert len(stored()) == 47


def test_no_fixed_choice_has_a_clearly_smaller_regret_than_auto_in_any_group() -> None:
    """It cannot be the candidate that is best on average, which another is far below: a control."""
    found = regrets(stored())
    assert len(found) == 6
    for each in found:
        least = each.by_candidate[each.least]
        assert least > 1.3  # what is wanted is impossible
        assert each.by_candidate[each.taken] <= 1.1 * least
    assert not all(
        each.by_candidate["0.125"] <= 1.1 * each.by_candidate[each.least] for each in found
    )


def test_auto_takes_today_what_the_stored_errors_are_of() -> None:
    for group in regrets(stored()):
        setting = group.settings[0]
        plan = calibrate(setting.statistic, setting.schema(), Epsilon.parse(setting.epsilon))
        assert f"{plan.details.get('threshold', 'squared'):g}" == group.taken


def test_settings_of_a_group_differ_in_what_is_not_public_alone() -> None:
    one, other = Setting(60, 2), Setting(60, 2, law="heavy", spread=0.5, error=0.2)
    apart = Setting(60, 2, 2.0)
    assert groups([one, apart, other]) == [[one, other]]
    assert one.schema() == other.schema()
