"""Data sets: the list, what everyone may know of one, editing, archiving and deleting it.

Edits change a data set's policy and words, never its bounds. Archiving and deleting erase its rows;
the ledger stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.desk import charts, cookies
from app.desk.forms import EMPTY, NONE, Faults, Form, act_once, faulted, lacking, read_as, read_form
from app.desk.rendering import DATE, Listing, address, page, path_of
from app.desk.routes import CuratorVisitor, State, Visitor, router_of, state_of
from app.domain.datasets import SAME_PEOPLE, columns_json, derived_json
from app.domain.policies import Right, policy_json
from app.domain.problems import Problem, invalid_request, invalid_requests
from app.services.audit import Wanted
from app.services.datasets.accounting import in_epsilons
from app.services.datasets.datasets import STATUSES, DatasetFacts
from app.services.people.keys import Caller
from app.services.plans.answers import heading_of
from app.services.plans.missing import fills_in_words
from app.services.plans.questions import POLICY_KINDS
from app.services.searching import MOST_CHARACTERS
from app.tidy.names import marked, words
from app.web.requests.schemas import DatasetEdit
from app.web.state import AppState

router = router_of("data sets")

_HERE = "/desk/datasets"
ON_A_PAGE = 50
"""As many rows of a list are on a page."""
_MOST_BYTES = 1 << 21
_MOST_WORDS = 8
_ENTRIES = 10
_COLUMNS = 100
_VERSIONS = 12


@router.get("/datasets")
def show_datasets(
    request: Request, visitor: Visitor, state: State, *, q: str = "", status: str = ""
) -> Response:
    """Show the data sets, and once for each account what the visitor may spend."""
    words, chosen = q.strip()[:MOST_CHARACTERS], status if status in STATUSES else ""
    filters = {"q": words, "status": chosen}
    listing = Listing.of(request, _HERE, size=ON_A_PAGE, filters=filters, sorts=("name", DATE))
    found, more = state.services.datasets.list(
        caller=visitor,
        span=replace(listing.span, limit=ON_A_PAGE),
        most_bytes=_MOST_BYTES,
        words=words.split()[:_MOST_WORDS],
        status=chosen or None,
    )
    part = listing.cut(found, lambda each: each.facts.record.number, more=more)
    views = part.items
    left = state.services.budgets.spendable(views, caller=visitor)
    first_of, rows = dict[str, str](), []
    for each in views:
        record = each.facts.record
        rows.append((each, left[record.account], first_of.get(record.account)))
        first_of.setdefault(record.account, record.name)
    return page(
        request,
        "datasets.html",
        rows=rows,
        part=part,
        words=words,
        chosen=chosen,
        waiting=state.services.datasets.waiting(caller=visitor),
        statuses=[
            ("", marked("every status")),
            *((each, each) for each in STATUSES),
        ],
    )


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
        report=cookies.sent_report(request, dataset),
        restricted=services.access.list_of(dataset) is not None,
        deletable=services.deleting.may_delete(dataset),
        mine=mine,
        cap=None if mine.cap is None else mine.cap.amount,
        **_versions(request, state, facts),
        **_releases(request, state, facts, caller=visitor),
        **(_history(state, facts) if visitor.role.may(Right.OVERSEE) else _NO_HISTORY),
    )
    cookies.forget_report(request, answer, dataset)
    cookies.note_opened(request, answer, dataset)
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
    here = path_of("datasets", facts.id)
    listing = Listing.of(request, here, size=ON_A_PAGE, sorts=(DATE,), anchor="#releases")
    found = state.services.releases.heads(caller=caller, dataset=facts.id, span=listing.span)
    part = listing.cut(found, lambda each: each.number)
    return {"releases": [heading_of(each) for each in part.items], "part": part}


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


@router.get("/datasets/{dataset}/archive")
def show_archive(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Show what archiving does, before it is done."""
    del visitor
    return _shown_archiving(request, state, dataset, NONE)


