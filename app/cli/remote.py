"""The commands that talk to a running service: ``keys``, ``datasets`` and ``releases``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, BinaryIO, TextIO

import click

from app.cli.caution import (
    CAUTION,
    YES,
    require_meant,
    require_worth,
)
from app.cli.refusals import REFUSED, refusals, require_scheme
from app.client import ReleaseDesk, check_page, check_receipt
from app.client.answers import Answer, Numbers
from app.client.public_pages import is_page
from app.client.questions import expected_words
from app.client.tables import lines_of
from app.settings import PREFIX

DEFAULT_URL = "http://127.0.0.1:8000"
_AWAITING_REVIEW = "awaiting_review"
Command = Callable[..., None]

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, one object per line."
)
_EPSILON = click.option("--epsilon", required=True, help='The price as a decimal, e.g. "0.5".')
_MECHANISM = click.option("--mechanism", default="auto", show_default=True)
_NORM = click.option("--norm", default="auto", show_default=True)
_INFERENCE = click.option(
    "--inference", metavar="SHARE", help="Share of epsilon for standard errors, such as 1/3."
)
AS_TABLE = click.option(
    "--table/--json",
    "as_table",
    default=None,
    help="Print a line for each number, or the answer as JSON. Default: a table on a terminal, "
    "JSON in a pipe.",
)
AS_SUMMARY = click.option(
    "--summary", "as_summary", is_flag=True, help="Print a table with standard errors, as R does."
)


_ID = "ds_"
_LONGEST = 60
"""Characters of a column's values that a table shows."""
_ARCHIVED = (
    "The rows of all versions of the data set are erased for good. Nothing can be asked of it.",
    "What waits for a review is rejected. The ledger and the releases stay.",
)
_DELETED = (
    "The rows are erased for good, and the account is closed unless other data sets share it.",
    "The entries of the ledger stay. The same people can be uploaded again.",
)
_WITHDRAWN = (
    "The request ends, and its reviewers cannot approve it any more. Nothing is charged.",
    "Its reserved budget is released, and others may use it.",
)


def connected(command: Command) -> Command:
    """Give a command ``--url`` and ``--key``, and a connected client as its first argument.

    A data set may be given by its name; the command gets the id.
    """

    @click.option("--url", envvar=f"{PREFIX}URL", default=DEFAULT_URL, show_default=True)
    @click.option("--key", envvar=f"{PREFIX}KEY", help=f"API key; better in {PREFIX}KEY.")
    @wraps(command)
    def with_desk(*, url: str, key: str | None, **options: object) -> None:
        require_scheme(url)
        with refusals(url, key=key), ReleaseDesk(url, key) as desk:
            named = options.get("dataset")
            if isinstance(named, str) and not named.startswith(_ID):
                options["dataset"] = desk.dataset(named).id
            command(desk, **options)

    return with_desk


@click.group()
def keys() -> None:
    """Make, list and revoke API keys of a running service (admins)."""


@keys.command("create")
@click.argument("name")
@click.option(
    "--role",
    required=True,
    type=click.Choice(["admin", "curator", "reviewer", "analyst", "auditor", "metrics"]),
)
@click.option("--expires", help="Moment after which the key is refused, ISO 8601.")
@click.option(
    "--person", help="Give it to the person of an earlier key, as `keys list` names them."
)
@as_json_option
@connected
def keys_create(
    desk: ReleaseDesk,
    *,
    name: str,
    role: str,
    expires: str | None,
    person: str | None,
    as_json: bool,
) -> None:
    """Make a key for NAME and print its secret, which is shown this once."""
    key = desk.create_key(name=name, role=role, expires=expires, person=person)
    click.echo(key.model_dump_json() if as_json else key.secret)


