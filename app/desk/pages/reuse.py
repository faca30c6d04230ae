"""Released numbers used again: statistics derived from them, and releases compared.

*Deriving*: a question that released numbers answer, free and without the data. Its form is that of
a question (:mod:`app.desk.pages.asking`) without a price.

*Comparing*: the numbers of several releases next to one another, on shared axes.

    releases + what they differ in --as groups--> one table, one chart, files

What distinguishes the releases is a dimension like that of groups (:mod:`app.tidy.pivots`), so
their numbers are arranged, drawn and written as those of groups are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.desk.arranging import Arrangement, Numbers, numbers_in, numbers_of, pivot_file
from app.desk.controls import Field, Options
from app.desk.figures import Say
from app.desk.filled import form_of
from app.desk.forms import see
from app.desk.pages.asking import Asking, Derived
from app.desk.rendering import attached, page, path_of, say_in
from app.desk.routes import AskingVisitor, State, Visitor, router_of, state_of
from app.domain.access import Span
from app.domain.problems import Problem, invalid_request
from app.services.people.keys import Caller
from app.services.plans.answers import Heading, answer_of, heading_of
from app.services.plans.wording import asked_in_full
from app.services.publishing.published import columns_of
from app.services.releases.public_moments import tidy_csv
from app.services.releases.releases import ReleaseRecord
from app.services.reviewing.notices import How
from app.tidy.keys import is_long, read_answer
from app.tidy.names import Phrase, joined, marked, narrowed
from app.tidy.rows import Row, rows_of
from app.web.requests.questions import MOST_RELEASES, PreviewRequest
from app.web.state import AppState
from mechanisms.combined import KINDS

router = router_of("reuse")

WITH = "with"
"""The field with further releases."""
MOST = 6
"""At most this many releases are compared."""
_NEWEST = Span(limit=60)
_RELEASED = "released"
_DERIVED = marked("The derived numbers")
_RELEASE = marked("release")
_BETWEEN = "."
_WITHOUT = ("tables",)
"""Statistics whose releases are read table by table."""
_CHART = marked("The numbers of these releases")


# Deriving


@router.get("/releases/{release}/derive")
async def derive(request: Request, visitor: AskingVisitor, state: State, release: str) -> Response:
    """Show the form of a question to a release, and its answer."""
    record = await state.services.releases.get(release, caller=visitor)
    if record.result is None:
        raise Problem("not-found")
    asking = await _asking(request, visitor, state, record)
    return await asking.shown()


async def _asking(
    request: Request, visitor: Caller, state: AppState, record: ReleaseRecord
) -> Asking:
    facts = await state.services.datasets.present(record.dataset)
    together = request.query_params.getlist(WITH)

    async def answered(asked: PreviewRequest) -> Derived:
        if len(together) > MOST_RELEASES:
            raise invalid_request(WITH, f"names more than {MOST_RELEASES} releases")
        services = state.services
        derived = await services.derivations.derive(
            record.id, asked.question.statistic, together_with=together, caller=visitor
        )
        answer: dict[str, Any] = json.loads(derived)
        for each in (record.id, *together):
            services.views.note_id(each, "derived", caller=visitor)
        columns = columns_of(facts, answer["statistic"])
        priced = {**answer, "epsilon": answer["guarantee"]["epsilon"]}
        return Derived(
            answer=answer,
            numbers=numbers_of(answer, _DERIVED, columns, Arrangement(), say_in(request)),
            csv="" if is_long(answer) else tidy_csv(priced),
        )

    return Asking(
        request=request,
        visitor=visitor,
        facts=facts,
        heading=marked("Derive from a release of %(name)s", name=facts.record.name),
        called=marked("Derive"),
        within=((marked("Release"), path_of("releases", record.id)),),
        sends=marked("Derive"),
        last="",
        warning="",
        note=marked("From the release: %(release)s.", release=_said(record)),
        first=form_of({"statistic": _one(record), "epsilon": "1"}),
        derive=answered,
        others=_choices(_combined_with(state, visitor, record)),
    )


def _one(record: ReleaseRecord) -> Mapping[str, Any]:
    """Return the question of a release, of a stack the first one."""
    asked: Mapping[str, Any] = json.loads(record.request)["statistic"]
    return asked["parts"][0]["statistic"] if "parts" in asked else asked


def _said(record: ReleaseRecord) -> str:
    """Return which numbers there are."""
    asked = heading_of(record)
    return Phrase(
        "%(asked)s, epsilon %(epsilon)s",
        {"asked": asked_in_full(asked.statistic), "epsilon": asked.epsilon},
    )


def _choices(others: Options) -> Field | None:
    """Return what chooses releases that are combined with the first one; None without any."""
    help_ = marked(
        "More releases of the data set. Counts, sums, means and moments of several are combined,"
        " and err less than those of any one."
    )
    label = marked("Together with")
    return (
        Field(name=WITH, label=label, shape="checks", help=help_, options=others)
        if others
        else None
    )


def _combined_with(state: AppState, visitor: Caller, record: ReleaseRecord) -> Options:
    """Return the newest other releases of the data set whose numbers may be combined."""
    found = state.services.releases.heads(caller=visitor, dataset=record.dataset, span=_NEWEST)
    return [
        (each.id, _said(each))
        for each in found
        if each.id != record.id and _is_combined(heading_of(each))
    ]


def _is_combined(asked: Heading) -> bool:
    """Return whether a release has numbers, and of a kind that is combined with others."""
    kind = asked.kind in (*KINDS, "stack") and not asked.statistic.get("by")
    return kind and asked.status == _RELEASED


# Comparing


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Releases with their numbers.

    Attributes
    ----------
    named
        What each is called among them, with what is said of it.
    numbers
        All their numbers.
    """

    named: Sequence[tuple[str, Heading]]
    numbers: Numbers


