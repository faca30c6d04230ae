"""The same people in another file, by the keyed digests of their ids: exactly, and nothing else."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pytest

from app.domain.overlap import OTHERS, OWN
from app.uploads.row_digests import MalformedError, Newcomer, RowDigests, tables_overlap
from app.vault.vault import Vault
from tests.app.people import csv_of, people_spec
from tests.app.uploads import DataHere

KEY = bytes(range(32))


def digests(
    directory: Path, ids: Iterable[object], *, factor: float, most: int = 2, key: bytes = KEY
) -> RowDigests:
    """The digests of a file of these people, with two rows each and cells of its own."""
    rows = [(name, place * factor % 97) for place, name in enumerate([*ids] * 2)]
    engine = DataHere(Vault(directory / str(factor)), lineage_key=key)
    stored = engine.store("ds_1", io.BytesIO(csv_of(rows)), people_spec({"max_rows": most}))
    assert stored.digests is not None
    assert b"P11" not in stored.digests
    found = RowDigests.from_bytes(stored.digests)
    assert found.to_bytes() == stored.digests
    with pytest.raises(MalformedError):
        RowDigests.from_bytes(stored.digests[:-8])
    return found


def names(start: int, end: int) -> list[str]:
    return [f"P{number}" for number in range(start, end)]


def test_the_same_ids_are_the_same_people_whatever_else_is_there(tmp_path: Path) -> None:
    """A tenth of the smaller file's people is enough; other ids or another key are no one known."""
    first = digests(tmp_path, names(0, 200), factor=1.37)
    assert first.people is not None
    assert len(first.people.digests) == 200
    some = digests(tmp_path, [*names(180, 200), *names(500, 600)], factor=2.71, most=1)
    few = digests(tmp_path, [*names(195, 200), *names(600, 700)], factor=3.13)
    others = digests(tmp_path, names(800, 1000), factor=5.77)
    assert tables_overlap(some, first)
    assert tables_overlap(first, some)
    assert not tables_overlap(few, first)
    assert not tables_overlap(others, first)
    foreign = digests(tmp_path, names(0, 200), factor=7.39, key=bytes(32))
    assert not tables_overlap(foreign, first)


def test_running_numbers_are_ids_like_any_other(tmp_path: Path) -> None:
    """No chance is discounted: nothing says that they number other people."""
    first = digests(tmp_path, range(1, 101), factor=1.37)
    assert tables_overlap(digests(tmp_path, range(1, 101), factor=2.71), first)


def test_few_people_are_not_told_of_with_the_data_of_others(tmp_path: Path) -> None:
    first = digests(tmp_path, names(0, 100), factor=1.37)
    few = Newcomer(digests(tmp_path, names(0, 10), factor=2.71))
    assert few.overlaps(first, OWN)
    assert not few.overlaps(first, OTHERS)


def test_rows_without_an_id_are_nobody_who_is_known(tmp_path: Path) -> None:
    first = digests(tmp_path, [None] * 60, factor=1.37)
    assert first.people is not None
    assert first.people.rows == 0
    assert not tables_overlap(digests(tmp_path, [None] * 60, factor=2.71), first)
