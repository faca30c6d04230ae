"""The coverage study: every setting is one that the service answers, with intervals."""

from __future__ import annotations

from studies.coverage import SETTINGS, Setting, measured
from tests.tiers import in_one


@in_one("setting", SETTINGS)
def test_a_setting_is_measured(setting: Setting) -> None:
    """A study that asks what is no longer offered ends in the middle of its table."""
    row = measured(setting, replicates=2, seed=1)
    assert 0 <= row.coverage <= 1
    assert row.width > 0
    assert 0 <= row.open_share <= 1
