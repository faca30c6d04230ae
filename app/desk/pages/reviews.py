"""Reviews: what waits, the sheet of one request, votes, comments, and the answer of who asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.desk.estimating import expected_of
from app.desk.filled import form_of
from app.desk.forms import (
    CALLED,
    Faults,
    Form,
    Irrevocable,
    act_once,
    confirm_page,
    lacking,
    read_as,
    read_form,
    see,
)
from app.desk.pages.asking import SEEN, Asking
from app.desk.pages.releases import Filters
from app.desk.rendering import DATE, Listing, Part, about, page, path_of
from app.desk.routes import DecidingVisitor, State, Visitor, router_of
from app.domain.datasets import SAME_PEOPLE
from app.domain.policies import Right
from app.domain.problems import Problem
from app.domain.releases import UNDECIDED, ReleaseState
from app.domain.reviews import Decision
from app.services.people.keys import Caller
from app.services.plans.answers import etag_of, heading_of
from app.services.plans.questions import read_question, spelled
from app.services.releases.releases import ReleaseRecord
from app.services.reviewing.notices import Notice
from app.tidy.names import marked
from app.web.requests.schemas import CommentRequest, DecisionRequest
from app.web.state import AppState

router = router_of("reviews")

_HERE = "/desk/reviews"
_SHOWN = 60
_NOTICES = 20  # a page of both is smaller than 60 kB
_WAITING = ""
_STATES: Mapping[str, Sequence[ReleaseState]] = {
    _WAITING: (ReleaseState.RESERVED, ReleaseState.CHANGES_REQUESTED),
    "awaiting_review": (ReleaseState.RESERVED,),
    "changes_requested": (ReleaseState.CHANGES_REQUESTED,),
    "rejected": (ReleaseState.REJECTED,),
    "withdrawn": (ReleaseState.WITHDRAWN,),
    "expired": (ReleaseState.EXPIRED,),
}
_REASONED = (ReleaseState.CHANGES_REQUESTED, ReleaseState.REJECTED)
_PARTED = (
    "The form parts names and values at their commas and ends, so it cannot hold this request as it"
    " is. What it shows is what is sent."
)
_GONE_ON = ("precondition", "not-your-turn", "not-found", "forbidden", "unauthorized")
"""What an act is refused for that came too late, or to nothing."""


@router.get("/reviews")
def list_reviews(
    request: Request,
    visitor: Visitor,
    state: State,
    *,
    dataset: str = "",
    person: str = "",
    status: str = _WAITING,
) -> Response:
    """List what waits for somebody, and what has happened; an analyst sees their own."""
    services = state.services
    filters = Filters.of(state, visitor, dataset=dataset, person=person)
    chosen = status if status in _STATES else _WAITING
    here = {**filters.query, "status": chosen}
    listing = Listing.of(request, _HERE, size=_SHOWN, filters=here, sorts=(DATE,))
    found = [
        record
        for each in _STATES[chosen]
        for record in services.releases.heads(
            caller=visitor,
            dataset=filters.dataset or None,
            person=filters.person or None,
            span=listing.span,
            state=each,
        )
    ]
    part = listing.cut(listing.span.of(found, _number), _number)
    rows = [heading_of(record) for record in part.items]
    asked = {row.dataset for row in rows}
    return page(
        request,
        "reviews.html",
        rows=rows,
        names={each: services.datasets.facts(each).record.name for each in asked},
        filters=filters,
        chosen=chosen,
        statuses=[(each, each.replace("_", " ") or marked("all pending")) for each in _STATES],
        part=part,
        inbox=_inbox(request, state, visitor),
    )


def _number(numbered: ReleaseRecord | Notice) -> int:
    return numbered.number


def _inbox(request: Request, state: AppState, visitor: Caller) -> Part[Notice]:
    """Return a page of the visitor's messages, newest first."""
    listing = Listing.of(request, _HERE, size=_NOTICES, prefix="inbox_", anchor="#inbox")
    return listing.cut(state.services.inbox.list(caller=visitor, span=listing.span), _number)


