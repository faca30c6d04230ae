"""The epsilon told for an accuracy is one for the mechanism that is taken at that epsilon."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.services.people.keys import Caller
from app.services.plans.previews import PreviewOptions, PreviewService
from app.services.plans.questions import Question
from mechanisms.privacy import Epsilon
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


class Stated(PreviewService):
    """Previews made up."""

    def __init__(self, chosen: Mapping[str, str]) -> None:
        policy = SimpleNamespace(max_epsilon_per_release=None)

        async def present(_: str) -> object:
            return SimpleNamespace(policy=policy)

        super().__init__(cast(Any, SimpleNamespace(present=present)), cast(Any, None))
        self._chosen = chosen

    async def preview(
        self, dataset: str, question: Question, options: PreviewOptions, *, caller: Caller
    ) -> dict[str, object]:
        """Return what is made up of an epsilon."""
        mechanism = self._chosen[str(question.epsilon)]
        needed = {"wanted": options.accuracy, "epsilon": NEEDED[mechanism]}
        return {
            "mechanism": mechanism,
            "cost": str(question.epsilon),
            "accuracy": None if options.accuracy is None else needed,
        }


@pytest.mark.parametrize("case", AUTO)
def test_the_epsilon_told_is_for_the_mechanism_told(case: str) -> None:
    chosen, mechanism, cost, needed = AUTO[case]
    asked = question("1")
    reported, asked = asyncio.run(
        Stated(chosen).preview_within("ds", asked, PreviewOptions(accuracy=5.0), caller=BOB)
    )
    assert (reported["mechanism"], reported["cost"]) == (mechanism, cost)
    assert asked.epsilon == Epsilon.parse(cost)
    accuracy = cast(Mapping[str, object], reported["accuracy"])
    assert accuracy["epsilon"] == needed == NEEDED[mechanism]
