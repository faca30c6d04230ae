"""A value of an object that is worked out once, and holds nobody up meanwhile.

``functools.cached_property`` of Python 3.11 holds one lock for all objects of a class while one of
them works its value out. Draws of several threads would not only wait for one another there. They
would wait for ever: one thread holds that lock and wants the working precision of the process
(:mod:`mechanisms.exact.rounding`), the other has the precision and wants the lock. Here is no lock.
Two threads that ask at once may both work, for the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as once  # noqa: TID251
else:

    class _Once:
        """The value under a function's name, which is kept in its object."""

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
