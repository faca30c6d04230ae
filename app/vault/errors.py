"""What the vault may fail with. Messages name files, never contents.

``VaultError``
    ``AbsentError``: there is no such data set.
    ``OutdatedError``: it was stored by an earlier version, which is not read any more.
    ``TamperedError``: a file is gone, or is not the one that was stored.
    ``UnreadableError``: a file is there, and the system does not give its bytes now.
"""

from __future__ import annotations

from app.domain.errors import DataUnreadableError


class VaultError(DataUnreadableError):
    """The vault cannot give what was asked; the message names files, never contents."""


class AbsentError(VaultError):
    """There is no such data set, or none any more."""


class OutdatedError(VaultError):
    """It was stored in a form of an earlier version."""


class TamperedError(VaultError):
    """A file is gone, or its bytes are not those that were published."""


class UnreadableError(VaultError):
    """The system does not open or read a file: no descriptor or memory is left, or a disk fails.

    It says nothing of the file, and may be over soon.
    """


def trouble_of(name: str, error: OSError | MemoryError) -> VaultError:
    """Return what has to be said of a stored file that could not be read."""
    gone = isinstance(error, FileNotFoundError | NotADirectoryError)
    return (TamperedError if gone else UnreadableError)(f"{name} cannot be read")
