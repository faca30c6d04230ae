"""The commands about files: ``datasets draft``, ``check``, ``upload``, and versions of them.

*Files of other programs, read on this machine: Stata, SPSS and SAS become Parquet.* The service
reads CSV, Parquet and Excel alone: what reads these formats is not written for files of untrusted
clients. So they are read here, by the owner of the file.

A missing cell stays missing, and a whole number is a whole number though the format knows only
floats.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from app.cli.refusals import REFUSED, extra_lines
from app.cli.remote import as_json_option, connected, datasets, parsed, print_rows
from app.client import Dataset, ReleaseDesk
from app.client.questions import Reading
from app.constants import CONSTANTS
from app.domain.problems import Problem
from app.domain.upload_reports import UploadReport

if TYPE_CHECKING:
    import polars as pl

    from app.uploads.drafting.samples import Dictionary

Command = Callable[..., None]

_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_SPEC = click.argument("spec", type=click.File("rb"))
_NOT_STATED = (
    "same_people is recorded as not stated: the spec may say whether people in this file may be in "
    'an earlier data set, "no", "yes" or "unknown".'
)


_CHECK = click.option("--check", is_flag=True, help="Only report how the service would read it.")


@datasets.command("upload")
@_FILE
@_SPEC
@_CHECK
@click.option("--replaces", help="A data set without releases, which is deleted in the same step.")
@connected
def datasets_upload(
    desk: ReleaseDesk, *, file: Path, spec: BinaryIO, check: bool, replaces: str | None
) -> None:
    """Upload FILE as the JSON file SPEC says; prints the new id.

    FILE is CSV, CSV.gz, Parquet or Excel. Stata, SPSS and SAS files are read here and sent as
    Parquet, if the extra `files` is installed. How the file was read goes to standard error: the
    service shows it only once.
    """
    wanted = parsed(spec.read().decode("utf-8", "replace"), "SPEC")
    with readable(file) as sent:
        if check:
            _report(desk.check(sent, wanted))
        elif replaces is None:
            _tell(desk.upload(sent, wanted), wanted)
        else:
            _tell(desk.replace(replaces, sent, wanted), wanted)


@datasets.command("register")
@click.argument("source")
@_SPEC
@connected
def datasets_register(desk: ReleaseDesk, *, source: str, spec: BinaryIO) -> None:
    """Register the rows at SOURCE as the JSON file SPEC says; prints the new id.

    SOURCE is a URL below a root that the operator allows, such as file:///srv/people/*.parquet. The
    service reads it: nothing is sent but the URL and the spec.
    """
    wanted = parsed(spec.read().decode("utf-8", "replace"), "SPEC")
    _tell(desk.register(source, wanted), wanted)


@datasets.command("extend")
@click.argument("dataset")
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--spec", default="{}", help="JSON text: max_rows, name, delimiter, overlap.")
@click.option("--source", help="In place of FILE: a URL below a root that the operator allows.")
@_CHECK
@connected
def datasets_extend(
    desk: ReleaseDesk,
    *,
    dataset: str,
    file: Path | None,
    spec: str,
    source: str | None,
    check: bool,
) -> None:
    """Add the rows of FILE to DATASET as its next version; prints the version's id.

    They are of new people, unless the data set has a `unit`. Where it has a bound on its rows,
    SPEC must have `max_rows`, which bounds those of FILE.
    """
    wanted = parsed(spec, "SPEC")
    if (file is None) == (source is None):
        raise click.UsageError("Give either FILE or --source.")
    if check and file is None:
        raise click.UsageError("--check reads a FILE, and no source.")
    if file is None:
        _tell(desk.extend(dataset, spec=wanted, source=source))
    else:
        with readable(file) as sent:
            if check:
                _report(desk.check(sent, wanted, extends=dataset))
            else:
                _tell(desk.extend(dataset, sent, wanted))


@datasets.command("versions")
@click.argument("dataset")
@as_json_option
@connected
def datasets_versions(desk: ReleaseDesk, *, dataset: str, as_json: bool) -> None:
    """List the versions of which DATASET (an id or a name) is one, newest first."""
    columns = ("version", "id", "name", "rows", "created_at")
    print_rows(desk.dataset_versions(dataset), columns, as_json=as_json)


def _report(report: Mapping[str, Any]) -> None:
    for line in report_lines(report):
        click.echo(line)


def _tell(dataset: Dataset, spec: Mapping[str, Any] | None = None) -> None:
    """Print how the rows were read, for people, and the id; and what a new ``spec`` leaves open."""
    for line in report_lines(dataset.report):
        click.echo(line, err=True)
    if spec is not None and spec.get("same_people") is None:
        click.echo(_NOT_STATED, err=True)
    click.echo(dataset.id)


@datasets.command("draft")
@_FILE
@click.option(
    "--dictionary",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A table with a row for each column (Excel, CSV or Markdown), a Frictionless table "
    "schema, CSVW metadata, a DDI codebook, or FILE itself if it is of SPSS, Stata or SAS.",
)
def datasets_draft(*, file: Path, dictionary: Path | None) -> None:
    """Print a spec for FILE to fill in: its columns with types, and how the file is written.

    Types are guessed on this machine, from the first megabyte of text or 10,000 rows; a note says
    so where the file is longer. With a dictionary the draft has what
    it states: types, labels, values, codes for missing values, units and valid ranges. Bounds,
    values and the budget stay empty otherwise: they are public, and what the rows hold is not.
    """
    from app.uploads.drafting.drafts import drafted_file  # noqa: PLC0415 - it loads what reads files
    from app.uploads.drafting.samples import DictionaryError  # noqa: PLC0415
    from app.uploads.trouble import UnreadableError  # noqa: PLC0415

    name = file.name.partition(".")[0]
    try:
        described = None if dictionary is None else dictionary_of(dictionary)
        with readable(file) as known, known.open("rb") as stream:
            draft = drafted_file(stream, name=name, dictionary=described)
    except (DictionaryError, UnreadableError) as error:
        raise click.ClickException(str(error)) from None
    except Problem as problem:
        raise click.ClickException(problem.detail) from None
    for note in draft.notes:
        click.echo(note, err=True)
    click.echo(json.dumps(draft.spec, indent=2, ensure_ascii=False))


@datasets.command("check")
@_FILE
@_SPEC
@as_json_option
def datasets_check(*, file: Path, spec: BinaryIO, as_json: bool) -> None:
    """Read FILE here as a service would under SPEC, and print how; nothing is sent.

    Every fault is reported with its place: first those of the spec, then those of the file.
    """
    try:
        with readable(file) as known:
            report = _read(known, spec.read())
    except Problem as problem:
        click.echo(f"refused: {problem.detail}", err=True)
        for line in extra_lines(problem.extras):
            click.echo(f"  {line}", err=True)
        click.echo(problem.remedy, err=True)
        sys.exit(REFUSED)
    fields = {name: value for name, value in report.to_json().items() if value is not None}
    fields["warnings"] = [{"column": name, "message": text} for name, text in report.warnings()]
    for line in [json.dumps(fields)] if as_json else report_lines(fields):
        click.echo(line)


def _read(file: Path, spec: bytes) -> UploadReport:
    """Read a file as a service does; what is read is forgotten at once.

    Raises
    ------
    Problem
        What a service would refuse in the spec, or in the file.
    """
    from app.uploads.ingest import ingest  # noqa: PLC0415
    from app.uploads.people.taking import PeopleRows  # noqa: PLC0415
    from app.uploads.prf import Prf  # noqa: PLC0415
    from app.uploads.recognition import PARQUET, ZIP  # noqa: PLC0415
    from app.uploads.row_digests import KEY_BYTES  # noqa: PLC0415
    from app.web.requests.questions import spec_in  # noqa: PLC0415 - it loads all statistics

    columns = spec_in(spec, CONSTANTS.max_columns).columns
    report = UploadReport()
    with (
        file.open("rb") as stream,
        tempfile.TemporaryDirectory() as scratch,
        Reading(file) as bar,
    ):
        # These are read by jumps, from their end on: where one is says nothing of how much is left.
        in_order = stream.read(len(PARQUET)) not in (PARQUET, ZIP)
        stream.seek(0)
        ids = Prf(secrets.token_bytes(KEY_BYTES))
        blocks: Iterable[Any] = ingest(stream, columns, report=report, ids=ids)
        people = None if columns.unit is None else PeopleRows(columns, ids, Path(scratch))
        for _ in blocks if people is None else people.taken(blocks):
            bar(report.rows, stream.tell() if in_order else None)
        if people is not None:
            people.report_in(report)
    return report


# Files of other programs, read on this machine: Stata, SPSS and SAS become Parquet

STATISTICAL = {
    ".dta": "read_dta",
    ".por": "read_por",
    ".sas7bdat": "read_sas7bdat",
    ".sav": "read_sav",
    ".xpt": "read_xport",
    ".zsav": "read_sav",
}
_WITH_USER_MISSING = ("read_dta", "read_sas7bdat", "read_sav")
_EXCEL = (".xlsx", ".xlsm")
_WITHOUT = "to read {} files install one more package: pip install pyreadstat"


@contextmanager
def readable(file: Path) -> Iterator[Path]:
    """Give a file that a service reads: the file itself, or what it holds as Parquet.

    Raises
    ------
    click.ClickException
        It is of another program, and cannot be read.
    """
    kind = file.suffix.lower()
    if kind in _EXCEL and not _is_workbook(file):
        raise click.ClickException(
            f"{file.name} cannot be read as {kind}: it is no Excel workbook; name it as what it is"
        )
    if kind not in STATISTICAL:
        yield file
        return
    frame, _ = _statistical(file, user_missing=False)
    with tempfile.TemporaryDirectory(prefix="release-desk-") as folder:
        parquet = Path(folder) / f"{file.stem}.parquet"
        frame.write_parquet(parquet)
        yield parquet


def _is_workbook(file: Path) -> bool:
    from app.uploads.recognition import LOOKED_AT, is_workbook  # noqa: PLC0415 - as below

    with file.open("rb") as stream:
        return is_workbook(stream.read(LOOKED_AT))


def dictionary_of(file: Path) -> Dictionary:
    """Return what a dictionary says: a document, or a file of SPSS, Stata or SAS.

    Raises
    ------
    DictionaryError, click.ClickException
        It is none, or cannot be read.
    """
    from app.uploads.drafting.dictionaries import dictionary_in  # noqa: PLC0415 - as below
    from app.uploads.drafting.samples import statistical_dictionary  # noqa: PLC0415

    if file.suffix.lower() not in STATISTICAL:
        return dictionary_in(file.read_bytes())
    _, meta = _statistical(file, user_missing=True)
    return statistical_dictionary(meta)


def _statistical(file: Path, *, user_missing: bool) -> tuple[pl.DataFrame, Any]:
    """Return a file's table and its metadata; with ``user_missing`` the metadata alone count.

    Raises
    ------
    click.ClickException
        It cannot be read.
    """
    kind = file.suffix.lower()
    reader = STATISTICAL[kind]
    options = {"metadataonly": True} if user_missing else {}
    if user_missing and reader in _WITH_USER_MISSING:
        options["user_missing"] = True
    try:
        import pyreadstat  # noqa: PLC0415 - of the extra

        from app.uploads.workbook import tidied  # noqa: PLC0415 - it loads what reads files

        frame, meta = getattr(pyreadstat, reader)(str(file), output_format="polars", **options)
        return tidied(frame), meta
    except ImportError:
        raise click.ClickException(_WITHOUT.format(kind)) from None
    except Exception as error:  # whatever a reader thinks of a file that is none
        name = type(error).__name__
        raise click.ClickException(f"{file.name} cannot be read as {kind}: {name}") from None


# How a file was read, in lines for people


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows and people, each column with anything to report, then the warnings."""
    yield f"rows: {report['rows']} read, {report['rows_dropped']} dropped"
    if (people := report.get("people")) is not None:
        yield (
            f"people: {people['people']}, with {people['median_rows']} rows each in the median and "
            f"{people['most_rows']} at most; {people['rows_left_out']} rows left out, "
            f"{people['rows_without_id']} without an id"
        )
    for name, counts in report["columns"].items():
        parts = [
            f"{count} {member.replace('_', ' ')}"
            for member, count in counts.items()
            if count and member != "values"
        ]
        if parts:
            yield f"{name}: {', '.join(parts)}"
    for warning in report["warnings"]:
        yield f"warning: {warning['column']}: {warning['message']}"
