"""How cases are run: those that `make test-wide` adds, and many quick ones as one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

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
            _run_each(test, [dict(zip(taken, case, strict=True)) for case in every], fixtures)

        return _with_parameters(run, test, without=taken)

    return decorate


def in_groups(
    name: str, group_of: Callable[[Any], str], cases: Iterable[Any], *, further: Iterable[Any] = ()
) -> Callable[[Test], Test]:
    """Run a test with each case, as one test a group; of further cases, one of `make test-wide`.

    Like :func:`in_one`, where ``-k`` is to find the cases of one kind.
    """
    groups = [
        pytest.param(group, id=label + suffix, marks=marks)
        for suffix, some, marks in (("", cases, []), ("-further", further, [pytest.mark.wide]))
        for label, group in _by_label(some, group_of).items()
    ]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            _run_each(test, [{name: case} for case in fixtures.pop(name)], fixtures)

        return pytest.mark.parametrize(name, groups)(_with_parameters(run, test, without=()))

    return decorate


def _by_label(cases: Iterable[Any], group_of: Callable[[Any], str]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for case in cases:
        groups.setdefault(group_of(case), []).append(case)
    return groups


def _run_each(
    test: Callable[..., None], cases: Sequence[dict[str, Any]], fixtures: dict[str, Any]
) -> None:
    failures: list[BaseException] = []
    for case in cases:
        try:
            test(**case, **fixtures)
        except (Exception, pytest.fail.Exception) as failure:
            shown = ", ".join(f"{name}={str(value)[:200]}" for name, value in case.items())
            failure.add_note(f"{getattr(test, '__name__', test)}: {shown}")
            failures.append(failure)
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} cases", failures)


def _with_parameters(
    run: Callable[..., None], test: Callable[..., None], *, without: Sequence[str]
) -> Any:
    """Return a function that asks pytest for the fixtures of another, but for those without."""
    signature = inspect.signature(test)
    left = [each for name, each in signature.parameters.items() if name not in without]
    run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]  # pytest would ask for its fixtures
    return run
