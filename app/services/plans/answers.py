"""The JSON of a release, as it is stored and answered byte for byte."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from app.domain.ledger import sha256_hex
from app.domain.releases import GIVEN_BACK, UNDECIDED, ReleaseState
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.deadlines import Job
from app.services.plans.missing import column_members
from app.services.plans.questions import Question
from app.services.plans.stored_estimates import assumed_of, usefulness_before, usefulness_of
from app.store import ReleaseRecord
from mechanisms.contract import Inference, Noise, Outcome, Plan, Term
from mechanisms.presentation import shown
from mechanisms.privacy import ONE_ROW, Epsilon, Guarantee

# made once: json.dumps with these would make one for every call
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode

_STATUS: Mapping[ReleaseState, str] = {
    ReleaseState.RESERVED: "awaiting_review",
    ReleaseState.DEBITED: "running",
}
"""The public word for a state, where it differs from the ledger's."""


def guarantee_json(guarantee: Guarantee) -> dict[str, object]:
    """Return what a release promises."""
    stated: dict[str, object] = {
        "definition": guarantee.definition,
        "epsilon": str(guarantee.epsilon),
        "adjacency": str(guarantee.adjacency),
        "protects": guarantee.protects,
        "sensitivity": guarantee.sensitivity,
        "sensitivity_unit": guarantee.sensitivity_unit,
        "theorem": guarantee.theorem,
        "exact": guarantee.exact,
    }
    if guarantee.reduction is not None:
        stated["reduction"] = guarantee.reduction
    return stated


def noise_json(noise: Noise | None) -> dict[str, object] | None:
    """Return the law of the noise, or null where it depends on the data."""
    if noise is None:
        return None
    return {"std": noise.std, "interval_95": noise.interval_95}


def edges_json(outcome: Outcome) -> dict[str, object]:
    """Return the member that names numbers at the edge of what is possible; often none."""
    edges = [{"place": list(edge.place), "reason": edge.reason} for edge in outcome.edges]
    return {"at_edge": edges} if edges else {}


def inference_json(inference: Inference | None) -> dict[str, object] | None:
    """Return standard errors and confidence intervals, or null where there are none."""
    if inference is None:
        return None
    return {
        "terms": [_term_json(term) for term in inference.terms],
        "fit": [_term_json(term) for term in inference.fit],
        "method": _method(inference),
        "cost": inference.cost,
    }


def _term_json(term: Term) -> dict[str, object]:
    described: dict[str, object] = {"term": term.term}
    if term.by:
        described["by"] = dict(term.by)
    if term.place:
        described["place"] = list(term.place)
    if term.reason is not None:
        described["reason"] = term.reason
    described |= {
        "estimate": term.estimate,
        "std_error": term.std_error,
        "confidence_95": list(term.confidence_95),
        "noise_95": None if term.noise_95 is None else list(term.noise_95),
    }
    return described


def _method(inference: Inference) -> str:
    """Return how the intervals were made, and which of them say nothing."""
    nothing = [_labelled(term) for term in (*inference.terms, *inference.fit) if term.open]
    if not nothing:
        return inference.method
    return (
        f"{inference.method}. The noise is too large to say anything of {', '.join(nothing)}: "
        "there the interval is all that the public bounds allow"
    )


def _labelled(term: Term) -> str:
    return f"{term.term} ({', '.join(term.by.values())})" if term.by else term.term


def plan_json(plan: Plan, epsilon: Epsilon) -> dict[str, object]:
    """Return the public part of a plan."""
    return {
        "mechanism": plan.mechanism,
        "norm": plan.norm,
        "epsilon": str(epsilon),
        "reason": plan.reason,
        "guarantee": guarantee_json(plan.guarantee),
        "grid": plan.grid,
        "details": plan.details,
        **column_members(plan.details),
    }


