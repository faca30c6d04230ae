"""Cross-origin reading: which other sites' pages may read answers in a browser (the setting).

No cookie and no credential of a browser is involved: whoever sends a key knows it. What another
site sends is answered as if there were no such setting, so refusals keep their one shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

EXPOSED = ("ETag", "Link", "Location", "Retry-After", "X-Request-Id")
"""Headers of an answer that a page of another site may read, beside the few it always may."""


class OtherOrigins(CORSMiddleware):
    """Let pages of some origins read what an application answers.

    Pure ASGI. The methods and request headers are not limited: what may be sent is for
    the routes to say.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            allow_credentials=False,
            allow_private_network=True,
            expose_headers=EXPOSED,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        # Where the origin is not allowed, the answer is the one that there would be
        # without the setting.
        asks_first = scope["type"] == "http" and scope["method"] == "OPTIONS"
        if asks_first and not self.is_allowed_origin(Headers(scope=scope).get("origin", "")):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
