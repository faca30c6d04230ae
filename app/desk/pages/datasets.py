"""Data sets: the list, and what everybody may know of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.desk import charts, reports
from app.desk.lists import address, number_in
from app.desk.rendering import page, path_of
from app.desk.routes import State, Visitor, router_of
from app.domain.datasets import SAME_PEOPLE, columns_json, derived_json
from app.domain.policies import Role
from app.services.datasets.accounting import in_epsilons
from app.services.datasets.datasets import DatasetFacts
from app.services.datasets.policies import policy_json
from app.services.journal import Wanted
from app.services.people.keys import Caller
from app.services.plans.answers import heading_of
from app.services.plans.missing import fills_in_words
from app.web.state import AppState

router = router_of("data sets")

_PAGE, _MOST_BYTES = 50, 1 << 21
_ENTRIES = 10
_COLUMNS = 100
_VERSIONS = 12


@router.get("/datasets")
def show_datasets(request: Request, visitor: Visitor, state: State) -> Response:
    """Show the data sets, newest first, and what is left of each budget."""
    del visitor
    before = number_in(request, "before")
    views, more = state.services.datasets.list(before=before, limit=_PAGE, most_bytes=_MOST_BYTES)
    rows = [(each.facts, in_epsilons(each.balance, each.facts.meter)) for each in views]
    beyond = address("/desk/datasets", before=views[-1].facts.record.number) if more else None
    first = None if before is None else "/desk/datasets"
    return page(request, "datasets.html", rows=rows, more=beyond, first=first)


@router.get("/datasets/{dataset}")
def show_dataset(request: Request, visitor: Visitor, state: State, dataset: str) -> Response:
    """Show a data set's public facts, its budget, and its releases as far as they are yours."""
    services = state.services
    facts = services.datasets.view(dataset).facts  # not what another process has archived since
    mine = services.budgets.view(dataset, caller=visitor)
    now = in_epsilons(mine.balance, mine.meter)
    columns = columns_json(facts.columns) | derived_json(facts.columns)
    every = request.query_params.get("columns") == "all"
    shown = list(columns.items()) if every else list(columns.items())[:_COLUMNS]
    answer = page(
        request,
        "dataset.html",
        facts=facts,
        policy=policy_json(facts.policy),
        columns=shown,
        fills=fills_in_words(facts.columns),
        same_people=SAME_PEOPLE[facts.same_people],
        hidden_columns=len(columns) - len(shown),
        now=now,
        bar=charts.bar(now),
        report=reports.sent_back(request, dataset),
        deletable=services.deleting.may_delete(dataset),
        mine=mine,
        cap=None if mine.cap is None else mine.cap.amount,
        **_versions(request, state, facts),
        **_releases(request, state, facts, caller=visitor),
        **(_history(state, facts) if visitor.role.may_act_as(Role.CURATOR) else _NO_HISTORY),
    )
    reports.forget(request, answer, dataset)
    return answer


def _versions(request: Request, state: AppState, facts: DatasetFacts) -> Mapping[str, Any]:
    """Return the newest versions of which a data set is one, and how many are older."""
    found = state.services.extending.versions(facts.id)
    every = request.query_params.get("versions") == "all"
    shown = found if every else found[:_VERSIONS]
    # Of a deleted data set nothing is newer, and there may be no version at all.
    newer = found[0] if found and found[0].id != facts.id else None
    return {"versions": shown, "newer": newer, "older_versions": len(found) - len(shown)}


def _releases(
    request: Request, state: AppState, facts: DatasetFacts, *, caller: Caller
) -> Mapping[str, Any]:
    """Return a page of releases, as far as the caller may see them."""
    before, here = number_in(request, "before"), path_of("datasets", facts.id)
    found = state.services.releases.heads(
        caller=caller, dataset=facts.id, state=None, before=before, limit=_PAGE
    )
    rows = [heading_of(each) for each in found.records]
    return {
        "releases": rows,
        "more": address(here, before=rows[-1].number) + "#releases" if found.more else None,
        "first": None if before is None else f"{here}#releases",
    }


_NO_HISTORY: Mapping[str, Any] = {"course": None, "moments": (), "entries": ()}


def _history(state: AppState, facts: DatasetFacts) -> Mapping[str, Any]:
    """Return the budget over time and the last entries of the account: for curators."""
    moments = state.services.journal.course(facts.id)
    wanted = Wanted(account=facts.record.account)
    lines, _ = state.services.journal.page(wanted, skip=0, limit=_ENTRIES)
    return {"course": charts.course(moments), "moments": _few(moments), "entries": lines}


def _few(moments: Sequence[Any], most: int = 12) -> Sequence[Any]:
    """Return some moments of a course, the first and the last too."""
    if len(moments) <= most:
        return moments
    return [moments[index * (len(moments) - 1) // (most - 1)] for index in range(most)]
