"""The study of what ``auto`` takes: its scaled coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.privacy import Epsilon
from mechanisms.testing import seeded_randomness
from studies.choices import Setting


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