@router.post("/reviews/read")
async def mark_read(request: Request, visitor: Visitor, state: State) -> Response:
    """Mark notices as read."""
    form = await read_form(request)
    await state.services.inbox.mark_read(form.texts("notice"), caller=visitor)
    return see("/desk/reviews?done=read")


@router.get("/reviews/{release}")
async def show_review(request: Request, visitor: Visitor, state: State, release: str) -> Response:
    """Show the sheet to a reviewer; to who asked, where their request stands."""
    return await _shown(request, visitor, state, release)


@router.post("/reviews/{release}/decision")
async def decide(
    request: Request, visitor: DecidingVisitor, state: State, release: str
) -> Response:
    """Vote; if two people cast the last vote at once, the second sees what the first did.

    An approval is confirmed first, since it may charge the budget.
    """
    form = await read_form(request)
    try:
        fields = {name: form.text(name) for name in ("decision", "reason")}
        asked, seen = read_as(DecisionRequest, fields), form.text("seen")
        faults = lacking(form) if asked.decision is Decision.APPROVE else None
        if faults is not None:
            act_shown = await _approval(state, visitor, release, asked.reason, seen=seen)
            if act_shown is not None:
                return confirm_page(request, form, act_shown, faults)

        async def act() -> str:
            await state.services.reviews.decide(
                release,
                asked.decision,
                asked.reason,
                unchanged=lambda found: faults is None and etag_of(found) == seen,
                caller=visitor,
            )
            return f"{path_of('reviews', release)}?done={asked.decision.value}"

        async with state.clock.answer():
            return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await _shown(request, visitor, state, release, form=form, problem=problem)


async def _approval(
    state: AppState, visitor: Caller, release: str, reason: str, *, seen: str
) -> Irrevocable | None:
    """Return what is said of an approval before it is given; None where it would be refused."""
    record = await state.services.releases.get(release, caller=visitor)
    own, waiting = record.principal == visitor.person, record.state is ReleaseState.RESERVED
    if own or not waiting or etag_of(record) != seen:
        return None
    sheet = await state.services.sheets.sheet(release, caller=visitor)
    cost, share = sheet.cost, about(100 * sheet.cost.share)
    return Irrevocable(
        heading=marked("Approve this release?"),
        button=marked("Approve"),
        happens=(
            marked(
                "If your vote is the last one needed, epsilon %(epsilon)s is charged, and the "
                "numbers are drawn.",
                epsilon=cost.epsilon,
            )
            if sheet.votes.needed > 1
            else marked(
                "Epsilon %(epsilon)s is charged, and the numbers are drawn.", epsilon=cost.epsilon
            ),
            marked("A charge is never given back, whatever the numbers are."),
        ),
        facts=(
            (marked("Data set"), sheet.facts.record.name),
            (marked("Statistic"), sheet.words),
            (marked("Requested by"), sheet.background.asker.person),
            (marked("Cost"), marked("epsilon %(epsilon)s", epsilon=cost.epsilon)),
            (
                marked("Remaining budget"),
                marked(
                    "%(remaining)s, of which this is %(share)s%%",
                    remaining=cost.remaining,
                    share=share,
                ),
            ),
            (marked("Reason"), reason),
        ),
        back=(path_of("reviews", release), marked("The review")),
    )


@router.post("/reviews/{release}/comments")
async def comment(request: Request, visitor: Visitor, state: State, release: str) -> Response:
    """Say something; who asked gives the turn back with it where changes are wanted."""
    form = await read_form(request)
    try:
        private = form.text("private") == "yes"
        asked = read_as(CommentRequest, {"text": form.text("comment"), "private": private})

        async def act() -> str:
            await state.services.comments.add(
                asked.text, release=release, private=asked.private, caller=visitor
            )
            return f"{path_of('reviews', release)}?done=commented"

        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await _shown(request, visitor, state, release, form=form, problem=problem)


@router.get("/reviews/{release}/revision")
async def show_revision(request: Request, visitor: Visitor, state: State, release: str) -> Response:
    """Show the form of a question, filled in as the visitor's own whose reviewers want changes."""
    record = await state.services.releases.get(release, caller=visitor)
    if record.principal != visitor.person:
        raise Problem("not-found")
    if record.state is not ReleaseState.CHANGES_REQUESTED:
        raise Problem("not-your-turn")
    asking = await _asking(request, visitor, state, record)
    again = await asking.sent(asking.first)
    before = read_question(record.request)
    whole = spelled(again.question, asking.facts.schema) == spelled(before, asking.facts.schema)
    return await (asking if whole else replace(asking, note=_PARTED)).shown()


