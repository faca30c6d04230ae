"""Cookies: the token of a session, and now and then something for the next page.

The token is sent to this service alone, is hidden from scripts, and never goes along with what
another site asks for. Where the service is reached by TLS, or its public address says so, its name
has the prefix ``__Host-``, so that no neighbour in the domain can set it.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from app.services.people.sessions import LONGEST_S
from app.web.state import AppState

# What is shown to one person once, and is kept nowhere else: for some minutes, in this process

T = TypeVar("T")


class ShownOnce(Generic[T]):
    """Holds things until their time is over.

    Parameters
    ----------
    seconds
        How long a thing is there.
    """

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._held: dict[tuple[str, str], T] = {}

    def hold(self, person: str, name: str, thing: T) -> None:
        """Hold a thing for a person, under a name; on the event loop."""
        self._held[person, name] = thing
        asyncio.get_running_loop().call_later(self._seconds, self._held.pop, (person, name), None)

    def look(self, person: str, name: str) -> T | None:
        """Return what is held for a person under a name, until its time is over."""
        return self._held.get((person, name))


# Cookies: the token of a session, and now and then something for the next page

_NAME = "release-desk-session"


def session_of(request: Request) -> str:
    """Return the token that a browser sent, or an empty text."""
    return request.cookies.get(_name(request), "")


def remember(request: Request, response: Response, token: str) -> None:
    """Have the browser keep a session's token."""
    response.set_cookie(
        _name(request),
        token,
        max_age=LONGEST_S,
        path="/",
        secure=_by_tls(request),
        httponly=True,
        samesite="strict",
    )


def forget(request: Request, response: Response) -> None:
    """Have the browser forget its session."""
    response.delete_cookie(
        _name(request), path="/", secure=_by_tls(request), httponly=True, samesite="strict"
    )


def remember_briefly(
    request: Request, response: Response, name: str, value: str, *, path: str, seconds: int
) -> None:
    """Have the browser bring something to one page, for some time."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=path,
        secure=_by_tls(request),
        httponly=True,
        samesite="strict",
    )


def forget_brief(request: Request, response: Response, name: str, *, path: str) -> None:
    """Have the browser bring it no more."""
    response.delete_cookie(
        name, path=path, secure=_by_tls(request), httponly=True, samesite="strict"
    )


def _by_tls(request: Request) -> bool:
    """Return whether browsers come by TLS, to us or to a proxy before us."""
    state: AppState = request.state.app
    known: str = state.settings.public_url
    return request.url.scheme == "https" or known.startswith("https://")


def _name(request: Request) -> str:
    return f"__Host-{_NAME}" if _by_tls(request) else _NAME
