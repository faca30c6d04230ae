"""Serial and process executors: the same results in the same order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from app.domain.problems import DataUnreadableError
from app.engine.data import encoded_parts
from app.engine.executor import Executor, ProcessExecutor, SerialExecutor
from app.engine.schema import schema_of
from app.vault.vault import StoredPart, Vault
from mechanisms.contract import Block
from mechanisms.domain import exact
from mechanisms.sketches import Sketch
from tests.app.uploads import columns_spec, plain_data, sample_csv

COLUMNS = schema_of(columns_spec(), rows=None).columns


@pytest.fixture(name="parts", scope="module")
def _parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredPart, ...]:
    vault = Vault(tmp_path_factory.mktemp("vault"))
    with vault.writer("ds_1") as writer:
        for seed in range(7):
            writer.write(
                dict(plain_data(sample_csv(40 + seed, seed=seed), columns_spec()).values or {})
            )
        writer.finish({})
        vault.publish(writer)
    return vault.open("ds_1").parts


@pytest.fixture(name="processes", scope="module")
def _processes() -> Iterator[ProcessExecutor]:
    executor = ProcessExecutor(workers=2)
    yield executor
    executor.close()


def _first_and_rows(block: Block) -> tuple[int, int]:
    return int(block["income"][0]), len(block["income"])


def _process(block: Block) -> tuple[int, int]:
    return os.getpid(), len(block["income"])


def _die(block: Block) -> None:
    if len(block["income"]) == 43:
        os._exit(3)


def _raise(block: Block) -> None:
    raise ZeroDivisionError(len(block))


@pytest.mark.wide
def test_results_come_in_the_order_of_the_parts(
    parts: tuple[StoredPart, ...], processes: ProcessExecutor
) -> None:
    expected = [_first_and_rows(part.read(["income"])) for part in parts]
    for executor in (SerialExecutor(), processes):
        kept = executor.keep(parts, ["income"])
        assert list(executor.map(_first_and_rows, kept)) == expected
        assert list(executor.map(_first_and_rows, kept)) == expected


def test_sketches_are_the_same_bits_everywhere(
    parts: tuple[StoredPart, ...], processes: ProcessExecutor
) -> None:
    def sketch(executor: Executor) -> bytes:
        kept = executor.keep(encoded_parts(parts, COLUMNS), [exact(name) for name in COLUMNS])
        results = executor.map(partial(Sketch.from_block, columns=COLUMNS), kept)
        merged = reduce(Sketch.merge, results)
        arrays = [*chain(*merged.ordered.values()), *merged.categories.values()]
        return repr(merged.gram.tolist()).encode() + b"".join(map(np.ndarray.tobytes, arrays))

    assert sketch(SerialExecutor()) == sketch(processes)


def test_a_part_stays_with_its_worker(
    parts: tuple[StoredPart, ...], processes: ProcessExecutor
) -> None:
    kept = processes.keep(parts, ["income"])
    one = [process for process, _ in processes.map(_process, kept)]
    two = [process for process, _ in processes.map(_process, kept)]
    assert one == two
    assert len(set(one)) == 2


@pytest.mark.slow
def test_who_dies_again_and_again_fails_the_pass_and_the_next_one_works(
    parts: tuple[StoredPart, ...], processes: ProcessExecutor
) -> None:
    kept = processes.keep(parts, ["income"])
    with pytest.raises(DataUnreadableError):
        list(processes.map(_die, kept))
    assert len(list(processes.map(_first_and_rows, kept))) == len(parts)
    with pytest.raises(ZeroDivisionError):
        list(processes.map(_raise, kept))
    assert len(list(processes.map(_first_and_rows, kept))) == len(parts)


@dataclass(frozen=True)
class _Counted:
    """A part that notes each reading."""

    number: int
    note: Path

    def read(self, columns: Sequence[str]) -> Block:
        with self.note.open("a") as file:
            file.write(f"{self.number}\n")
        return {name: np.full(100, self.number, dtype=np.int32) for name in columns}


def test_kept_blocks_are_read_once_and_no_more_is_kept_than_fits(tmp_path: Path) -> None:
    note = tmp_path / "readings"
    parts = [_Counted(number, note) for number in range(4)]
    executor = SerialExecutor(keep_bytes=4 * 400)
    kept = executor.keep(parts, ["income"])
    for _ in range(3):
        assert [first for first, _ in executor.map(_first_and_rows, kept)] == [0, 1, 2, 3]
    assert note.read_text().split() == ["0", "1", "2", "3"]
    executor.close()
    list(executor.map(_first_and_rows, executor.keep([*parts, _Counted(4, note)], ["income"])))
    assert executor.blocks.nbytes == 4 * 400
