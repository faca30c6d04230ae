"""What an upload's comparison costs with more and more earlier data sets.

    python -m studies.growth [--sets 50 1000 10000]

prints the CPU time of comparing one upload with so many data sets of 400 other people each. Incomes
differ; ages, regions and yes-or-no values are the same in all files, as they would be in surveys of
one office. Digests are written and indexed as the service does, in a folder that is deleted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

from app.domain.columns import BooleanSpec, CategorySpec, NumberSpec
from app.domain.datasets import ColumnsSpec
from app.services.datasets.comparing import Digested, bring_up_to_date, compare
from app.uploads.ingest import ingest
from app.uploads.row_digests import RowDigester
from app.vault.lineage import LineageFiles, Origin
from mechanisms.privacy import Adjacency

PEOPLE = 400
REGIONS = ("north", "south", "east", "west")
SPEC = ColumnsSpec(
    columns={
        "income": NumberSpec(lower=Fraction(0), upper=Fraction(5000)),
        "age": NumberSpec(lower=Fraction(0), upper=Fraction(100), kind="integer"),
        "region": CategorySpec(values=REGIONS),
        "owner": BooleanSpec(),
    },
    adjacency=Adjacency.REPLACE_ONE,
    max_rows=None,
)
_UPLOADS = 5
_AT_ONCE = 32


def digests_of(seed: int, key: bytes) -> bytes:
    """Return the digests of a file of people, as they are stored."""
    made = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "income": made.uniform(0, 5000, PEOPLE).round(2),
            "age": made.integers(0, 100, PEOPLE),
            "region": made.choice(REGIONS, PEOPLE),
            "owner": made.integers(0, 2, PEOPLE),
        }
    )
    digester = RowDigester(key, SPEC)
    with tempfile.TemporaryFile() as file:
        frame.write_parquet(file)
        file.seek(0)
        for _ in ingest(file, SPEC, digester=digester):
            pass
    return digester.finish().to_bytes()


def growth(folder: Path, sizes: list[int]) -> Iterator[tuple[int, float]]:
    """Yield how many data sets there are, and the mean CPU time of a comparison, in seconds."""
    files = LineageFiles(folder)
    files.directory.mkdir()
    key, origin = files.key(), Origin(account="acc_study", adjacency="replace_one", delta=None)
    earlier: list[Digested] = []

    def keep(seed: int) -> Digested:
        name = f"ds_{seed}"
        return Digested(name, files.keep(name, digests_of(seed, key), origin), account=name)

    uploads = [keep(10**9 + place) for place in range(_UPLOADS)]
    for size in sizes:
        while len(earlier) < size:
            some = range(len(earlier), min(len(earlier) + _AT_ONCE, size))
            earlier += map(keep, some)
            bring_up_to_date(files, earlier)
        begun = time.process_time()
        for upload in uploads:
            assert compare(files, upload, earlier).found is None
        yield size, (time.process_time() - begun) / len(uploads)


def main() -> None:
    """Print a line for each number of data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, nargs="+", default=[50, 1_000, 10_000])
    with tempfile.TemporaryDirectory() as name:
        for size, seconds in growth(Path(name), sorted(parser.parse_args().sets)):
            sys.stdout.write(
                f"{size:,} data sets: {1000 * seconds:.1f} ms of CPU time for a comparison\n"
            )


if __name__ == "__main__":
    main()
