"""Settings shared by the tests of the mechanisms."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)  # a busy machine is not a failure
settings.load_profile("patient")
