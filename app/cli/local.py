"""What commands on this machine need first: settings, room to write, a port; or a sentence why not.

A refusal here comes before anything is made: no directory half filled, no key that was never shown.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.cli.refusals import unknown_settings
from app.settings import PREFIX, Settings, SettingsError

_ROOM_BYTES = 2**23
"""More than a new ledger, its first key and its anchor take."""
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_DIRECTORY = {errno.EEXIST, errno.ENOTDIR}


def settings_of_environment() -> Settings:
    """Return the settings; one that is misspelt, wrong or contradictory ends the command."""
    _check_names()
    try:
        return Settings()
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    except ValidationError as error:
        # The values stay out of the message: one of them may be a key.
        faults = "; ".join(map(_fault, error.errors()))
        raise click.ClickException(f"wrong settings: {faults}") from None


_WORDS = {
    "string_too_short": "has fewer than {min_length} characters",
    "too_short": "has fewer than {min_length} characters",  # of a secret
    "string_pattern_mismatch": "has another form than this setting takes",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_parsing": "must be true or false",
    "literal_error": "must be one of {expected}",
}
"""What is wrong with a setting, by pydantic's kind of error."""


def _fault(error: ErrorDetails) -> str:
    """Return what is wrong with a setting, or with several together, and what it takes."""
    context = error.get("ctx", {})
    own = context.get("error")
    if isinstance(own, SettingsError):
        said = str(own)
    else:
        said = _WORDS.get(error["type"], "has a wrong value").format(**context)
    if not error["loc"]:
        return said
    name = str(error["loc"][0])
    if isinstance(own, SettingsError):
        return f"{PREFIX}{name.upper()}: {said}"
    meaning = Settings.model_fields[name].description or ""
    return f"{PREFIX}{name.upper()} {said}. It is this setting: {meaning}"


def _check_names() -> None:
    """Refuse names that a setting's was meant to be, and mention others that are none."""
    unknown = unknown_settings(os.environ)
    meant = [f"{name} is not a setting; is it {real}?" for name, real in unknown.items() if real]
    if meant:
        raise click.ClickException(" ".join(meant))
    for name in unknown:
        click.echo(f"{name} is not a setting, and is not read", err=True)


@contextmanager
def local() -> Iterator[None]:
    """Turn what the store or the operating system refuses into one sentence."""
    from app.store import StoreError  # noqa: PLC0415

    with system_errors():
        try:
            yield
        except StoreError as error:
            raise click.ClickException(str(error)) from None


@contextmanager
def system_errors() -> Iterator[None]:
    """Turn what the operating system refuses into one sentence."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:
            raise
        place = f"{error.filename}: " if error.filename is not None else ""
        raise click.ClickException(f"{place}{error.strerror}") from None


def check_room(settings: Settings) -> None:
    """Refuse to begin where the ledger, its anchor or the data cannot be written."""
    from app.places import anchor_place  # noqa: PLC0415
    from app.store import sqlite_file  # noqa: PLC0415

    check_directory(settings.data_dir, "the data directory", f"{PREFIX}DATA_DIR")
    database = sqlite_file(settings.resolved_database_url)
    if database is not None:
        check_directory(database.parent, "the database's directory", f"{PREFIX}DATABASE_URL")
        directory, _ = anchor_place(settings)
        check_directory(directory, "the anchor's directory", f"{PREFIX}ANCHOR_DIR")


def require_ledger(settings: Settings) -> None:
    """Refuse where there is no SQLite ledger, before a command makes one by mistake."""
    from app.store import sqlite_file  # noqa: PLC0415

    database = sqlite_file(settings.resolved_database_url)
    if database is not None and not database.is_file():
        raise click.ClickException(
            f"there is no ledger at {database.absolute()}, and nothing was made. Name the data "
            f"directory that has one with {PREFIX}DATA_DIR; `release-desk serve` makes a new one."
        )


def check_passes(settings: Settings) -> None:
    """Refuse to begin where passes over rows cannot be made."""
    from app.places import require_passes  # noqa: PLC0415

    try:
        require_passes(settings)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None


def check_directory(directory: Path, what: str, chosen_by: str) -> None:
    """Make a directory if need be, and see that there is room in it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            # Written, not asked for: quotas and reserved blocks show only so.
            os.posix_fallocate(probe.fileno(), 0, _ROOM_BYTES)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise click.ClickException(
                f"there is no room left for {what}, {directory}. Make some, or choose another "
                f"with {chosen_by}."
            ) from None
        if error.errno in _NO_DIRECTORY:
            raise click.ClickException(
                f"{what}, {directory}, is a file or is below one. Choose another with {chosen_by}."
            ) from None
        raise click.ClickException(
            f"{what}, {directory}, cannot be written to: {error.strerror}. Let this user write "
            f"there, or choose another with {chosen_by}."
        ) from None


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens where the service is to be found."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    # Else a service that was just stopped keeps its port for a minute.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise click.ClickException(_why_not(host, port, error)) from None
    found.set_inheritable(True)
    return found


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use, perhaps by another Release Desk. Stop what runs "
            "there, or choose another port with --port."
        )
    if error.errno == errno.EACCES:
        return f"this user may not listen on port {port}. Choose one above 1023 with --port."
    return (
        f"cannot listen on {host}: {error.strerror}. Choose an address of this machine with --host."
    )