@keys.command("list")
@as_json_option
@connected
def keys_list(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List every key, without secrets."""
    columns = ("id", "name", "person", "role", "expires", "last_used_at")
    print_rows(desk.keys(), columns, as_json=as_json)


@keys.command("duplicates")
@connected
def keys_duplicates(desk: ReleaseDesk) -> None:
    """List active keys whose person's name looks like another person's: id, name, other names.

    Names are quoted, with escapes for characters outside ASCII.
    """
    every = desk.keys()
    for key in every:
        if key.twins and key.revoked_at is None:
            click.echo("  ".join((key.id, *map(ascii, (key.person, *key.twins)))))


@keys.command("revoke")
@click.argument("key_id")
@YES
@connected
def keys_revoke(desk: ReleaseDesk, *, key_id: str, yes: bool) -> None:
    """Revoke the key with the id KEY_ID, for good."""
    require_meant(lambda: _revoked(desk, key_id), yes=yes)
    desk.revoke_key(key_id)
    click.echo(f"revoked {key_id}")


@keys.command("allow-sign-in")
@click.argument("key_id")
@connected
def keys_allow_sign_in(desk: ReleaseDesk, *, key_id: str) -> None:
    """Let somebody sign in at their provider again, whose key of a sign-in, KEY_ID, is revoked."""
    desk.allow_sign_in(key_id)
    click.echo(f"allowed {key_id}")


def _revoked(desk: ReleaseDesk, key_id: str) -> Iterator[str]:
    """Yield which key is revoked, if there is one, and what follows."""
    every = desk.keys()
    for key in every:
        if key.id == key_id:
            yield f"The key {key.name} belongs to {key.person}, with the role {key.role}."
    yield "Its secret is refused from now on, for good."
    yield "Programs that use it stop, and its sessions at the desk end."


@click.group()
def datasets() -> None:
    """Upload, list and archive the data sets of a running service."""


@datasets.command("list")
@as_json_option
@connected
def datasets_list(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List the data sets."""
    columns = ("id", "name", "adjacency", "protects", "rows", "status")
    print_rows(desk.datasets(), columns, as_json=as_json)


@datasets.command("show")
@click.argument("dataset")
@as_json_option
@connected
def datasets_show(desk: ReleaseDesk, *, dataset: str, as_json: bool) -> None:
    """Show the public facts of DATASET, a name or an id: its columns, and what remains to spend."""
    found = desk.dataset(dataset)
    if as_json:
        click.echo(found.model_dump_json())
        return
    budget = found.budget_left().epsilon
    size = "private row count" if found.rows is None else f"{found.rows} rows"
    click.echo(f"{found.name} ({found.id}), {found.adjacency}, {size}, {found.status}")
    click.echo(f"protects: {found.protects}")
    click.echo(f"epsilon: {budget.remaining} of {budget.total} remain")
    for line in lines_of(
        [{"column": name, **_facts(each)} for name, each in found.columns.items()]
    ):
        click.echo(line)


def _facts(column: Mapping[str, Any]) -> dict[str, str]:
    """Return what a table shows of a column; a list of many values is cut."""
    values = ", ".join(map(str, column.get("values") or ()))
    facts = {name: column.get(name) for name in ("type", "lower", "upper", "missing")}
    cells = {name: "" if fact is None else str(fact) for name, fact in facts.items()}
    return {**cells, "values": values if len(values) <= _LONGEST else f"{values[:_LONGEST]}..."}


@datasets.command("archive")
@click.argument("dataset")
@YES
@connected
def datasets_archive(desk: ReleaseDesk, *, dataset: str, yes: bool) -> None:
    """Erase the rows of DATASET; its ledger and releases stay."""
    require_meant(lambda: _ARCHIVED, yes=yes)
    click.echo(desk.archive(dataset).status)


@datasets.command("delete")
@click.argument("dataset")
@YES
@connected
def datasets_delete(desk: ReleaseDesk, *, dataset: str, yes: bool) -> None:
    """Delete DATASET, which has no releases, and close its account."""
    require_meant(lambda: _DELETED, yes=yes)
    click.echo(desk.delete(dataset).status)


@click.group()
def releases() -> None:
    """Ask for releases, and list them."""


@releases.command("ask")
@click.argument("dataset")
@click.argument("statistic")
@_EPSILON
@_MECHANISM
@_NORM
@click.option("--purpose", help="What the numbers are for, in words for reviewers.")
@_INFERENCE
@click.option("--idempotency-key", help="A name for the question, not the one it has by itself.")
@click.option("--fresh", is_flag=True, help="Draw again what was released before, and pay again.")
@click.option("--no-wait", is_flag=True, help="Print a job as it is; `releases show` has it later.")
@CAUTION
@AS_TABLE
@AS_SUMMARY
@connected
def releases_ask(
    desk: ReleaseDesk,
    *,
    dataset: str,
    statistic: str,
    epsilon: str,
    mechanism: str,
    norm: str,
    purpose: str | None,
    inference: str | None,
    idempotency_key: str | None,
    fresh: bool,
    no_wait: bool,
    careful: bool | None,
    as_table: bool | None,
    as_summary: bool,
) -> None:
    """Release STATISTIC (JSON) of DATASET (an id or a name), and charge its epsilon.

    The same request again gives the stored answer, uncharged, but with --fresh.
    """
    question = parsed(statistic, "STATISTIC")
    choice = {"epsilon": epsilon, "mechanism": mechanism, "norm": norm, **_inference_of(inference)}
    require_worth(desk, dataset, question, choice, careful=careful)
    release = desk.release(
        dataset,
        question,
        **choice,
        purpose=purpose,
        fresh=fresh,
        idempotency_key=idempotency_key,
        wait=not no_wait,
    )
    _say_worth(release.usefulness, release.about_records)
    text = release.summary() if as_summary else release.body.decode()
    print_numbers(release, text, as_table=False if as_summary else as_table)
    if release.status == _AWAITING_REVIEW:
        click.echo(
            f"{release.id} awaits a review: `releases show` shows what becomes of it", err=True
        )


def _say_worth(usefulness: Mapping[str, Any] | None, about_records: Sequence[str]) -> None:
    """Say what an answer is worth, and how its records count, before what a program reads."""
    if usefulness is not None:
        click.echo(usefulness["sentence"], err=True)
    for sentence in about_records:
        click.echo(sentence, err=True)


@releases.command("preview")
@click.argument("dataset")
@click.argument("statistic")
@click.option("--epsilon", help='The price as a decimal, e.g. "0.5"; or give an --accuracy.')
@_MECHANISM
@_NORM
@click.option(
    "--assume",
    help="What to assume of the rows, as JSON: rows, population, r_squared, coefficients.",
)
@click.option(
    "--accuracy",
    type=float,
    help="Wanted half-width of the widest 95% interval; shows the epsilon that it takes.",
)
@_INFERENCE
@AS_TABLE
@connected
def releases_preview(
    desk: ReleaseDesk,
    *,
    dataset: str,
    statistic: str,
    epsilon: str | None,
    assume: str | None,
    accuracy: float | None,
    inference: str | None,
    as_table: bool | None,
    **choice: str,
) -> None:
    """Say how noisy STATISTIC would be, and whether that is worth it; free, reads no data."""
    if epsilon is None and accuracy is None:
        raise click.UsageError("give an --epsilon, or the --accuracy that you want")
    options = _inference_of(inference)
    if assume is not None:
        options["assume"] = parsed(assume, "--assume")
    if accuracy is not None:
        options["accuracy"] = accuracy
    asked = parsed(statistic, "STATISTIC")
    seen = desk.preview(dataset, asked, epsilon=epsilon, **choice, **options)
    _say_worth(seen.usefulness, seen.about_records)
    if seen.job is not None:
        click.echo(f"a job: {expected_words(seen.job)}", err=True)
    print_numbers(seen, seen.model_dump_json(), as_table=as_table)


def questions_in(study: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the questions of a study.

    Raises
    ------
    UsageError
        It has no list of them.
    """
    questions = study.get("questions")
    if not isinstance(questions, list) or not all(isinstance(each, dict) for each in questions):
        raise click.UsageError('STUDY must be a JSON object with a list of "questions"')
    return questions


@releases.command("plan")
@click.argument("dataset")
@click.argument("study", type=click.File("r"))
@as_json_option
@connected
def releases_plan(desk: ReleaseDesk, *, dataset: str, study: TextIO, as_json: bool) -> None:
    """Say what the questions in STUDY (a JSON file, - for input) would cost together; free.

    STUDY has a list of "questions", each with its "statistic", and an "epsilon" or an "accuracy".
    """
    plan = desk.plan(dataset, questions_in(parsed(study.read(), "STUDY")))
    if as_json:
        click.echo(plan.model_dump_json())
        return
    rows = plan.rows()
    print_cells([list(rows[0]), *(list(row.values()) for row in rows)])
    for place in plan.unpriced:
        click.echo(f"question {place + 1}: no epsilon is known to reach its accuracy", err=True)
    if not plan.fits:
        click.echo("There is not enough left for all of them.", err=True)


@releases.command("list")
@as_json_option
@connected
def releases_list(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List your releases; a curator sees those of everyone."""
    columns = ("id", "dataset", "status", "mechanism", "norm", "epsilon")
    print_rows(desk.releases(), columns, as_json=as_json)


@releases.command("reviews")
@as_json_option
@connected
def releases_reviews(desk: ReleaseDesk, *, as_json: bool) -> None:
    """List the releases that await a review; a curator sees everyone's."""
    columns = ("id", "dataset", "requested_by", "mechanism", "norm", "epsilon")
    print_rows(desk.releases(status=_AWAITING_REVIEW), columns, as_json=as_json)


@releases.command("withdraw")
@click.argument("release")
@YES
@connected
def releases_withdraw(desk: ReleaseDesk, *, release: str, yes: bool) -> None:
    """Withdraw RELEASE, one's own, which awaits a review; its budget is given back."""
    require_meant(lambda: _WITHDRAWN, yes=yes)
    click.echo(desk.withdraw(release).status)


@releases.command("show")
@click.argument("release")
@AS_TABLE
@AS_SUMMARY
@connected
def releases_show(
    desk: ReleaseDesk, *, release: str, as_table: bool | None, as_summary: bool
) -> None:
    """Print one release as the service stored it."""
    shown = desk.released(release)
    text = shown.summary() if as_summary else shown.body.decode()
    _say_worth(shown.usefulness, shown.about_records)
    print_numbers(shown, text, as_table=False if as_summary else as_table)


@releases.command("check")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--public-key",
    type=click.File("rb"),
    help="Check offline, by this file: what /v1/ledger/public-keys answered, or one key.",
)
@click.option(
    "--authority",
    type=click.File("rb"),
    help="Check the time stamp of a public release as well, by its authority's certificates (PEM).",
)
@connected
def releases_check(
    desk: ReleaseDesk, *, file: BinaryIO, public_key: BinaryIO | None, authority: BinaryIO | None
) -> None:
    """Check FILE: a released answer as it was saved, or the JSON of a public release.

    Without --public-key the service judges an answer, by its ledger and its stored answer. Of a
    public release everything is checked offline: that takes the key.
    """
    answer = file.read()
    if authority is not None:
        if public_key is None or not is_page(answer):
            raise click.UsageError("--authority is for a public release, with --public-key")
        found = check_page(answer, public_key.read(), authority=authority.read())
        click.echo(found.model_dump_json())
        return
    if public_key is not None:
        check = check_page if is_page(answer) else check_receipt
        click.echo(check(answer, public_key.read()).model_dump_json())
        return
    if is_page(answer):
        raise click.UsageError("a public release is checked offline: name --public-key")
    judged = desk.check_receipt(answer)
    click.echo(judged.model_dump_json())
    if not judged.ok:
        sys.exit(REFUSED)


def _inference_of(share: str | None) -> dict[str, Any]:
    """Return what a request for standard errors adds to a question."""
    return {} if share is None else {"inference": {"share": share}}


_EXAMPLES = {
    "STATISTIC": '{"kind": "mean", "columns": ["income"]}',
    "CHANGES": '{"description": "Households"}',
    "--assume": '{"rows": 1000}',
}
"""Texts for what is given as an argument and not as a file."""


def parsed(text: str, name: str) -> dict[str, object]:
    """Return a JSON object that a command was given.

    Raises
    ------
    click.UsageError
        It is none.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        example = _EXAMPLES.get(name)
        shown = "" if example is None else f", such as '{example}', or \"$(cat FILE)\""
        raise click.UsageError(f"{name} must be a JSON object{shown}")
    return value


def is_terminal() -> bool:
    """Return whether a person reads what is printed."""
    return sys.stdout.isatty()


def print_numbers(answer: Numbers, text: str, *, as_table: bool | None) -> None:
    """Print an answer as it came, or its numbers in columns; without numbers there is no table.

    None: in columns on a terminal.
    """
    if as_table is None:
        as_table = is_terminal()
    rows = answer.rows() if as_table else []
    for line in lines_of(rows) if rows else (text,):
        click.echo(line)


def print_rows(items: Iterable[Answer], columns: Sequence[str], *, as_json: bool) -> None:
    """Print some columns of answers side by side, or the whole answers as JSON."""
    if as_json:
        for item in items:
            click.echo(item.model_dump_json())
        return
    rows = [[_on_a_line(getattr(item, name)) for name in columns] for item in items]
    print_cells([columns, *rows])


def print_cells(rows: Sequence[Sequence[str]]) -> None:
    """Print cells side by side, a line for each row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _on_a_line(value: object) -> str:
    """Return a value as text without ends of lines."""
    return " ".join(str(value or "").splitlines())


@releases.command("derive")
@click.argument("release")
@click.argument("statistic")
@click.option(
    "--with",
    "together_with",
    multiple=True,
    metavar="RELEASE",
    help="Combine it with this release of the same data set; may be given again.",
)
@AS_TABLE
@AS_SUMMARY
@connected
def releases_derive(
    desk: ReleaseDesk,
    *,
    release: str,
    statistic: str,
    together_with: tuple[str, ...],
    as_table: bool | None,
    as_summary: bool,
) -> None:
    """Compute STATISTIC (JSON) from RELEASE (an id); free, reads no data."""
    question = parsed(statistic, "STATISTIC")
    derived = desk.derive(release, question, together_with=together_with)
    text = derived.summary() if as_summary else derived.model_dump_json()
    print_numbers(derived, text, as_table=False if as_summary else as_table)


# The commands that ask for synthetic numbers: free, and without real people


@releases.command("dry-run")
@click.argument("dataset")
@click.argument("statistic")
@click.option("--epsilon", required=True, help="The price that the release would have.")
@_MECHANISM
@_NORM
@click.option("--assume", help="What to make the rows of, as JSON; see `releases preview`.")
@connected
def releases_dry_run(
    desk: ReleaseDesk, *, dataset: str, statistic: str, assume: str | None, **choice: str
) -> None:
    """Release STATISTIC (JSON) of synthetic rows in DATASET's form: free, reads no data."""
    options: dict[str, Any] = {} if assume is None else {"assume": parsed(assume, "--assume")}
    run = desk.dry_run(dataset, parsed(statistic, "STATISTIC"), **choice, **options)
    click.echo(run.model_dump_json())


@datasets.command("synthetic")
@click.argument("dataset")
@connected
def datasets_synthetic(desk: ReleaseDesk, *, dataset: str) -> None:
    """Print synthetic rows in DATASET's form, as a CSV file: free, reads no data."""
    sys.stdout.buffer.write(desk.synthetic_rows(dataset))


@releases.command("synthetic")
@click.argument("release")
@click.option("--rows", type=int, default=10_000, show_default=True, help="How many.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same makes the same.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    show_default=True,
    help="Of the file.",
)
@click.option("--about", is_flag=True, help="Print what describes the file instead, as JSON.")
@connected
def releases_synthetic(
    desk: ReleaseDesk, *, release: str, rows: int, seed: int, form: str, about: bool
) -> None:
    """Print synthetic rows of RELEASE, a release of tables, as a file: free, reads no data."""
    made = desk.synthetic(release, rows=rows, seed=seed, format=form)
    if about:
        click.echo(made.model_dump_json())
    else:
        sys.stdout.buffer.write(made.body)


# The commands that write programs: a release or a question, ready to run

_LANGUAGE = click.option(
    "--language",
    type=click.Choice(["python", "r", "notebook"]),
    default="python",
    show_default=True,
    help="A script in Python or in R, or a Jupyter notebook.",
)


@releases.command("script")
@click.argument("release")
@_LANGUAGE
@connected
def releases_script(desk: ReleaseDesk, *, release: str, language: str) -> None:
    """Print RELEASE (an id) as a program that reads it; it holds no key."""
    click.echo(desk.script(release, language=language), nl=False)


@datasets.command("script")
@click.argument("dataset")
@click.argument("statistic")
@click.option("--epsilon", required=True, help="The price that the release would have.")
@_MECHANISM
@_NORM
@click.option("--assume", help="What to assume of the rows, as JSON; see `releases preview`.")
@_LANGUAGE
@connected
def datasets_script(
    desk: ReleaseDesk, *, dataset: str, statistic: str, assume: str | None, **choice: Any
) -> None:
    """Print a program that previews STATISTIC (JSON) of DATASET, rehearses and can release it."""
    options: dict[str, Any] = {} if assume is None else {"assume": parsed(assume, "--assume")}
    asked = parsed(statistic, "STATISTIC")
    text = desk.dataset(dataset).script(asked, **choice, **options)
    click.echo(text, nl=False)
