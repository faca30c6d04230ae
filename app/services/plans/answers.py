"""The JSON of a release, as it is stored and answered byte for byte.

Which releases are jobs, and by when their answers are promised: the public rule.

A release whose draw may outlast the response slot is a *job*: it is answered
202, drawn in a process of its own, and shown at its public deadline. What is a
job follows from the request and public facts alone: what the plan says of its
draw's time and what the plan itself takes, both reckoned without the data, and
whether the data set's policy has it reviewed. What a draw really takes depends
on the noise, and for some statistics on the data, and changes nothing here.

*How large a question may be, and how large its answer will about be: public rules.* An answer's
bytes are reckoned and not counted: what is really stored, and when, depends on the draw.

The error estimate that a release stores when it is planned, and what its answer shows of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from app.domain.ledger import sha256_hex
from app.domain.problems import Problem
from app.domain.releases import GIVEN_BACK, UNDECIDED, ReleaseState
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.missing import column_members, warned
from app.services.plans.questions import Question, asked_json, read_question
from app.services.plans.wording import kinds_in_words
from app.store import ReleaseRecord
from mechanisms.catalog import STATISTICS, written_guarantee
from mechanisms.contract import Inference, Json, Noise, Outcome, Plan, Statistic, Term, with_drawn
from mechanisms.domain import Schema
from mechanisms.estimates.estimate import ErrorEstimate
from mechanisms.estimates.trees import at, numbers, placed, reaching
from mechanisms.estimates.verdicts import (
    Usefulness,
    judged,
    judged_by_noise,
    judged_release,
    known_errors,
)
from mechanisms.exact.fractions import decimal_text
from mechanisms.presentation import shown
from mechanisms.privacy import ONE_ROW, Epsilon, Guarantee
from mechanisms.statistics.curves.hypotheses import is_smallest
from mechanisms.statistics.questions import Question as RowQuestion
from mechanisms.statistics.questions import viewed
from mechanisms.statistics.stack import Stack
from mechanisms.words import worded

_MOST_KEPT = 256
"""As many expected errors are kept with a release; those of known laws are in its noise."""


def kept_json(found: ErrorEstimate, assumed: Json) -> dict[str, object]:
    """Return what a release keeps of it, and of what was assumed, ready for JSON."""
    useful = found.usefulness
    errors, scale = found.expected_error, found.scale
    if errors is not None and len(list(numbers(errors))) > _MOST_KEPT:
        errors = scale = None
    if useful.estimate == "closed form":
        errors = None
    stored = {**useful.to_json(), "share": useful.share, "rows": useful.rows}
    return {
        "usefulness": stored,
        "expected_error": errors,
        "scale": scale,
        "assume": assumed,
    }


@lru_cache(maxsize=64)
def _read(plan: str) -> Mapping[str, Any]:
    kept = json.loads(plan)
    return {"estimate": kept.get("estimate"), "details": kept.get("details") or {}}


def _kept(plan: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = _read(plan)["estimate"]
    return found


def assumed_of(plan: str) -> dict[str, object]:
    """Return the member that says what was assumed; none for versions that did not store it."""
    found = _kept(plan)
    return {} if found is None or "assume" not in found else {"assume": found["assume"]}


def _of_plan(plan: str) -> tuple[Usefulness, Json | None, Json | None] | None:
    found = _kept(plan)
    if found is None:  # of a version that did not know it
        return None
    useful: Mapping[str, object] = found["usefulness"]
    return Usefulness.from_json(useful), found["expected_error"], found["scale"]


def usefulness_before(plan: str) -> dict[str, object] | None:
    """Return what a release without a result is worth; ``plan`` is the text it keeps."""
    found = _of_plan(plan)
    return None if found is None else warned(found[0], _read(plan)["details"]).to_json()


def usefulness_of(plan: str, kinds: Sequence[str], outcome: Outcome) -> dict[str, object] | None:
    """Return what released numbers are worth: from them, their edges, and public facts."""
    found = _of_plan(plan)
    if found is None:
        return None
    before, errors, scale = found
    meanings = [STATISTICS[kind].near_zero for kind in kinds]
    # How large counts and sums would be was an assumption, unless it is public.
    amounts = outcome.value if set(meanings) == {"nothing"} else None
    guessed = before.verdict == "depends"
    if errors is not None:
        known = known_errors(errors, outcome, guessed=guessed)
        if outcome.noise is not None or (known != errors and not _is_open(outcome)):
            before = judged_by_noise(before, errors, known, scale, amounts)
            errors = known
    elif outcome.noise is not None:
        errors = outcome.noise.expected_error
        if errors and scale and reaching(scale, amounts) != scale:
            before = judged_by_noise(before, errors, errors, scale, amounts)
    elif guessed and outcome.shares_off is not None:
        off = outcome.shares_off  # more numbers than a plan keeps errors of
        before = judged(off, placed(lambda *_: [0.0, 1.0], off), rows=before.rows)
    edges = frozenset(edge.place for edge in outcome.edges)
    after = judged_release(before, meanings, outcome.value, errors, edges=edges)
    return warned(after, _read(plan)["details"], outcome).to_json()


def _is_open(outcome: Outcome) -> bool:
    """Return whether the noise of a number is known from an interval alone that says nothing."""
    terms = () if outcome.inference is None else outcome.inference.terms
    return any(term.open and at(outcome.shares_off, term.place) is None for term in terms)


# The JSON of a release, as it is stored and answered byte for byte


# How large a question may be, and how large its answer will about be: public rules

_BYTES_PER_NUMBER = 384
"""What one number takes in an answer with its interval, its noise and its name."""
_OTHER_NUMBERS = 16
"""As many numbers as the rest of an answer counts for."""


def require_storable(question: Question, most: int) -> None:
    """Pass for a question that may be stored.

    Raises
    ------
    Problem
        ``too-large``.
    """
    if len(question.canonical) > most:
        raise Problem(
            "too-large",
            f"The question is larger than max_question_bytes ({most} bytes). Nothing was charged.",
            limit="max_question_bytes",
            maximum=most,
        )


def answer_bytes(question: Question, schema: Schema) -> int:
    """Return about how many bytes an answer takes, for a question that fits the schema."""
    each = _BYTES_PER_NUMBER * (1 if question.inference is None else 2)
    return each * _numbers(question.statistic, schema)


def _numbers(statistic: Statistic, schema: Schema) -> int:
    if isinstance(statistic, Stack):
        return sum(_numbers(part.statistic, schema) for part in statistic.parts)
    asked = viewed(statistic, schema)
    found, facts = asked.statistic, asked.view.schema
    numbers = found.answer_numbers(facts) + _OTHER_NUMBERS
    if isinstance(found, RowQuestion) and found.by:
        return numbers * found.parting(facts).cells
    return numbers


# Which releases are jobs, and by when their answers are promised: the public rule

LONGEST_INLINE_MS = 50.0
"""A plan that expects more than this makes a job. It is no setting: a slot must not decide it."""

LONGEST_DEADLINE_S = 3600
"""No job's first deadline is later than this, however long its draw may take."""

