"""The search among rows whose law is thin, in short, and that it ends a draw."""

from __future__ import annotations

import numpy as np
import pytest

from studies.thin import KINDS, LIMIT_S, main
from tests.speed import slowness


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_draws_of_thin_laws_end(kind: str) -> None:
    cases = [KINDS[kind](np.random.default_rng([3, number])) for number in range(8)]
    assert len({case.rows for case in cases}) > 3
    # A draw that is ended takes LIMIT_S; half of it is the limit on a usual machine.
    assert max(case.seconds() for case in cases) < min(LIMIT_S, LIMIT_S / 2 * slowness())


def test_a_draw_that_takes_too_long_is_ended() -> None:
    case = KINDS["median"](np.random.default_rng([2, 6]))
    whole = case.seconds()
    assert 0.01 <= case.seconds(limit_s=0.02) < min(whole / 2, LIMIT_S / 2)


@pytest.mark.slow
def test_the_search_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(cases=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if not line.startswith(" ")] == list(KINDS)
    assert all("times" in line for line in lines)
