"""The commands about reviews: the sheet, deciding, revising, comments, the inbox, edits.

Study plans: saving, requesting, deciding on and drawing them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import click

from app.cli.caution import YES, require_meant
from app.cli.ledger import audit
from app.cli.remote import (
    AS_TABLE,
    as_json_option,
    connected,
    datasets,
    parsed,
    print_cells,
    print_numbers,
    print_rows,
    questions_in,
    releases,
)
from app.client import PlanSheet, ReleaseDesk, Sheet

_REASON = click.option(
    "--reason", required=True, help="Stored in the ledger, and shown to the requester."
)
_SEEN = click.option(
    "--seen", metavar="ETAG", help="What `releases review` printed: refused if it has changed."
)


@releases.command("review")
@click.argument("release")
@as_json_option
@connected
def releases_review(desk: ReleaseDesk, *, release: str, as_json: bool) -> None:
    """Print the review sheet of RELEASE: requester, question, price, and comments."""
    sheet = desk.review(release)
    for line in (sheet.model_dump_json(),) if as_json else _lines(sheet):
        click.echo(line)


@releases.command("approve")
@click.argument("release")
@click.option("--reason", required=True, help="Stored in the ledger.")
@_SEEN
@YES
@connected
def releases_approve(
    desk: ReleaseDesk, *, release: str, reason: str, seen: str | None, yes: bool
) -> None:
    """Approve RELEASE, which awaits a review: it is charged and drawn. Never one's own."""
    require_meant(lambda: _approved(desk.review(release)), yes=yes)
    click.echo(desk.approve(release, reason=reason, seen=seen).status)


@releases.command("reject")
@click.argument("release")
@_REASON
@_SEEN
@YES
@connected
def releases_reject(
    desk: ReleaseDesk, *, release: str, reason: str, seen: str | None, yes: bool
) -> None:
    """Reject RELEASE, which awaits a review; its budget is given back. Never one's own."""
    require_meant(lambda: _rejected(desk.review(release)), yes=yes)
    click.echo(desk.reject(release, reason=reason, seen=seen).status)


@releases.command("request-changes")
@click.argument("release")
@_REASON
@_SEEN
@connected
def releases_request_changes(
    desk: ReleaseDesk, *, release: str, reason: str, seen: str | None
) -> None:
    """Give the turn to the requester of RELEASE: they revise, answer or withdraw."""
    click.echo(desk.request_changes(release, reason=reason, seen=seen).status)


@releases.command("revise")
@click.argument("release")
@click.argument("statistic")
@click.option("--epsilon", required=True, help='The new price as a decimal, e.g. "0.5".')
@click.option("--mechanism", default="auto", show_default=True)
@click.option("--norm", default="auto", show_default=True)
@click.option("--purpose", help="What the numbers are for, in words for reviewers.")
@connected
def releases_revise(
    desk: ReleaseDesk,
    *,
    release: str,
    statistic: str,
    purpose: str | None,
    **choice: str,
) -> None:
    """Ask STATISTIC (JSON) in place of RELEASE, one's own, whose reviewers want changes."""
    asked = parsed(statistic, "STATISTIC")
    click.echo(desk.revise(release, asked, purpose=purpose, **choice).status)


_REQUEST = click.argument("request", metavar="REQUEST")


@releases.command("comment")
@_REQUEST
@click.argument("text")
@click.option("--private", is_flag=True, help="Among reviewers; the requester does not see it.")
@connected
def comment(desk: ReleaseDesk, *, request: str, text: str, private: bool) -> None:
    """Comment TEXT on REQUEST, the id of a release or a study plan that waits.

    A comment by the requester answers reviewers who want changes.
    """
    click.echo(desk.comment(request, text, private=private).at)


@releases.command("comments")
@_REQUEST
@as_json_option
@connected
def comments(desk: ReleaseDesk, *, request: str, as_json: bool) -> None:
    """List the comments on REQUEST, the id of a release or a study plan."""
    print_rows(desk.comments(request), ("at", "person", "private", "text"), as_json=as_json)


