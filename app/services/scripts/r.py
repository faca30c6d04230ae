"""A question as a program in R, by the package ``releasedesk``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import indent, wrap

from app.services.client_packages import client_packages
from app.services.scripts.asked import (
    CONNECT,
    QUESTION,
    RECEIPT,
    REHEARSE,
    STORED,
    WEIGH,
    Asked,
    Step,
    asking,
)

_WIDTH = 88
_BMP = 0xFFFF
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_RESERVED = frozenset({"function", "repeat", "while", "break", "next", "else", "for", "if", "in"})
_ESCAPED = {"\\": "\\\\", '"': '\\"'}


def r_script(asked: Asked) -> str:
    """Return the program."""
    needs = "".join(f"\n# Needs: {line}" for line in client_packages()["r"].install(asked.service))
    parts = [f"# {_ascii(asked.title)}{_ascii(needs)}"]
    for step in _steps(asked):
        shown = f"\nprint({step.shown})\nplot({step.shown})" if step.shown else ""
        parts.append(f"{_comment(step.words)}\n{step.code}{shown}")
    return "\n\n".join(parts) + "\n"


def _steps(asked: Asked) -> Iterator[Step]:
    yield Step(words=CONNECT, code="library(releasedesk)\n\ndesk <- release_desk()")
    yield Step(
        words=QUESTION,
        code=f"dataset <- dataset(desk, {r_literal(asked.dataset)})\n"
        f"question <- {r_literal(asked.statistic)}\nchoice <- {r_literal(asked.choice)}",
    )
    yield from _seen(asked) if asked.release is None else _stored(asked.release)
    call = f"answer <- {_call('release')}\nprint(answer)"
    yield Step(words=asking(asked), code=f"ASK <- FALSE\nif (ASK) {{\n{indent(call, '  ')}\n}}")


def _stored(release: str) -> Iterator[Step]:
    yield Step(words=STORED, code=f"stored <- released(desk, {r_literal(release)})", shown="stored")
    yield Step(
        words=RECEIPT,
        code='if (stored$status == "released") {\n  print(check_receipt(stored)$ok)\n}',
    )


def _seen(asked: Asked) -> Iterator[Step]:
    yield Step(
        words=WEIGH,
        code=f"assumed <- {r_literal(asked.assumed)}\n"
        f"seen <- {_call('preview', 'assumed')}\ncat(seen$usefulness$sentence, fill = TRUE)",
        shown="seen",
    )
    population = {name: each for name, each in asked.assumed.items() if name == "assume"}
    yield Step(
        words=REHEARSE,
        code=f"population <- {r_literal(population)}\n"
        f"rehearsed <- {_call('dry_run', 'population')}",
        shown="rehearsed",
    )


def _call(function: str, *more: str) -> str:
    given = ", ".join(("list(dataset, question)", "choice", *more))
    return f'do.call("{function}", c({given}))'


def r_literal(value: object, *, room: int = _WIDTH) -> str:
    """Return a value of JSON as R writes it: objects and lists are lists, null is NULL.

    >>> r_literal({"kind": "mean", "columns": ["age"], "by": [], "edges": {}})
    'list(kind = "mean", columns = list("age"), by = list(), edges = named_list())'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inner = [(f"{_name(name)} = ", each) for name, each in value.items()]
        return _listed(inner, room) if inner else "named_list()"
    if isinstance(value, list | tuple):
        return _listed([("", each) for each in value], room)
    return repr(value)


def _listed(items: list[tuple[str, object]], room: int) -> str:
    parts = [f"{name}{r_literal(each, room=room - 2)}" for name, each in items]
    line = f"list({', '.join(parts)})"
    if len(line) <= room and "\n" not in line:
        return line
    return "list(\n" + ",\n".join(indent(part, "  ") for part in parts) + "\n)"


def _name(name: str) -> str:
    plain = _PLAIN_NAME.fullmatch(name) and name not in _RESERVED
    return name if plain else _text(name)


def _text(text: str) -> str:
    return f'"{"".join(map(_character, text))}"'


def _character(each: str) -> str:
    """Return a character as it stands in a text of R, whatever the machine's encoding."""
    code = ord(each)
    if each.isascii() and each.isprintable():
        return _ESCAPED.get(each, each)
    return f"\\u{{{code:04x}}}" if code <= _BMP else f"\\U{{{code:08x}}}"


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()


def _comment(words: str) -> str:
    return indent("\n".join(wrap(_ascii(words), _WIDTH)), "# ")
