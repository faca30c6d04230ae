"""The random search for slow patterns: what it compares, and what it calls slow."""

from __future__ import annotations

import pytest

from studies.patterns import LEAST_S, Pattern, row


def test_a_pattern_is_judged_by_the_mean_of_its_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """One draw of five may be slow. What takes less than a quarter of a second counts as that."""
    rarely, always, quickly = (
        Pattern("loss", {"0000": 400, "1111": 500}, epsilon) for epsilon in ("1", "2", "5")
    )
    times = {"1": [1.0, 1.0, 9.0, 1.0, 1.0], "2": [4.1] * 5, "5": [0.2] * 5}

    def seconds(pattern: Pattern, seed: int) -> float:
        even = len(pattern.counts) == 16
        assert sum(pattern.counts.values()) == (800 if even else 900)
        if even:
            return 0.01 if pattern.epsilon == "5" else 1.0
        return times[pattern.epsilon][seed - 1]

    monkeypatch.setattr(Pattern, "seconds", seconds)
    for pattern, ratio in ((rarely, 2.6), (always, 4.1), (quickly, 1)):
        found = row([pattern], draws=5)
        assert found.ratio == pytest.approx(ratio)
        assert found.within == (ratio <= 4)
    found = row([rarely, always, quickly, rarely], draws=5)
    assert found.farthest is found.slowest is always
    assert (found.within, found.even_s) == (0.75, 1)
    assert LEAST_S == 0.25
