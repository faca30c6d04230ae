"""Storing processes: the same files as within the server, and nothing when one is lost."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from app.domain.problems import Problem, ProcessLostError, StoppedError
from app.processes import uploads as upload_processes
from app.processes.upload_reading import SHARED
from app.processes.uploads import StoringProcesses
from app.services.datasets.comparing import Digested, Verdict, compare
from app.uploads.row_digests import RowDigests
from app.uploads.storing import Stop
from app.uploads.trouble import Limits
from app.vault.lineage import LineageFiles, Origin
from app.vault.vault import ATTACHED, Vault
from tests.app.forks import Starved, forked, no_time_left, own_host, wait
from tests.app.uploads import SENTINEL, DataHere, columns_spec, sample_csv
from tests.speed import PATIENCE_S
from tests.tiers import wide

KEY = bytes(range(32))
ORIGIN = Origin(account="acc_1", adjacency="replace_one", delta=None)
NUMBER = columns_spec({"x": {"type": "number", "lower": 0, "upper": 2}})
LONG = b"x\n" + b"1\n" * 3_000_000


@pytest.fixture(autouse=True, scope="module")
def host() -> Iterator[None]:
    with own_host(upload_processes):
        yield


@pytest.fixture(autouse=True)
def alone(host: None) -> None:
    """Wait until the last test's processes have left."""
    del host
    wait(lambda: not forked(upload_processes))


@pytest.fixture
def storing(tmp_path: Path) -> Iterator[StoringProcesses]:
    found = processes(tmp_path)
    yield found
    found.close()


def processes(directory: Path, *, memory_bytes: int = 1 << 31) -> StoringProcesses:
    return StoringProcesses(data_dir=directory, memory_bytes=memory_bytes, log_level="error")


def engine(directory: Path, storing: StoringProcesses | None, **limits: Any) -> DataHere:
    chosen = Limits(**limits)
    return DataHere(Vault(directory), limits=chosen, lineage_key=KEY, storing=storing)


def files_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def storing_process() -> int:
    """Wait for the one process that stores, and return its id."""
    wait(lambda: forked(upload_processes))
    (process,) = forked(upload_processes)
    return process


class Upload(threading.Thread):
    """A long upload under way, and what became of it."""

    def __init__(self, data: DataHere, stop: Stop | None = None) -> None:
        super().__init__()
        self._data = data
        self._given_up = stop
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._data.store("ds_1", io.BytesIO(LONG), NUMBER, self._given_up)
        except Exception as error:
            self.failure = error


def test_what_is_stored_is_the_same_as_here(tmp_path: Path, storing: StoringProcesses) -> None:
    content, spec = sample_csv(300).encode(), columns_spec()
    here = engine(tmp_path / "here", None)
    there = engine(tmp_path / "there", storing)
    one = here.store("ds_1", io.BytesIO(content), spec)
    other = there.store("ds_1", io.BytesIO(content), spec)
    assert one == other
    assert RowDigests.from_bytes(other.digests or b"").kept
    found = [
        {path.name: path.read_bytes() for path in files_below(tmp_path / place)}
        for place in ("here", "there")
    ]
    assert found[0] == found[1]
    there.check("ds_1")


STORED = """
import io, sys
from pathlib import Path
import app.processes.upload_reader, app.processes.uploads
from tests.app.uploads import DataHere, Vault, columns_spec, sample_csv
content, spec = sample_csv(300).encode(), columns_spec()
loaded = set(sys.modules)
data = DataHere(Vault(Path(sys.argv[1])), lineage_key=bytes(32))
data.store("ds_1", io.BytesIO(content), spec)
print(*sorted(set(sys.modules) - loaded))
"""