SHORTEST_DEADLINE_S = 2


@dataclass(frozen=True, slots=True)
class Job:
    """A release that is drawn in the background, and the first moment it may be shown.

    Of 100 draws from realistic rows 95 take at most ``expected_s``, by the same public facts; None
    where an earlier version planned it.
    """

    deadline_s: int
    expected_s: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return the job as JSON-ready fields."""
        return {"deadline_s": self.deadline_s, "expected_s": self.expected_s}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Job:
        """Return the inverse of :meth:`to_json`."""
        return cls(stored["deadline_s"], stored.get("expected_s"))


def job_of(plan: Plan, *, later: bool = False, planning_ms: float = 0.0) -> Job | None:
    """Return the job a release is, or None when it is drawn while its client waits.

    What is drawn on boxes is one however short it is expected to be, as data can make it
    hundreds of times longer. ``later``: no client waits for the draw of this one, however
    short. So it is with one that is reviewed first, and with one whose plan, which the
    draw needs again, takes long: ``planning_ms``.
    """
    if not (later or plan.drawn_on_boxes or plan.expected_ms > LONGEST_INLINE_MS):
        return None
    bound_ms = plan.slowness * plan.expected_ms
    expected_s = max(1, math.ceil((bound_ms + planning_ms) / 1000))
    return Job(_deadline_s(max(plan.margin * plan.expected_ms, bound_ms)), expected_s)


def batched_ms(plan: Plan) -> float:
    """Return about how many milliseconds of a batch a draw takes up; infinitely many: draw alone.

    No other person's draw may wait for one whose time may depend on the data.
    """
    return math.inf if plan.time_depends_on_data else plan.expected_ms


def _deadline_s(wanted_ms: float) -> int:
    """Return the first deadline that is no earlier: a power of two, up to the longest."""
    wanted_s = wanted_ms / 1000
    # A power of two reveals little of the estimate, and few deadlines mean few different waits.
    deadline_s = SHORTEST_DEADLINE_S
    while deadline_s < min(wanted_s, LONGEST_DEADLINE_S):
        deadline_s *= 2
    return min(deadline_s, LONGEST_DEADLINE_S)


# The JSON of a release, as it is stored and answered byte for byte


# made once: json.dumps with these would make one for every call
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode

_STATUS: Mapping[ReleaseState, str] = {
    ReleaseState.RESERVED: "awaiting_review",
    ReleaseState.DEBITED: "running",
}
"""The public word for a state, where it differs from the ledger's."""


