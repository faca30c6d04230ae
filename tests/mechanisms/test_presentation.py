"""Answers about dates and moments as people write them."""

from __future__ import annotations

from fractions import Fraction

from mechanisms.contract import Noise, Outcome
from mechanisms.domain import NumberColumn, Schema
from mechanisms.presentation import shown
from mechanisms.privacy import Adjacency
from mechanisms.statistics.mean import Mean


def test_noise_keeps_all_that_is_known_of_it() -> None:
    born = NumberColumn(Fraction(0), Fraction(20_000), kind="date")
    schema = Schema({"born": born}, Adjacency.REPLACE_ONE, 100)
    noise = Noise(
        std={"born": 2.0}, interval_95={"born": [8.0, 12.0]}, expected_error={"born": 1.5}
    )
    told = shown(Outcome(value={"born": 10.0}, noise=noise), Mean(columns=("born",)), schema)
    assert told.value == {"born": "1970-01-11"}
    assert told.noise == Noise(
        std=noise.std,
        interval_95={"born": ["1970-01-09", "1970-01-13"]},
        expected_error=noise.expected_error,
    )
