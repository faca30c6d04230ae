"""Failures that every layer may meet and that are no problem document of their own."""

from __future__ import annotations

import errno


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
