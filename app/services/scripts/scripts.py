"""Scripts of releases and of questions, for those who may see them.

A script is a function of the request and of public facts: it is the same before and after a draw.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from app.services.datasets.datasets import DatasetFacts, DatasetService
from app.services.people.keys import Caller
from app.services.plans.questions import Question, read_question
from app.services.releases.releases import ReleaseService
from app.services.scripts.asked import Asked
from app.services.scripts.python import notebook, python_script
from app.services.scripts.r import r_script
from app.store import DatasetStatus

Language = Literal["python", "r", "notebook"]


@dataclass(frozen=True, slots=True)
class Script:
    """A program: its text, what kind of text that is, and a name for its file."""

    text: str
    media_type: str
    name: str


@dataclass(frozen=True, slots=True)
class _Writer:
    write: Callable[[Asked], str]
    media_type: str
    ending: str


_WRITERS: Mapping[Language, _Writer] = {
    "python": _Writer(python_script, "text/x-python", "py"),
    "r": _Writer(r_script, "text/x-r", "R"),
    "notebook": _Writer(notebook, "application/x-ipynb+json", "ipynb"),
}


class ScriptService:
    """Writes programs that read a release or ask a question."""

    def __init__(self, datasets: DatasetService, releases: ReleaseService) -> None:
        self._datasets = datasets
        self._releases = releases

    async def of_release(
        self, release: str, language: Language, *, caller: Caller, service: str
    ) -> Script:
        """Return a program that reads a release, and could ask its question again.

        ``service`` is the address of this service, for the packages that the program needs.

        Raises
        ------
        Problem
            ``not-found``, for foreign and unknown releases alike.
        """
        record = await self._releases.get(release, caller=caller)
        facts = await self._datasets.present(record.dataset)
        asked = _asked(facts, read_question(record.request), {}, record.id, service)
        return _written(asked, language, record.id)

    def of_question(
        self,
        dataset: str,
        question: Question,
        assumed: Mapping[str, object],
        language: Language,
        *,
        service: str,
    ) -> Script:
        """Return a program that weighs a question, rehearses it, and could ask it.

        ``assumed`` are the members of a preview that a release has not.

        Raises
        ------
        Problem
            ``not-found``.
        """
        facts = self._datasets.facts(dataset)
        return _written(_asked(facts, question, assumed, None, service), language, "question")


def _asked(
    facts: DatasetFacts,
    question: Question,
    assumed: Mapping[str, object],
    release: str | None,
    service: str,
) -> Asked:
    fields = json.loads(json.dumps(question.to_json()))
    # the name of an archived data set may have become another one's
    active = facts.record.status is DatasetStatus.ACTIVE
    return Asked(
        service=service,
        dataset=facts.record.name if active else facts.id,
        statistic=fields.pop("statistic"),
        choice=fields,
        assumed=assumed,
        release=release,
    )


def _written(asked: Asked, language: Language, name: str) -> Script:
    writer = _WRITERS[language]
    return Script(writer.write(asked), writer.media_type, f"{name}.{writer.ending}")
