"""The audit: whether the ledger holds, what is in it, and who did what."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.desk.forms import act_once, read_form
from app.desk.pages.releases import named
from app.desk.rendering import DATE, Listing, address, headers_of_file, number_in, numbered, page
from app.desk.routes import OverseeingVisitor, State, Visitor, router_of
from app.domain.access import Span
from app.domain.policies import Right
from app.services.audit import DECISIONS, MOST_REPORTED, Line, Wanted
from app.services.datasets.accounting import in_epsilons
from app.services.people.keys import Caller
from app.services.plans.answers import heading_of
from app.services.publishing.published import odds_at_most
from app.tidy.names import marked
from app.tidy.pivots import csv_text
from app.web.state import AppState

router = router_of("audit")

_HERE = "/desk/audit"
_PAGE = 25  # lines have a dozen elements each: with more of them the first paint is late
_REPORTED = 60
_SEEN = 10
_MOST_PAGES = 100_000  # what is skipped must fit 64 bits
_WAIT_S = 0.03
"""A page does not wait for a walk that takes longer: it says that one goes on."""
_LONGEST = 200
_PART = 1_000
_DECISIONS = "decisions"
_CALLED = {
    "debit": marked("debit: a release was charged"),
    "reserve": marked("reserve: a request waits"),
}
KINDS: Sequence[str] = (
    "open", "grant", "expire", "debit", "reserve", "unreserve", "burn",
    "account_opened", "dataset_created", "dataset_edited", "dataset_archived", "dataset_deleted",
    "account_closed", "cap_set", "access_set", "group_set", "groups_given",
    "key_created", "key_revoked", "sign_in_allowed", "overlap_refused", "overlap_override",
    "pause_set",
    "review_vote", "release_changes_requested", "release_returned", "release_withdrawn",
    "study_plan_requested", "study_plan_vote", "study_plan_approved", "study_plan_rejected",
    "study_plan_changes_requested", "study_plan_withdrawn", "study_plan_expired",
    "release_published", "publication_withdrawn",
)  # fmt: skip


@router.get("/audit")
async def show_audit(request: Request, visitor: Visitor, state: State) -> Response:
    """Show a curator the ledger of every account, and an analyst what their own releases cost."""
    if not visitor.role.may(Right.OVERSEE):
        listing = Listing.of(request, _HERE, size=_PAGE, sorts=(DATE,))
        found = await run_in_threadpool(
            lambda: state.services.releases.heads(caller=visitor, span=listing.span)
        )
        part = listing.cut(found, lambda each: each.number)
        rows = [heading_of(each) for each in part.items]
        return page(request, "audit_own.html", rows=rows, part=part)
    shown = await run_in_threadpool(_ledger, request, visitor, state)
    listing = Listing.of(request, _HERE, size=_SEEN, prefix="seen_", anchor="#seen")
    seen = await state.services.views.list(caller=visitor, span=listing.span, release=None)
    return page(
        request,
        "audit.html",
        look=await state.services.audit.look(wait_s=_WAIT_S),
        again=_again(request),
        seen=listing.cut(seen, lambda each: each.number),
        said=await run_in_threadpool(
            lambda: state.services.comments.page(caller=visitor, before=None, limit=_SEEN)
        ),
        **shown,
    )


@router.post("/audit")
async def verify(request: Request, visitor: OverseeingVisitor, state: State) -> Response:
    """Verify the ledger again."""
    form = await read_form(request)

    async def act() -> str:
        state.services.audit.begin()
        await state.services.audit.look(wait_s=_WAIT_S)
        return _HERE

    return await act_once(request, form, caller=visitor, act=act)


@router.get("/audit/report")
async def show_report(request: Request, visitor: OverseeingVisitor, state: State) -> Response:
    """Show what an account was used for, to print: for a data-protection officer."""
    account = request.query_params.get("account", "")[:_LONGEST]
    whole = request.query_params.get("whole") == "yes"  # to print, or to save as PDF
    at = 1 if whole else min(number_in(request, "page") or 1, _MOST_PAGES)
    limit = MOST_REPORTED if whole else _REPORTED
    report = await run_in_threadpool(
        lambda: state.services.journal.report(
            account, caller=visitor, skip=limit * (at - 1), limit=limit
        )
    )
    facts = [await state.services.datasets.present(each.id) for each in report.datasets]
    now = in_epsilons(report.balance, report.meter)
    adjacency = facts[0].schema.adjacency.value
    return page(
        request,
        "audit_report.html",
        report=report,
        facts=facts,
        now=now,
        odds=odds_at_most(now.spent.nanos / 1e9, adjacency) if report.meter.delta is None else None,
        most=MOST_REPORTED,
        **_pages(request.url.path, account, at, more=report.more, whole=whole),
        made_at=_now(),
        made_by=visitor.person,
        look=await state.services.audit.look(wait_s=_WAIT_S),
        again=_again(request),
    )


def _pages(path: str, account: str, at: int, *, more: bool, whole: bool) -> Mapping[str, Any]:
    """Return the addresses of the other pages of a report, and of all on one page."""
    several = not whole and (more or at > 1)
    return {
        "whole": address(path, account=account, whole="yes") if several else None,
        "part": numbered(
            at,
            lambda page: address(path, account=account, page=page),
            more=several and more,
        ),
    }


@router.get("/audit/{which}.{ending}")
async def export(
    request: Request,
    visitor: OverseeingVisitor,
    state: State,
    *,
    which: Literal["ledger", "decisions", "views", "comments"],
    ending: Literal["csv", "json"],
) -> Response:
    """Send all of the ledger that the filters leave, the decisions, or who saw or said what."""
    await state.services.views.write()
    if which == "views":
        rows = _views(state, visitor)
    elif which == "comments":
        rows = _comments(state, visitor)
    else:
        filters, _ = await run_in_threadpool(_filters, request, visitor, state)
        rows = _entries(state, _wanted(filters, visitor, which))
    written = _as_csv(rows) if ending == "csv" else _as_json(rows)
    name = f"{which}-{_now()[:10]}.{ending}"
    kind = "text/csv; charset=utf-8" if ending == "csv" else "application/json"
    return StreamingResponse(written, media_type=kind, headers=headers_of_file(name))


def _again(request: Request) -> str:
    """Return the address of a page, to load it again."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _now() -> str:
    """Return the time (UTC) as entries have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _entries(state: AppState, wanted: Wanted) -> Iterator[Sequence[Mapping[str, object]]]:
    """Yield entries in parts, newest first; of the system's own neither place nor hash."""
    skip, more = 0, True
    wanted = replace(wanted, until=_now())  # what comes later would move the parts
    while more:
        lines, more = state.services.journal.page(wanted, skip=skip, limit=_PART)
        skip += len(lines)
        yield [_exported(line) for line in lines]


