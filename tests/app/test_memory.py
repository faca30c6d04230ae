"""Server processes keep their code and routes out of the garbage collector's passes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import application


@pytest.fixture
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("collector")
def test_a_pass_looks_at_little_once_the_application_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_DESK_DATA_DIR", str(tmp_path))
    gc.collect()  # what earlier tests of this process have left is none of it
    built = len(gc.get_objects())
    application()
    assert gc.get_freeze_count() > built / 2
    assert len(gc.get_objects()) < built / 20