@releases.command("versions")
@_REQUEST
@as_json_option
@connected
def versions(desk: ReleaseDesk, *, request: str, as_json: bool) -> None:
    """List the versions of REQUEST, and where each differs from the last."""
    for version in desk.versions(request):
        click.echo(version.model_dump_json() if as_json else _version(version.members))


@click.command("inbox")
@click.option("--unread", is_flag=True, help="Only what you have not read.")
@click.option("--read", "mark", is_flag=True, help="Mark what is printed as read.")
@as_json_option
@connected
def inbox(desk: ReleaseDesk, *, unread: bool, mark: bool, as_json: bool) -> None:
    """List what has happened to releases under review, newest first."""
    notices = list(desk.inbox(unread=unread))
    print_rows(notices, ("at", "event", "release", "study_plan", "what", "why"), as_json=as_json)
    for start in range(0, len(notices) if mark else 0, 200):
        desk.mark_read(notices[start : start + 200])


@audit.command("access-log")
@click.option("--release", help="Only of this release.")
@as_json_option
@connected
def audit_access_log(desk: ReleaseDesk, *, release: str | None, as_json: bool) -> None:
    """List who has seen results that were not public, newest first."""
    columns = ("at", "person", "how", "release")
    print_rows(desk.audit(release=release), columns, as_json=as_json)


@datasets.command("edit")
@click.argument("dataset")
@click.argument("changes")
@click.option("--reason", required=True, help="Stored in the ledger.")
@connected
def datasets_edit(desk: ReleaseDesk, *, dataset: str, changes: str, reason: str) -> None:
    """Change what is said of DATASET by CHANGES (JSON); bounds are fixed.

    CHANGES has any of policy, description, notices, labels and checklist. What is left out stays.
    """
    edited = desk.edit(dataset, reason=reason, **parsed(changes, "CHANGES"))
    click.echo(edited.id)


def _approved(sheet: Sheet) -> Iterator[str]:
    """Yield what an approval does."""
    cost, needed = sheet.cost, sheet.votes["needed"]
    last = f"If yours is the last of {needed} votes, it" if needed > 1 else "It"
    yield f"{sheet.asker['person']} asks for: {sheet.words}"
    share = f"{100 * cost['share']:.3g}% of what is left"
    yield f"{last} is charged epsilon {cost['epsilon']}, {share}."
    yield "A charge is never given back, whatever the numbers are."


def _rejected(sheet: Sheet) -> Iterator[str]:
    """Yield what a rejection does."""
    needed = sheet.votes["needed"]
    last = f"If yours is the last of {needed} votes, the" if needed > 1 else "The"
    yield f"{sheet.asker['person']} asks for: {sheet.words}"
    yield f"{last} request ends, and its reserved epsilon {sheet.cost['epsilon']} is released."
    yield "A rejected request cannot be approved later. The requester will see your reason."


def _lines(sheet: Sheet) -> Iterator[str]:
    """Yield a sheet for a terminal, one thing a line, under short headings."""
    cost, asker = sheet.cost, sheet.asker
    worth = sheet.expected["usefulness"]
    yield f"{sheet.release}  {sheet.status}  version {sheet.version}  turn {sheet.turn}"
    yield f"seen       {sheet.etag}"
    yield f"asked      {sheet.words}"
    yield f"by         {asker['person']}{_history(asker)}"
    yield f"purpose    {sheet.purpose or 'none was given'}"
    yield f"cost       epsilon {cost['epsilon']}, {100 * cost['share']:.3g}% of what is left"
    for said in sheet.members.get("for_one_person", ()):
        yield f"one person {said}"
    yield f"expected   {worth['verdict']}: {worth['sentence']}"
    for said in sheet.members.get("about_missing", ()):
        yield f"missing    {said}"
    for said in sheet.members.get("about_weights", ()):
        yield f"weights    {said}"
    for name, column in sheet.bounds.items():
        yield f"bounds     {name}: {_bounds(column)}"
    for said in sheet.policy_says:
        yield f"policy     {said}"
    for question in sheet.checklist:
        yield f"check      [ ] {question}"
    for each in sheet.matrix["releases"]:
        marks = "".join("x" if touched else "." for touched in each["touches"])
        kinds = " and ".join(each["kinds"])
        yield (
            f"earlier    {marks}  {each['release']}  {kinds}  epsilon {each['epsilon']}"
            f"  {each['status']}  {each['requested_by']}"
        )
    yield f"people     in an earlier data set: {sheet.same_people.replace('_', ' ')}"
    for each in sheet.overlaps:
        yield f"overlap    {each['name']} ({each['dataset']}): {each['why']}"
    yield from _talk(sheet)


