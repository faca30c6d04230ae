"""The steps of asking: a release, waited for if it is a job, a preview, and publishing one.

Calls as steps, so that each is written once and runs both at once and asynchronously.

A call is a generator: it yields what is to be sent, or a pause, gets the response, and returns
what comes of it. It does no input or output of its own. ``Blocking`` runs the steps one after the
other; ``Awaiting`` makes a coroutine of them. :class:`Call` and :class:`Listing` make the methods.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import httpx

from app.client.answers import members_of
from app.client.errors import ClientError, ProblemError, UnreachableError
from app.client.models import (
    Derivation,
    DryRun,
    Preview,
    Publication,
    Release,
    StudyPlan,
    SyntheticRows,
)
from app.client.questions import Calculating, OnWait, Progress, several

P = ParamSpec("P")
T = TypeVar("T")

_TRY_AGAIN = "busy"
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Glance:
    """What to look at, again and again, while a request is under way.

    ``pause_of`` gets each response, and returns the seconds until the next look.
    """

    path: str
    pause_of: Callable[[httpx.Response], float]


@dataclass(frozen=True, slots=True)
class Request:
    """Something to send; ``content`` are keywords of an httpx request."""

    method: str
    path: str
    content: Mapping[str, Any]
    glance: Glance | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Some seconds to wait."""

    seconds: float


Steps = Generator[Request | Pause, Any, T]
"""What a call yields, gets and returns: a response for each request, nothing for a pause."""


@dataclass(frozen=True, slots=True)
class Line:
    """How patiently requests are sent: how often at most, and the first pause in between."""

    attempts: int
    pause_s: float

    def send(
        self, method: str, path: str, *, glance: Glance | None = None, **content: Any
    ) -> Steps[httpx.Response]:
        """Send once; raises ``ProblemError`` or ``UnreachableError``."""
        response: httpx.Response = yield Request(method, path, content, glance)
        if response.is_error:
            raise ProblemError.from_response(response)
        return response

    def repeatable(self, method: str, path: str, **content: Any) -> Steps[httpx.Response]:
        """Send until an answer has come and the service is not busy; raises as :meth:`send`."""
        for attempt in range(1, self.attempts + 1):
            try:
                return (yield from self.send(method, path, **content))
            except ProblemError as problem:
                # any other refusal would come again
                if problem.code != _TRY_AGAIN or attempt == self.attempts:
                    raise
            except UnreachableError as error:
                if attempt == self.attempts:
                    key = content.get("headers", {}).get("Idempotency-Key")
                    # with it, a later request gets what may have been charged
                    raise UnreachableError(str(error), idempotency_key=key) from error
            # longer each time, or many clients keep a busy desk busy
            yield Pause(min(self.pause_s * 2 ** (attempt - 1), _LONGEST_PAUSE_S))
        raise AssertionError("the last attempt returns or raises")

    def read(self, path: str, *, params: Mapping[str, str] | None = None) -> Steps[httpx.Response]:
        """Get something; raises as :meth:`send`."""
        return (yield from self.repeatable("GET", path, params=params))


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list of the service, to be read page by page from ``cursor`` on."""

    path: str
    made: Callable[[dict[str, Any]], T]
    filters: Mapping[str, str | None] = field(default_factory=dict)
    cursor: str | None = None

    def turned(self, line: Line) -> Steps[tuple[list[T], Pages[T] | None]]:
        """Return the items of this page, and what follows."""
        wanted = {**self.filters, "cursor": self.cursor}
        params = {name: text for name, text in wanted.items() if text is not None}
        response = yield from line.read(self.path, params=params)
        page = members_of(response.content)
        following = page.get("next")
        after = replace(self, cursor=following) if following else None
        return [self.made(item) for item in page["items"]], after


@dataclass(frozen=True, slots=True)
class CellPages(Pages[dict[str, Any]]):
    """Lines of JSON, page by page; a response names the next page in its ``Link``."""

    def turned(self, line: Line) -> Steps[tuple[list[dict[str, Any]], CellPages | None]]:
        """Return the lines of this page, and what follows."""
        params = {name: text for name, text in self.filters.items() if text is not None}
        response = yield from line.read(self.path, params=params or None)
        following = response.links.get("next", {}).get("url")
        after = replace(self, path=following, filters={}) if following else None
        return [json.loads(each) for each in response.text.splitlines()], after


class Blocking:
    """Whose calls return when they are done."""

    __slots__ = ()

    def run(self, steps: Steps[T]) -> T:
        """Run the steps of a call."""
        raise NotImplementedError

    def items(self, pages: Pages[T], line: Line) -> Iterator[T]:
        """Yield a list's items; a page is read when it is needed."""
        following: Pages[T] | None = pages
        while following is not None:
            found, following = self.run(following.turned(line))
            yield from found


