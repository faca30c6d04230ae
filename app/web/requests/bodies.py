"""What the bodies of requests are made into: short ones here, longer ones in another process.

A hostile body of a MiB takes seconds of one core and, in between, hundreds of MB, and a sound
one half a second. On the event loop, or in a thread that holds the interpreter's lock, that
would keep everybody else waiting; so it happens in a calculating process, and only what
comes of it comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from app.domain.problems import Problem, invalid_request
from app.services.datasets.admitting import NewDataset
from app.services.plans.lanes import ProcessLane
from app.services.releases.receipts import SentAnswer, sent_answer
from app.web.requests.exact_json import SHORT_BYTES, read_json, read_model
from app.web.requests.fields import Request
from app.web.requests.schemas import DatasetSpec, with_contradictions
from app.web.requests.uploads import SourcedDatasetSpec

Body = TypeVar("Body", bound=Request)
Spec = TypeVar("Spec", bound=DatasetSpec)
T = TypeVar("T")


async def made_of(
    content: bytes,
    person: str,
    lane: ProcessLane,
    function: Callable[..., T],
    *arguments: object,
) -> T:
    """Return what a function of a module makes of a person's body.

    Raises
    ------
    Problem
        What the function raises; ``busy`` when too many long bodies of the person's are waiting.
    """
    if len(content) <= SHORT_BYTES:
        return function(content, *arguments)
    return await lane.run(person, function, content, *arguments)


def request_in(content: bytes, model: type[Body]) -> Body:
    """Return a body as its model, with what follows from it alone."""
    return read_model(model, content).prepared()


def spec_in(content: bytes, max_columns: int) -> NewDataset:
    """Return what the spec of an upload declares."""
    try:
        return _spec_in(content, DatasetSpec, max_columns).declared()
    except Problem as problem:
        raise problem.inside("spec") from None


def sourced_spec_in(content: bytes, max_columns: int) -> tuple[NewDataset, str]:
    """Return what a spec declares that names a source, and the source's URL."""
    spec = _spec_in(content, SourcedDatasetSpec, max_columns)
    return spec.declared(), spec.source


def _spec_in(content: bytes, model: type[Spec], max_columns: int) -> Spec:
    try:
        spec = read_model(model, content)
    except Problem as problem:
        check = partial(_check, model)
        raise with_contradictions(problem, content, check, known=model.model_fields) from None
    if len(spec.columns) + len(spec.derive) > max_columns:
        raise invalid_request("columns", f"must be at most {max_columns}")
    return spec


def _check(model: type[Spec], content: bytes) -> None:
    read_model(model, content).declared()


def answer_in(content: bytes) -> SentAnswer:
    """Return a released answer that somebody has sent back, or its receipt alone."""
    members = read_json(content)
    if not isinstance(members, dict):
        raise invalid_request("body", "must be an object")
    return sent_answer(members, content)
