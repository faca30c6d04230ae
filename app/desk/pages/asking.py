"""Asking: the form of a question, its preview, and the last step before it is paid for.

A preview, a dry run and the step before a question is sent change nothing, so they have addresses:
they can be gone back to, and kept. A resubmission is the same form (:class:`Asking`), and so is a
derivation: a question that released numbers answer, free.

*A preview* is what the API's preview says, arranged for reading: what a release would cost, what it
would leave, and what it would be worth. It is a function of the question and of public facts alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from app.desk.arranging import Numbers, numbers_of
from app.desk.building import (
    CHANGE,
    OPEN,
    changed,
    hidden_pairs,
    inside,
    open_in,
    prefix_of,
    questions_in,
    room_of,
    with_questions,
)
from app.desk.controls import EDGES, OPERATORS, Field, Options, switched_on
from app.desk.estimating import Estimated, estimated
from app.desk.filled import edges_at_fault, request_of
from app.desk.forms import (
    EMPTY,
    FORM_KEY,
    NONE,
    Faults,
    Form,
    number_of,
    numbers_by_name,
    read_form,
    see,
)
from app.desk.questions import (
    MISSING_SHARES,
    WITHOUT_VALUE,
    at_fields,
    choices_of,
    fields_of,
    kinds,
    labels_of,
    opened,
    stacks,
    summary_of,
    survivors,
)
from app.desk.rendering import attached, new_form_key, page, path_of, say_in
from app.desk.routes import AskingVisitor, State, router_of, state_of
from app.domain.access import Span
from app.domain.datasets import columns_json, derived_json
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.domain.reviews import PlanState
from app.services.datasets.datasets import DatasetFacts
from app.services.people.keys import Caller
from app.services.plans.questions import KINDS, POLICY_KINDS
from app.services.plans.wording import asked as in_words
from app.services.releases.derivations import AGAIN_S, UnfinishedError
from app.services.releases.releases import OWN_KEY
from app.tidy.names import marked, words
from app.web.requests.questions import PreviewRequest, made_of, request_in
from app.web.state import AppState, while_there
from mechanisms.catalog import STATISTICS
from mechanisms.domain import Schema
from mechanisms.statistics.registry import SINGLE_STATISTICS

_DRY = marked("Numbers from synthetic rows")
router = router_of("asking")

_BY_EPSILON, _BY_ACCURACY = "epsilon", "accuracy"
_ANY_ACCURACY = 1.0
"""Stands for one that cannot be read, so that other faults are reported with it."""
_ANY_EPSILON = "1"
"""Stands for a price where there is none."""
REPLACES = "replaces"
"""The field with the study plan and the fingerprint of the question of it that is to be changed."""
_NOT_KEPT = ("act", "part", "before", "fresh", "seen", REPLACES, CHANGE, OPEN, FORM_KEY)
"""Fields that a draft has no use for."""
FRESH = "fresh"
"""The field that asks for a new draw, and a new charge, of what was asked before."""
SEEN = "seen"
"""The field with the tag of the version that another one is put in the place of."""
_CSV = "csv"
_MOST_DRAFTS = 50
_OF_ANY_KIND = ("wanted", "epsilon", "accuracy", "purpose", "inference", MISSING_SHARES)
"""Fields that stay as they are when another statistic is chosen."""
_BEFORE = "before"
_SHARE = "inference"
"""The field with the statistic that a form was shown for."""
_OPERATORS = [("", "–"), *((each, each) for each in (*OPERATORS, *WITHOUT_VALUE))]


def _usual(kind: str, schema: Schema) -> list[tuple[str, str]]:
    """Return what an empty form of a statistic is filled in with.

    Where a design declares weights, it decides which answers have intervals.
    """
    share = STATISTICS[kind].usual_inference if schema.design is None else ""
    return [
        *switched_on(kind),
        ("wanted", _BY_ACCURACY),
        *([(_SHARE, share)] if share else []),
    ]


_OF_PART = (("statistic", "Statistic"), ("share", "Share"))
"""Fields of a stack's question that are those of no statistic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A question on the page: its fields, and what its names begin with."""

    form: Form
    prefix: str
    summary: str
    fields: Sequence[Field]
    opened: bool
    mechanisms: Options
    norms: Options
    conditions: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """What released numbers answer.

    Attributes
    ----------
    answer
        The derivation, as the API answers it.
    numbers
        Its numbers, arranged for the page.
    csv
        They as a file; empty where they are too many for one.
    """

    answer: Mapping[str, Any]
    numbers: Numbers
    csv: str


