"""A value of an object that is computed once, without blocking other objects.

``functools.cached_property`` of Python 3.11 holds one lock for all objects of a class while one of
them computes its value. Draws in several threads could deadlock: one thread holds that lock and
waits for the working precision of the process (:mod:`mechanisms.exact.floats`), another holds the
precision and waits for the lock. This decorator has no lock. Two threads that read the value at
the same time may both compute it, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as once  # noqa: TID251
else:

    class _Once:
        """The value of a function, stored in its object under the function's name."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self._name = function.__name__
            self.__doc__ = function.__doc__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Return the value; from then on it is an attribute of the object."""
            if instance is None:
                return self
            # No data descriptor: what is in the object's dictionary is found before this.
            value = instance.__dict__[self._name] = self._function(instance)
            return value

    once = _Once

__all__ = ["once"]
