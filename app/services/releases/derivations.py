"""Derivations: free answers made of released numbers alone.

Whoever may see a release may compute with it; doing it here saves them the geometry. No data set
is opened (none need be left), nothing is charged, no ledger entry is made, and no policy
applies: a policy limits what leaves the data, and this has left it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from app.domain.problems import invalid_request
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.answers import inference_json, noise_json
from app.services.plans.plans import PlanService
from app.services.plans.questions import read_question, statistic_json
from app.services.releases.releases import ReleaseService
from app.store import ReleaseRecord
from mechanisms.contract import InvalidStatisticError, Noise, Statistic
from mechanisms.derivations import Released, derive, deriving_ms
from mechanisms.domain import Schema
from mechanisms.presentation import counted, shown

WORDING = (
    "Post-processing: computed from the released numbers and public facts alone, without the data. "
    "It has the guarantee of the release it was derived from, and costs nothing."
)


class DerivationService:
    """Derives statistics from releases, for those who may see them."""

    def __init__(
        self, releases: ReleaseService, datasets: DatasetService, plans: PlanService
    ) -> None:
        self._releases = releases
        self._datasets = datasets
        self._plans = plans

    async def derive(
        self, release: str, statistic: Statistic, *, caller: Caller
    ) -> dict[str, object]:
        """Return the derived answer as JSON-ready fields.

        Raises
        ------
        Problem
            ``not-found`` for foreign and unknown releases alike; ``invalid-request``
            when the release has no result, or does not determine the statistic; ``busy``.
        """
        record = await self._releases.get(release, caller=caller)
        facts = self._datasets.facts(record.dataset)
        asked = read_question(record.request)
        return await self._plans.compute(
            _derivation,
            record,
            facts,
            statistic,
            person=caller.person,
            expected_ms=asked.planning_ms(facts.schema)
            + deriving_ms(asked.statistic, facts.schema),
        )


def _derivation(
    record: ReleaseRecord, facts: DatasetFacts, statistic: Statistic
) -> dict[str, object]:
    if record.result is None:
        raise invalid_request("release", "the release has no result to derive from")
    answer = json.loads(record.result)
    try:
        outcome = derive(statistic, _released(record, answer, facts.schema), facts.schema)
        outcome = shown(outcome, statistic, facts.schema)
    except InvalidStatisticError as error:
        place = error.field_name
        raise invalid_request(
            place if place == "statistic" else f"statistic.{place}", error.detail
        ) from None
    return {
        "derived_from": record.id,
        "dataset": record.dataset,
        "statistic": statistic_json(statistic),
        "value": outcome.value,
        "noise": noise_json(outcome.noise),
        "inference": inference_json(outcome.inference),
        "guarantee": answer["guarantee"],
        "cost": "0",
        "reason": WORDING,
    }


def _released(record: ReleaseRecord, answer: Mapping[str, object], schema: Schema) -> Released:
    """Return a stored answer as the mechanisms read it."""
    question = read_question(record.request)
    kept = json.loads(record.plan)
    told = counted(answer, question.statistic, schema)
    noise = told["noise"]
    return Released(
        statistic=question.statistic,
        norm=kept["norm"],
        epsilon=question.epsilon,
        value=told["value"],
        noise=None if noise is None else Noise(**noise),
        details=kept["details"],
    )
