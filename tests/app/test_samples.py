"""Samples and digests do not depend on how rows come: in blocks of any size, in runs of any."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from app.domain.datasets import parse_columns
from app.uploads.prf import Prf
from app.uploads.row_digests import RowDigester
from app.uploads.samples import Prefilter, Sampler
from mechanisms.privacy import Adjacency
from tests.tiers import in_one

KEEP = 64
KEY = bytes(range(32))


def _digests(rows: int) -> NDArray[np.uint64]:
    """Return digests of which some come twice and some are of rows without cells."""
    found = np.random.default_rng(rows).integers(1, 2**64, rows, dtype=np.uint64)
    found[::7] = 0
    found[1::5] = found[: len(found[1::5])]
    return found


@pytest.mark.parametrize("block", [1, 63, 1000, 5000])
def test_a_sample_holds_the_smallest_digests_with_all_their_twins(block: int) -> None:
    digests = _digests(5000)
    sampler = Sampler(KEEP, patient=True)
    for start in range(0, len(digests), block):
        sampler.add(digests[start : start + block])
    sample = sampler.sample()
    assert sample is not None
    smallest, counts = np.unique(digests[digests != 0], return_counts=True)
    assert sample.digests.tolist() == smallest[:KEEP].tolist()
    assert sample.limit == int(smallest[KEEP])
    assert sample.rows == np.count_nonzero(digests)
    twins = counts[:KEEP]
    assert sample.repeated == twins[twins > 1].sum() / twins.sum()


def test_samplers_behind_a_sieve_see_the_sums_that_they_want_and_every_row() -> None:
    """Carries, halves and what is left of the whole; sums of high digests that are low."""
    rows, columns = 60_000, 7
    cells = np.random.default_rng(9).integers(1, 2**64, (columns, rows), dtype=np.uint64)
    cells[:, ::11] = 0
    cells[3, 1::5] = cells[3, 0]
    cells[1::2, 2::3] = -cells[::2, 2::3][:3]  # the sum of all seven is that of one
    sets = [range(columns), [0], [2, 1], [0, 2, 3, 4, 5, 6], [1, 3, 5], [0, 2, 4, 6], [4, 3, 2, 0]]
    plain, behind, paired = ([Sampler(KEEP, patient=True) for _ in sets] for _ in range(3))
    prefilter = Prefilter(columns, [*zip(behind, sets, strict=True)])
    turned = [[columns - 1 - place for place in own] for own in sets]
    other_way = Prefilter(columns, [*zip(paired, turned, strict=True)])
    for block in np.split(cells, [*range(1_000, 20_000, 1_000), 40_000], axis=1):
        digests = [*block]
        prefilter.add(digests)
        other_way.add(digests[::-1])
        for sampler, own in zip(plain, sets, strict=True):
            sampler.add(block[list(own)].sum(axis=0))
        # which has each settle: what comes next must be below the limit of all until now
        for one, *others in zip(plain, behind, paired, strict=True):
            expected = one.sample()
            assert expected is not None
            for other in others:
                found = other.sample()
                assert found is not None
                assert found.facts() == expected.facts()
                assert found.digests.tolist() == expected.digests.tolist()


@pytest.mark.wide
def test_digests_are_the_same_bytes_in_every_process() -> None:
    """Sets of names come in another order in each."""
    made = """
import numpy as np
from app.domain.datasets import parse_columns
from app.uploads.row_digests import RowDigester
from mechanisms.privacy import Adjacency

names = [f"c{place}" for place in range(12)]
number = {"type": "number", "lower": 0, "upper": 9}
spec = parse_columns(dict.fromkeys(names, number), adjacency=Adjacency.REPLACE_ONE, max_rows=None)
digester, values = RowDigester(bytes(32), spec), np.arange(50.0)
digester.add({name: (values / (3 + place), None) for place, name in enumerate(names)})
print(digester.finish().to_bytes().hex())
"""
    reported = {
        subprocess.run(
            [sys.executable, "-c", made],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(reported) == 1


@pytest.mark.parametrize("rows", [7, 300, 1_999])
def test_digests_do_not_tell_how_rows_were_cut(rows: int) -> None:
    columns = {name: {"type": "number", "lower": 0, "upper": 9} for name in "ab"}
    spec = parse_columns(columns, adjacency=Adjacency.REPLACE_ONE, max_rows=None)
    values = {"a": np.arange(2_000) / 7, "b": np.arange(2_000) % 700 / 3}

    def digested(size: int) -> bytes:
        digester = RowDigester(KEY, spec)
        for start in range(0, 2_000, size):
            some = {name: each[start : start + size] for name, each in values.items()}
            digester.add({name: (each, None) for name, each in some.items()})
        return digester.finish().to_bytes()

    assert digested(rows) == digested(2_000)


def test_digests_of_numbers_are_those_of_earlier_versions() -> None:
    """Pinned: digests that are kept on disk were made by them."""
    numbers = np.concatenate([np.arange(20_000) / 8, -np.arange(5.0), [2.0**60, 1e300, 0.1]])
    found = Prf(KEY).of_numbers(numbers)
    for at in (0, 8191, 8192, len(numbers) - 1):
        assert Prf(KEY).of_numbers(numbers[at : at + 1]).tolist() == [found[at]]
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == "15094fb0849d1732"


@in_one("neighbours", [[], [0.5], [3.0], [0.5, 3.0, 2.0**60]])
@in_one(
    ("number", "same"),
    [
        (-0.0, 0.0),
        (-1e-50, 0.0),
        (1e-50, 0.0),
        (1e300, np.inf),
        (0.1, float(np.float32(0.1))),
        (2.0**24 + 0.25, 2.0**24),
        # the first that a 32-bit float does not hold, at either end
        (2.0**24 + 1, 2.0**24 + 1),
        (-(2.0**24) - 1, -(2.0**24) - 1),
    ],
)
def test_a_number_has_one_digest_whatever_its_neighbours_are(
    number: float, same: float, neighbours: list[float]
) -> None:
    """Runs of whole, of broken and of mixed numbers are read in ways of their own."""
    [found, *_] = Prf(KEY).of_numbers(np.array([number, *neighbours]))
    plain = np.array([same]).view(np.uint64)
    block = np.array([plain[0], 0], dtype=np.uint64).tobytes()
    sealed = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor().update(block)
    assert int(found) == int.from_bytes(sealed[:8], "little")
