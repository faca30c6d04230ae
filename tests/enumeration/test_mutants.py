"""A sampler with one thing changed fails the walk."""

from __future__ import annotations

import pytest

from mechanisms.samplers import geometric
from tests.enumeration.cases import CASES
from tests.enumeration.mutants import MUTANTS, Mutant
from tests.enumeration.walk import forget

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(m, id=m.title, marks=[pytest.mark.slow] if m.slow else []) for m in MUTANTS],
)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    forget()
    geometric.geometric.cache_clear()
    try:
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever shows it
            BY_NAME[mutant.case].check()
    finally:
        geometric.geometric.cache_clear()