@router.post("/datasets/{dataset}/archive")
async def archive(
    request: Request, visitor: CuratorVisitor, state: State, dataset: str
) -> Response:
    """Archive a data set, once that is confirmed."""
    form = await read_form(request)
    if (faults := lacking(form)) is not None:
        return await run_in_threadpool(_shown_archiving, request, state, dataset, faults, form)

    async def act() -> str:
        await state.services.archiving.archive(dataset, caller=visitor)
        return address(path_of("datasets", dataset), done="archived")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_shown_archiving, request, state, dataset, Faults(problem))


@router.get("/datasets/{dataset}/delete")
def show_delete(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Show what deleting does, before it is done."""
    del visitor
    return _shown_deletion(request, state, dataset, NONE)


@router.post("/datasets/{dataset}/delete")
async def delete(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Delete a data set that has no releases, once that is confirmed."""
    form = await read_form(request)
    if (faults := lacking(form)) is not None:
        return await run_in_threadpool(_shown_deletion, request, state, dataset, faults, form)

    async def act() -> str:
        await state.services.deleting.delete(dataset, caller=visitor)
        return address(path_of("datasets", dataset), done="deleted")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        return await run_in_threadpool(_shown_deletion, request, state, dataset, Faults(problem))


def _shown_archiving(
    request: Request, state: AppState, dataset: str, faults: Faults, form: Form = EMPTY
) -> Response:
    return page(
        request,
        "archive.html",
        status=faulted(request, faults),
        facts=state.services.datasets.facts(dataset),
        form=form,
        faults=faults,
    )


def _shown_deletion(
    request: Request, state: AppState, dataset: str, faults: Faults, form: Form = EMPTY
) -> Response:
    return page(
        request,
        "delete.html",
        status=faulted(request, faults),
        facts=state.services.datasets.view(dataset).facts,
        deletable=state.services.deleting.may_delete(dataset),
        form=form,
        faults=faults,
    )


_COLUMN = "column."
_ONE_OF = re.compile(r"(labels|notices|checklist)\[(\d+)\]", re.ASCII)
_RENAMED = {
    "policy.review": "review",
    "policy.reviewers": "reviewers",
    "policy.max_epsilon_per_release": "max_epsilon_per_release",
    "policy.allowed": "allowed",
}
_LABELS = {"reviewers": marked("Who decides"), "allowed": marked("Statistics that may be asked")}
_CHOICES: Mapping[str, Any] = {
    "reviews": [(each, each) for each in ("never", "always", "above")],
    "reviewers": [
        ("1", marked("one curator")),
        ("2", marked("two, who do not see each other’s vote")),
    ],
    "kinds": [(kind, words(kind)) for kind in POLICY_KINDS],
}


@router.get("/datasets/{dataset}/edit")
def show_edit(request: Request, visitor: CuratorVisitor, dataset: str) -> Response:
    """Show what may be edited, as it is."""
    del visitor
    return _shown_edit(request, dataset)


@router.post("/datasets/{dataset}/edit")
async def edit(request: Request, visitor: CuratorVisitor, state: State, dataset: str) -> Response:
    """Change what differs from what is there; the reason stays in the ledger."""
    form = await read_form(request)
    labelled: list[str] = []

    async def act() -> str:
        there = _present(await state.services.datasets.present(dataset))
        changed = dict(_changes(_given(form), there))
        labelled.extend(changed.get("labels", ()))
        asked = read_as(DatasetEdit, {**changed, "reason": form.text("reason")})
        if not changed:
            raise invalid_request("reason", "explains nothing: no field was changed")
        await state.services.editing.edit(dataset, asked.edit, reason=asked.reason, caller=visitor)
        return address(path_of("datasets", dataset), done="edited")

    try:
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        above = {"policy.review": "review_above"} if form.text("review") == "above" else {}
        faults = Faults(_at_fields(problem, form, labelled), {**_RENAMED, **above})
        return await run_in_threadpool(_shown_edit, request, dataset, form, faults)


def _at_fields(problem: Problem, form: Form, labelled: Sequence[str]) -> Problem:
    """Return a refusal by fields of the form; ``labelled`` are the columns whose labels were sent.

    A fault in one of several lines is reported with the line's number.
    """
    if problem.code != "invalid-request":
        return problem
    return invalid_requests([_at_field(*each, form, labelled) for each in Faults(problem).all])


def _at_field(place: str, message: str, form: Form, labelled: Sequence[str]) -> tuple[str, str]:
    if (found := _ONE_OF.fullmatch(place)) is None:
        return place, message
    name, at = found[1], int(found[2])
    if name == "labels":
        column = next(
            each for each, value in form.pairs if value == labelled[at] and _is_column(each)
        )
        return f"label.{column.removeprefix(_COLUMN)}", message
    numbered = enumerate(form.text(name).splitlines(), start=1)
    return name, f"line {[number for number, line in numbered if line.strip()][at]} {message}"


def _is_column(field: str) -> bool:
    return field.startswith(_COLUMN)


def _present(facts: DatasetFacts) -> Mapping[str, Any]:
    """Return what may be edited, as the request of a program says it."""
    columns = columns_json(facts.columns)
    return {
        "description": facts.description,
        "notices": list(facts.notices),
        "checklist": list(facts.checklist),
        "policy": policy_json(facts.policy),
        "labels": {name: column.get("label") for name, column in columns.items()},
    }


def _given(form: Form) -> Mapping[str, Any]:
    """Return what a form says, in the same way."""
    review = form.text("review")
    reviewers = form.text("reviewers")
    return {
        "description": form.text("description"),
        "notices": _lines(form.text("notices")),
        "checklist": _lines(form.text("checklist")),
        "policy": {
            "review": f"above:{form.text('review_above')}" if review == "above" else review,
            "reviewers": int(reviewers) if reviewers in ("1", "2") else reviewers,
            "max_epsilon_per_release": form.text("max_epsilon_per_release") or None,
            "allowed": form.texts("allowed") or None,
        },
        "labels": {
            column: form.text(f"label.{name.removeprefix(_COLUMN)}") or None
            for name, column in form.pairs
            if _is_column(name)
        },
    }


def _changes(given: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a form would change: of a policy and of labels, only the members that differ."""
    for name, value in given.items():
        if isinstance(value, dict):
            differs = {each: said for each, said in value.items() if said != there[name].get(each)}
            if differs:
                yield name, differs
        elif value != there[name]:
            yield name, value


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _filled(there: Mapping[str, Any]) -> Form:
    """Return the form that says what is there."""
    policy = there["policy"]
    review, _, above = policy["review"].partition(":")
    pairs = [
        ("description", there["description"]),
        ("notices", "\n".join(there["notices"])),
        ("checklist", "\n".join(there["checklist"])),
        ("review", review),
        ("review_above", above),
        ("reviewers", str(policy["reviewers"])),
        ("max_epsilon_per_release", policy["max_epsilon_per_release"] or ""),
        *(("allowed", kind) for kind in policy["allowed"] or ()),
    ]
    for place, (name, label) in enumerate(there["labels"].items()):
        pairs += [(f"{_COLUMN}{place}", name), (f"label.{place}", label or "")]
    return Form(pairs)


def _shown_edit(
    request: Request, dataset: str, form: Form | None = None, faults: Faults = NONE
) -> Response:
    facts = state_of(request).services.datasets.view(dataset).facts
    columns = list(enumerate(columns_json(facts.columns)))
    return page(
        request,
        "edit.html",
        status=faulted(request, faults),
        facts=facts,
        form=form or _filled(_present(facts)),
        columns=columns,
        faults=faults,
        labels={**_LABELS, **{f"label.{at}": f"{name} label" for at, name in columns}},
        **_CHOICES,
    )
