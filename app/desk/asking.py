"""What a question and its resubmission have in common: the form of a question, its preview, the
last step.

A preview, a dry run and the step before a question is sent change nothing, so they have addresses:
they can be gone back to, and kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.desk.declaring import number_of, numbers_by_name
from app.desk.estimating import Estimated, foresee
from app.desk.filled import edges_at_fault, request_of
from app.desk.forms import EMPTY, FORM_KEY, NONE, Faults, Form, numbers_of
from app.desk.questions import (
    EDGES,
    MISSING_SHARES,
    OPERATORS,
    WITHOUT_VALUE,
    at_fields,
    choices_of,
    fields_of,
    kinds,
    labels_of,
    opened,
    room_of,
    summary_of,
)
from app.desk.rendering import new_form_key, page
from app.desk.routes import state_of
from app.domain.datasets import columns_json
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.services.datasets.datasets import DatasetFacts
from app.services.people.keys import Caller
from app.services.plans.questions import KINDS, POLICY_KINDS
from app.tidy import names
from app.web.requests.bodies import made_of, request_in
from app.web.requests.leaving import while_there
from app.web.requests.questions import PreviewRequest
from mechanisms.catalog import STATISTICS

_BY_EPSILON, _BY_ACCURACY = "epsilon", "accuracy"
_ANY_ACCURACY = 1.0
"""Stands for one that cannot be read, so that other faults are reported with it."""
FRESH = "fresh"
"""The field that asks for a new draw, and a new charge, of what was asked before."""
SEEN = "seen"
"""The field with the tag of the version that another one is put in the place of."""
_OF_ANY_KIND = ("wanted", "epsilon", "purpose")
"""Fields that stay as they are when another statistic is chosen."""
_USUAL = (("intercept", "yes"), ("wanted", _BY_ACCURACY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who fills the form in, about which data set, and what sending it does."""

    request: Request
    visitor: Caller
    facts: DatasetFacts
    heading: str
    about: tuple[str, str]
    """The page that the form belongs to: its address and its name."""
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

    async def shown(self) -> Response:
        """Show the form as the address fills it in, and what was asked to be seen."""
        form = self._filled()
        fragment = form.text("part") == "preview"
        if not form.text("act"):
            return self._form(form)
        try:
            found, form = await while_there(self.request, self._foreseen(form))
            if form.text("act") == "release":
                return await self._confirmed(form, found)
            tried = None
            if form.text("act") == "try":
                tried = await while_there(self.request, self._tried(form))
        except Problem as problem:
            if not fragment:
                return self.refused(form, problem)
            faults = self._faults(form, problem)
            failed = faults.problem
            labels = labels_of(fields_of(form.text("statistic"), self.facts.schema, form), form)
            return page(
                self.request,
                "preview.html",
                seen=None,
                problem=failed,
                faults=faults,
                labels=labels,
            )
        if fragment:
            return page(self.request, "preview.html", asking=self, seen=found, problem=None)
        return self._form(form, seen=found, tried=tried)

    async def _confirmed(self, form: Form, found: Estimated) -> Response:
        """Show the last step, and the release that the visitor has of this question already."""
        before = None
        if not self.seen:
            asked = await self.sent(form)
            before = await state_of(self.request).services.releases.asked_before(
                self.facts.id, asked.question, caller=self.visitor
            )
        kept = [pair for pair in self._kept(form) if pair[0] != FRESH]
        return page(self.request, "confirm.html", asking=self, seen=found, kept=kept, before=before)

    def refused(self, form: Form, problem: Problem) -> Response:
        """Show the form with what it was refused for, at the fields that it is about."""
        self.request.scope["problem"] = problem.code
        shown = form.changed(statistic=self._kind_of(form))
        return self._form(shown, faults=self._faults(form, problem), status=problem.status)

    def _faults(self, form: Form, problem: Problem) -> Faults:
        """Return what a form was refused for, at the fields that it is about."""
        found = Faults(at_fields(problem, form))
        if found.at(EDGES) is None:
            return found
        return Faults(found.problem, {EDGES: edges_at_fault(form, self.facts.schema)})

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
        kind = self._kind_of(form)
        if len(form.pairs) > 1:
            return form.changed(statistic=kind)
        first = self.first.pairs
        if kind != self.first.text("statistic"):
            first = [*(pair for pair in first if pair[0] in _OF_ANY_KIND), *_USUAL]
        return Form((*form.pairs, *first)).changed(statistic=kind)

    def _kind_of(self, form: Form) -> str:
        """Return the statistic whose fields are shown: the form's, or the first one allowed."""
        kind, before = form.text("statistic"), self.first.text("statistic")
        if kind in KINDS:
            return kind
        allowed = _allowed(self.facts)
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
        labels = names.labels_of(columns_json(self.facts.columns))
        return {"estimate": run, "numbers": numbers_of(run, "Numbers from synthetic rows", labels)}

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

    async def _foreseen(self, form: Form) -> tuple[Estimated, Form]:
        """Return what a question would be like, and the form with the epsilon it was seen at."""
        asked = await self._read(form)
        found, question = await foresee(
            state_of(self.request).services,
            self.facts.id,
            asked.question,
            asked.wish,
            freed=self.freed,
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
        faults: Faults = NONE,
        status: int = 200,
    ) -> Response:
        kind = form.text("statistic")
        mechanisms, norms = choices_of(kind)
        fields = fields_of(kind, self.facts.schema, form)
        allowed = _allowed(self.facts)
        shown: Mapping[str, Any] = {
            "asking": self,
            "form": form,
            "kinds": [pair for pair in kinds() if pair[0] in allowed],
            "summary": summary_of(kind),
            "fields": fields,
            "columns": columns_json(self.facts.columns),
            "opened": opened(form, fields, [place for place, _ in faults.all]),
            "labels": labels_of(fields, form),
            "mechanisms": mechanisms,
            "norms": norms,
            "operators": [("", "–"), *((each, each) for each in (*OPERATORS, *WITHOUT_VALUE))],
            "conditions": room_of(form),
            "seen": seen,
            "tried": tried,
            "faults": faults,
        }
        return page(self.request, "ask.html", status=status, **shown)


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


def _allowed(facts: DatasetFacts) -> list[str]:
    allowed = facts.policy.allowed
    return [
        kind for kind in KINDS if allowed is None or kind in allowed or kind not in POLICY_KINDS
    ]
