"""Settings shared by the tests of the mechanisms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pkgutil import resolve_name
from typing import Any

import pytest

from tests.generated import load_examples

load_examples()

REUSES = 20
SHARED = {
    "kng.linear.LinearDraw.law": None,
    "samplers.affine.search.cheapest_route": None,
    "exponential.linear.equations_of": None,
    "exponential.linear.LinearDraw.law": None,
    "samplers.gaussian_ball.best_envelope": None,
    "statistics.designs.boxes.RegressionRows.trials": REUSES,
}
"""What a draw makes of its data before it asks for bits, and for how many draws it may serve.

A law and its cheapest envelope are functions of the data. A cover is refined by tries; each draw
has the law whatever it starts from (:mod:`mechanisms.samplers.envelopes`), and some begin anew.
"""


@pytest.fixture
def draws_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the draws of one plan from one data set share what they make of the data."""
    for name, uses in SHARED.items():
        owner, attribute = f"mechanisms.{name}".rsplit(".", 1)
        holder = resolve_name(owner)
        monkeypatch.setattr(holder, attribute, _kept(getattr(holder, attribute), uses))


def _kept(function: Callable[..., Any], uses: int | None) -> Callable[..., Any]:
    """Return the function, whose answer serves again where it is given the same objects."""
    answers: dict[object, tuple[Any, object]] = {}  # what was given stays, and so its identity
    served: Counter[object] = Counter()

    def answer(*given: Any, **named: Any) -> Any:
        key = tuple(map(_identity, (*given, *named.values())))
        if key not in answers or served[key] == uses:
            answers[key], served[key] = (function(*given, **named), (given, named)), 0
        served[key] += 1
        return answers[key][0]

    return answer


def _identity(given: object) -> object:
    """Return what tells an argument apart; how a plan makes its law is new each time, and alike."""
    if isinstance(given, partial):
        return given.func
    return given if isinstance(given, int | Fraction) else id(given)
