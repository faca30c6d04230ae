"""Cross-origin reading: which other sites' pages may read answers in a browser (the setting).

It is about the API alone. The desk's pages, and every other page, are never shared: a browser
that is signed in there has a cookie. No cookie or other credential of a browser is sent along:
the sender of a key knows it. What another site sends is answered as if there were no such
setting, so refusals keep their one shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

EXPOSED = ("ETag", "Link", "Location", "Retry-After", "X-Request-Id")
"""Headers of an answer that a page of another site may read, in addition to the safelisted ones."""
_API = ("/v1/", "/openapi.json", "/problems/")


class OtherOrigins(CORSMiddleware):
    """Let pages of some origins read what the API answers.

    Pure ASGI. The methods and request headers are not limited: what may be sent is for
    the routes to say. A page of a public address may reach a service on a private network only
    where its origin is named: with ``*`` any page that somebody inside opens could.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            allow_credentials=False,
            allow_private_network="*" not in origins,
            expose_headers=EXPOSED,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or not is_of_api(scope["path"]):
            await self.app(scope, receive, send)
            return
        # Where the origin is not allowed, the answer is the one that there would be
        # without the setting.
        if scope["method"] == "OPTIONS" and not self._may_ask(Headers(scope=scope)):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _may_ask(self, headers: Headers) -> bool:
        private = headers.get("access-control-request-private-network") == "true"
        allowed = self.is_allowed_origin(headers.get("origin", ""))
        return allowed and (self.allow_private_network or not private)


def is_of_api(path: str) -> bool:
    """Return whether a path is of the API, or of a public release in a form for programs.

    >>> is_of_api("/v1/datasets"), is_of_api("/public/releases/rel_1.json")
    (True, True)
    >>> is_of_api("/desk"), is_of_api("/public/releases/rel_1"), is_of_api("/metrics")
    (False, False, False)
    """
    if path.startswith("/public/"):
        return "." in path.rpartition("/")[2]
    return path.startswith(_API)