@router.post("/reviews/{release}/revision")
async def revise(request: Request, visitor: Visitor, state: State, release: str) -> Response:
    """Put another request in the place of the visitor's own, whose reviewers want changes."""
    form = await read_form(request)
    record = await state.services.releases.get(release, caller=visitor)
    asking = await _asking(request, visitor, state, record)
    try:
        asked = await asking.sent(form)

        async def act() -> str:
            await state.services.reviews.revise(
                release,
                asked.question,
                unchanged=lambda found: etag_of(found) == form.text(SEEN),
                caller=visitor,
            )
            return f"{path_of('reviews', release)}?done=revised"

        async with state.clock.answer():
            return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        if problem.code in _GONE_ON:
            return await _shown(request, visitor, state, release, problem=problem)
        return asking.refused(form, problem)


async def _asking(
    request: Request, visitor: Caller, state: AppState, record: ReleaseRecord
) -> Asking:
    facts = await state.services.datasets.present(record.dataset)
    return Asking(
        request=request,
        visitor=visitor,
        facts=facts,
        heading=marked("Resubmit the request on %(name)s", name=facts.record.name),
        called=marked("Change the request"),
        within=((marked("Review"), path_of("reviews", record.id)),),
        sends=marked("Send again"),
        last=marked("Send this again?"),
        warning=marked("Nothing is charged before it is approved."),
        first=form_of(json.loads(record.request)),
        seen=etag_of(record),
        freed=record.amount,
        reviewed=True,
    )


async def _shown(
    request: Request,
    visitor: Caller,
    state: AppState,
    release: str,
    *,
    form: Form | None = None,
    problem: Problem | None = None,
) -> Response:
    """Return the page of a review, with what an act on it was refused for."""
    if problem is not None:
        request.scope["problem"] = problem.code
        if problem.code in ("not-found", "forbidden", "unauthorized"):
            raise problem
    services = state.services
    record = await services.releases.get(release, caller=visitor)
    own = record.principal == visitor.person
    facts = await services.datasets.present(record.dataset)
    reviewer = visitor.role.may(Right.DECIDE)
    oversees = visitor.role.may(Right.OVERSEE)
    sheet = await services.sheets.sheet(release, caller=visitor) if oversees else None
    complete = sheet is not None and sheet.votes.complete
    voted = sheet is not None and visitor.person in [vote.person for vote in sheet.votes.seen]
    shown: Mapping[str, Any] = {
        "heading": heading_of(record),
        "name": facts.record.name,
        "facts": facts,
        "same_people": SAME_PEOPLE[facts.same_people],
        "own": own,
        "etag": etag_of(record),
        "sheet": sheet,
        "expected": _expected(sheet),
        "reviewer": reviewer,
        "undecided": record.state in UNDECIDED,
        "votes_wanted": record.state is ReleaseState.RESERVED
        and reviewer
        and not own
        and (voted or not complete),
        "voted": voted and not complete,
        "reason": record.reason if record.state in _REASONED else None,
        "turn_is_mine": record.state is ReleaseState.CHANGES_REQUESTED and own,
        "asked": json.dumps(json.loads(record.request), indent=2, ensure_ascii=False),
        "versions": await services.comments.versions(release=release, caller=visitor),
        "comments": await services.comments.list(release=release, caller=visitor),
        "form": form or Form(),
        "faults": Faults(problem, CALLED),
    }
    return page(request, "review.html", status=200 if problem is None else problem.status, **shown)


def _expected(sheet: Any) -> Sequence[Any]:
    """Return the expected errors that a sheet shows."""
    if sheet is None or sheet.expected.expected_error is None:
        return ()
    return expected_of(
        {
            "statistic": sheet.request["statistic"],
            "epsilon": sheet.request["epsilon"],
            "expected_error": sheet.expected.expected_error,
            "possible_range": sheet.expected.possible_range,
        }
    )