def comparable(kind: str) -> bool:
    """Return whether releases of a statistic can be compared."""
    return kind not in _WITHOUT


@router.get("/releases/{release}/comparison")
async def choose(request: Request, visitor: Visitor, release: str) -> Response:
    """Show which releases can be compared with one, or lead to the comparison with those chosen."""
    chosen = dict.fromkeys(request.query_params.getlist(WITH))
    if chosen:
        return see(path_of("releases", release, "comparison", _BETWEEN.join(chosen)))
    return await _page(request, visitor, (release,))


@router.get("/releases/{release}/comparison/{others}")
async def compare(request: Request, visitor: Visitor, release: str, others: str) -> Response:
    """Show the numbers of several releases next to one another."""
    return await _page(request, visitor, (release, *others.split(_BETWEEN)))


@router.get("/releases/{release}/comparison/{others}/pivot.{ending}")
async def download_pivot(
    request: Request, visitor: Visitor, release: str, others: str, ending: str
) -> Response:
    """Send the numbers of several releases as a table."""
    found = await _compared(request, visitor, (release, *others.split(_BETWEEN)), "downloaded")
    kind, content = pivot_file(found.numbers, ending)
    return attached(content, kind, f"comparison.{ending}")


@router.get("/releases/{release}/comparison/{others}/chart.svg")
async def download_chart(request: Request, visitor: Visitor, release: str, others: str) -> Response:
    """Send the chart of several releases as a file of its own."""
    found = await _compared(request, visitor, (release, *others.split(_BETWEEN)), "downloaded")
    if found.numbers.figure is None:
        raise Problem("not-found")
    return attached(found.numbers.figure.alone.encode(), "image/svg+xml", "comparison.svg")


async def _page(request: Request, visitor: Caller, releases: Sequence[str]) -> Response:
    state = state_of(request)
    found = await _compared(request, visitor, releases, "read", say_in(request))
    first = found.named[0][1]
    return page(
        request,
        "comparison.html",
        release=first.id,
        name=state.services.datasets.facts(first.dataset).record.name,
        datasets={
            each.dataset: state.services.datasets.facts(each.dataset).record.name
            for _, each in found.named
        },
        compared=found,
        others=_others(state, visitor, first),
        chosen=releases[1:],
    )


async def _compared(
    request: Request,
    visitor: Caller,
    releases: Sequence[str],
    seen: How,
    say: Say = str,
) -> Compared:
    """Return releases with their numbers, in their order, once each.

    Raises
    ------
    Problem
        ``not-found``; ``invalid-request``: they are too many, or not of one statistic.
    """
    state = state_of(request)
    records: list[tuple[Heading, ReleaseRecord]] = []
    for each in dict.fromkeys(releases):
        if len(records) == MOST:
            raise invalid_request(WITH, f"names more than {MOST - 1} releases")
        record = await state.services.releases.get(each, caller=visitor)
        heading = heading_of(record)
        if record.result is None or not comparable(heading.kind):
            raise Problem("not-found")
        if records and heading.kind != records[0][0].kind:
            raise invalid_request(WITH, "names a release of another statistic")
        records.append((heading, record))
    state.services.views.note([record for _, record in records], seen, caller=visitor)
    names = _names(state, [heading for heading, _ in records])
    columns: dict[str, Mapping[str, Any]] = {}
    rows: list[Row] = []
    for name, (heading, record) in zip(names, records, strict=True):
        facts = await state.services.datasets.present(heading.dataset)
        columns = {**columns_of(facts, heading.statistic), **columns}
        rows += _in_group(rows_of(read_answer(answer_of(record))), name)
    rows.sort(key=lambda row: row.key.part or 0)
    return Compared(
        named=[(name, heading) for name, (heading, _) in zip(names, records, strict=True)],
        numbers=numbers_in(rows, _CHART, columns, Arrangement.of(request), say=say),
    )


def _in_group(rows: Sequence[Row], name: str) -> Iterator[Row]:
    """Yield numbers with what their release is called as one more group."""
    for row in rows:
        yield replace(row, key=replace(row.key, group={**row.key.group, _RELEASE: name}))


def _names(state: AppState, headings: Sequence[Heading]) -> list[str]:
    """Return what releases are called: what they differ in, and where that is nothing their ids."""
    facts = [_facts(state, each) for each in headings]
    differ = [at for at, values in enumerate(zip(*facts, strict=True)) if len({*values}) > 1]
    names = [joined([each[at] for at in differ]) for each in facts]
    if len({*names}) < len(names):
        return [
            joined(filter(None, [name, each.id]))
            for name, each in zip(names, headings, strict=True)
        ]
    return [*names]


def _facts(state: AppState, heading: Heading, *, in_full: bool = False) -> tuple[str, ...]:
    """Return what may distinguish a release from others of the same statistic."""
    asked = heading.statistic
    return (
        state.services.datasets.facts(heading.dataset).record.name,
        asked_in_full(asked) if in_full else narrowed(asked) or marked("all records"),
        marked("epsilon %(epsilon)s", epsilon=heading.epsilon),
    )


def _others(state: AppState, visitor: Caller, first: Heading) -> Sequence[tuple[str, str]]:
    """Return releases of the same statistic: the newest of the data set, then those of others."""
    heads = state.services.releases.heads
    found = [
        *heads(caller=visitor, dataset=first.dataset, span=_NEWEST),
        *heads(caller=visitor, span=_NEWEST),
    ]
    alike = {
        each.id: each
        for each in map(heading_of, found)
        if each.kind == first.kind and each.status == _RELEASED and each.id != first.id
    }
    return [(id, joined(_facts(state, each, in_full=True))) for id, each in alike.items()]
