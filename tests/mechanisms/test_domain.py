"""The public domain: clamping, fixed-point codes, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mechanisms.domain import CODE_MAX, CategoryColumn, NumberColumn, Schema
from mechanisms.privacy import Adjacency

BOUNDS = st.tuples(
    st.fractions(-(10**6), 10**6, max_denominator=1000), st.fractions(Fraction(1, 1000), 10**6)
)


@given(bounds=BOUNDS, value=st.floats(allow_nan=False))
@example(bounds=(Fraction(0), Fraction(1, 1000)), value=1.7e308)
def test_any_value_becomes_a_code_in_range(bounds: tuple[Fraction, Fraction], value: float) -> None:
    column = NumberColumn(bounds[0], bounds[0] + bounds[1])
    code = column.encode_one(value)
    assert -CODE_MAX <= code <= CODE_MAX
    if value >= column.upper:
        assert code == CODE_MAX
    if value <= column.lower:
        assert code == -CODE_MAX


@pytest.mark.wide
@given(bounds=BOUNDS, place=st.floats(0, 1))
def test_decoding_is_within_half_a_step_inside_the_bounds(
    bounds: tuple[Fraction, Fraction], place: float
) -> None:
    column = NumberColumn(bounds[0], bounds[0] + bounds[1])
    value = float(column.lower + Fraction(place) * (column.upper - column.lower))
    error = abs(column.decode(column.encode_one(value)) - Fraction(value))
    float_noise = Fraction(2) ** -50 * (abs(column.midpoint) + column.half_width)
    assert error <= column.step / 2 + float_noise


@given(
    bounds=BOUNDS,
    values=st.lists(st.floats(-1e7, 1e7), min_size=2, max_size=20),
)
def test_encoding_keeps_the_order(bounds: tuple[Fraction, Fraction], values: list[float]) -> None:
    column = NumberColumn(bounds[0], bounds[0] + bounds[1])
    codes = column.encode(np.sort(np.array(values)))
    assert codes.dtype == np.int32
    assert (np.diff(codes) >= 0).all()


def test_an_array_and_a_public_value_encode_alike() -> None:
    column = NumberColumn(Fraction("0.1"), Fraction("7.3"))
    values = np.linspace(-1, 9, 1001)
    assert column.encode(values).tolist() == [column.encode_one(float(x)) for x in values]


def test_the_ends_the_middle_and_infinities() -> None:
    column = NumberColumn(Fraction(-1), Fraction(3))
    values = np.array([-np.inf, -1.0, 1.0, 3.0, np.inf])
    assert column.encode(values).tolist() == [-CODE_MAX, -CODE_MAX, 0, CODE_MAX, CODE_MAX]
    assert column.decode(0) == column.midpoint == 1
    assert column.decode(CODE_MAX) == 3
    assert column.half_width == 2
    assert column.extent == 3
    assert column.step == Fraction(2, CODE_MAX)


@pytest.mark.parametrize(("lower", "upper"), [(1, 1), (2, 1)])
def test_empty_bounds_are_refused(lower: int, upper: int) -> None:
    with pytest.raises(ValueError, match="lower must be below upper"):
        NumberColumn(Fraction(lower), Fraction(upper))


@pytest.mark.parametrize("values", [(), ("a", "a")])
def test_category_values_are_distinct_and_not_empty(values: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="distinct"):
        CategoryColumn(values)


def test_the_row_bound_is_public_under_both_adjacencies() -> None:
    columns = {"x": NumberColumn(Fraction(0), Fraction(1))}
    assert Schema(columns, Adjacency.REPLACE_ONE, 7).row_bound == 7
    assert Schema(columns, Adjacency.ADD_REMOVE, None, 100).row_bound == 100
    with pytest.raises(ValueError, match="lacks"):
        _ = Schema(columns, Adjacency.ADD_REMOVE, None).row_bound
