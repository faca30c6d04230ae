"""Releases: the list, one of them, and what may be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.desk.arranging import Arrangement, numbers_of, pivot_file
from app.desk.forms import (
    EMPTY,
    NONE,
    Faults,
    Form,
    Irrevocable,
    Named,
    act_once,
    confirm_page,
    faulted,
    lacking,
    read_as,
    read_form,
)
from app.desk.rendering import (
    DATE,
    Listing,
    attached,
    headers_of_file,
    page,
    path_of,
    say_in,
)
from app.desk.routes import CuratorVisitor, State, Visitor, router_of, state_of
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.datasets.datasets import DatasetFacts
from app.services.people.keys import Caller
from app.services.plans.answers import answer_of, etag_of, heading_of, state_called
from app.services.plans.wording import asked_in_full
from app.services.publishing.published import changes_at_most, columns_of, loss_of
from app.services.releases.cells import MEDIA_TYPES as CELLS
from app.services.releases.public_moments import tidy_csv
from app.services.releases.synthetic import MEDIA_TYPES, Wanted
from app.services.scripts import Language
from app.tidy.keys import is_long, read_answer
from app.tidy.names import Phrase, marked, words
from app.tidy.office import WORD
from app.tidy.printed import Printed, printed_any
from app.web.anonymous import base_of
from app.web.requests.questions import SyntheticRequest
from app.web.requests.schemas import PublicationRequest, PublicationWithdrawalRequest
from app.web.state import AppState, while_there

router = router_of("releases")

_HERE = "/desk/releases"
_SHOWN = 60  # a page of them is smaller than 60 kB
_SUGGESTED = 40
_ACTIVE = "active"
_LONGEST = 200
_REVIEWED = ("awaiting_review", "changes_requested", "rejected", "withdrawn", "expired")
"""What a list may be limited to: when a draw ends is not public before its deadline."""
_CHART = marked("The released numbers")
_COMPARED = 400
"""Cells of a table that are shown next to synthetic ones."""
_MOST_DIGITS = 20
_RARE = ("inference", "purpose", "review")
"""Members that only some answers have."""


def named(state: AppState, visitor: Caller, value_of: Callable[[Any], str]) -> Named:
    """Return what a field for a data set of a visitor's offers; one choice for each value."""
    found = state.services.datasets.newest(caller=visitor, limit=_SUGGESTED + 1)
    if len(found) > _SUGGESTED:
        return Named(None, [each.name for each in found if each.status == _ACTIVE])
    choices = {value_of(each): _called(each.name, each.status) for each in reversed(found)}
    return Named([*reversed(choices.items())], ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list of requests is limited to: a data set, by its id or name, and a person.

    ``called`` is what the field of the data set shows. ``unknown``: there is no such data set.
    """

    dataset: str
    called: str
    unknown: bool
    person: str
    named: Named

    @classmethod
    def of(cls, state: AppState, visitor: Caller, *, dataset: str, person: str) -> Filters:
        """Return the filters that an address names."""
        asked, datasets = dataset.strip()[:_LONGEST], state.services.datasets
        found = datasets.called(asked, caller=visitor) if asked else None
        return cls(
            dataset=asked if found is None else found.id,
            called=asked if found is None else found.record.name,
            unknown=bool(asked) and found is None,
            person=person[:_LONGEST],
            named=named(state, visitor, lambda each: each.id),
        )

    @property
    def query(self) -> Mapping[str, str]:
        """Return the parameters of an address that names them."""
        return {"dataset": self.dataset, "person": self.person}


@router.get("/releases")
def list_releases(
    request: Request,
    visitor: Visitor,
    state: State,
    *,
    dataset: str = "",
    status: str = "",
    person: str = "",
) -> Response:
    """List the visitor's releases; a curator sees everyone's."""
    filters = Filters.of(state, visitor, dataset=dataset, person=person)
    here = {**filters.query, "status": status}
    listing = Listing.of(request, _HERE, size=_SHOWN, filters=here, sorts=(DATE,))
    found = state.services.releases.heads(
        caller=visitor,
        dataset=filters.dataset or None,
        person=filters.person or None,
        state=state_called(status) if status in _REVIEWED else None,
        span=listing.span,
    )
    part = listing.cut(found, lambda record: record.number)
    rows = [heading_of(record) for record in part.items]
    facts = state.services.datasets.facts
    return page(
        request,
        "releases.html",
        rows=rows,
        names={each: _told(facts(each)) for each in {row.dataset for row in rows}},
        part=part,
        filters=filters,
        chosen=status,
        statuses=[
            ("", marked("every state")),
            *((each, each.replace("_", " ")) for each in _REVIEWED),
        ],
    )


def _told(facts: DatasetFacts) -> str:
    return _called(facts.record.name, facts.record.status.value)


def _called(name: str, status: str) -> str:
    """Return a data set's name; another one may have that of an archived one."""
    if status == _ACTIVE:
        return name
    return Phrase("%(name)s (%(status)s)", {"name": name, "status": words(status)})


@router.get("/releases/{release}")
async def show_release(request: Request, visitor: Visitor, release: str) -> Response:
    """Show a release: its numbers once it has them, and until then what it waits for."""
    return await _shown(request, visitor, release)


@router.get("/releases/{release}/release.json")
async def download_json(visitor: Visitor, state: State, release: str) -> Response:
    """Send a release as the API answers it, byte for byte."""
    record = await state.services.releases.get(release, caller=visitor)
    state.services.views.note([record], "downloaded", caller=visitor)
    return attached(answer_of(record), "application/json", f"{record.id}.json")


@router.get("/releases/{release}/release.csv")
async def download_csv(visitor: Visitor, state: State, release: str) -> Response:
    """Send a release's numbers, one a row; of very many cells the lines that the API has."""
    answer, _, _ = await _answer(visitor, state, release)
    if not answer["value"]:
        raise Problem("not-found")
    state.services.views.note_id(answer["id"], "downloaded", caller=visitor)
    if is_long(answer):
        lines = state.services.cells.whole(release, "csv", caller=visitor)
        headers = headers_of_file(f"{answer['id']}.csv")
        return StreamingResponse(lines, media_type=CELLS["csv"], headers=headers)
    return attached(tidy_csv(answer).encode(), "text/csv; charset=utf-8", f"{answer['id']}.csv")


@router.get("/releases/{release}/chart.svg")
async def download_chart(
    request: Request, visitor: Visitor, state: State, release: str
) -> Response:
    """Send the chart of a release's numbers as a file of its own."""
    answer, _, _ = await _answer(visitor, state, release)
    facts = await state.services.datasets.present(answer["dataset"])
    columns = columns_of(facts, answer["statistic"])
    wanted = Arrangement.of(request)
    numbers = numbers_of(answer, _CHART, columns, wanted) if answer["value"] else None
    if numbers is None or numbers.figure is None:
        raise Problem("not-found")
    state.services.views.note_id(answer["id"], "downloaded", caller=visitor)
    return attached(numbers.figure.alone.encode(), "image/svg+xml", f"{answer['id']}.svg")


@router.get("/releases/{release}/pivot.{ending}")
async def download_pivot(
    request: Request, visitor: Visitor, state: State, release: str, ending: str
) -> Response:
    """Send a release's numbers as tables of rows and columns."""
    answer, _, _ = await _answer(visitor, state, release)
    facts = await state.services.datasets.present(answer["dataset"])
    columns = columns_of(facts, answer["statistic"])
    kind, content = pivot_file(numbers_of(answer, "", columns, Arrangement.of(request)), ending)
    state.services.views.note_id(answer["id"], "downloaded", caller=visitor)
    return attached(content, kind, f"{answer['id']}.{ending}")


@router.get("/releases/{release}/table.md")
async def download_markdown(visitor: Visitor, state: State, release: str) -> Response:
    """Send a release's numbers as a table that journals print, in Markdown."""
    table, name = await _table(visitor, state, release)
    return attached(table.markdown().encode(), "text/markdown; charset=utf-8", f"{name}.md")


@router.get("/releases/{release}/table.tex")
async def download_latex(visitor: Visitor, state: State, release: str) -> Response:
    """Send a release's numbers as a table that journals print, in LaTeX."""
    table, name = await _table(visitor, state, release)
    return attached(table.latex().encode(), "application/x-tex; charset=utf-8", f"{name}.tex")


@router.get("/releases/{release}/table.docx")
async def download_word(visitor: Visitor, state: State, release: str) -> Response:
    """Send a release's numbers as a table that journals print, as a Word document."""
    table, name = await _table(visitor, state, release)
    return attached(table.word(), WORD, f"{name}.docx")


async def _table(visitor: Caller, state: AppState, release: str) -> tuple[Printed, str]:
    """Return the printed table of a release, and the release's name; the download is noted."""
    answer, _, _ = await _answer(visitor, state, release)
    facts = await state.services.datasets.present(answer["dataset"])
    table = printed_any(answer, columns_of(facts, answer["statistic"]))
    if table is None:
        raise Problem("not-found")
    state.services.views.note_id(answer["id"], "downloaded", caller=visitor)
    return table, str(answer["id"])


@router.get("/releases/{release}/script")
async def download_script(
    request: Request, visitor: Visitor, state: State, release: str, language: Language
) -> Response:
    """Send a program that reads the release, and could ask its question again."""
    script = await state.services.scripts.of_release(
        release,
        language,
        caller=visitor,
        service=base_of(request, state.settings.public_url),
    )
    return attached(script.text.encode(), f"{script.media_type}; charset=utf-8", script.name)


@router.get("/releases/{release}/synthetic")
async def show_synthetic(
    *,
    request: Request,
    visitor: Visitor,
    state: State,
    release: str,
    synthetic_rows: str = "10000",
    seed: str = "0",
    table: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Show how near synthetic rows are to the release, table by table, and what they lack."""
    wanted = _wanted(synthetic_rows, seed, "csv")
    making = state.services.synthetic.rows(release, wanted, caller=visitor, compared=table)
    made = await while_there(request, making)
    if not made.compared:
        raise Problem("not-found")
    state.services.views.note_id(release, "derived", caller=visitor)
    facts = await state.services.datasets.present(made.sidecar["dataset"])
    fits = made.sidecar["tables"]
    return page(
        request,
        "synthetic.html",
        release=release,
        name=_told(facts),
        about=made.sidecar,
        worst=max(fits, key=lambda fit: fit["total_variation"]),
        tables=[(place, " × ".join(fit["columns"])) for place, fit in enumerate(fits)],
        table=table,
        compared=made.compared[:_COMPARED],
        more=max(len(made.compared) - _COMPARED, 0),
    )


@router.get("/releases/{release}/synthetic/file")
async def download_synthetic(
    *,
    request: Request,
    visitor: Visitor,
    state: State,
    release: str,
    synthetic_rows: str = "10000",
    seed: str = "0",
    format: str = "csv",
) -> Response:
    """Send synthetic rows of a release as a file."""
    wanted = _wanted(synthetic_rows, seed, format)
    making = state.services.synthetic.rows(release, wanted, caller=visitor)
    made = await while_there(request, making)
    state.services.views.note_id(release, "downloaded", caller=visitor)
    return attached(made.content, MEDIA_TYPES[wanted.format], wanted.name(release))


def _wanted(rows: str, seed: str, form: str) -> Wanted:
    """Return which synthetic rows are asked for; what is no whole number is refused as a text."""
    numbers = {
        name: int(text) if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS else text
        for name, text in {"rows": rows, "seed": seed}.items()
    }
    return read_as(SyntheticRequest, {**numbers, "format": form}).wanted


@router.post("/releases/{release}/withdrawal")
async def withdraw_release(
    request: Request, visitor: Visitor, state: State, release: str
) -> Response:
    """Withdraw a release of the visitor's own that waits for a review."""
    form = await read_form(request)

    async def act() -> str:
        async with state.clock.answer():
            await state.services.reviews.withdraw(release, caller=visitor)
        return f"{path_of('releases', release)}?done=withdrawn"

    return await _done(request, visitor, release, form, act)


@router.post("/releases/{release}/publication")
async def publish_release(
    request: Request, visitor: CuratorVisitor, state: State, release: str
) -> Response:
    """Make a release public, once that is confirmed, if it is still what the curator has seen."""
    form = await read_form(request)
    faults = lacking(form)

    async def act() -> str:
        asked = read_as(PublicationRequest, {"reason": form.text("reason")})
        await state.services.publications.publish(
            release,
            asked.reason,
            unchanged=lambda found: faults is None and etag_of(found) == form.text("seen"),
            caller=visitor,
        )
        return f"{path_of('releases', release)}?done=published"

    async def announced() -> Irrevocable | None:
        asked = read_as(PublicationRequest, {"reason": form.text("reason")})
        answer, _, etag = await _answer(visitor, state, release)
        known = await state.services.publications.known(release, caller=visitor)
        if answer["status"] != "released" or known is not None or etag != form.text("seen"):
            return None
        return Irrevocable(
            heading=marked("Publish this release?"),
            button=marked("Publish"),
            happens=(
                marked("Anyone can read it without a key, and find it in searches and feeds."),
                marked("You can withdraw it later, but copies that others have made stay."),
                marked("Its address keeps a notice then, and it cannot be published again."),
            ),
            facts=await _facts_of(state, answer, (marked("Reason"), asked.reason)),
            back=(path_of("releases", release), marked("The release")),
        )

    return await _done(request, visitor, release, form, act, faults=faults, announced=announced)


@router.post("/releases/{release}/publication/withdrawal")
async def withdraw_publication(
    request: Request, visitor: CuratorVisitor, state: State, release: str
) -> Response:
    """Withdraw a release from the public, for good, once that is confirmed."""
    form = await read_form(request)
    faults = lacking(form)

    async def act() -> str:
        asked = read_as(PublicationWithdrawalRequest, {"note": form.text("note")})
        await state.services.publications.withdraw(release, asked.note, caller=visitor)
        return f"{path_of('releases', release)}?done=unpublished"

    async def announced() -> Irrevocable | None:
        asked = read_as(PublicationWithdrawalRequest, {"note": form.text("note")})
        answer, _, _ = await _answer(visitor, state, release)
        known = await state.services.publications.known(release, caller=visitor)
        if known is None or known.withdrawn_at is not None:
            return None
        return Irrevocable(
            heading=marked("Withdraw this publication?"),
            button=marked("Withdraw publication"),
            happens=(
                marked("Its public page shows the note and no numbers from now on."),
                marked("It cannot be published again, and copies that others have made stay."),
                marked("The epsilon that the release has cost stays spent."),
            ),
            facts=await _facts_of(state, answer, (marked("Note"), asked.note)),
            back=(path_of("releases", release), marked("The release")),
        )

    return await _done(request, visitor, release, form, act, faults=faults, announced=announced)


async def _facts_of(
    state: AppState, answer: Mapping[str, Any], said: tuple[str, str]
) -> Sequence[tuple[str, str]]:
    """Return what is shown of a release before something is done with it."""
    facts = await state.services.datasets.present(answer["dataset"])
    return (
        (marked("Data set"), _told(facts)),
        (marked("Statistic"), asked_in_full(answer["statistic"])),
        (marked("Epsilon"), answer["epsilon"]),
        said,
    )


async def _done(
    request: Request,
    visitor: Caller,
    release: str,
    form: Form,
    act: Callable[[], Awaitable[str]],
    *,
    faults: Faults | None = None,
    announced: Callable[[], Awaitable[Irrevocable | None]] | None = None,
) -> Response:
    """Do what a form of the page asks for; where it is refused, show the page and say so there.

    ``announced`` returns what the page says of an act that is not confirmed; ``faults`` are what is
    about; None where it would be refused.
    """
    try:
        if faults is not None and announced and (found := await announced()) is not None:
            return confirm_page(request, form, found, faults)
        return await act_once(request, form, caller=visitor, act=act)
    except Problem as problem:
        if problem.code in ("not-found", "forbidden"):
            raise
        return await _shown(request, visitor, release, form, Faults(problem))


async def _shown(
    request: Request,
    visitor: Caller,
    release: str,
    form: Form = EMPTY,
    faults: Faults = NONE,
) -> Response:
    state = state_of(request)
    answer, waits, etag = await _answer(visitor, state, release)
    publication = await state.services.publications.known(release, caller=visitor)
    facts = await state.services.datasets.present(answer["dataset"])
    columns = columns_of(facts, answer["statistic"])
    wanted = Arrangement.of(request)
    numbers = (
        numbers_of(answer, _CHART, columns, wanted, say_in(request)) if answer["value"] else None
    )
    return page(
        request,
        "release.html",
        status=faulted(request, faults),
        answer=answer,
        numbers=numbers,
        waits=waits,
        again_s=waits and waits.again_s,
        name=_told(facts),
        columns=columns,
        guaranteed=changes_at_most(answer["guarantee"], facts.meter.delta),
        loss=" ".join(loss_of(answer["guarantee"])),
        own=answer["requested_by"] == visitor.person,
        etag=etag,
        publication=publication,
        form=form,
        faults=faults,
    )


@dataclass(frozen=True, slots=True)
class _Waits:
    """Seconds since the charge of an unfinished release, and until it is worth looking again."""

    passed_s: int
    again_s: int


async def _answer(
    visitor: Caller, state: AppState, release: str
) -> tuple[Mapping[str, Any], _Waits | None, str]:
    """Return a release as the API answers it, how long it waits if unfinished, and its tag."""
    releases = state.services.releases
    record = await releases.get(release, caller=visitor)
    state.services.views.note([record], "read", caller=visitor)
    unfinished = record.state in (ReleaseState.RESERVED, ReleaseState.DEBITED)
    answer = {**dict.fromkeys(_RARE), **read_answer(answer_of(record))}
    moments, waits = releases.moments, None
    if unfinished:
        passed_s = moments.waited_s(record) if record.state is ReleaseState.DEBITED else 0
        waits = _Waits(passed_s, moments.retry_after_s(record))
    return answer, waits, etag_of(record)
