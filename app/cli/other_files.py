"""Files of other programs, read on this machine: Stata, SPSS and SAS become Parquet.

The service reads CSV, Parquet and Excel alone: what reads these formats is not written for
files of untrusted clients. So they are read here, by the owner of the file.

A missing cell stays missing, and a whole number is a whole number though the format knows only
floats.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import polars as pl

    from app.uploads.dictionaries.described import Dictionary

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
    from app.uploads.formats.recognition import LOOKED_AT, is_workbook  # noqa: PLC0415 - as below

    with file.open("rb") as stream:
        return is_workbook(stream.read(LOOKED_AT))


def dictionary_of(file: Path) -> Dictionary:
    """Return what a dictionary says: a document, or a file of SPSS, Stata or SAS.

    Raises
    ------
    DictionaryError, click.ClickException
        It is none, or cannot be read.
    """
    from app.uploads.dictionaries.reading import dictionary_in  # noqa: PLC0415 - as below
    from app.uploads.dictionaries.statistical import statistical_dictionary  # noqa: PLC0415

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

        from app.uploads.formats.workbook import tidied  # noqa: PLC0415 - it loads what reads files

        frame, meta = getattr(pyreadstat, reader)(str(file), output_format="polars", **options)
        return tidied(frame), meta
    except ImportError:
        raise click.ClickException(_WITHOUT.format(kind)) from None
    except Exception as error:  # whatever a reader thinks of a file that is none
        name = type(error).__name__
        raise click.ClickException(f"{file.name} cannot be read as {kind}: {name}") from None
