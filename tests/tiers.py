"""How cases are run: those that `make test-wide` adds, and many quick ones as one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import pytest

Test = TypeVar("Test", bound=Callable[..., None])


def wide(*values: object) -> list[Any]:
    """Return values of a parameter, each a case of `make test-wide` alone."""
    return [pytest.param(value, marks=pytest.mark.wide) for value in values]


def in_one(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test with each of many quick cases, as one test: it names every case that fails.

    Thousands of tests that take less than their setting up are slower than they need be. It stands
    where ``pytest.mark.parametrize`` would; fixtures of functions are shared by all cases.
    """
    single = isinstance(names, str)
    taken = [names] if isinstance(names, str) else [*names]
    every = [(case,) if single else tuple(case) for case in cases]
    if not every:
        raise ValueError("no cases")

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for case in every:
                try:
                    test(**dict(zip(taken, case, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"{test.__name__}: {dict(zip(taken, case, strict=True))!r}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(every)} cases", failures)

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in taken]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        del run.__wrapped__  # type: ignore[attr-defined]  # pytest would ask for its fixtures
        return cast(Test, run)

    return decorate
