"""Ids: unguessable, and those of releases in the order of their making."""

from __future__ import annotations

import re

import pytest

from app.store import ids


def test_ids_of_releases_are_unique_and_begin_with_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    for second in (1_795_000_000, 1_795_000_001, 1_795_000_255):
        for ticks in (0, 1, 65535):
            monkeypatch.setattr(ids.time, "time", lambda now=second + ticks / 65536: now)
            batch = [*ids.release_ids(1000)]
            assert {name[4:16] for name in batch} == {f"{second:08x}{ticks:04x}"}
            made += sorted(batch)
    assert sorted(set(made)) == made
    assert all(re.fullmatch(r"rel_[0-9a-f]{32}", name) for name in made)
    assert {ids.shown(name) for name in made} == {*made}


def test_the_rest_of_an_id_is_random() -> None:
    bits = [f"{int(name[16:], 16):080b}" for name in ids.release_ids(2000)]
    ones = [sum(bit == "1" for bit in column) for column in zip(*bits, strict=True)]
    # 1,000 expected, standard deviation 22: eight of them at most, in 80 columns
    assert max(abs(number - 1000) for number in ones) < 180