Derive = Callable[[PreviewRequest], Coroutine[Any, Any, Derived]]
"""What answers a question from released numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who fills the form in, about which data set, and what sending it does."""

    request: Request
    visitor: Caller
    facts: DatasetFacts
    heading: str
    called: str
    """What the page is called in its path."""
    within: Sequence[tuple[str, str]] = ()
    """The pages above it, below that of the data set: their names and addresses."""
    sends: str
    """The button that leads to the last step, and the one that is pressed there."""
    last: str
    """What is asked at the last step."""
    warning: str
    note: str = ""
    """What is to be known of the form before it is filled in."""
    first: Form = EMPTY
    """What an empty form is filled in with, in addition to the defaults."""
    seen: str = ""
    """The tag of the version that is to be replaced."""
    freed: int = 0
    """What is set aside for that version, in the account's smallest units."""
    reviewed: bool = False
    """Whether it waits for a review, whatever it costs."""
    derive: Derive | None = None
    """What answers the question from released numbers; None: the data answer it, for a charge."""
    others: Field | None = None
    """What chooses further releases that it is derived from; None: there are none."""

    async def shown(self) -> Response:
        """Show the form as the address fills it in, and what was asked to be seen."""
        form = self._filled()
        fragment = form.text("part") == "preview"
        self._keep(form)
        if not form.text("act"):
            return self._form(form)
        try:
            if self.derive is not None:
                return await self._derived(form, self.derive, fragment=fragment)
            return await self._previewed(form, fragment=fragment)
        except Problem as problem:
            if not fragment:
                return self.refused(form, problem)
            faults = self._faults(form, problem)
            failed = faults.problem
            labels = self._labels(form)
            return page(
                self.request,
                "preview.html",
                asking=self,
                seen=None,
                problem=failed,
                faults=faults,
                labels=labels,
            )

    async def _previewed(self, form: Form, *, fragment: bool) -> Response:
        """Show what a release would be like, the last step before it, or a dry run."""
        found, form = await while_there(self.request, self._estimated(form))
        if form.text("act") == "release":
            return await self._confirmed(form, found)
        tried = None
        if form.text("act") == "try":
            tried = await while_there(self.request, self._tried(form))
        if fragment:
            return page(self.request, "preview.html", asking=self, seen=found, problem=None)
        return self._form(form, seen=found, tried=tried)

    async def _derived(self, form: Form, derive: Derive, *, fragment: bool) -> Response:
        """Show what released numbers answer, or send that as a file."""
        asked = await self._read(form.changed(wanted=_BY_EPSILON, epsilon=_ANY_EPSILON))
        try:
            found = await while_there(self.request, derive(asked))
        except UnfinishedError as going_on:
            goes_on = self._going_on(form, going_on.share)
            if fragment:
                return page(self.request, "preview.html", goes_on=goes_on)
            return self._form(form, goes_on=goes_on)
        if form.text("act") == _CSV:
            return attached(found.csv.encode(), "text/csv; charset=utf-8", "derived.csv")
        file = f"{self.request.url.path}?{urlencode(self._kept(form))}&act={_CSV}"
        if fragment:
            return page(self.request, "preview.html", derived=found, file=file)
        return self._form(form, derived=found, file=file)

    def _going_on(self, form: Form, share: float) -> Mapping[str, object]:
        """Return how far a calculation is, and where its numbers will be shown."""
        address = f"{self.request.url.path}?{urlencode(self._kept(form))}"
        address += f"&act={form.text('act')}"
        return {"percent": int(100 * share), "again_s": AGAIN_S, "address": address}

    def _keep(self, form: Form) -> None:
        """Keep what is filled in as the visitor's draft, unless nothing is or it is a revision."""
        if self.seen or self.derive or form.text(REPLACES) or len(self.request.query_params) < 2:
            return
        kept = [pair for pair in form.pairs if pair[0] not in _NOT_KEPT and pair[1]]
        address = f"{self.request.url.path}?{urlencode(kept)}"
        sessions = state_of(self.request).services.sessions
        sessions.keep_draft(self.request.url.path, address, caller=self.visitor)

    async def _confirmed(self, form: Form, found: Estimated) -> Response:
        """Show the last step, and the release that the visitor has of this question already."""
        before, services, drafts = None, state_of(self.request).services, None
        if not self.seen:
            asked = await self.sent(form)
            before = await services.releases.asked_before(
                self.facts.id, asked.question, caller=self.visitor
            )
            drafts = services.study_plans.heads(
                caller=self.visitor,
                span=Span(limit=_MOST_DRAFTS),
                dataset=self.facts.id,
                states=[each for each in PlanState if each.is_edited],
            )
        return page(
            self.request,
            "confirm.html",
            asking=self,
            seen=found,
            kept=[pair for pair in self._kept(form) if pair[0] != FRESH],
            before=before,
            drafts=drafts,
            replaces=form.text(REPLACES),
        )

    def refused(self, form: Form, problem: Problem) -> Response:
        """Show the form with what it was refused for, at the fields that it is about."""
        self.request.scope["problem"] = problem.code
        shown = form.changed(statistic=self._kind_of(form))
        return self._form(shown, faults=self._faults(form, problem), status=problem.status)

    def _faults(self, form: Form, problem: Problem) -> Faults:
        """Return what a form was refused for, at the fields that it is about."""
        found = Faults(at_fields(problem, form))
        renamed, schema = {}, self.facts.schema
        for name, _ in found.all:
            at, field = inside(name) or (None, name)
            if field == EDGES:
                own, prefix = _own(form, at)
                renamed[name] = prefix + edges_at_fault(own, schema)
        return Faults(found.problem, renamed) if renamed else found

    def _labels(self, form: Form) -> Mapping[str, str]:
        """Return what all fields are called; those of a stack's questions, with their places."""
        labels = {**labels_of(fields_of(form.text("statistic"), self.facts.schema, form), form)}
        for at, each in enumerate(questions_in(form)):
            own = labels_of(self._fields_inside(each), each)
            for name, label in (*_OF_PART, *own.items()):
                labels[prefix_of(at) + name] = f"Question {at + 1}, {label}"
        return labels

    def _fields_inside(self, question: Form) -> Sequence[Field]:
        """Return the fields of a stack's question; none where it is of no statistic."""
        kind = question.text("statistic")
        return fields_of(kind, self.facts.schema, question) if kind in SINGLE_STATISTICS else ()

    async def sent(self, form: Form) -> PreviewRequest:
        """Return the request that a form makes at the epsilon that it names.

        Raises
        ------
        Problem
            ``invalid-request``, by the names of requests; ``busy``.
        """
        return await self._read(form.changed(wanted=_BY_EPSILON))

    def _filled(self) -> Form:
        """Return the form as the address fills it in, of the first statistic unless one is chosen.

        Where the address says no more than that, what is usual or was asked before fills the rest.
        """
        form = Form(self.request.query_params.multi_items())
        kind, before = self._kind_of(form), form.text(_BEFORE)
        if before in KINDS and before != kind:
            always, schema = (*_OF_ANY_KIND, SEEN, REPLACES), self.facts.schema
            if form.text(_SHARE) == dict(_usual(before, schema)).get(_SHARE, ""):
                # not chosen by the visitor
                form = Form([pair for pair in form.pairs if pair[0] != _SHARE])
            form = survivors(form, kind, schema, always, _usual(kind, schema))
        elif len(form.pairs) > 1:
            form = changed(form.changed(statistic=kind))
        else:
            first = self.first.pairs
            if kind != self.first.text("statistic"):
                first = [
                    *(pair for pair in first if pair[0] in _OF_ANY_KIND),
                    *_usual(kind, self.facts.schema),
                ]
            form = Form((*form.pairs, *first)).changed(statistic=kind)
        return self._with_questions(form) if stacks(kind) else form

    def _with_questions(self, form: Form) -> Form:
        """Return the form of a stack: with one question at least, each of a statistic."""
        questions = questions_in(form) or [EMPTY]
        return with_questions(form, [self._settled(each) for each in questions])

    def _settled(self, question: Form) -> Form:
        kind, before = question.text("statistic"), question.text(_BEFORE)
        if kind not in SINGLE_STATISTICS:
            allowed = self._of_parts()
            kind = next((each for each in allowed if STATISTICS[each].suggested), allowed[0])
        if len(question.pairs) < 2:
            return Form([("statistic", kind), *switched_on(kind)])
        if before in KINDS and before != kind:
            usual = switched_on(kind)
            return survivors(question, kind, self.facts.schema, ("share",), usual)
        return question.changed(statistic=kind)

    def _of_parts(self) -> list[str]:
        """Return the statistics that a question of a stack may be of."""
        allowed = [each for each in self._allowed() if each in SINGLE_STATISTICS]
        return allowed or [*SINGLE_STATISTICS]

    def _allowed(self) -> list[str]:
        """Return the statistics that may be asked; a policy limits what leaves the data alone."""
        if self.derive is not None:
            return [each for each in KINDS if not stacks(each)]
        allowed = self.facts.policy.allowed
        return [
            kind for kind in KINDS if allowed is None or kind in allowed or kind not in POLICY_KINDS
        ]

    def _kind_of(self, form: Form) -> str:
        """Return the statistic whose fields are shown: the form's, or the first one allowed."""
        kind, before = form.text("statistic"), self.first.text("statistic")
        if kind in KINDS:
            return kind
        allowed = self._allowed()
        suggested = [each for each in allowed if STATISTICS[each].suggested]
        return before or (suggested or allowed)[0]

    def _kept(self, form: Form) -> list[tuple[str, str]]:
        """Return what the last step sends of a form; an address that was written lacks some."""
        kept = [pair for pair in form.pairs if pair[0] not in ("act", "part", "wanted")]
        lacks = {FORM_KEY: new_form_key(), SEEN: self.seen}
        return kept + [pair for pair in lacks.items() if pair[1] and not form.text(pair[0])]

    async def _tried(self, form: Form) -> Mapping[str, Any]:
        """Return the answer to a question on synthetic rows."""
        asked = await self.sent(form)
        services = state_of(self.request).services
        run = await services.dry_runs.run(
            self.facts.id, asked.question, asked.assume.assumptions, caller=self.visitor
        )
        columns = {**columns_json(self.facts.columns), **derived_json(self.facts.columns)}
        return {
            "estimate": run,
            "numbers": numbers_of(run, _DRY, columns, say=say_in(self.request)),
        }

    async def _read(self, form: Form) -> PreviewRequest:
        """Return the request that a form makes, with the accuracy that is wanted."""
        asked, wrong = request_of(form, self.facts.schema), list[tuple[str, str]]()
        if missing := dict(numbers_by_name(form.text(MISSING_SHARES))):
            asked["assume"] = {"missing": missing}
        if form.text("wanted") == _BY_ACCURACY and (form.text("accuracy") or not asked["epsilon"]):
            del asked["epsilon"]
            try:
                asked["accuracy"] = _accuracy(form)
            except Problem as problem:
                wrong, asked["accuracy"] = [*Faults(problem).all], _ANY_ACCURACY
        body = json.dumps(asked).encode()
        reading = state_of(self.request).services.reading
        try:
            read: PreviewRequest = await made_of(
                body, self.visitor.person, reading, request_in, PreviewRequest
            )
        except Problem as problem:
            raise invalid_requests([*Faults(problem).all, *wrong]) if wrong else problem from None
        if wrong:
            raise invalid_requests(wrong)
        return read

    async def _estimated(self, form: Form) -> tuple[Estimated, Form]:
        """Return what a question would be like, and the form with the epsilon it was seen at.

        The usual intervals are left out where they would say nothing.
        """
        try:
            return await self._found(form)
        except Problem as problem:
            faults = [*Faults(problem).all]
            usual = dict(_usual(self._kind_of(form), self.facts.schema)).get(_SHARE)
            if form.text(_SHARE) != usual or [name for name, _ in faults] != [_SHARE]:
                raise
        found, form = await self._found(form.changed(inference=""))
        return replace(found, left_out=faults[0][1]), form

    async def _found(self, form: Form) -> tuple[Estimated, Form]:
        asked = await self._read(form)
        found, question = await estimated(
            state_of(self.request).services,
            self.facts.id,
            asked.question,
            asked.options,
            freed=self.freed,
            say=say_in(self.request),
            caller=self.visitor,
        )
        if asked.accuracy is not None and found.estimate["accuracy"]["epsilon"] is None:
            raise invalid_request(
                "accuracy",
                "no epsilon is known that reaches it for this question; choose an epsilon",
            )
        return found, form.changed(epsilon=str(question.epsilon))

    def _form(
        self,
        form: Form,
        *,
        seen: Estimated | None = None,
        tried: Mapping[str, Any] | None = None,
        derived: Derived | None = None,
        goes_on: Mapping[str, object] | None = None,
        file: str = "",
        faults: Faults = NONE,
        status: int = 200,
    ) -> Response:
        allowed, draft = self._allowed(), None
        wrong = [place for place, _ in faults.all]
        if not self.request.url.query and not self.seen:
            sessions = state_of(self.request).services.sessions
            draft = sessions.draft(self.request.url.path, caller=self.visitor)
        shown: Mapping[str, Any] = {
            "asking": self,
            "draft": draft,
            "form": form,
            "kinds": [pair for pair in kinds() if pair[0] in allowed],
            "own": self._question(form, wrong),
            "parts": self._parts(form, wrong),
            "columns": columns_json(self.facts.columns),
            "labels": self._labels(form),
            "operators": _OPERATORS,
            "seen": seen,
            "tried": tried,
            "derived": derived,
            "goes_on": goes_on,
            "file": file,
            "faults": faults,
        }
        return page(self.request, "ask.html", status=status, **shown)

    def _question(self, form: Form, wrong: Sequence[str], at: int | None = None) -> Shown:
        """Return a question as its part of the page shows it."""
        kind = form.text("statistic")
        mechanisms, norms = choices_of(kind, self.facts.schema)
        fields = fields_of(kind, self.facts.schema, form)
        return Shown(
            form=form,
            prefix="" if at is None else prefix_of(at),
            summary=summary_of(kind),
            fields=fields,
            opened=opened(form, fields, wrong),
            mechanisms=mechanisms,
            norms=norms,
            conditions=room_of(form),
        )

    def _parts(self, form: Form, wrong: Sequence[str]) -> Mapping[str, Any] | None:
        """Return the questions of a stack: one is open, the others are in words."""
        if not stacks(form.text("statistic")):
            return None
        at, questions = open_in(form, wrong), questions_in(form)
        if not 0 <= at < len(questions):
            return {"open": 0, "all": [], "kinds": []}
        inner = [found[1] for found in map(inside, wrong) if found is not None]
        allowed = self._of_parts()
        return {
            "open": at,
            "shown": self._question(questions[at], inner, at),
            "all": [(self._in_words(each), hidden_pairs(each)) for each in questions],
            "kinds": [pair for pair in kinds() if pair[0] in allowed],
        }

    def _in_words(self, question: Form) -> str:
        """Return what a question asks, or of which statistic it is where that cannot be said."""
        try:
            return in_words(request_of(question, self.facts.schema)["statistic"])
        except (Problem, KeyError, TypeError, ValueError):
            return words(question.text("statistic"))


