"""The walk itself: it follows shipped draws, resolves loops, and can fail."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import arb

from mechanisms.randomness import Randomness
from mechanisms.testing import seeded_randomness
from tests.enumeration import laws
from tests.enumeration.cases import CASES
from tests.enumeration.integers import WordArrays
from tests.enumeration.mutants import COVER_MUTANTS, MUTANTS
from tests.enumeration.walk import Bounds, Stated, law_of, require_law

PAGE = Path(__file__).parents[2] / "docs/research/enumeration.md"


def test_masses_are_exact_where_odds_are_rational() -> None:
    bounds = law_of(lambda r: (r.below(3), r.below(3)))
    assert bounds.runs < 10
    require_law(bounds, Stated(lambda _: arb(1) / 9, list(bounds.lower)))
    assert len(bounds.lower) == 9
    assert bounds.unresolved < Fraction(1, 1 << 100)


def test_an_integer_shared_by_two_answers_is_one_integer() -> None:
    def draw(randomness: Randomness) -> object:
        number = randomness.below(4)
        return number, number + 1, number < 2

    assert set(draw_outcomes(law_of(draw))) == {(k, k + 1, k < 2) for k in range(4)}


def draw_outcomes(bounds: Bounds) -> list[object]:
    """Return what can be drawn."""
    return list(bounds.lower)


def test_a_loop_without_renewal_stays_unresolved() -> None:
    bounds = law_of(lambda r: r.below(5), cutoff=2.0**-8, loops=frozenset())
    assert Fraction(1, 1 << 9) < bounds.unresolved < Fraction(1, 1 << 5)
    with pytest.raises(AssertionError, match="unresolved"):
        require_law(bounds, laws.even(5))


def test_places_inside_a_comprehension_do_not_begin_anew() -> None:
    bounds = law_of(lambda r: [r.below(3) for _ in (0, 0)])
    assert len(bounds.lower) == 9


def test_a_wrong_law_is_refused() -> None:
    bounds = law_of(lambda r: r.bernoulli(Fraction(3, 7)))
    with pytest.raises(AssertionError, match="above"):
        require_law(bounds, laws.coin(arb(1) / 2))


def test_known_words_are_read_as_ever() -> None:
    data = bytes(range(16))
    assert (WordArrays().frombuffer(data, dtype="<u4") == np.frombuffer(data, dtype="<u4")).all()
    first, second = (case.draw(seeded_randomness(5)) for case in [CASES[5], CASES[5]])
    assert first == second


def test_the_page_lists_every_case_and_every_mutant() -> None:
    rows = PAGE.read_text("utf-8").splitlines()
    for listed in (*CASES, *MUTANTS, *COVER_MUTANTS):
        assert listed.table_row in rows
