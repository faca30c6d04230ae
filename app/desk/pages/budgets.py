"""Budgets: granting more, and slices of one for single people."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.forms import (
    EMPTY,
    NONE,
    Faults,
    Form,
    Irrevocable,
    act_once,
    changed_since,
    confirm_page,
    faulted,
    lacking,
    read_as,
    read_form,
    require_sentence,
)
from app.desk.rendering import Listing, about, address, grouped, page, path_of
from app.desk.routes import CuratorVisitor, State, router_of, state_of
from app.domain.problems import Problem
from app.services.datasets.accounting import in_epsilons
from app.services.datasets.datasets import DatasetFacts
from app.services.people.keys import Caller
from app.tidy.names import marked
from app.web.requests.schemas import CapRequest, GrantRequest
from mechanisms.privacy import Epsilon
from mechanisms.words import worded

router = router_of("budgets")

_PAGE = 100
_TOTAL = "total"
"""The field with the total that was shown before a grant is confirmed."""
_TOTAL_CHANGED = worded(
    "the total has changed since you saw it: read this page again, and tick the box if the grant "
    "is still meant; nothing has been granted"
)
_MOST_DIGITS = 20  # of a total, which fits 64 bits
_LARGE, _TIMES = Epsilon.parse("10"), 2
"""A grant above the first, or above the second times the total, is typed a second time."""
_LIFT = "lift"


@router.get("/datasets/{dataset}/grants")
def show_grant(request: Request, visitor: CuratorVisitor, dataset: str) -> Response:
    """Show the form that raises a budget."""
    return _grant_page(request, visitor, dataset)


@router.post("/datasets/{dataset}/grants")
async def grant(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Raise the total of a data set's account, once that is confirmed."""
    form = await read_form(request)
    try:
        asked = read_as(GrantRequest, _grant_fields(form))
        require_sentence("reason", asked.reason)
        facts, amount = await state.services.budgets.granting(dataset, asked.epsilon)
    except Problem as problem:
        return await run_in_threadpool(
            _grant_page, request, visitor, dataset, form, Faults(problem)
        )
    seen = _seen_total(form)
    faults: Faults | None = NONE
    if seen is not None:
        faults = lacking(form, asked.epsilon if _is_large(asked.epsilon, amount, seen) else None)

    async def act() -> str:
        await state.services.budgets.grant(
            dataset,
            asked.epsilon,
            asked.reason,
            caller=visitor,
            expires=asked.expires,
            total=seen,
        )
        return address(path_of("datasets", dataset), done="granted")

    if faults is None:
        try:
            return await act_once(request, form, caller=visitor, act=act)
        except Problem as problem:
            if problem.code != "precondition":
                return await run_in_threadpool(
                    _grant_page, request, visitor, dataset, form, Faults(problem)
                )
            faults = changed_since(_TOTAL_CHANGED)
    view = await run_in_threadpool(state.services.budgets.view, dataset, caller=visitor)
    total = view.balance.total
    again = asked.epsilon if _is_large(asked.epsilon, amount, total) else None
    shown = _irrevocable(facts, asked, total, total + amount, again)
    return confirm_page(request, form.changed(**{_TOTAL: str(total)}), shown, faults)


def _seen_total(form: Form) -> int | None:
    """Return the total that the page of the confirmation showed, in the account's unit."""
    text = form.text(_TOTAL)
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS else None


def _is_large(epsilon: Epsilon, amount: int, total: int) -> bool:
    """Say whether a grant is so large that its amount is typed a second time."""
    return epsilon.nanos > _LARGE.nanos or amount > _TIMES * total


def _irrevocable(
    facts: DatasetFacts, asked: GrantRequest, before: int, after: int, again: Epsilon | None
) -> Irrevocable:
    """Return what is said of a grant before it is made."""
    shown = grouped(str(asked.epsilon))
    totals = [grouped(str(facts.meter.epsilon(each))) for each in (before, after)]
    ends = (
        [] if asked.expires is None else [(marked("Ends"), f"{asked.expires:%Y-%m-%d %H:%M} UTC")]
    )
    rises = marked(
        "The total rises from epsilon %(before)s to %(after)s.", before=totals[0], after=totals[1]
    )
    if before:
        rises = marked(
            "The total rises from epsilon %(before)s to %(after)s, %(times)s times as much.",
            before=totals[0], after=totals[1], times=about(after / before),
        )  # fmt: skip
    return Irrevocable(
        heading=marked("Grant epsilon %(epsilon)s?", epsilon=shown),
        button=marked("Grant"),
        happens=(
            rises,
            marked("The people in the data have a weaker privacy guarantee from then on."),
            marked(
                "The grant is for all data sets of the account %(account)s.",
                account=facts.record.account,
            ),
            marked("It cannot be taken back."),
        ),
        facts=(
            (marked("Data set"), facts.record.name),
            (marked("Epsilon"), shown),
            (marked("Total now"), totals[0]),
            (marked("Total afterwards"), totals[1]),
            (marked("Reason"), asked.reason),
            *ends,
        ),
        back=(path_of("datasets", facts.id), facts.record.name),
        amount=again,
    )


def _grant_fields(form: Form) -> Mapping[str, object]:
    day = form.text("expires")
    fields = {name: form.text(name) for name in ("epsilon", "reason")}
    return {**fields, "expires": f"{day}T00:00:00Z" if len(day) == len("2030-01-01") else day}


def _grant_page(
    request: Request,
    visitor: Caller,
    dataset: str,
    form: Form = EMPTY,
    faults: Faults = NONE,
) -> Response:
    state = state_of(request)
    view = state.services.budgets.view(dataset, caller=visitor)
    return page(
        request,
        "grant.html",
        status=faulted(request, faults),
        facts=state.services.datasets.facts(dataset),
        now=in_epsilons(view.balance, view.meter),
        form=form,
        faults=faults,
    )


@router.get("/datasets/{dataset}/caps")
def show_caps(request: Request, visitor: CuratorVisitor, dataset: str) -> Response:
    """Show what single people may use of a budget."""
    del visitor
    return _caps_page(request, dataset)


@router.post("/datasets/{dataset}/caps")
async def cap(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Cap what somebody may use of a data set's account, or lift the cap."""
    form = await read_form(request)
    lifts = form.text(_LIFT) != ""

    async def act() -> str:
        fields = {name: form.text(name) for name in ("person", "epsilon", "reason")}
        asked = read_as(CapRequest, {**fields, "epsilon": None} if lifts else fields)
        await state.services.budgets.set_cap(
            dataset, asked.person, asked.epsilon, asked.reason, caller=visitor
        )
        return address(path_of("datasets", dataset, "caps"), done="uncapped" if lifts else "capped")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_caps_page, request, dataset, form, Faults(problem))


def _caps_page(
    request: Request, dataset: str, form: Form = EMPTY, faults: Faults = NONE
) -> Response:
    state = state_of(request)
    facts = state.services.datasets.facts(dataset)
    here, meter = path_of("datasets", dataset, "caps"), facts.meter
    listing = Listing.of(request, here, size=_PAGE, oldest=True)
    found = state.services.budgets.caps(dataset, listing.span)
    part = listing.cut(found, lambda each: each.number)
    rows = [
        (
            each.person,
            str(meter.epsilon(each.amount or 0)),  # a cap that is lifted is not listed
            str(meter.epsilon(each.used)),
        )
        for each in part.items
    ]
    return page(
        request,
        "caps.html",
        status=faulted(request, faults),
        facts=facts,
        rows=rows,
        part=part,
        form=form,
        lifts=form.text(_LIFT) != "",
        faults=faults,
    )
