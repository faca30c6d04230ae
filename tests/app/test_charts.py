"""What charts write beside their lines: the digits that are worth reading, and no others."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.desk.charts import Measured, Scale, intervals
from app.services.publishing.pictures import chart
from app.tidy.keys import Key
from app.tidy.rows import Row, spaced, within

NARROW = (20_640.1234, 20_641.1234)
WIDE = (746.2, 1_146.1504)


def _read(told: str) -> float:
    return float(told.replace(",", ""))


@pytest.mark.parametrize(
    ("value", "step", "told"),
    [
        (3 * 0.1, 0.1, "0.3"),
        (0.25, 0.05, "0.25"),
        (0.2, 0.05, "0.20"),
        (1.0, 0.05, "1"),
        (1234.56, 0.02, "1,234.56"),
        (123_456.7, 5_000.0, "123,457"),
        (1.25e-8, 1e-10, "1.25e-08"),
        (-0.01, 0.5, "0.0"),
        (1e-9, 1e-8, "1e-09"),
    ],
)
def test_a_number_has_the_digits_of_its_step(value: float, step: float, told: str) -> None:
    assert spaced(value, step) == told


@pytest.mark.parametrize(
    ("value", "interval", "told"),
    [
        (946.1504, WIDE, "946"),
        (NARROW[0], NARROW, "20,640.123"),
        (0.0123456, (0.011, 0.014), "0.01235"),
        (0.0000123456, (1.2e-5, 1.3e-5), "1.2346e-05"),
        (12_345, (12_325.5, 12_364.5), "12,345"),
        (2.5, (2.5, 2.5), "2.5"),
        (2.5, (float("-inf"), 3.0), "2.5"),
        ("1980-01-01", ("1979-01-01", "1981-01-01"), "1980-01-01"),
    ],
)
def test_a_number_has_the_digits_of_its_interval(
    value: object, interval: tuple[object, object], told: str
) -> None:
    assert within(value, interval) == told


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.integers(4, 8))
@example(low=0.13, width=0.14, about=5)
@example(low=20_640.1, width=0.8, about=5)
@example(low=-824_633_721.5690001, width=0.001, about=4)
def test_ticks_are_told_apart_and_are_where_they_say(low: float, width: float, about: int) -> None:
    scale = Scale(low, low + width, 0, 100)
    ticks = scale.ticks(about)
    told = [_read(each) for _, each in ticks]
    assert 1 <= len(ticks) <= about + 1
    hair = width * 1e-9
    assert told == pytest.approx([value for value, _ in ticks], rel=1e-12, abs=hair)
    assert len({*told}) == len(ticks)
    # A round value is the nearest float to it: it may be one beyond an end, and no more.
    reach = max(hair, math.ulp(max(abs(scale.low), abs(scale.high))))
    assert all(scale.low - reach <= value <= scale.high + reach for value, _ in ticks)


def test_the_ticks_of_a_logarithm_are_round() -> None:
    ticks = [each for _, each in Scale(0.003, 7, 0, 100, by_logarithm=True).ticks()]
    assert ticks == ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]


def test_the_ends_of_a_scale_have_the_digits_of_its_width() -> None:
    """At the desk and on public pages: 746 to 1,146, and not 746.2 to 1,146.2."""
    desk = intervals(
        [Measured("a", 946.1504, *WIDE), Measured("b", NARROW[0], *NARROW)], "Two sizes"
    )
    public = chart(
        [
            Row(key=Key(terms=("a",)), estimate=946.1504, noise=WIDE),
            Row(key=Key(terms=("b",)), estimate=NARROW[0], noise=NARROW),
        ],
        title="Two sizes",
    )
    for drawn in (str(desk), public):
        told = re.findall(r">(-?[\d,.]+)</text>", drawn)
        assert told == ["746", "1,146", "20,640.123", "20,641.123"]
