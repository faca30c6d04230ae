"""What lets a sampler be walked: words, rounding and primitives that are not yet known."""

from __future__ import annotations

import pytest
from flint import arb

from tests.enumeration.integers import WordArrays
from tests.enumeration.reals import rounded
from tests.enumeration.walk import forget


@pytest.fixture(autouse=True)
def _unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read words as integers not yet known, and round a symbol as the ball it stands for."""
    monkeypatch.setattr("mechanisms.samplers.geometric.np", WordArrays())
    monkeypatch.setattr("mechanisms.samplers.geometric.np", WordArrays())
    monkeypatch.setattr("mechanisms.exact.floats.arb", rounded(arb))
    forget()
