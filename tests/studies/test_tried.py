"""The study of what was tried: its hulls, and sums next to a count."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.statistics.count import Count
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.total import Sum
from studies.tried import ASKED, apart, std


def test_a_hull_is_never_noisier_than_the_cube() -> None:
    for question in ASKED.values():
        hull, cube, l1 = (std(question, norm) for norm in ("optimal", "linf", "l1"))
        assert hull <= cube * (1 + 1e-12) < l1 * (1 + 1e-9)


def test_two_draws_are_at_their_best_split() -> None:
    centred = std(Sum(columns=("a", "b")), low=Fraction(-1, 2))
    count, shares = std(Count()), np.linspace(0.01, 0.99, 9801)
    tries = np.sqrt((centred / shares) ** 2 + (count / 2 / (1 - shares)) ** 2) / 1_000
    assert apart(Mean(columns=("a", "b"))) == pytest.approx(float(tries.min()), rel=1e-6)