def test_processes_load_nothing_that_their_hosts_have_not(tmp_path: Path) -> None:
    """What is loaded after a process has been forked is loaded again for every upload."""
    command = [sys.executable, "-c", STORED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["polars._utils.parquet"], "a small one, and not for us to name"


def test_a_parquet_file_may_be_longer_than_the_memory(
    tmp_path: Path, storing: StoringProcesses
) -> None:
    """Between its pages and its footer is a hole, which takes no room on the disk."""
    path = tmp_path / "long.parquet"
    pl.DataFrame({"x": [1.0, 2.0] * 20}).write_parquet(path, row_group_size=4)
    whole = path.read_bytes()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    with path.open("r+b") as file:
        file.seek(4_200_000_000)
        file.write(whole[start:])
    with path.open("rb") as file:
        stored = engine(tmp_path, storing).store("ds_long", file, NUMBER)
    assert stored.rows == 40


def test_refusals_are_the_same_as_here(tmp_path: Path, storing: StoringProcesses) -> None:
    there = engine(tmp_path, storing, max_upload_rows=10)
    spec = columns_spec()
    for content in (f"income,region,owner\n{SENTINEL},north,1\n".encode(), sample_csv(20).encode()):
        reported = []
        for data in (there, engine(tmp_path / "here", None, max_upload_rows=10)):
            with pytest.raises(Problem) as refusal:
                data.store("ds_1", io.BytesIO(content), spec)
            reported.append((refusal.value.code, refusal.value.detail, refusal.value.extras))
        assert reported[0] == reported[1]
        assert SENTINEL not in str(reported)
    assert files_below(tmp_path) == []


def test_a_storing_process_that_is_killed_leaves_nothing(
    tmp_path: Path, storing: StoringProcesses
) -> None:
    data = engine(tmp_path, storing)
    upload = Upload(data)
    upload.start()
    process = storing_process()
    wait(lambda: list(tmp_path.glob("staging/*/part-*")))
    assert os.getpriority(os.PRIO_PROCESS, process) == os.getpriority(os.PRIO_PROCESS, 0) + 5
    assert (
        f"Max address space         {(1 << 31) + (1 << 29)}"
        in Path(f"/proc/{process}/limits").read_text()
    )
    assert Path(f"/proc/{process}/oom_score_adj").read_text().strip() == "500"
    os.kill(process, signal.SIGKILL)
    upload.join()
    assert isinstance(upload.failure, ProcessLostError)
    assert list((tmp_path / "staging").iterdir()) == files_below(tmp_path) == []
    assert data.store("ds_1", io.BytesIO(b"x\n1\n"), NUMBER).rows == 1


def test_an_upload_that_is_given_up_leaves_nothing(
    tmp_path: Path, storing: StoringProcesses
) -> None:
    data, stop = engine(tmp_path, storing), Stop()
    upload = Upload(data, stop)
    upload.start()
    wait(lambda: list(tmp_path.glob("staging/*/part-*")))
    stop.ask()
    upload.join()
    assert isinstance(upload.failure, StoppedError)
    assert list((tmp_path / "staging").iterdir()) == files_below(tmp_path) == []
    late = Upload(data, stop)
    late.run()
    assert isinstance(late.failure, StoppedError), "nothing is begun any more"
    assert data.store("ds_1", io.BytesIO(b"x\n1\n"), NUMBER).rows == 1


@pytest.mark.wide
def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    storing = processes(tmp_path)
    upload = Upload(engine(tmp_path, storing))
    upload.start()
    process = storing_process()
    wait(lambda: list(tmp_path.glob("staging/*/part-*")))
    storing.close()
    upload.join(PATIENCE_S)
    assert isinstance(upload.failure, ProcessLostError)
    wait(lambda: not Path(f"/proc/{process}").exists(), 5)
    assert files_below(tmp_path) == []
    with pytest.raises(ProcessLostError, match="any more"):
        engine(tmp_path, storing).store("ds_1", io.BytesIO(b"x\n1\n"), NUMBER)


def test_a_storing_process_that_fails_says_where_and_not_what(
    tmp_path: Path, storing: StoringProcesses, capfd: pytest.CaptureFixture[str]
) -> None:
    upload_processes.FORKS.close()  # the next host writes to what is captured now
    vault = Vault(tmp_path)
    with vault.writer("ds_1") as writer:
        (writer.directory / "part-00000.parquet").write_text(SENTINEL)  # in the way
        data = DataHere(_Given(writer), storing=storing)
        with pytest.raises(ProcessLostError, match="failed"):
            data.store("ds_1", io.BytesIO(b"x\n1\n"), NUMBER)
    upload_processes.FORKS.close()
    line = json.loads(capfd.readouterr().err)
    assert (line["event"], line["failure"]) == ("upload failed", "FileExistsError")
    assert line["dataset"] == "ds_1"
    assert any(frame.startswith("vault.py") for frame in line["where"])
    assert line["path"].endswith("part-00000.parquet"), "a file of the service's own"
    assert SENTINEL not in json.dumps(line)


class _Given:
    """A vault that has nothing but one writer."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def writer(self, dataset_id: str) -> Any:
        from contextlib import nullcontext

        return nullcontext(self._writer)

    def publish(self, writer: Any) -> None:
        raise AssertionError("there is nothing to publish")

    open = erase = publish


def test_an_upload_that_gets_no_time_is_begun_again(
    tmp_path: Path, storing: StoringProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave_files() -> None:
        (directory,) = tmp_path.glob("staging/*")
        for name in (ATTACHED, "part-00000.parquet"):
            (directory / name).write_bytes(b"half of a file")

    readers, order = [], SHARED.forks.order

    def ordered(*descriptors: int, spare: bool) -> None:
        readers.append(spare)
        order(*descriptors, spare=spare)

    monkeypatch.setattr(SHARED.forks, "order", ordered)
    starved = Starved(left=leave_files)
    starved.put(monkeypatch)
    data = engine(tmp_path, storing)
    assert data.store("ds_1", io.BytesIO(sample_csv(300).encode()), columns_spec()).rows
    assert starved.asked == readers == [True, False]
    data.check("ds_1")
    assert list((tmp_path / "staging").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("starving", ["both", *wide("reader")])
def test_an_upload_is_stored_where_there_is_no_spare_time(
    tmp_path: Path, storing: StoringProcesses, monkeypatch: pytest.MonkeyPatch, starving: str
) -> None:
    all_forks = [SHARED.forks, *([upload_processes.FORKS] if starving == "both" else [])]
    for forks in all_forks:
        monkeypatch.setattr(forks, "steady", False)
        forks.close()  # the next host shares the core
    data = engine(tmp_path, storing)
    with no_time_left():
        assert data.store("ds_1", io.BytesIO(LONG), NUMBER).rows == 3_000_000
    assert storing._crew._none_until > 0
    for forks in all_forks:
        forks.close()
    data.check("ds_1")


def test_memory_runs_out(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(6_000)]  # a Gram matrix of 550 MB
    spec = columns_spec({name: {"type": "boolean"} for name in names})
    content = ",".join(names) + "\n" + ",".join("1" * len(names)) + "\n"
    data = DataHere(Vault(tmp_path), storing=processes(tmp_path, memory_bytes=1 << 29))
    with pytest.raises(ProcessLostError, match="failed"):
        data.store("ds_1", io.BytesIO(content.encode()), spec)
    assert files_below(tmp_path) == []


def test_comparing_is_the_same_as_here(tmp_path: Path, storing: StoringProcesses) -> None:
    files = LineageFiles(tmp_path)
    data, kept = engine(tmp_path, storing), {}
    for name, seed in (("a", 1), ("b", 2), ("b again", 2), ("c", 3)):
        content = io.BytesIO(sample_csv(200, seed=seed).encode())
        digests = data.store(f"ds_{name[0]}{len(kept)}", content, columns_spec()).digests
        assert digests is not None
        dataset = f"ds_{name.replace(' ', '_')}"
        kept[name] = Digested(dataset, files.keep(dataset, digests, ORIGIN))
    new = kept.pop("b again")
    unlike = Digested("ds_c", "0" * 64)
    for earlier in ([kept["a"]], list(kept.values()), [unlike, kept["b"]], [unlike]):
        verdict = storing.compare(new, earlier)
        assert verdict == compare(files, new, earlier)
        assert verdict.found == ("ds_b" if kept["b"] in earlier else None)
        assert verdict.lost == (("ds_c",) if unlike in earlier else ())
    assert Verdict() == storing.compare(new, [])
    with pytest.raises(Problem, match="not-ready"):
        storing.compare(Digested("ds_none", ""), [new])


def test_comparing_that_gets_no_time_is_begun_again(
    storing: StoringProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    starved = Starved()
    starved.put(monkeypatch)
    with pytest.raises(Problem, match="not-ready"):
        storing.compare(Digested("ds_none", ""), [])
    assert starved.asked == [True, False]