def _exported(line: Line) -> Mapping[str, object]:
    entry, meter = line.entry, line.meter

    def amount(value: int) -> str | None:
        return None if meter is None else meter.text(value)

    return {
        "at": entry.at,
        "account": entry.account,
        "dataset": line.dataset,
        "dataset_name": line.name,
        "seq": None if meter is None else entry.seq,
        "kind": entry.kind,
        "by": entry.principal,
        "role": entry.role,
        "key": entry.key,
        "approved_by": "; ".join(line.approved_by) or None,
        "release": entry.release,
        "unit": None if meter is None else meter.unit,
        "amount": amount(entry.amount),
        "total_after": amount(entry.total_after),
        "spent_after": amount(entry.spent_after),
        "reserved_after": amount(entry.reserved_after),
        "note": entry.note,
        "hash": None if meter is None else entry.hash,
    }


def _views(state: AppState, visitor: Caller) -> Iterator[Sequence[Mapping[str, object]]]:
    """Yield who has seen results that were not public, in parts, newest first."""
    before: int | None = None
    while seen := state.services.views.written(
        caller=visitor, span=Span(before=before, limit=_PART)
    ):
        yield [
            {
                "at": each.at, "person": each.person, "how": each.how, "key": each.key,
                "release": each.release,
            }
            for each in seen
        ]  # fmt: skip
        before = seen[-1].number


def _comments(state: AppState, visitor: Caller) -> Iterator[Sequence[Mapping[str, object]]]:
    """Yield who commented on which request, in parts, newest first."""
    before: int | None = None
    while said := state.services.comments.page(caller=visitor, before=before, limit=_PART):
        yield [
            {
                "at": each.at, "person": each.person, "release": each.release,
                "study_plan": each.study_plan, "turn": each.turn, "private": each.private,
            }
            for each in said
        ]  # fmt: skip
        before = said[-1].number


def _as_csv(parts: Iterator[Sequence[Mapping[str, object]]]) -> Iterator[str]:
    header = False
    for rows in parts:
        lines = [[*row.values()] for row in rows]
        if rows and not header:
            header = True
            yield csv_text([*rows[0]], lines)
        elif rows:
            yield csv_text(lines[0], lines[1:])


def _as_json(parts: Iterator[Sequence[Mapping[str, object]]]) -> Iterator[str]:
    between = "[\n"
    for rows in parts:
        for row in rows:
            yield f"{between}{json.dumps(row, ensure_ascii=False)}"
            between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


def _filters(request: Request, visitor: Caller, state: AppState) -> tuple[Mapping[str, str], str]:
    """Return what is filtered by, and what to call the account, which may be named in any way."""
    asked = request.query_params
    found = {name: asked.get(name, "")[:_LONGEST].strip() for name in ("account", "kind", "person")}
    account = called = found["account"]
    if account:
        account, called = state.services.datasets.account_called(account, caller=visitor)
    return {**found, "account": account}, called


def _wanted(filters: Mapping[str, str], visitor: Caller, which: str = "ledger") -> Wanted:
    """Return which entries the filters leave, of those that a visitor may see.

    One kind of the form stands for all decisions.
    """
    decisions = which == "decisions" or filters["kind"] == _DECISIONS
    return Wanted(
        account=filters["account"] or None,
        person=filters["person"] or None,
        kind=None if decisions else filters["kind"] or None,
        kinds=DECISIONS if decisions else (),
        hidden=visitor.hidden,
    )


def _ledger(request: Request, visitor: Caller, state: AppState) -> Mapping[str, Any]:
    """Return a page of the ledger, as far as the filters leave it."""
    filters, called = _filters(request, visitor, state)
    at = min(number_in(request, "page") or 1, _MOST_PAGES)
    wanted = _wanted(filters, visitor)
    lines, more = state.services.journal.page(wanted, skip=_PAGE * (at - 1), limit=_PAGE)
    return {
        "lines": lines,
        "filters": filters,
        "called": called,
        "named": named(state, visitor, lambda each: each.account),
        "kinds": [
            ("", marked("every kind")),
            (_DECISIONS, marked("all decisions")),
            *((kind, _CALLED.get(kind, kind.replace("_", " "))) for kind in KINDS),
        ],
        "query": address("", **filters),
        "part": numbered(at, lambda page: address(_HERE, **filters, page=page), more=more),
    }
