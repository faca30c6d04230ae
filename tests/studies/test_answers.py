"""The study of what errs less than it used to: each of its questions is answered, and improves."""

from __future__ import annotations

from mechanisms.testing import seeded_randomness
from studies.answers import study, table


def test_each_question_errs_less_than_it_used_to() -> None:
    rows = list(study(9, seeded_randomness(4)))
    assert len({row.question for row in rows}) == len(rows) == 18
    *gained, homes, odds = rows
    gains = sorted(row.gain for row in gained)
    assert gains[1] > 1.5, "nine draws may hide one"
    assert homes.gain > 0.9, "squared loss, or a threshold that nearly none is beyond"
    assert 0.3 < odds.gain < 1, "the miss that the page states"
    assert table(rows).count("\n") == 2 + len(rows)