def release_answer(
    record: ReleaseRecord, facts: DatasetFacts, question: Question, plan: Plan, outcome: Outcome
) -> bytes:
    """Return the bytes of a released answer, which still lacks its receipt.

    Its times are those of the request and the charge, in whole seconds: how long
    the draw took says something about the noise, so it is not in the answer.

    Raises
    ------
    ValueError
        A number is not finite.
    """
    asked, promised = _FIXED.texts(plan, question)
    # Of dates and moments, texts: the mechanisms know them as numbers.
    answer = shown(outcome, question.statistic, facts.schema)
    begins = _texts(id=record.id, dataset=record.dataset, status="released")
    members: dict[str, object] = {
        "value": answer.value,
        "noise": noise_json(answer.noise),
        **edges_json(answer),
        "usefulness": usefulness_of(
            record.plan, question.kinds, replace(outcome, edges=answer.edges)
        ),
        **assumed_of(record.plan),
    }
    if answer.inference is not None:
        members["inference"] = inference_json(answer.inference)
    drawn = _members(members)
    ends = _texts(
        requested_by=record.principal,
        created_at=_second(record.created_at),
        released_at=_second(record.charged_at, later_s=1),
        citation=_citation(record, facts, question),
    )
    return b"{%s,%s,%s,%s,%s}" % (begins, asked, drawn, promised, ends)


def _purpose(purpose: str | None) -> dict[str, object]:
    """Return the member that only some releases have."""
    return {} if purpose is None else {"purpose": purpose}


class _FixedTexts:
    """The members of an answer that are the same for every release of a plan, as JSON.

    Writing them takes longer than a small draw, so the last plans' are remembered.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        # The plan is kept with its texts, so that nothing else can have its identity.
        self._known: dict[tuple[int, str], tuple[Plan, bytes, bytes]] = {}

    def texts(self, plan: Plan, question: Question) -> tuple[bytes, bytes]:
        """Return what precedes and what follows the drawn members."""
        key = id(plan), question.canonical
        known = self._known.get(key)
        if known is None:
            asked = {
                "statistic": question.to_json()["statistic"],
                "mechanism": plan.mechanism,
                "norm": plan.norm,
                "epsilon": str(question.epsilon),
                **_purpose(question.purpose),
            }
            promised = {
                "guarantee": guarantee_json(plan.guarantee),
                "grid": plan.grid,
                "details": plan.details,
                "reason": plan.reason,
                **column_members(plan.details),
            }
            known = plan, _members(asked), _members(promised)
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[key] = known
        return known[1:]


_FIXED = _FixedTexts()


def unfinished_answer(record: ReleaseRecord) -> bytes:
    """Return the bytes that show a release which has no result.

    Raises
    ------
    ValueError
        It has one, which has not been read.
    """
    if record.state is ReleaseState.RELEASED:
        raise ValueError("the release's result has not been read")
    request = json.loads(record.request)
    plan = json.loads(record.plan)
    answer = {
        "id": record.id,
        "dataset": record.dataset,
        "status": status_of(record.state),
        "statistic": request["statistic"],
        "mechanism": plan["mechanism"],
        "norm": plan["norm"],
        "epsilon": request["epsilon"],
        **_purpose(request.get("purpose")),
        "value": None,
        "noise": None,
        "usefulness": usefulness_before(record.plan),
        **assumed_of(record.plan),
        "guarantee": plan["guarantee"],
        "grid": plan["grid"],
        "details": plan["details"],
        "reason": plan["reason"],
        **column_members(plan["details"]),
        **_job(record, plan),
        "requested_by": record.principal,
        "created_at": _second(record.created_at),
        "released_at": None,
        "citation": None,
        "review": _review_json(record),
        "receipt": None,
    }
    return _bytes(answer)


def _job(record: ReleaseRecord, plan: Mapping[str, Any]) -> dict[str, object]:
    """Return the member that only a job has, until it has ended."""
    job = plan.get("job")
    if job is None or record.state not in (*UNDECIDED, ReleaseState.DEBITED):
        return {}
    return {"job": Job.of_json(job).to_json()}


def _review_json(record: ReleaseRecord) -> dict[str, object] | None:
    """Return what became of a release's review, or null where there was none to be."""
    if record.state in UNDECIDED:
        described: dict[str, object] = {"decided_at": None, "reason": record.reason}
        if _has_gone_on(record):
            described |= {
                "version": record.version,
                "turn": record.turn,
                "conflict": record.shown > 0,
            }
        return described
    if record.finished_at is not None and record.state in GIVEN_BACK:
        return {"decided_at": _second(record.finished_at), "reason": record.reason}
    if record.charged_at != record.created_at:
        return {"decided_at": _second(record.charged_at), "reason": None}
    return None


