"""A question as a Jupyter notebook in Python (nbformat 4.5): the script's steps as cells."""

from __future__ import annotations

import json
from collections.abc import Iterator

from app.services.client_packages import client_packages
from app.services.scripts.asked import Asked
from app.services.scripts.python import python_steps

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
