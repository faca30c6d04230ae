"""Ids: unguessable, and those of releases next to their neighbours in an index."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import groupby

from app.store.ledger import records


def test_ids_of_releases_are_unique_and_neighbours_begin_alike() -> None:
    made = [name for first in (1, 1001, 2001) for name in records.release_ids(first, 1000)]
    begins = [name[4:12] for name in made]
    # numbers 1 to 255, then 256 each
    assert [len([*group]) for _, group in groupby(begins)] == [255, *[256] * 10, 185]
    assert len(set(begins)) == 12
    assert len(set(made)) == len({name[12:] for name in made}) == 3000
    assert all(re.fullmatch(r"rel_[0-9a-f]{32}", name) for name in made)
    assert {records.shown(name) for name in made} == {*made}


def test_an_id_tells_neither_how_many_came_before_nor_when() -> None:
    """What neighbours begin with is as random as the rest, and another process's is another."""
    begins = [records.release_ids(256 * group)[0][4:12] for group in range(4096)]
    assert begins != sorted(begins)
    bits = [f"{int(begin, 16):032b}" for begin in begins]
    ones = [sum(bit == "1" for bit in column) for column in zip(*bits, strict=True)]
    # 2,048 expected, standard deviation 32: eight of them at most, in 32 columns
    assert max(abs(number - 2048) for number in ones) < 256
    reported = "from app.store.ledger import records; print(records.release_ids(0)[0][4:12])"
    other = subprocess.run(
        [sys.executable, "-c", reported], capture_output=True, check=True, text=True
    )
    assert other.stdout.strip() != begins[0]


def test_the_rest_of_an_id_is_random() -> None:
    bits = [f"{int(name[12:], 16):096b}" for name in records.release_ids(1, 2000)]
    ones = [sum(bit == "1" for bit in column) for column in zip(*bits, strict=True)]
    # 1,000 expected, standard deviation 22: eight of them at most, in 96 columns
    assert max(abs(number - 1000) for number in ones) < 180
