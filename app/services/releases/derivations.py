"""Derivations: free answers made of released numbers alone.

A reader of a release may compute with it; doing it here saves them the geometry. No data set
is opened (none need be left), nothing is charged, no ledger entry is made, and no policy
applies: a policy limits what leaves the data, and this has left it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from app.domain.problems import invalid_request
from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.answers import inference_json, limits_json, noise_json
from app.services.plans.missing import joined_members
from app.services.plans.plans import PlanService
from app.services.plans.questions import read_question, statistic_json
from app.services.releases.releases import ReleaseService
from app.store import ReleaseRecord
from app.tidy.keys import read_answer
from mechanisms.catalog import written_guarantee
from mechanisms.combined import combine, combining_ms
from mechanisms.composition import THEOREM, THEOREM_OF_ZCDP
from mechanisms.contract import InvalidStatisticError, Noise, Outcome, Statistic
from mechanisms.derivations import Released, derive, deriving_ms
from mechanisms.domain import Schema
from mechanisms.exact.fractions import decimal_text
from mechanisms.presentation import counted, shown
from mechanisms.privacy import NANOS_PER_EPSILON, PURE, ZCDP, Epsilon, definition_of
from mechanisms.statistics.questions import weighed

_ALL_WORDING = (
    "Post-processing: least squares of the numbers of these releases, by the known law of their "
    "noise, without the data. It has the guarantee of all of them together, and costs nothing."
)
_TOGETHER = "together_with"
_COMPOSED = {PURE: THEOREM, ZCDP: THEOREM_OF_ZCDP}

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
        self,
        release: str,
        statistic: Statistic,
        *,
        together_with: Sequence[str],
        caller: Caller,
    ) -> dict[str, object]:
        """Return the answer derived from one release, or several, as JSON-ready fields.

        Raises
        ------
        Problem
            ``not-found`` for foreign and unknown releases alike; ``invalid-request``
            when the release has no result, or does not determine the statistic; ``busy``.
        """
        record = await self._releases.get(release, caller=caller)
        facts = await self._datasets.present(record.dataset)
        statistic = weighed(statistic, facts.schema)
        if together_with:
            return await self._all(record, together_with, facts, statistic, caller=caller)
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

    async def _all(
        self,
        record: ReleaseRecord,
        together_with: Sequence[str],
        facts: DatasetFacts,
        statistic: Statistic,
        *,
        caller: Caller,
    ) -> dict[str, object]:
        records = [record]
        for name in together_with:
            records.append(await self._releases.get(name, caller=caller))
        if len({each.id for each in records}) < len(records):
            raise invalid_request(_TOGETHER, "a release is named twice")
        if any(each.dataset != record.dataset for each in records):
            raise invalid_request(_TOGETHER, "the releases are not all of one data set")
        asked = [read_question(each.request) for each in records]
        return await self._plans.compute(
            _combined,
            records,
            facts,
            statistic,
            person=caller.person,
            expected_ms=sum(each.planning_ms(facts.schema) for each in asked)
            + combining_ms([each.statistic for each in asked], facts.schema),
        )


def _derivation(
    record: ReleaseRecord, facts: DatasetFacts, statistic: Statistic
) -> dict[str, object]:
    answer = answer_of_stored(record, "release")
    with _refused_in_words():
        outcome = derive(statistic, _released(record, answer, facts.schema), facts.schema)
        outcome = shown(outcome, statistic, facts.schema)
    return _told([record], statistic, outcome, guarantee=answer["guarantee"], reason=WORDING)


def _combined(
    records: Sequence[ReleaseRecord], facts: DatasetFacts, statistic: Statistic
) -> dict[str, object]:
    answers = {
        each.id: answer_of_stored(each, "release" if each is records[0] else _TOGETHER)
        for each in records
    }
    # in one order, so that every answer made of the same releases agrees with the others
    in_order = sorted(records, key=lambda each: each.id)
    with _refused_in_words():
        released = [_released(each, answers[each.id], facts.schema) for each in in_order]
        outcome = combine(statistic, released, facts.schema)
        outcome = shown(outcome, statistic, facts.schema)
    epsilon = sum((each.epsilon.fraction for each in released), Fraction(0))
    promised = [written_guarantee(json.loads(each.plan)) for each in records]
    definition = definition_of(promised)
    # Post-processing: the guarantee is that of all releases together, whose losses add up.
    guarantee = {
        **answers[records[0].id]["guarantee"],
        "definition": definition,
        "epsilon": str(Epsilon(int(epsilon * NANOS_PER_EPSILON))),
        "sensitivity": "; ".join(answers[each.id]["guarantee"]["sensitivity"] for each in records),
        "sensitivity_unit": "one for each release, each in its own unit",
        "theorem": f"{_COMPOSED[definition]}; each release by its own theorem",
    }
    if definition == ZCDP:
        guarantee["rho"] = decimal_text(sum((each.zcdp for each in promised), Fraction(0)))
    return _told(records, statistic, outcome, guarantee=guarantee, reason=_ALL_WORDING)


def _told(
    records: Sequence[ReleaseRecord],
    statistic: Statistic,
    outcome: Outcome,
    *,
    guarantee: Mapping[str, object],
    reason: str,
) -> dict[str, object]:
    first, *others = records
    return {
        "derived_from": first.id,
        "together_with": [each.id for each in others],
        "dataset": first.dataset,
        "statistic": statistic_json(statistic),
        "value": outcome.value,
        "noise": noise_json(outcome.noise),
        **limits_json(outcome),
        "inference": inference_json(outcome.inference),
        "guarantee": guarantee,
        "cost": "0",
        "reason": reason,
        **joined_members(json.loads(each.plan)["details"] for each in records),
    }


@contextmanager
def _refused_in_words() -> Iterator[None]:
    try:
        yield
    except InvalidStatisticError as error:
        place = error.field_name
        raise invalid_request(
            place if place == "statistic" else f"statistic.{place}", error.detail
        ) from None


def answer_of_stored(record: ReleaseRecord, place: str) -> dict[str, Any]:
    """Return a stored answer; ``place`` is what the request calls the release.

    Raises
    ------
    Problem
        ``invalid-request``: there is none.
    """
    if record.result is None:
        raise invalid_request(place, "the release has no result to derive from")
    return read_answer(record.result)


def _released(record: ReleaseRecord, answer: Mapping[str, object], schema: Schema) -> Released:
    """Return a stored answer as the mechanisms read it."""
    question = read_question(record.request)
    kept = json.loads(record.plan)
    counted_answer = counted(answer, question.statistic, schema)
    noise = counted_answer["noise"]
    return Released(
        statistic=question.statistic,
        mechanism=kept["mechanism"],
        norm=kept["norm"],
        epsilon=question.epsilon,
        value=counted_answer["value"],
        noise=None if noise is None else Noise(**noise),
        details=kept["details"],
    )
