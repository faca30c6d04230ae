"""The epsilon told for an accuracy is one for the mechanism that is taken at that epsilon."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.services.people.keys import Caller
from app.services.plans import previews as previews_module
from app.services.plans.previews import PreviewService, Wish
from app.services.plans.questions import Question
from mechanisms.catalog import calibrate
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.std import Std
from tests.app.test_services import BOB, question

NEEDED: Mapping[str, str | None] = {"kng": "40", "functional": "30", "exponential": None}
"""What each mechanism needs for the accuracy that is wanted."""

AUTO: Mapping[str, tuple[Mapping[str, str], str, str, str | None]] = {
    "one for all": ({"1": "kng", "40": "kng"}, "kng", "40", "40"),
    "another at the price": (
        {"1": "kng", "40": "functional", "30": "functional"}, "functional", "30", "30",
    ),
    "two that take turns": (
        {"1": "kng", "40": "functional", "30": "kng"}, "functional", "40", "30",
    ),
    "the other reaches it nowhere": (
        {"1": "kng", "40": "exponential"}, "exponential", "40", None,
    ),
}  # fmt: skip
"""Of ``auto`` at some epsilons: the mechanism, cost and needed epsilon that are told."""


class Told(PreviewService):
    """Previews made up."""

    def __init__(self, chosen: Mapping[str, str]) -> None:
        policy = SimpleNamespace(max_epsilon_per_release=None)

        async def present(_: str) -> object:
            return SimpleNamespace(policy=policy)

        super().__init__(cast(Any, SimpleNamespace(present=present)), cast(Any, None), cast(Any, 0))
        self._chosen = chosen

    async def preview(
        self, dataset: str, question: Question, wish: Wish, *, caller: Caller
    ) -> dict[str, object]:
        """Return what is made up of an epsilon."""
        mechanism = self._chosen[str(question.epsilon)]
        needed = {"wanted": wish.accuracy, "epsilon": NEEDED[mechanism]}
        return {
            "mechanism": mechanism,
            "cost": str(question.epsilon),
            "accuracy": None if wish.accuracy is None else needed,
        }


@pytest.mark.parametrize("case", AUTO)
def test_the_epsilon_told_is_for_the_mechanism_told(case: str) -> None:
    chosen, mechanism, cost, needed = AUTO[case]
    asked = question("1")
    told, asked = asyncio.run(
        Told(chosen).preview_within("ds", asked, Wish(accuracy=5.0), caller=BOB)
    )
    assert (told["mechanism"], told["cost"]) == (mechanism, cost)
    assert asked.epsilon == Epsilon.parse(cost)
    accuracy = cast(Mapping[str, object], told["accuracy"])
    assert accuracy["epsilon"] == needed == NEEDED[mechanism]


@pytest.mark.parametrize("fields", [{"kind": "std"}, {"kind": "correlation"}])
def test_where_the_noise_depends_on_the_data_the_epsilon_is_found_by_simulation(
    fields: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the widest noise there can be a standard deviation took a hundred times as much."""
    one, two = NumberColumn(Fraction(0), Fraction(100)), NumberColumn(Fraction(0), Fraction(50))
    schema = Schema({"a": one, "b": two}, Adjacency.REPLACE_ONE, rows=2000)
    statistic = {"std": Std, "correlation": Correlation}[fields["kind"]](columns=("a", "b"))
    facts = cast(Any, SimpleNamespace(schema=schema))
    found = Epsilon.parse("0.5")
    monkeypatch.setattr(previews_module, "_simulated", lambda *_: found)
    noise = calibrate(statistic, schema, found).preview(None)
    asked = replace(question("1"), statistic=statistic)
    told = previews_module._accuracy(facts, asked, Wish(accuracy=0.5), noise, "k_norm")
    assert told == {"wanted": 0.5, "epsilon": "0.5"}
