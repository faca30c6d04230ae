"""What charts write next to their lines: the digits that are worth reading, and no others."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.desk.charts import Scale
from app.desk.curves import TOGETHER
from app.desk.figures import MOST, Columns, figure
from app.tidy.keys import Key
from app.tidy.names import narrowed
from app.tidy.rows import Row, rows_of, spaced, within
from tests.tiers import in_one

NARROW = (20_640.1234, 20_641.1234)
WIDE = (746.2, 1_146.1504)


def _read(reported: str) -> float:
    return float(reported.replace(",", ""))


@in_one(
    ("value", "step", "reported"),
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
def test_a_number_has_the_digits_of_its_step(value: float, step: float, reported: str) -> None:
    assert spaced(value, step) == reported


@in_one(
    ("value", "interval", "reported"),
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
    value: object, interval: tuple[object, object], reported: str
) -> None:
    assert within(value, interval) == reported


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.integers(4, 8))
@example(low=0.13, width=0.14, about=5)
@example(low=20_640.1, width=0.8, about=5)
@example(low=-824_633_721.5690001, width=0.001, about=4)
def test_ticks_are_told_apart_and_are_where_they_say(low: float, width: float, about: int) -> None:
    scale = Scale(low, low + width, 0, 100)
    ticks = scale.ticks(about)
    reported = [_read(each) for _, each in ticks]
    assert 1 <= len(ticks) <= about + 1
    hair = width * 1e-9
    assert reported == pytest.approx([value for value, _ in ticks], rel=1e-12, abs=hair)
    assert len({*reported}) == len(ticks)
    # A round value is the nearest float to it: it may be one beyond an end, and no more.
    reach = max(hair, math.ulp(max(abs(scale.low), abs(scale.high))))
    assert all(scale.low - reach <= value <= scale.high + reach for value, _ in ticks)


def test_the_ticks_of_a_logarithm_are_round() -> None:
    ticks = [each for _, each in Scale(0.003, 7, 0, 100, by_logarithm=True).ticks()]
    assert ticks == ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]


UNITS = {
    "income": {"type": "number", "unit_of_measure": "EUR"},
    "rent": {"type": "number", "unit_of_measure": "EUR"},
    "age": {"type": "number", "unit_of_measure": "years"},
    "born": {"type": "date"},
    "sex": {"type": "category", "labels": {"f": "women", "m": "men"}},
}


def drawn(rows: Sequence[Row], columns: Columns = UNITS) -> str:
    found = figure(rows, "A <chart>", columns)
    assert found is not None
    assert "style" not in found.svg
    assert "<chart>" not in found.svg
    return str(found.svg)


def texts(picture: str, kind: str) -> list[str]:
    return re.findall(rf'<text class="{kind}"[^>]*>([^<]*)</text>', picture)


def marks(picture: str) -> list[float]:
    return [float(each) for each in re.findall(r'<circle class="mark" cx="([^%]+)%', picture)]


def mean(column: str, value: Any, *, noise: Any = None, **group: str) -> Row:
    key = Key(kind="mean", terms=(column,), group=group)
    return Row(key=key, estimate=value, noise=noise)


def test_groups_of_one_unit_share_an_axis_and_other_units_have_their_own() -> None:
    rows = [
        mean("income", 1000.0, noise=(900.0, 1100.0), sex="f"),
        mean("age", 40.0, sex="f"),
        mean("income", 2000.0, noise=(1990.0, 2010.0), sex="m"),
        mean("age", 41.0, sex="m"),
        mean("rent", 10.0, sex="f"),
    ]
    picture = drawn(rows)
    assert texts(picture, "title") == ["Mean [EUR], by sex", "Mean of age [years], by sex"]
    women, men, rent, *_ = marks(picture)
    assert rent < women < men, "one axis, and the numbers are where they are on it"
    assert picture.count('class="axis"') == 2
    assert {"women", "men", "income"} & {*texts(picture, "ink"), *texts(picture, "soft")}
    first, second = re.findall(r'class="noise" x1="([^%]+)%" y1="[^"]+" x2="([^%]+)%', picture)
    assert float(first[1]) - float(first[0]) > 5 * (float(second[1]) - float(second[0]))


def test_a_group_that_is_far_away_keeps_the_axis_and_a_term_without_a_unit_does_not() -> None:
    far = [mean("income", 1.0, sex="f"), mean("income", 5000.0, sex="m")]
    assert drawn(far).count('class="axis"') == 1
    line = [
        Row(key=Key(kind="linear_regression", measure="coefficient", terms=(each,)), estimate=value)
        for each, value in (("(intercept)", 900.0), ("age", -2.0), ("rent", 0.5))
    ]
    picture = drawn(line)
    assert texts(picture, "title") == [
        "Linear regression, (intercept)", "Linear regression, coefficients"
    ]  # fmt: skip
    assert picture.count('class="zero"') == 2, "a coefficient is compared with 0"
    _, age, rent = marks(picture)
    assert age < rent


def test_counts_are_bars_from_zero_below_headings() -> None:
    cells = [
        Row(key=Key(kind="histogram", measure="count", cell={"sex": s, "area": a}), estimate=n)
        for s, a, n in (("f", "x", 4), ("f", "y", 2), ("m", "x", -1), ("m", "y", 3))
    ]
    picture = drawn(cells)
    assert texts(picture, "title") == ["Count, by sex and area"]
    assert [each for each in texts(picture, "soft") if each.isalpha()] == ["women", "men"]
    assert texts(picture, "ink") == ["x", "y", "x", "y"]
    bars = re.findall(r'<rect class="count" x="([^%]+)%" y="[^"]+" width="([^%]+)%', picture)
    starts, widths = zip(*(map(float, bar) for bar in bars), strict=True)
    assert starts[0] == starts[1] == starts[3] > starts[2]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.05)
    assert marks(picture) == []


def test_dates_have_an_axis_of_days_and_what_cannot_be_said_a_row() -> None:
    picture = drawn([
        mean("born", "1980-01-01", noise=("1979-01-01", "1981-01-01"), sex="f"),
        Row(key=Key(kind="mean", terms=("born",), group={"sex": "m"}), note="too few"),
    ])  # fmt: skip
    days = [each for each in texts(picture, "soft") if each[:4].isdigit()]
    assert days == sorted(days)
    assert days[0] > "1978"
    assert "cannot be said" in texts(picture, "soft")
    assert len(marks(picture)) == 1


def test_a_picture_has_so_many_rows_and_says_how_many_more_there_are() -> None:
    many = [mean("income", float(at), sex=str(at)) for at in range(MOST + 5)]
    found = figure(many, "t", UNITS)
    assert found is not None
    assert (len(marks(str(found.svg))), found.left_out) == (MOST, 5)
    fit = [
        Row(key=Key(kind="linear_regression", measure="fit", terms=(each,)), estimate=0.5)
        for each in ("r_squared", "residual_variance")
    ]
    assert drawn(fit).count('class="axis"') == 2
    assert figure([], "t", UNITS) is None


def test_a_picture_alone_is_on_white_and_says_the_same() -> None:
    found = figure([mean("income", 3.0, noise=(1.0, 5.0))], "t", UNITS)
    assert found is not None
    assert str(found.alone).count("<circle") == 1
    assert 'fill="#ffffff"' in found.alone
    assert "noise interval" in found.caption
    assert "confidence" not in found.caption


def test_components_are_bars_of_shares_and_loadings_on_one_axis() -> None:
    components = [
        {"variance": 1.5, "share": 0.75, "cumulative": 0.75,
         "loadings": {"age": 0.8, "income": 0.6}, "scores": {"age": 0.01, "income": 0.0001}},
        {"variance": 0.5, "share": 0.25, "cumulative": 1.0,
         "loadings": {"age": -0.6, "income": 0.01}, "scores": {"age": 0.01, "income": 0.0001}},
    ]  # fmt: skip
    value = {"means": {"age": 40.0, "income": 900.0}, "components": components}
    rows = rows_of({"statistic": {"kind": "pca"}, "value": value})
    names = [row.name for row in rows]
    assert names[2:5] == [
        f"{each} (component=1)" for each in ("variance", "share", "cumulative share")
    ]
    assert "loading of income (component=2)" in names
    assert {row.statistic for row in rows} == {
        "mean", "variance", "share", "cumulative share", "loading", "score coefficient"
    }  # fmt: skip
    found = figure(rows, "Components", UNITS)
    assert found is not None
    assert found.svg.count('<rect class="count"') == 4
    assert found.svg.count("Loading") == 1, "whatever units columns have"
    assert found.left_out == 0


def _ratios(**intervals: tuple[float, float, float]) -> tuple[Row, ...]:
    return tuple(
        Row(
            key=Key(kind="logistic_regression", measure="odds ratio", mixed=True, terms=(name,)),
            estimate=at,
            confidence=(low, high),
        )
        for name, (low, at, high) in intervals.items()
    )


def test_ratios_are_on_a_logarithmic_axis_around_one() -> None:
    picture = drawn(_ratios(age=(0.25, 0.5, 1.0), dose=(1.0, 2.0, 4.0)))
    half, double = marks(picture)
    [one] = re.findall(r'<line class="zero" x1="([^%]+)%', picture)
    assert double - float(one) == pytest.approx(float(one) - half, abs=0.02)
    assert texts(picture, "title") == ["Odds ratio"]
    assert {"0.5", "1", "2"} <= set(texts(picture, "soft"))
    assert "logarithmic" in str(figure(_ratios(age=(0.5, 1.0, 2.0)), "t", UNITS))


def test_a_ratio_of_which_nothing_is_said_leaves_the_others_readable() -> None:
    picture = drawn(_ratios(age=(0.0, 0.5, 1e300), dose=(1.0, 2.0, 4.0)))
    half, double = marks(picture)
    assert double - half > 5
    assert 2 < len(texts(picture, "soft")) < 12


def _curve(groups: Sequence[str], name: str, **numbers: float) -> tuple[Row, ...]:
    """The rows of a curve of three places in each group, with their intervals."""
    places = [{name: text, **numbers} for text in ("1", "2", "4")]
    terms = [
        {"term": each, "place": ["groups", group, "value", "curve", at, each], "estimate": number,
         "std_error": 0.1, "confidence_95": [number / 2, 1.0], "noise_95": None}
        for group in range(len(groups)) for at in range(3) for each, number in numbers.items()
    ]  # fmt: skip
    value = {"groups": [{"by": {"arm": each}, "value": {"curve": places}} for each in groups]}
    inference = {"terms": terms, "fit": []}
    return rows_of({"statistic": {"kind": "k"}, "value": value, "inference": inference})


def test_survival_curves_are_drawn_with_their_bands_in_one_panel() -> None:
    found = figure(_curve(["a", "<b>"], "time", at_risk=9.0, survival=0.5), "Survival", {})
    assert found is not None
    assert found.svg.count("<polygon") == found.svg.count("<polyline") == 2
    assert "arm=a" in found.svg
    assert "arm=&lt;b&gt;" in found.svg
    axes = found.svg.count('<line class="axis"')
    assert axes == 1
    # a legend's line and the curve have one style, and the next curve another
    styles = re.findall(r'class="line (curve-\d)"[^>]*stroke="([^"]*)"', str(found.svg))
    assert len(styles) == 4
    assert len(set(styles)) == 2
    assert found.left_out == 0
    assert "band" in found.caption
    # it begins at 1, and falls where the first place is, a quarter of the way
    line = re.search(r'<polyline[^>]* points="([^"]*)"', str(found.svg))
    assert line is not None
    corners = [tuple(map(float, each.split(","))) for each in line[1].split()]
    assert corners[0][1] == corners[1][1] < corners[2][1]
    assert corners[1][0] == corners[2][0] == pytest.approx(12 + (95 - 12) / 4, abs=0.01)


def test_curves_without_intervals_have_no_band_and_no_caption_that_says_so() -> None:
    rows = [replace(row, confidence=None) for row in _curve(["a"], "time", survival=0.5)]
    found = figure(rows, "Survival", {})
    assert found is not None
    assert "<polygon" not in found.svg
    assert "<polyline" in found.svg
    assert found.caption == "Line: survival."


def test_pictures_say_which_records_they_are_of() -> None:
    said = narrowed({"where": [{"column": "wave", "value": 2}], "weights": "w"})
    for rows in (_curve(["a"], "time", survival=0.5), [mean("income", 3.0)]):
        found = figure(rows, "t", UNITS, said=said)
        assert found is not None
        assert "where wave is 2, weighted by w" in " ".join(re.findall(r">([^<]+)<", found.alone))


def test_more_curves_than_have_styles_of_their_own_take_further_panels() -> None:
    groups = [f"g{number}" for number in range(TOGETHER + 1)]
    found = figure(_curve(groups, "time", survival=0.5), "Survival", {})
    assert found is not None
    assert found.svg.count('<line class="axis"') == 2
    assert found.svg.count("<polyline") == TOGETHER + 1


def test_rates_are_drawn_against_one_another_with_the_diagonal() -> None:
    rates = _curve(["a"], "threshold", false_positive=0.2, true_positive=0.6)
    found = figure(rates, "Rates", {})
    assert found is not None
    assert found.svg.count("<circle") == 3
    assert found.svg.count("<polygon") == 0
    assert "predicts nothing" in found.caption


def test_a_statistic_and_a_p_value_are_not_on_the_axis_of_a_tests_estimate() -> None:
    """They have no interval, and are no amounts of what the estimate is of."""
    value = {"statistic": 1.06, "p_value": 0.3, "estimate": 1.28}
    term = {"term": "estimate", "place": ["estimate"], "confidence_95": [-1.1, 3.7]}
    rows = rows_of({"statistic": {"kind": "test"}, "value": value, "inference": {"terms": [term]}})
    found = figure(rows, "Test", {})
    assert found is not None
    assert found.svg.count("<circle") == 1
    assert found.left_out == 2
    assert 'class="zero"' in found.svg
    assert "hypothesis" not in found.caption
    bare = figure(rows_of({"statistic": {"kind": "test"}, "value": value}), "Test", {})
    assert bare is not None
    assert bare.svg.count("<circle") == 3, "without any interval all are shown"


@pytest.mark.parametrize(
    ("asked", "at"), [({"value": 50}, 50.0), ({"value": 50, "groups": "sex"}, 0.0)]
)
def test_a_tests_estimate_is_drawn_against_the_value_of_its_hypothesis(
    asked: dict[str, object], at: float
) -> None:
    """Of groups that are compared it is a difference, whatever value the question names."""
    value = {"statistic": 1.06, "p_value": 0.3, "estimate": 61.4}
    term = {"term": "estimate", "place": ["estimate"], "confidence_95": [59.1, 63.7]}
    statistic = {"kind": "test", "columns": ["age"], **asked}
    rows = rows_of({"statistic": statistic, "value": value, "inference": {"terms": [term]}})
    found = figure(rows, "Test", {})
    assert found is not None
    for picture in (found.svg, found.alone):
        (line,) = re.findall(r'<line class="zero" x1="([\d.]+)%?"', picture)
        (dot,) = re.findall(r'<circle[^>]* cx="([\d.]+)%?"', picture)
        assert float(line) < float(dot)
    assert ("Strong line: the value of the hypothesis, 50." in found.caption) is (at == 50.0)
    ticks = [float(each) for each in re.findall(r">(-?[\d.]+)</text>", found.svg)]
    assert (min(ticks) >= 45) is (at == 50.0), "the axis begins near the value"
