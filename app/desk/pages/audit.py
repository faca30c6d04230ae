"""The audit: whether the ledger holds, what is in it, and who did what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk.forms import act_once, read_form
from app.desk.lists import address, number_in
from app.desk.rendering import page
from app.desk.routes import CuratorVisitor, State, Visitor, router_of
from app.domain.policies import Role
from app.services.journal import Wanted
from app.services.plans.answers import heading_of
from app.web.state import AppState

router = router_of("audit")

_HERE = "/desk/audit"
_PAGE = 100
_SEEN = 20
_LATEST = 200
_MOST_PAGES = 100_000  # what is skipped must fit 64 bits
_WAIT_S, _WAIT_ANEW_S = 2.0, 20.0  # a page does not wait for a long walk: it says that it goes on
_LONGEST = 200
_KINDS: Sequence[str] = (
    "open", "grant", "expire", "debit", "reserve", "unreserve", "burn",
    "account_opened", "dataset_created", "dataset_edited", "dataset_archived", "dataset_deleted",
    "account_closed", "cap_set",
    "key_created", "key_revoked", "overlap_refused", "overlap_override", "pause_set",
    "review_vote", "release_changes_requested", "release_returned", "release_withdrawn",
    "release_published", "publication_withdrawn",
)  # fmt: skip


@router.get("/audit")
async def show_audit(request: Request, visitor: Visitor, state: State) -> Response:
    """Show a curator the ledger of every account, and an analyst what their own releases cost."""
    if not visitor.role.may_act_as(Role.CURATOR):
        before = number_in(request, "before")
        found = await run_in_threadpool(
            lambda: state.services.releases.heads(caller=visitor, before=before, limit=_PAGE)
        )
        rows = [heading_of(each) for each in found.records]
        more = address(_HERE, before=rows[-1].number) if found.more else None
        first = None if before is None else _HERE
        return page(request, "audit_own.html", rows=rows, more=more, first=first)
    verified = await state.services.audit.verified(wait_s=_WAIT_S)
    shown = await run_in_threadpool(_ledger, request, state)
    seen_before = number_in(request, "seen_before")
    seen = await state.services.sights.list(before=seen_before, limit=_SEEN + 1, release=None)
    return page(
        request,
        "audit.html",
        verified=verified,
        seen=seen[:_SEEN],
        seen_more=address(_HERE, seen_before=seen[_SEEN - 1].number) if len(seen) > _SEEN else None,
        seen_first=None if seen_before is None else _HERE,
        **shown,
    )


@router.post("/audit")
async def verify(request: Request, visitor: CuratorVisitor, state: State) -> Response:
    """Verify the ledger again."""
    form = await read_form(request)

    async def act() -> str:
        await state.services.audit.verified(wait_s=_WAIT_ANEW_S, afresh=True)
        return _HERE

    return await act_once(request, form, caller=visitor, act=act)


def _ledger(request: Request, state: AppState) -> Mapping[str, Any]:
    """Return a page of the ledger, as far as the filters leave it."""
    asked = request.query_params
    filters = {name: asked.get(name, "")[:_LONGEST] for name in ("account", "kind", "person")}
    at = min(number_in(request, "page") or 1, _MOST_PAGES)
    wanted = Wanted(**{name: value or None for name, value in filters.items()})
    lines, more = state.services.journal.page(wanted, skip=_PAGE * (at - 1), limit=_PAGE)
    views, _ = state.services.datasets.list(before=None, limit=_LATEST, most_bytes=1 << 22)
    accounts = {each.facts.record.account: each.facts.record.name for each in reversed(views)}
    if filters["account"]:
        accounts.setdefault(filters["account"], filters["account"])
    return {
        "lines": lines,
        "filters": filters,
        "accounts": [("", "every account"), *reversed(accounts.items())],
        "kinds": [("", "every kind"), *((kind, kind.replace("_", " ")) for kind in _KINDS)],
        "more": address(_HERE, **filters, page=at + 1) if more else None,
        "first": address(_HERE, **filters) if at > 1 else None,
    }