def _talk(sheet: Sheet | PlanSheet) -> Iterator[str]:
    """Yield what has been changed, voted and said, line by line."""
    votes = sheet.votes
    for each in sheet.versions[1:]:
        yield f"version    {_version(each)}"
    state = "a conflict" if votes["conflict"] else "all in" if votes["complete"] else "open"
    yield f"votes      {votes['needed']} needed, {state}"
    for each in votes["items"]:
        yield f"vote       {each['person']}: {each['decision']}: {each['reason']}"
    for each in sheet.comments:
        mark = " (private)" if each["private"] else ""
        yield f"comment    {each['person']}{mark}: {each['text']}"


def _history(asker: Mapping[str, Any]) -> str:
    """Return what somebody has asked before, and what they may still use."""
    before = ", ".join(f"{count} {status}" for status, count in sorted(asker["asked"].items()))
    cap = "" if asker["cap"] is None else f"; used {asker['used']} of a cap of {asker['cap']}"
    return f"; before: {before or 'nothing'}; spent {asker['spent']}{cap}"


def _bounds(column: Mapping[str, Any]) -> str:
    if "lower" in column:
        return f"{column['lower']} to {column['upper']}"
    return ", ".join(map(str, column.get("values", ("yes", "no"))))


def _version(version: Mapping[str, Any]) -> str:
    """Return a version and its differences in a line."""
    changes = "; ".join(
        f"{each['place']}: {each['before']} -> {each['after']}" for each in version["differences"]
    )
    return f"{version['version']}  {version['at']}  {changes or 'as it was asked'}"


# Study plans


@click.group()
def plans() -> None:
    """Save study plans, have them reviewed as one, and draw their questions one by one."""


for each in (comment, comments, versions):
    plans.add_command(each)


@plans.command("save")
@click.argument("dataset")
@click.argument("study", type=click.File("r"))
@click.option("--name", required=True, help="What the plan is called in lists.")
@click.option("--purpose", help="What the numbers are for, in words for reviewers.")
@connected
def plans_save(
    desk: ReleaseDesk, *, dataset: str, study: TextIO, name: str, purpose: str | None
) -> None:
    """Save the questions in STUDY (a JSON file, - for input) on DATASET as a draft; print its id.

    STUDY has a list of "questions", as for `releases plan`.
    """
    questions = questions_in(parsed(study.read(), "STUDY"))
    found = desk.dataset(dataset)
    click.echo(desk.save_plan(found.id, questions, name=name, purpose=purpose).id)


@plans.command("edit")
@click.argument("plan")
@click.argument("study", type=click.File("r"))
@click.option("--name", required=True, help="What the plan is called in lists.")
@click.option("--purpose", help="What the numbers are for, in words for reviewers.")
@connected
def plans_edit(
    desk: ReleaseDesk, *, plan: str, study: TextIO, name: str, purpose: str | None
) -> None:
    """Put the questions in STUDY in the place of those of PLAN, a draft of one's own.

    Also of a plan whose reviewers want changes: `plans request` then sends it again.
    """
    questions = questions_in(parsed(study.read(), "STUDY"))
    click.echo(desk.edit_plan(plan, questions, name=name, purpose=purpose).status)