_NOTHING: Json = {}


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
    if not guarantee.is_pure:
        stated["rho"] = decimal_text(guarantee.zcdp)
    if guarantee.reduction is not None:
        stated["reduction"] = guarantee.reduction
    return stated


def noise_json(noise: Noise | None) -> dict[str, object] | None:
    """Return the law of the noise, or null where it depends on the data."""
    if noise is None:
        return None
    return {"std": noise.std, "interval_95": noise.interval_95}


AT_MOST = worded("At most this: no simulated statistic was as large.")
"""Why a p-value is an upper bound."""


def limits_json(outcome: Outcome) -> dict[str, object]:
    """Return the members that name numbers which are no plain ones; often none.

    Those at the edge of what is possible, and p-values that are upper bounds.
    """
    edges = [{"place": list(edge.place), "reason": edge.reason} for edge in outcome.edges]
    bounds = [{"place": place, "reason": AT_MOST} for place in _upper_bounds(outcome.value, [])]
    return {name: found for name, found in (("at_edge", edges), ("at_most", bounds)) if found}


def _upper_bounds(value: Any, path: list[str | int]) -> Iterator[list[str | int]]:
    """Yield the places of p-values that are upper bounds: a test's also has its statistic."""
    if {"p_value", "statistic"} <= value.keys() and is_smallest(value["p_value"]):
        yield [*path, "p_value"]
    if isinstance(test := value.get("log_rank"), Mapping):
        yield from _upper_bounds(test, [*path, "log_rank"])
    for name, step in (("groups", ["value"]), ("parts", [])):
        inner = value.get(name)
        for index, each in enumerate(inner if isinstance(inner, list) else ()):
            own = each["value"] if step else each
            yield from _upper_bounds(own, [*path, name, index, *step])


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
    open_ended = worded(
        "The noise is too large to say anything of %(numbers)s: there the interval is all that the "
        "public bounds allow",
        numbers=", ".join(nothing),
    )
    return f"{inference.method}. {open_ended}"


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
    record: ReleaseRecord, facts: DatasetFacts, question: Question, outcome: Outcome
) -> bytes:
    """Return the bytes of a released answer, which still lacks its receipt.

    Its times are those of the request and the charge, in whole seconds: how long
    the draw took says something about the noise, so it is not in the answer.

    Raises
    ------
    ValueError
        A number is not finite.
    """
    asked, promised = _fixed(record.request, record.plan)
    if outcome.facts:
        promised = _members(_promised(json.loads(record.plan), outcome.facts))
    # Of dates and moments, texts: the mechanisms know them as numbers.
    answer = shown(outcome, question.statistic, facts.schema)
    begins = _texts(id=record.id, dataset=record.dataset, status="released")
    members: dict[str, object] = {
        "value": answer.value,
        "noise": noise_json(answer.noise),
        **limits_json(answer),
        "usefulness": usefulness_of(
            record.plan, question.kinds, replace(outcome, value=answer.value, edges=answer.edges)
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


@lru_cache(maxsize=64)  # writing them takes longer than a small draw
def _fixed(request: str, plan: str) -> tuple[bytes, bytes]:
    """Return what precedes and what follows the drawn members, the same for all such releases."""
    question, kept = read_question(request), json.loads(plan)
    asked = {
        **asked_json(question),
        "mechanism": kept["mechanism"],
        "norm": kept["norm"],
        "epsilon": str(question.epsilon),
        **_purpose(question.purpose),
    }
    return _members(asked), _members(_promised(kept))


def _promised(kept: Mapping[str, Any], drawn: Json = _NOTHING) -> dict[str, object]:
    """Return the members of an answer that say what a stored plan promises, and its draw chose."""
    return {
        "guarantee": guarantee_json(written_guarantee(kept)),
        "grid": kept["grid"],
        "details": with_drawn(kept["details"], drawn),
        "reason": kept["reason"],
        **column_members(kept["details"]),
    }


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
        **_promised(plan),
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
    return worded(
        "%(kinds)s of the data set “%(name)s”, released with %(epsilon)s-differential privacy "
        "(%(whose)s) by Release Desk on %(day)s, release %(id)s.",
        kinds=kinds_in_words(question.kinds),
        name=facts.record.name,
        epsilon=question.epsilon,
        whose=whose,
        day=record.charged_at[:10],
        id=record.id,
    )
