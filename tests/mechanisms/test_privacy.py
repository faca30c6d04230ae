"""Epsilon is exact decimal money, or it is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.privacy import (
    Adjacency,
    Epsilon,
    EpsilonShare,
    InvalidEpsilonError,
    Protected,
    part_of,
    split,
)
from tests.tiers import in_one


@pytest.mark.parametrize(
    ("text", "nanos", "shown"),
    [
        ("0.5", 500_000_000, "0.5"),
        ("50", 50 * 10**9, "50"),
        ("50.000", 50 * 10**9, "50"),
        ("1e-9", 1, "0.000000001"),
        ("0.000000001", 1, "0.000000001"),
        ("10e-10", 1, "0.000000001"),
        ("1E4", 10**13, "10000"),
        ("10000", 10**13, "10000"),
        ("0.1000000000000", 10**8, "0.1"),
        ("007", 7 * 10**9, "7"),
    ],
)
def test_decimal_text_becomes_exact_nanos(text: str, nanos: int, shown: str) -> None:
    epsilon = Epsilon.parse(text)
    assert epsilon.nanos == nanos
    assert str(epsilon) == shown
    assert epsilon.fraction == Fraction(nanos, 10**9)


@in_one(
    "text",
    [
        "",
        " ",
        "0",
        "0.0",
        "-1",
        "+1",
        "-0.5",
        "1e-10",
        "0.1234567891",
        "10000.000000001",
        "1e400",
        "1e99",
        "NaN",
        "nan",
        "inf",
        "Infinity",
        "-inf",
        ".5",
        "5.",
        "1,5",
        "1_000",
        "1 ",
        " 1",
        "1\n",
        "0x1",
        "1e",
        "1e1.5",
        "½",
        "१",
        "٣",
        "０.５",
        "9" * 41,
        "0." + "0" * 60 + "1",
        "1/2",
        "True",
    ],
)
def test_everything_else_is_refused_without_an_echo(text: str) -> None:
    with pytest.raises(InvalidEpsilonError) as caught:
        Epsilon.parse(text)
    message = str(caught.value)
    assert "must" in message
    assert len(text) < 3 or text.strip() not in message


@given(st.integers(1, 10_000 * 10**9))
def test_text_and_nanos_are_inverse(nanos: int) -> None:
    epsilon = Epsilon(nanos)
    assert Epsilon.parse(str(epsilon)) == epsilon
    assert Decimal(str(epsilon)) * 10**9 == nanos


@given(st.text(max_size=45))
def test_any_text_parses_exactly_or_is_refused(text: str) -> None:
    try:
        epsilon = Epsilon.parse(text)
    except InvalidEpsilonError:
        return
    assert Decimal(text) * 10**9 == epsilon.nanos


def test_a_lower_maximum_is_named() -> None:
    with pytest.raises(InvalidEpsilonError, match=r"at most 2$"):
        Epsilon.parse("2.5", maximum_nanos=2 * 10**9)


def test_epsilon_is_never_negative_and_is_ordered() -> None:
    with pytest.raises(InvalidEpsilonError):
        Epsilon(-1)
    assert Epsilon(1) < Epsilon(2)
    assert str(Epsilon(0)) == "0"


POSITIVE = st.fractions(min_value=Fraction(1, 10**9), max_value=10**9)


@pytest.mark.wide
@given(st.integers(1, 10_000 * 10**9), st.lists(POSITIVE, min_size=1, max_size=20))
def test_shares_sum_exactly_to_the_whole(nanos: int, shares: list[Fraction]) -> None:
    whole = Epsilon(nanos)
    parts = split(whole, shares)
    assert sum(part.fraction for part in parts) == whole.fraction
    assert all(
        part.fraction * share == other.fraction * mine
        for part, mine in zip(parts, shares, strict=True)
        for other, share in zip(parts, shares, strict=True)
    )
    assert all(Fraction(str(part)) == part.fraction for part in parts)


@pytest.mark.parametrize("shares", [[], [Fraction(0)], [Fraction(1), Fraction(-1, 2)]])
def test_shares_are_positive(shares: list[Fraction]) -> None:
    with pytest.raises(InvalidEpsilonError):
        split(Epsilon(1), shares)


def test_a_share_is_split_like_a_whole() -> None:
    half = EpsilonShare(Epsilon.parse("1"), Fraction(1, 2))
    third, rest = split(half, [Fraction(1), Fraction(2)])
    assert (third.fraction, rest.fraction) == (Fraction(1, 6), Fraction(1, 3))


def test_a_share_is_no_money() -> None:
    third = EpsilonShare(Epsilon.parse("1"), Fraction(1, 3))
    assert str(third) == "1/3"
    assert not hasattr(third, "nanos")
    for weight in (Fraction(0), Fraction(-1), Fraction(3, 2)):
        with pytest.raises(InvalidEpsilonError):
            EpsilonShare(Epsilon(1), weight)


def test_adjacency_reads_its_own_words() -> None:
    assert Adjacency("replace_one") is Adjacency.REPLACE_ONE
    assert Adjacency("add_remove") is Adjacency.ADD_REMOVE


@pytest.mark.parametrize(
    "whole", [Epsilon.parse("2"), EpsilonShare(Epsilon.parse("4"), Fraction(1, 2))]
)
def test_a_part_for_each_row_adds_up_to_the_whole(whole: Epsilon | EpsilonShare) -> None:
    each = part_of(whole, 3)
    assert each.fraction == Fraction(2, 3)
    assert 3 * each.fraction == whole.fraction


@pytest.mark.parametrize("rows", [0, -1])
def test_a_person_has_rows(rows: int) -> None:
    assert Protected(1).rows == 1
    with pytest.raises(ValueError, match="at least one row"):
        Protected(rows)
