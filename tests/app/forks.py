"""What processes a test has had forked, and not those of other tests' servers in its process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from app.engine.forking import Forks


@contextmanager
def own_host(module: ModuleType) -> Iterator[None]:
    """Have a module's processes forked from a host that nobody else uses."""
    with pytest.MonkeyPatch.context() as patch:
        others = module._FORKS
        own = Forks(others.module, quiet=others.quiet, spare=others.spare)
        patch.setattr(module, "_FORKS", own)
        yield
        module._FORKS.close()


def forked(module: ModuleType) -> list[int]:
    """Return the processes that a module's host has forked and that are still there."""
    return children_of(module._FORKS._host().process.pid)


def children_of(process: int) -> list[int]:
    """Return the processes that the main thread of a process has begun."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in listed.split()]


def wait(condition: Callable[[], object], patience_s: float = 30) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)