def _has_gone_on(record: ReleaseRecord) -> bool:
    """Return whether more than the request itself is known of a review."""
    first = record.state is ReleaseState.RESERVED and (record.turn, record.shown) == (1, 0)
    return record.state in UNDECIDED and not first


def status_of(state: ReleaseState) -> str:
    """Return the public word for a state."""
    return _STATUS.get(state, state.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What a list says of a release: who asked what, when, at what price, and how it stands."""

    number: int
    id: str
    dataset: str
    status: str
    kind: str
    statistic: Mapping[str, Any]
    epsilon: str
    purpose: str | None
    requested_by: str
    created_at: str


def heading_of(record: ReleaseRecord) -> Heading:
    """Return what a list says of a release, whose result need not have been read."""
    request = json.loads(record.request)
    return Heading(
        number=record.number,
        id=record.id,
        dataset=record.dataset,
        status=status_of(record.state),
        kind=request["statistic"]["kind"],
        statistic=request["statistic"],
        epsilon=request["epsilon"],
        purpose=request.get("purpose"),
        requested_by=record.principal,
        created_at=_second(record.created_at),
    )


def state_called(status: str) -> ReleaseState:
    """Return the state that this public word stands for."""
    return next(state for state in ReleaseState if status_of(state) == status)


def answer_of(record: ReleaseRecord) -> bytes:
    """Return the bytes that show a release: the stored ones once there are any."""
    return record.result if record.result is not None else unfinished_answer(record)


def etag_of(record: ReleaseRecord) -> str:
    """Return the entity tag of a release: it changes exactly when the body does."""
    if _has_gone_on(record):
        return f'"{record.state.value}-{record.turn}.{record.shown}"'
    if record.result is None:
        return f'"{record.state.value}"'
    return f'"{sha256_hex(record.result)[:32]}"'


def tag_within(tag: str, content: bytes) -> str:
    """Return the entity tag of what is shown of a release at more length: the release's first.

    >>> tag_of_release(tag_within('"reserved"', b"a review sheet"))
    '"reserved"'
    """
    return f'{tag[:-1]};{sha256_hex(content)[:32]}"'


def tag_of_release(tag: str) -> str:
    """Return a release's own entity tag of one that begins with it."""
    own, mark, _ = tag.partition(";")
    return f'{own}"' if mark else tag


def _bytes(answer: Mapping[str, object]) -> bytes:
    return _encode(answer).encode()


def _members(members: Mapping[str, object]) -> bytes:
    """Return an object's members without its braces."""
    return _bytes(members)[1:-1]


def _texts(**members: str) -> bytes:
    """Return members that are texts; one by one they are written three times as fast."""
    return ",".join([f'"{name}":{_encode(text)}' for name, text in members.items()]).encode()


def _second(moment: str, *, later_s: int = 0) -> str:
    """Return the whole second a moment lies in, or one ``later_s`` seconds after it."""
    second = moment.partition(".")[0] + "Z"
    return _later(second, later_s) if later_s else second


@lru_cache(maxsize=16)
def _later(second: str, seconds: int) -> str:
    time = datetime.fromisoformat(second) + timedelta(seconds=seconds)
    return time.isoformat().replace("+00:00", "Z")


def _citation(record: ReleaseRecord, facts: DatasetFacts, question: Question) -> str:
    whose = str(facts.schema.adjacency)
    if facts.schema.protects != ONE_ROW:
        whose += f", {facts.schema.protects.words}"
    return (
        f"{_listed(question.kinds)} of the data set “{facts.record.name}”, "
        f"released with {question.epsilon}-differential privacy ({whose}) "
        f"by Release Desk on {record.charged_at[:10]}, release {record.id}."
    )


def _listed(kinds: Sequence[str]) -> str:
    """Return kinds as words: "mean", "mean and histogram", "mean, histogram and quantile"."""
    words = [kind.replace("_", " ") for kind in dict.fromkeys(kinds)]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
