"""The line that shows how far something is: where somebody looks, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.client.models import Release
from app.client.questions import Line, Progress, Reading, Sending, expected_words
from tests.app.terminals import looked_at, until_told

JOB = {"deadline_s": 16, "expected_s": 2}


def _running(**more: object) -> Release:
    told = {"id": "rel_1", "dataset": "ds_1", "status": "running", "epsilon": "1", **more}
    return Release.model_validate(told)


def test_a_job_is_told_with_what_it_is_expected_to_take() -> None:
    with looked_at() as terminal, Progress() as progress:
        progress(_running(job=JOB), 4.0)
        progress(_running(job={"deadline_s": 16, "expected_s": None}), 4.0)
        progress(_running(), 4.0)
    full, unforeseen, plain, gone = terminal.told.split("\r")[1:]
    shown = "shown N s after the charge or at a doubling of that"
    assert f"running: N s (drawn in about N s, {shown}), looking again in N s" in full
    assert f"running: N s ({shown}), looking again" in unforeseen
    assert "running: N s, looking again" in plain
    assert gone.removeprefix("\x1b[K") == ""
    assert expected_words(JOB).startswith("drawn in about 2 s, shown 16 s")
    assert expected_words(None) == ""


def test_a_file_is_told_by_bytes_and_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(bytes(4_000_000))
    with looked_at() as terminal:
        with Reading(path) as reading:
            reading(1_200_000, 1_000_000)
        assert "rows.csv: [#####...............] 1 of 4 MB, 1,200,000 rows, N s" in terminal.told
        with Reading(path) as reading:
            reading(7, None)
        assert "rows.csv: 7 rows, N s" in terminal.told


def test_a_file_that_is_sent_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(bytes(3_000_000))
    with looked_at() as terminal:
        with path.open("rb") as stream, Sending(path, stream) as sending:
            sending.read(2_000_000)
            assert "[#############.......] 2 of 3 MB sent" in terminal.told
            sending.read(2_000_000)
            until_told(terminal, "rows.csv is sent; the service reads it")
            assert sending.seek(0) == 0  # it is sent once more
            sending.read()
            assert sending.read() == b""
        assert terminal.told.endswith("\r\x1b[K")


def test_nobody_is_told_who_does_not_look(capsys: pytest.CaptureFixture[str]) -> None:
    with Line() as line:
        line.keep_saying("the service reads it")
        line.say("now")
        assert not line.is_due
    assert capsys.readouterr() == ("", "")