class Awaiting:
    """Whose calls are coroutines."""

    __slots__ = ()

    def run(self, steps: Steps[T]) -> Coroutine[Any, Any, T]:
        """Run the steps of a call."""
        raise NotImplementedError

    async def items(self, pages: Pages[T], line: Line) -> AsyncIterator[T]:
        """Yield a list's items; a page is read when it is needed."""
        following: Pages[T] | None = pages
        while following is not None:
            found, following = await self.run(following.turned(line))
            for item in found:
                yield item


class Call(Generic[P, T]):
    """A method that is written as steps: it returns, or is awaited, as its object runs them."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, holder: None, owner: type) -> Callable[..., Steps[T]]: ...
    @overload
    def __get__(self, holder: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, holder: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, holder: Any, owner: type) -> Any:
        if holder is None:
            return self.steps
        steps = MethodType(self.steps, holder)

        @wraps(steps)
        def call(*arguments: P.args, **options: P.kwargs) -> Any:
            return holder.run(steps(*arguments, **options))

        return call


class Listing(Generic[P, T]):
    """A method that says which pages to read: an iterator, or an asynchronous one."""

    def __init__(self, pages: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self.pages = pages
        self.__doc__ = pages.__doc__

    @overload
    def __get__(self, holder: None, owner: type) -> Callable[..., Pages[T]]: ...
    @overload
    def __get__(self, holder: Blocking, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, holder: Awaiting, owner: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, holder: Any, owner: type) -> Any:
        if holder is None:
            return self.pages
        pages = MethodType(self.pages, holder)

        @wraps(pages)
        def call(*arguments: P.args, **options: P.kwargs) -> Any:
            return holder.items(pages(*arguments, **options), holder.line)

        return call


# The steps of asking: a release, waited for if it is a job, a preview, and publishing one


_ACCEPTED = 202
_RUNNING = "running"
_LOOK_AGAIN_S = 5.0  # where the service does not say how long


def release_in(response: httpx.Response) -> Release:
    """Return a release with the bytes that it came in."""
    return replace(Release.model_validate_json(response.content), body=response.content)


def previewing(line: Line, dataset: str, body: Mapping[str, object]) -> Steps[Preview]:
    """Ask for a preview."""
    response = yield from line.repeatable("POST", f"/v1/datasets/{dataset}/previews", json=body)
    return Preview.model_validate_json(response.content)


def planning(line: Line, dataset: str, questions: Sequence[Mapping[str, Any]]) -> Steps[StudyPlan]:
    """Ask what questions would cost together."""
    path, body = f"/v1/datasets/{dataset}/study-plans", {"questions": several(questions)}
    response = yield from line.repeatable("POST", path, json=body)
    return StudyPlan.model_validate_json(response.content)


def dry_running(line: Line, dataset: str, body: Mapping[str, object]) -> Steps[DryRun]:
    """Ask for a dry run."""
    response = yield from line.repeatable("POST", f"/v1/datasets/{dataset}/dry-runs", json=body)
    return DryRun.model_validate_json(response.content)


def deriving(
    line: Line,
    path: str,
    statistic: Mapping[str, object],
    together_with: Sequence[Release | str],
) -> Steps[Derivation]:
    """Ask what a release says, with others if there are any; ``path`` is its address."""
    body: dict[str, object] = {"statistic": dict(statistic)}
    if together_with:
        names = [each.id if isinstance(each, Release) else each for each in together_with]
        body["together_with"] = names
    with Calculating() as calculating:
        while True:
            response = yield from line.repeatable("POST", f"{path}/derivations", json=body)
            if response.status_code != _ACCEPTED:
                return Derivation.model_validate_json(response.content)
            calculating(response.json()["progress"])
            yield Pause(float(response.headers.get("Retry-After", _LOOK_AGAIN_S)))


def synthesizing(line: Line, path: str, body: Mapping[str, object]) -> Steps[SyntheticRows]:
    """Ask for synthetic rows of a release, and for what describes them."""
    address = f"{path}/synthetic"
    file = (yield from line.repeatable("POST", address, json=body)).content
    asked = {name: str(value) for name, value in body.items()}
    described = (yield from line.read(address, params=asked)).content
    rows = SyntheticRows.model_validate(members_of(described), body=file)
    if hashlib.sha256(file).hexdigest() != rows.sha256:
        raise ClientError("the file is not the one that was described: ask again")
    return rows


def scripting(line: Line, release: str, language: str) -> Steps[str]:
    """Ask for a release as a program."""
    response = yield from line.read(f"/v1/releases/{release}/script", params={"language": language})
    return str(response.text)


def question_scripting(
    line: Line, dataset: str, body: Mapping[str, object], language: str
) -> Steps[str]:
    """Ask for a question as a program."""
    path, params = f"/v1/datasets/{dataset}/scripts", {"language": language}
    response = yield from line.repeatable("POST", path, json=body, params=params)
    return str(response.text)


def releasing(
    line: Line,
    dataset: str,
    body: Mapping[str, object],
    *,
    key: str,
    wait: bool,
    on_wait: OnWait | None,
) -> Steps[Release]:
    """Ask for a release under a key and, if it is a job, again when it is done."""
    path, headers = f"/v1/datasets/{dataset}/releases", {"Idempotency-Key": key}
    return (yield from _asked(line, path, wait=wait, on_wait=on_wait, json=body, headers=headers))


def drawing(
    line: Line, plan: str, question: int, *, wait: bool, on_wait: OnWait | None
) -> Steps[Release]:
    """Draw a question of a study plan, which is charged once however often it is asked for."""
    path, body = f"/v1/study-plans/{plan}/releases", {"question": question}
    return (yield from _asked(line, path, wait=wait, on_wait=on_wait, json=body))


def _asked(
    line: Line, path: str, *, wait: bool, on_wait: OnWait | None, **content: Any
) -> Steps[Release]:
    """Send what is charged once and, if it is a job, again when it is done."""
    response = yield from line.repeatable("POST", path, **content)
    if response.status_code == _ACCEPTED and wait and release_in(response).status == _RUNNING:
        key = content.get("headers", {}).get("Idempotency-Key")
        with Progress() as progress:
            yield from _waiting(line, response, key, on_wait or progress)
        # the stored bytes, or the refusal that says it has none
        response = yield from line.repeatable("POST", path, **content)
    return release_in(response)


def _waiting(line: Line, response: httpx.Response, key: str | None, on_wait: OnWait) -> Steps[None]:
    """Ask for a running release, whenever the service says it is worth it, until it is not."""
    path = response.headers["Location"]
    while (release := release_in(response)).status == _RUNNING:
        pause_s = float(response.headers.get("Retry-After", _LOOK_AGAIN_S))
        on_wait(release, pause_s)
        yield Pause(pause_s)
        try:
            response = yield from line.read(path)
        except UnreachableError as error:
            raise UnreachableError(str(error), idempotency_key=key) from error


def publishing(line: Line, path: str, reason: str) -> Steps[Publication]:
    """Publish the release at a path as it was read just before."""
    seen = (yield from line.read(path)).headers["ETag"]
    body, headers = {"reason": reason}, {"If-Match": seen}
    sent = line.repeatable("POST", f"{path}/publication", json=body, headers=headers)
    return Publication.model_validate_json((yield from sent).content)
