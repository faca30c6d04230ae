"""Ids: unguessable, and those of releases in the order of their seconds."""

from __future__ import annotations

import re

import pytest

from app.store import ids


def test_ids_of_releases_are_unique_and_begin_with_their_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    for second in (1_795_000_000, 1_795_000_001, 1_795_000_255):
        monkeypatch.setattr(ids.time, "time", lambda now=second: now + 0.75)
        batch = [*ids.release_ids(1000)]
        assert {name[4:12] for name in batch} == {f"{second:08x}"}
        made += sorted(batch)
    assert sorted(set(made)) == made
    assert all(re.fullmatch(r"rel_[0-9a-f]{32}", name) for name in made)
    assert {ids.shown(name) for name in made} == {*made}


def test_the_rest_of_an_id_is_random() -> None:
    bits = [f"{int(name[12:], 16):096b}" for name in ids.release_ids(2000)]
    ones = [sum(bit == "1" for bit in column) for column in zip(*bits, strict=True)]
    # 1,000 expected, standard deviation 22: eight of them at most, in 96 columns
    assert max(abs(number - 1000) for number in ones) < 180