@plans.command("list")
@click.option("--status", help="Only those that stand so, e.g. awaiting_review.")
@as_json_option
@connected
def plans_list(desk: ReleaseDesk, *, status: str | None, as_json: bool) -> None:
    """List your study plans; reviewers and curators see everyone's requests."""
    columns = ("id", "dataset", "name", "status", "requested_by")
    print_rows(desk.saved_plans(status=status), columns, as_json=as_json)


@plans.command("show")
@click.argument("plan")
@as_json_option
@connected
def plans_show(desk: ReleaseDesk, *, plan: str, as_json: bool) -> None:
    """Print PLAN: its questions from 0, their prices, and the releases of those paid for."""
    found = desk.saved_plan(plan)
    if as_json:
        click.echo(found.model_dump_json())
        return
    rows = found.rows()
    print_cells([list(rows[0]), *(list(row.values()) for row in rows)])
    paid, unit = found.paid["amount"], found.charge["unit"]
    left = found.remaining["amount"]
    click.echo(f"{found.status}: {paid} of {found.charge['amount']} {unit} paid, {left} left")


@plans.command("request")
@click.argument("plan")
@connected
def plans_request(desk: ReleaseDesk, *, plan: str) -> None:
    """Ask for the approval of PLAN, a draft, as one request. Nothing is reserved.

    Where reviewers want changes, this sends it again as it was edited.
    """
    click.echo(desk.request_plan(plan).status)


@plans.command("withdraw")
@click.argument("plan")
@YES
@connected
def plans_withdraw(desk: ReleaseDesk, *, plan: str, yes: bool) -> None:
    """Withdraw PLAN, one's own: no further question of it can be drawn."""
    require_meant(lambda: ["A withdrawn plan cannot be requested again."], yes=yes)
    click.echo(desk.withdraw_plan(plan).status)


@plans.command("delete")
@click.argument("plan")
@connected
def plans_delete(desk: ReleaseDesk, *, plan: str) -> None:
    """Delete PLAN, a draft of one's own."""
    desk.delete_plan(plan)


@plans.command("review")
@click.argument("plan")
@as_json_option
@connected
def plans_review(desk: ReleaseDesk, *, plan: str, as_json: bool) -> None:
    """Print the review sheet of PLAN: requester, questions, prices, and what they mean."""
    sheet = desk.review_plan(plan)
    for line in (sheet.model_dump_json(),) if as_json else _plan_lines(sheet):
        click.echo(line)


@plans.command("approve")
@click.argument("plan")
@click.option("--reason", required=True, help="Stored in the ledger.")
@_SEEN
@YES
@connected
def plans_approve(
    desk: ReleaseDesk, *, plan: str, reason: str, seen: str | None, yes: bool
) -> None:
    """Approve all questions of PLAN as one: its owner may draw each. Never one's own."""
    require_meant(lambda: _plan_approved(desk.review_plan(plan)), yes=yes)
    click.echo(desk.decide_on_plan(plan, "approve", reason=reason, seen=seen).status)


@plans.command("reject")
@click.argument("plan")
@_REASON
@_SEEN
@YES
@connected
def plans_reject(desk: ReleaseDesk, *, plan: str, reason: str, seen: str | None, yes: bool) -> None:
    """Reject PLAN, which awaits a review. Never one's own."""
    require_meant(lambda: ["A rejected plan cannot be requested again."], yes=yes)
    click.echo(desk.decide_on_plan(plan, "reject", reason=reason, seen=seen).status)


@plans.command("request-changes")
@click.argument("plan")
@_REASON
@_SEEN
@connected
def plans_request_changes(desk: ReleaseDesk, *, plan: str, reason: str, seen: str | None) -> None:
    """Give the turn to the requester of PLAN: they edit and send it again, or withdraw."""
    click.echo(desk.decide_on_plan(plan, "request_changes", reason=reason, seen=seen).status)


