"""The study of what ``auto`` takes: its scaled coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.privacy import Epsilon
from mechanisms.testing import seeded_randomness
from studies.choices import OTHERS, Other, Setting, others


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
