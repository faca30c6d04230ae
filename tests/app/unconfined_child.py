"""The negative control of :mod:`tests.app.confined_child`: it tries the same, not confined."""

from tests.app import confined_child

work = confined_child.work
