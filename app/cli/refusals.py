"""What a command says, and ends with, where the service refuses or cannot be reached."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import click

from app.client import ProblemError, ReceiptError, UnreachableError
from app.client.questions import OWN_KEY
from app.settings import PREFIX, Settings

# Names in the environment that look like settings and are none

_OF_CLIENTS = ("URL", "KEY")
"""What the commands that are clients of a service read."""
_OF_OTHERS = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_\w+)?)")
"""What Kubernetes sets where a service has the name release-desk."""
_MISSPELT = 0.85
"""How alike two names must be for one to be taken for the other misspelt: a letter or two."""


def unknown_settings(names: Iterable[str]) -> dict[str, str | None]:
    """Return names that look like settings and are none, each with the real one it misspells.

    >>> unknown_settings(["RELEASE_DESK_DATA_DIR", "RELEASE_DESK_ANCHR_DIR", "HOME"])
    {'RELEASE_DESK_ANCHR_DIR': 'RELEASE_DESK_ANCHOR_DIR'}
    """
    fields = [name.upper() for name in Settings.model_fields]
    known = [*fields, *(f"{name}_FILE" for name in fields), *_OF_CLIENTS]
    found: dict[str, str | None] = {}
    for name in sorted(names):
        own = name.upper().removeprefix(PREFIX)
        if name.upper().startswith(PREFIX) and not (own in known or _OF_OTHERS.fullmatch(name)):
            close = get_close_matches(own, known, n=1, cutoff=_MISSPELT)
            found[name] = f"{PREFIX}{close[0]}" if close else None
    return found


# What a command says, and ends with, where the service refuses or cannot be reached

REFUSED, UNREACHABLE = 1, 3


def require_scheme(url: str) -> None:
    """Pass for the address of a service.

    Raises
    ------
    click.BadParameter
        It does not begin with ``http://`` or ``https://``.
    """
    if not url.lower().startswith(("http://", "https://")):
        scheme = "http" if url.startswith(("localhost", "127.")) else "https"
        raise click.BadParameter(
            f"{url} does not begin with http:// or https://. Try {scheme}://{url}.",
            param_hint=f"--url (or {PREFIX}URL)",
        )


@contextmanager
def refusals(url: str | None = None, *, key: str | None = "") -> Iterator[None]:
    """Turn the client's errors into sentences on stderr and an exit code.

    ``key`` is the key that the service was asked with, None where there was none.
    """
    try:
        yield
    except ProblemError as problem:
        click.echo(f"refused: {problem.status} {problem.code}: {problem.detail}", err=True)
        for line in extra_lines(problem.extras):
            click.echo(f"  {line}", err=True)
        if problem.code == "unauthorized" and key is None:
            click.echo(f"Set {PREFIX}KEY to your API key, or give it with --key.", err=True)
        elif problem.remedy is not None:
            click.echo(problem.remedy, err=True)
        sys.exit(REFUSED)
    except ReceiptError as error:
        click.echo(f"INVALID: {error}", err=True)
        sys.exit(REFUSED)
    except UnreachableError as error:
        click.echo(str(error), err=True)
        if url is not None:
            click.echo(f"Is it at {url}? Choose another with --url or {PREFIX}URL.", err=True)
        if error.idempotency_key == OWN_KEY:
            click.echo("ask the same again: it is charged once", err=True)
        elif error.idempotency_key:
            click.echo(f"ask again with --idempotency-key {error.idempotency_key}", err=True)
        sys.exit(UNREACHABLE)


def extra_lines(extras: Mapping[str, object]) -> Iterator[str]:
    """Yield what else a refusal says, its faults one by one."""
    for name, value in extras.items():
        faults = value if isinstance(value, list) else []
        if not (faults and all(isinstance(each, dict) for each in faults)):
            yield f"{name}: {json.dumps(value)}"
            continue
        # a fault that is the only one is in the detail already
        yield from (line for line in map(_fault, faults) if len(faults) > 1 or name == "problems")


def _fault(said: Mapping[str, object]) -> str:
    """Return a fault of a request, or a kind of fault of an upload, as a line."""
    if said.get("field") is not None:
        return f"{said['field']}: {said.get('message')}"
    columns = said.get("columns")
    places = [_place(each) for each in columns] if isinstance(columns, list) else []
    file = "" if said.get("file") is None else f"file {said['file']}, "
    return f"{file}{'; '.join(places) or _place(said)}: {said.get('reason')}"


def _place(said: Mapping[str, Any]) -> str:
    """Return a column, or the file, with the rows of it that are wrong."""
    name = "the file" if said.get("column") is None else f"column {said['column']}"
    rows, count = said.get("rows") or [], said.get("count") or 1
    if not rows:
        return name
    listed = ", ".join(map(str, rows))
    more = f" and {count - len(rows):,} more" if count > len(rows) else ""
    return f"{name}, {'row' if count == 1 else 'rows'} {listed}{more}"