def _own(form: Form, at: int | None) -> tuple[Form, str]:
    """Return the form of a question of a stack, and what its fields begin with; or the form."""
    questions = questions_in(form)
    return (form, "") if at is None or at >= len(questions) else (questions[at], prefix_of(at))


def _accuracy(form: Form) -> float:
    """Return the accuracy that is wanted.

    Raises
    ------
    Problem
        ``invalid-request``: there is none, or it is no number.
    """
    number = number_of(form.required("accuracy"))
    if isinstance(number, str):
        raise invalid_request("accuracy", "must be a number")
    return float(number)


@router.get("/datasets/{dataset}/ask")
async def show_form(
    request: Request, visitor: AskingVisitor, state: State, dataset: str
) -> Response:
    """Show the form of a question, filled in as the address says, and what it asks to see."""
    asking = await asking_about(request, visitor, state, dataset)
    return await asking.shown()


@router.post("/datasets/{dataset}/ask")
async def pay(request: Request, visitor: AskingVisitor, state: State, dataset: str) -> Response:
    """Charge and release, once for each question; again where a new draw is asked for.

    Then the form's key makes it one, however often the form is sent.
    """
    form = await read_form(request)
    asking = await asking_about(request, visitor, state, dataset)
    releases = state.services.releases
    try:
        asked = await asking.sent(form)
        key = f"{FORM_KEY}:{form.key}" if form.text(FRESH) else OWN_KEY
        async with state.clock.answer() as answer:
            record = await releases.submit(
                asking.facts.id, asked.question, idem=key, caller=visitor
            )
            answer.hold(releases.moments.public_from_ms(record))
            await state.services.sessions.forget_draft(request.url.path, caller=visitor)
            return see(path_of("releases", record.id))
    except Problem as problem:
        return asking.refused(form, problem)


@router.post("/datasets/{dataset}/ask/discard")
async def discard_draft(
    request: Request, visitor: AskingVisitor, state: State, dataset: str
) -> Response:
    """Forget what the visitor has filled in and not sent."""
    await read_form(request)
    here = path_of("datasets", dataset, "ask")
    await state.services.sessions.forget_draft(here, caller=visitor)
    return see(f"{here}?done=draft_discarded")


async def asking_about(request: Request, visitor: Caller, state: AppState, dataset: str) -> Asking:
    """Return the form of a question about a data set."""
    facts = await state.services.datasets.present(dataset)
    return Asking(
        request=request,
        visitor=visitor,
        facts=facts,
        heading=marked("Ask %(name)s", name=facts.record.name),
        called=marked("Ask"),
        sends=marked("Release"),
        last=marked("Release this?"),
        warning=marked("A charge is never given back, whatever the numbers are."),
    )