@plans.command("draw")
@click.argument("plan")
@click.argument("question", type=int)
@click.option("--no-wait", is_flag=True, help="Print a job as it is; `releases show` has it later.")
@AS_TABLE
@connected
def plans_draw(
    desk: ReleaseDesk, *, plan: str, question: int, no_wait: bool, as_table: bool | None
) -> None:
    """Charge for QUESTION of PLAN, by its number from 0, and print its release.

    A question is charged once: the same command again prints the same release.
    """
    release = desk.draw(plan, question, wait=not no_wait)
    print_numbers(release, release.body.decode(), as_table=as_table)


def _plan_approved(sheet: PlanSheet) -> Iterator[str]:
    """Yield what an approval does."""
    count = len(sheet.plan["questions"])
    yield f"{sheet.plan['requested_by']} may draw each of its {count} questions without a review."
    yield f"Together they cost epsilon {sheet.epsilon}; each is charged when it is drawn."


def _plan_lines(sheet: PlanSheet) -> Iterator[str]:
    """Yield the sheet of a study plan, line by line."""
    plan = sheet.plan
    yield f"plan       {plan['id']}  {plan['name']}  {plan['status']}  {plan['etag']}"
    yield f"requester  {plan['requested_by']}{_history(sheet.asker)}"
    yield f"purpose    {plan['purpose'] or 'none was given'}"
    for place, each in enumerate(plan["questions"]):
        yield f"question   {place}: {each['words']}"
    yield f"cost       epsilon {sheet.epsilon}, {100 * sheet.share:.0f}% of what is left"
    for sentence in sheet.for_one_person:
        yield f"meaning    {sentence}"
    for sentence in sheet.policy_says:
        yield f"policy     {sentence}"
    yield from _talk(sheet)


# The commands that make releases public, withdraw them, and describe what is public

_PUBLISHED = (
    "Anyone can read the release without a key, and find it in searches and feeds.",
    "You can withdraw it later, but copies that others have made stay.",
    "Its address keeps a notice then, and it cannot be published again.",
)
_UNPUBLISHED = (
    "The public page shows the note and no numbers from now on.",
    "The release cannot be published again, and copies that others have made stay.",
)


@releases.command("publish")
@click.argument("release")
@click.option("--reason", required=True, help="Stored in the ledger, and shown to the public.")
@YES
@connected
def releases_publish(desk: ReleaseDesk, *, release: str, reason: str, yes: bool) -> None:
    """Make RELEASE, which has its result, readable without a key; print the page's path."""
    require_meant(lambda: _PUBLISHED, yes=yes)
    click.echo(desk.publish(release, reason=reason).address)


@releases.command("unpublish")
@click.argument("release")
@click.option("--note", required=True, help="Stored in the ledger, and shown at the address.")
@YES
@connected
def releases_unpublish(desk: ReleaseDesk, *, release: str, note: str, yes: bool) -> None:
    """Withdraw RELEASE from the public, for good: its page says who did it, when and why."""
    require_meant(lambda: _UNPUBLISHED, yes=yes)
    click.echo(desk.unpublish(release, note=note).status)


@releases.command("publication")
@click.argument("release")
@connected
def releases_publication(desk: ReleaseDesk, *, release: str) -> None:
    """Print who made RELEASE public, when and why, and who withdrew it, as JSON."""
    click.echo(desk.publication(release).model_dump_json())


@datasets.command("export")
@click.argument("dataset")
@click.argument("form", type=click.Choice(["registry", "datacite", "croissant"]))
@connected
def datasets_export(desk: ReleaseDesk, *, dataset: str, form: str) -> None:
    """Print what is public of DATASET as a catalogue reads it, as JSON."""
    click.echo(json.dumps(desk.export(dataset, form), ensure_ascii=False, indent=2))
