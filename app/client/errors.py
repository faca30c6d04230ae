"""What can go wrong between a client and the service.

``ClientError``           and an answer that is none of a Release Desk's
  ``ProblemError``         the service answered with a refusal (RFC 9457)
  ``UnreachableError``     no answer came, after every retry
  ``ReceiptError``         a receipt does not hold
  ``MissingPackageError``  an optional package is not installed
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx


class ClientError(Exception):
    """Base of every error this client raises."""


class UnreachableError(ClientError):
    """The service could not be reached, or went away before it answered.

    ``idempotency_key`` is the key of a release whose fate is unknown: asking
    again with the same key gives its answer without a second charge.
    """

    def __init__(self, detail: str, *, idempotency_key: str | None = None) -> None:
        super().__init__(detail)
        self.idempotency_key = idempotency_key


class ReceiptError(ClientError):
    """An answer has no receipt, or one that does not hold; says which."""


class MissingPackageError(ClientError, ImportError):
    """Something needs a package that is not installed; says which, and what to do without."""


class ProblemError(ClientError):
    """A refusal, with the members of its ``application/problem+json`` body.

    ``detail`` says what was wrong with this request, ``remedy`` what to do about its kind, None
    where the answer does not say. ``extras`` holds the members beyond the common ones, e.g.
    ``requested`` and ``remaining`` of ``budget-exceeded``.
    """

    _COMMON = frozenset(
        {"type", "code", "title", "status", "detail", "remedy", "request_id", "instance"}
    )

    def __init__(self, *, status: int, body: Mapping[str, object]) -> None:
        self.status = status
        self.code = str(body.get("code", "unknown"))
        self.title = str(body.get("title", f"HTTP {status}"))
        self.detail = str(body.get("detail", self.title))
        remedy = body.get("remedy")
        self.remedy = remedy if isinstance(remedy, str) else None
        self.request_id = body.get("request_id")
        self.extras = {name: value for name, value in body.items() if name not in self._COMMON}
        advice = f" {self.remedy}" if self.remedy else ""
        super().__init__(f"{self.status} {self.code}: {self.detail}{advice}")

    @classmethod
    def from_response(cls, response: httpx.Response) -> ProblemError:
        """Read a refusal; an answer of another shape keeps its status only."""
        try:
            body = response.json()
        except ValueError:
            body = {}
        return cls(status=response.status_code, body=body if isinstance(body, dict) else {})
