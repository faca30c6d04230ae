"""A question as a program in Python, by the package ``release_desk_client``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pprint import pformat
from textwrap import indent, wrap

from app.services.client_packages import client_packages
from app.services.scripts.asked import (
    CONNECT,
    KEY,
    QUESTION,
    RECEIPT,
    REHEARSE,
    STORED,
    URL,
    WEIGH,
    Asked,
    Step,
    asking,
)

_WIDTH = 88


def python_script(asked: Asked) -> str:
    """Return the program."""
    (install,) = client_packages()["python"].install(asked.service)
    parts = [f"# {asked.title}\n# Needs: {install}"]
    for step in python_steps(asked):
        shown = f"\nprint({step.shown}.to_text())" if step.shown else ""
        parts.append(f"{_comment(step.words)}\n{step.code}{shown}")
    return "\n\n".join(parts) + "\n"


def python_steps(asked: Asked) -> Iterator[Step]:
    """Yield its steps."""
    yield Step(
        words=CONNECT,
        code="import os\n\nfrom release_desk_client import ReleaseDesk\n\n"
        f'desk = ReleaseDesk(os.environ["{URL}"], os.environ["{KEY}"])',
    )
    yield Step(
        words=QUESTION,
        code=f"dataset = desk.dataset({asked.dataset!r})\nquestion = {_literal(asked.statistic)}\n"
        f"choice = {_literal(asked.choice)}",
    )
    yield from _seen(asked) if asked.release is None else _stored(asked.release)
    call = "answer = dataset.release(question, **choice)\nprint(answer.to_text())"
    yield Step(words=asking(asked), code=f"ASK = False\nif ASK:\n{indent(call, '    ')}")


def _stored(release: str) -> Iterator[Step]:
    yield Step(words=STORED, code=f"release = desk.released({release!r})", shown="release")
    yield Step(
        words=RECEIPT,
        code='if release.status == "released":\n    print(desk.check_receipt(release).ok)\n'
        "else:\n    print(release.status)",
    )


def _seen(asked: Asked) -> Iterator[Step]:
    assumed = asked.assumed
    yield Step(
        words=WEIGH,
        code=f"assumed = {_literal(assumed)}\n"
        "preview = dataset.preview(question, **choice, **assumed)\n"
        'print(preview.usefulness["sentence"])',
        shown="preview",
    )
    population = {name: each for name, each in assumed.items() if name == "assume"}
    yield Step(
        words=REHEARSE,
        code=f"population = {_literal(population)}\n"
        "dry_run = dataset.dry_run(question, **choice, **population)",
        shown="dry_run",
    )


def _literal(value: Mapping[str, object]) -> str:
    return pformat(dict(value), width=_WIDTH, sort_dicts=False)


def _comment(words: str) -> str:
    return indent("\n".join(wrap(words, _WIDTH)), "# ")


# A question as a Jupyter notebook in Python (nbformat 4.5): the script's steps as cells

_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook(asked: Asked) -> str:
    """Return the notebook's JSON, with no output in it."""
    cells = [
        {"id": f"cell-{number}", "metadata": {}, **cell}
        for number, cell in enumerate(_cells(asked))
    ]
    document = {
        "cells": cells,
        "metadata": {"kernelspec": _KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cells(asked: Asked) -> Iterator[dict[str, object]]:
    (install,) = client_packages()["python"].install(asked.service)
    yield _words(f"# {asked.title}\n\nNeeds: `{install}`")
    for step in python_steps(asked):
        yield _words(step.words)
        yield _code("\n".join(filter(None, (step.code, step.shown))))


def _words(text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "source": _lines(text)}


def _code(text: str) -> dict[str, object]:
    return {"cell_type": "code", "execution_count": None, "outputs": [], "source": _lines(text)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
