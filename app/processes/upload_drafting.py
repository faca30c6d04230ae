"""Drafts of uploads, made by the confined process that reads uploads.

A file and a dictionary are hostile until they have been read, so both are read where a decoder that
is taken over finds no network, no file to write and little memory. What comes back is checked, and
shown to the curator alone whose file it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from app.domain.problems import Problem, invalid_request
from app.processes.channel import Message, problem_of, receive
from app.processes.upload_reading import SHARED
from app.uploads.drafting.drafts import Draft, DraftingTask, draft_in
from app.uploads.trouble import UNREADABLE, Limits

_PATIENCE_S = 60.0
_REFUSALS = ("invalid-request", "too-large")


class DraftingProcesses:
    """Drafts specs, each in a process of its own. Any number of threads may use it.

    Parameters
    ----------
    limits
        What a file may cost.
    scratch
        Where a file without a descriptor is copied to.
    """

    def __init__(self, *, limits: Limits, scratch: Path) -> None:
        self._limits = limits
        self._scratch = scratch

    def draft(self, file: BinaryIO, name: str, dictionary: bytes = b"") -> Draft:
        """Return the draft of a file, by its first megabyte and a dictionary.

        Raises
        ------
        Problem
            ``invalid-request``, about ``file`` or ``dictionary``; ``too-large``.
        """
        task = DraftingTask(name=name, limits=self._limits, dictionary=dictionary)
        try:
            with SHARED.reading(file, task, scratch=self._scratch) as channel:
                message, body = receive(channel, _PATIENCE_S)
            if message is Message.OUTCOME:
                return draft_in(bytes(body))
            if message is Message.PROBLEM:
                problem = problem_of(bytes(body))
                if problem.code in _REFUSALS:
                    raise problem
        except Problem:
            raise
        except (EOFError, OSError, ValueError, KeyError, TypeError):
            pass  # it was stopped by its limits mostly
        raise invalid_request("file", UNREADABLE)
