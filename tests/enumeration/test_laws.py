"""The shipped samplers have the laws they state, on every outcome of their random bits."""

from __future__ import annotations

import pytest

from tests.enumeration.cases import CASES, Case


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=[pytest.mark.slow] if c.slow else []) for c in CASES],
)
def test_the_law_is_the_one_stated(case: Case) -> None:
    case.check()
