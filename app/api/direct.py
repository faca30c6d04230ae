"""Routes without the framework's machinery, for what is asked most.

The framework solves an endpoint's dependencies anew for every request, which
takes longer than to charge for a small release and to draw it. A direct
endpoint takes the request, calls what it needs itself, and is documented like
any other; its parameters, which the framework does not see, are declared in
``openapi_extra``.
"""

from __future__ import annotations

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class DirectRoute(APIRoute):
    """A route whose endpoint is a coroutine from the request to its response."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. What the endpoint raises, the application's handlers answer."""
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        response: Response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
