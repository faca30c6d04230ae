"""Every refusal the service can give; their words are in :mod:`app.domain.problem_kinds`.

A refusal is a :class:`Problem` of a registered :class:`ProblemKind`. The
registry is what ``/problems/{code}`` publishes, so a kind's wording is public
and fixed: a problem's ``detail`` is written by us from public facts and field
names, never from an exception's text and never from a cell.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

from app.domain.problem_kinds import KINDS, ProblemKind

# Failures that every layer may meet and that are no problem document of their own


class ProcessLostError(Exception):
    """A process of ours failed or died; what there is to say is in its own log."""


class StoppedError(ProcessLostError):
    """Work was cancelled because no caller waits for it; none of it is stored."""


class StorageError(Exception):
    """A disk, a file or memory does not do what it should. It may be over soon."""


_OF_STORAGE = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EROFS}
    | {errno.EFBIG, errno.ESTALE}
)


class DataUnreadableError(StorageError):
    """The files of a data set cannot be opened and checked; nothing has come of reading them."""


class SignerLostError(StorageError):
    """The external signer gave no signature; the answer has not been shown."""


_NO_THREAD = "can't start new thread"
"""What Python says of a system that gives no thread, for want of memory or of a place for it."""


def is_of_storage(error: BaseException) -> bool:
    """Return whether disks, files or memory are to blame for an error, and not what was asked."""
    if isinstance(error, OSError):
        return error.errno in _OF_STORAGE
    if isinstance(error, RuntimeError):
        return str(error) == _NO_THREAD
    return isinstance(error, StorageError | MemoryError)


# Every refusal the service can give; their words are in :mod:`app.domain.problem_kinds`

PROBLEMS: Mapping[str, ProblemKind] = {kind.code: kind for kind in KINDS}
"""Every kind of refusal by its code."""


_MOST_PLACES = 3  # a sentence of more is no sentence


class Problem(Exception):  # noqa: N818 - the word of RFC 9457
    """A refusal that is ready to be answered.

    Parameters
    ----------
    code
        A key of :data:`PROBLEMS`.
    detail
        One plain sentence about this occurrence, built from public facts.
        The kind's meaning when left out.
    **extras
        The members the kind declares, JSON-ready.

    >>> Problem("budget-exceeded", "too dear", requested="2", remaining="0.5").status
    409
    """

    def __init__(self, code: str, detail: str | None = None, /, **extras: object) -> None:
        self.kind = PROBLEMS[code]
        self.detail = self.kind.meaning if detail is None else detail
        self.extras: Mapping[str, object] = extras
        super().__init__(code)

    @property
    def code(self) -> str:
        """Return the registered code, the last part of the problem's ``type``."""
        return self.kind.code

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return self.kind.status

    @property
    def title(self) -> str:
        """Return the kind's fixed title."""
        return self.kind.title

    @property
    def remedy(self) -> str:
        """Return what to do: of a request that is not valid, which of its places to change."""
        errors = self.extras.get("errors")
        if self.code != "invalid-request" or not isinstance(errors, list) or not errors:
            return self.kind.remedy
        places = list(dict.fromkeys(str(error["field"]) for error in errors))
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        return (
            f"Change {', '.join(places[:_MOST_PLACES])}{more} as the message in `errors` says, and "
            "send the request again. Nothing was charged."
        )

    @property
    def retry_after_s(self) -> int | None:
        """Return the seconds after which to try again: this occurrence's own, or the kind's."""
        own = self.extras.get("retry_after")
        return own if isinstance(own, int) else self.kind.retry_after_s

    def inside(self, place: str) -> Problem:
        """Return an ``invalid-request`` whose fields are seen from one level further out."""
        if self.code != "invalid-request":
            return self
        errors = self.extras["errors"]
        moved = [
            {**error, "field": place if error["field"] == "body" else f"{place}.{error['field']}"}
            for error in (errors if isinstance(errors, list) else [])
        ]
        detail = f"{moved[0]['field']}: {moved[0]['message']}." if moved else self.detail
        return Problem(self.code, detail, errors=moved)


class BudgetExceededError(Problem):
    """A charge that an account does not cover, in whole units of that account.

    The ledger does not know whether its unit is epsilon or rho, so nothing here is
    text. The caller, who knows the account's unit, answers with a problem that names epsilons.
    """

    def __init__(self, *, requested: int, remaining: int, detail: str | None = None) -> None:
        super().__init__("budget-exceeded", detail)
        self.requested = requested
        self.remaining = remaining


def storage_problem() -> Problem:
    """Return the problem of a full disk, too few descriptors or too little memory."""
    return Problem("not-ready", "A disk is full or fails, or no file can be opened.")


def invalid_request(field_name: str, message: str) -> Problem:
    """Return an ``invalid-request`` that names one place in the request."""
    return invalid_requests([(field_name, message)])


def invalid_requests(faults: Sequence[tuple[str, str]]) -> Problem:
    """Return an ``invalid-request`` that names several places, and what is wrong at each."""
    field_name, message = faults[0]
    errors = [{"field": place, "message": words} for place, words in faults]
    return Problem("invalid-request", f"{field_name}: {message}.", errors=errors)
