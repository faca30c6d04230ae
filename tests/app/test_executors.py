"""One gate for every executor: the same numbers, bit for bit, wherever rows are read."""

from __future__ import annotations

import gc
import io
import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from distributed import Client, LocalCluster
from pydantic import ValidationError

from app.domain.problems import DataUnreadableError
from app.engine.choice import NoClusterError, Passes
from app.engine.dask import DaskExecutor, PassFailedError
from app.engine.data import DataEngine, encoded_parts
from app.engine.executor import Executor, ProcessExecutor, SerialExecutor
from app.engine.schema import schema_of
from app.places import passes_of, require_passes
from app.settings import Settings, SettingsError
from app.uploads import sketching, storing
from app.vault.vault import Vault
from mechanisms.catalog import calibrate
from mechanisms.contract import Block, Statistic
from mechanisms.domain import exact
from mechanisms.objectives.check_loss import stored as stored_rows
from mechanisms.privacy import Epsilon
from mechanisms.randomness import system_randomness
from mechanisms.sketches import Sketch
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.designs import rows
from mechanisms.statistics.designs.boxes import RegressionRows
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import seeded_randomness
from tests.app.tls import certificates
from tests.app.uploads import DataHere, StoringHere, columns_spec
from tests.tiers import in_one

SPEC = columns_spec(
    {
        "x": {"type": "number", "lower": -1, "upper": 1},
        "y": {"type": "number", "lower": -1, "upper": 1},
        "yes": {"type": "boolean"},
        "kind": {"type": "category", "values": ["a", "b", "c", "d"]},
    }
)
ROWS, PART_ROWS = 60, 9


@pytest.fixture(name="vault", scope="module")
def _vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return stored(tmp_path_factory.mktemp("vault"))


def stored(directory: Path, executor: Executor | None = None, *, dense: int = 2) -> Vault:
    """Return a vault with a data set of several parts; more columns are sketched by an executor."""
    random = np.random.default_rng(8)
    lines = [
        f"{x:.3f},{y:.3f},{int(x > y)},{'abc'[int(2 + x + y) % 3]}"
        for x, y in random.uniform(-1, 1, (ROWS, 2))
    ]
    vault = Vault(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storing, "_MAX_PART_ROWS", PART_ROWS)
        patch.setattr(sketching, "DENSE_COLUMNS", dense)
        content = "\n".join(["x,y,yes,kind", *lines]).encode()
        DataHere(vault, storing=StoringHere(executor)).store("ds_1", io.BytesIO(content), SPEC)
    return vault


@pytest.fixture(name="scheduler", scope="module")
def _scheduler() -> Iterator[str]:
    """Yield the address of a cluster in threads of this process."""
    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
    )
    with cluster:
        yield cluster.scheduler_address


@pytest.fixture(name="dask", scope="module")
def _dask(scheduler: str) -> Iterator[DaskExecutor]:
    executor = DaskExecutor(scheduler, None)
    yield executor
    executor.close()


# To begin processes takes seconds.
@pytest.fixture(
    name="elsewhere",
    scope="module",
    params=["dask", pytest.param("processes", marks=pytest.mark.slow)],
)
def _elsewhere(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "dask":
        yield request.getfixturevalue("dask")
        return
    executor = ProcessExecutor(workers=2)
    yield executor
    executor.close()


def _sums(block: Block) -> tuple[int, int]:
    return len(block["x"]), int(block["x"].astype(np.int64).sum())


def test_a_pass_is_the_same_everywhere(vault: Vault, elsewhere: Executor) -> None:
    expected = list(DataEngine(vault).open("ds_1").map(_sums, ["x"]))
    assert list(DataEngine(vault, executor=elsewhere).open("ds_1").map(_sums, ["x"])) == expected
    assert [rows for rows, _ in expected] == [9, 9, 9, 9, 9, 9, 6]


def test_the_files_of_an_upload_are_the_same_everywhere(
    vault: Vault, elsewhere: Executor, tmp_path: Path
) -> None:
    there = stored(tmp_path, elsewhere)
    assert contents(there) == contents(vault)
    assert sorted(contents(vault)) == [
        "attached.bin",
        "manifest.json",
        *(f"part-{number:05d}.parquet" for number in range(7)),
    ]


def test_few_columns_are_sketched_as_they_come_by(vault: Vault, tmp_path: Path) -> None:
    nobody = cast(Executor, object())
    assert contents(stored(tmp_path, nobody, dense=3)) == contents(vault)


def contents(vault: Vault) -> dict[str, bytes]:
    """Return the bytes of every file of the data set."""
    directory = vault.open("ds_1").parts[0].file.path.parent
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_sketches_are_the_same_everywhere(vault: Vault, elsewhere: Executor) -> None:
    columns = schema_of(SPEC, rows=None).columns
    parts = encoded_parts(vault.open("ds_1").parts, columns)
    names = [exact(name) for name in columns]

    def sketched(executor: Executor) -> list[object]:
        made = executor.map(
            partial(Sketch.from_block, columns=columns), executor.keep(parts, names)
        )
        return [(sketch.rows, sketch.gram.tolist(), _counts(sketch)) for sketch in made]

    assert sketched(elsewhere) == sketched(SerialExecutor())
    DataEngine(vault, executor=elsewhere).check("ds_1")


def _counts(sketch: Sketch) -> list[bytes]:
    return [each.tobytes() for each in chain(*sketch.ordered.values())]


DRAWN: dict[str, tuple[Statistic, str]] = {
    "logistic by perturbation": (
        LogisticRegression(target="yes", features=("x", "y"), intercept=True, bound=4.0),
        "objective_perturbation",
    ),
    "quantile regression by gradient": (
        QuantileRegression(target="y", features=("x",), intercept=False, bound=1.0),
        "kng",
    ),
    "quantile regression by loss": (
        QuantileRegression(target="y", features=("x",), intercept=False, bound=1.0),
        "exponential",
    ),
    "quantile regression by perturbation": (
        QuantileRegression(target="y", features=("x",), intercept=False, tau=0.9),
        "objective_perturbation",
    ),
    "geometric median": (GeometricMedian(columns=("x", "y")), "kng"),
}


@pytest.mark.parametrize(("statistic", "mechanism"), DRAWN.values(), ids=DRAWN)
def test_a_draw_is_the_same_everywhere(
    vault: Vault, elsewhere: Executor, statistic: Statistic, mechanism: str
) -> None:
    schema = schema_of(SPEC, rows=ROWS)
    plan = calibrate(statistic, schema, Epsilon.parse("2"), mechanism=mechanism)
    here, there = DataEngine(vault), DataEngine(vault, executor=elsewhere)
    one, two = (
        plan.draw(engine.open("ds_1"), seeded_randomness(5)).value for engine in (here, there)
    )
    assert one == two


IN_PASSES: dict[str, tuple[Statistic, str]] = {
    "logistic by perturbation": DRAWN["logistic by perturbation"],
    "logistic by perturbation, of some": (
        LogisticRegression(
            target="yes",
            features=("x", "y"),
            where=(Condition(column="kind", op="!=", value="a"),),
        ),
        "objective_perturbation",
    ),
    "quantile regression by gradient": (
        QuantileRegression(target="y", features=("x",), intercept=False, bound=2.0),
        "kng",
    ),
    "quantile regression by loss": (
        QuantileRegression(target="y", features=("x",), intercept=False, bound=2.0),
        "exponential",
    ),
    "quantile regression by perturbation": DRAWN["quantile regression by perturbation"],
}


@pytest.mark.parametrize(("statistic", "mechanism"), IN_PASSES.values(), ids=IN_PASSES)
def test_a_draw_in_passes_is_the_same_everywhere(
    vault: Vault,
    elsewhere: Executor,
    statistic: Statistic,
    mechanism: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of rows that are read in passes, since they may be too many to hold: more than ten."""
    monkeypatch.setattr(stored_rows, "FEW_DISTINCT", 4)
    monkeypatch.setattr(rows, "HELD_ROWS", 10)
    monkeypatch.setitem(RegressionRows.__init__.__kwdefaults__, "held", 10)
    monkeypatch.setitem(RegressionRows.__init__.__kwdefaults__, "sample", 16)
    asked: list[list[str]] = []
    keep = elsewhere.keep
    monkeypatch.setattr(
        elsewhere, "keep", lambda *reported: asked.append(reported[1]) or keep(*reported)
    )
    test_a_draw_is_the_same_everywhere(vault, elsewhere, statistic, mechanism)
    assert len(asked) > 1, "it is drawn in passes"


@pytest.mark.wide
def test_many_things_are_done_together_and_in_their_order(dask: DaskExecutor) -> None:
    assert list(dask.each(abs, range(-700, 3))) == [abs(each) for each in range(-700, 3)]
    assert list(dask.each(abs, [])) == []


def _refuse(_: object) -> None:
    raise DataUnreadableError("a secret value")


def _starve(_: object) -> None:
    raise MemoryError


def _fail(_: object) -> None:
    raise ZeroDivisionError("a secret value")


@pytest.mark.parametrize(
    ("function", "failure", "reported"),
    [
        (_refuse, DataUnreadableError, "at the same path"),
        (_starve, MemoryError, "^$"),
        (_fail, PassFailedError, "a pass has failed on a worker"),
    ],
)
def test_a_task_on_the_cluster_says_only_what_kind_of_failure_it_met(
    dask: DaskExecutor,
    function: Callable[[object], None],
    failure: type[Exception],
    reported: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(failure, match=reported):
        list(dask.each(function, range(3)))
    assert "secret" not in caplog.text


def test_a_worker_that_does_not_see_the_vault_says_so(
    vault: Vault, dask: DaskExecutor, tmp_path: Path
) -> None:
    part = vault.open("ds_1").parts[0]
    missing = replace(part, file=replace(part.file, path=tmp_path / "part-00000.parquet"))
    with pytest.raises(DataUnreadableError, match="the data directory at the same path"):
        list(dask.map(_sums, dask.keep([missing], ["x"])))


def test_a_worker_of_another_version_is_not_believed(
    dask: DaskExecutor,
) -> None:
    """What is pickled by another version of the code has names that are not there."""
    with pytest.raises(DataUnreadableError, match="other versions"):
        list(dask.each(abs, [Gone()]))


class Gone:
    """What cannot be read where it comes to."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return getattr, (Gone, "nothing of this name")


def test_randomness_does_not_travel() -> None:
    """Bits of the operating system's generator would be drawn elsewhere, or twice."""
    with pytest.raises(TypeError):
        pickle.dumps(system_randomness())


@dataclass(frozen=True)
class DiesOnce:
    """Takes its process with it, the first time."""

    marker: str

    def __call__(self, block: Block) -> tuple[int, int]:
        if len(block["x"]) < PART_ROWS:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os._exit(1)
        return _sums(block)


_KILLED = """
import os, signal
from app.engine.executor import ProcessExecutor

def pid(_):
    return os.getpid()

if __name__ == "__main__":
    print(*ProcessExecutor(workers=2).each(pid, range(4)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_processes_leave_with_the_one_that_began_them(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(_KILLED)
    # What it says ends once no one can say any more: who stays is waited for in vain.
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(set(done.stdout.split())) == 2


@pytest.mark.slow
def test_a_pass_that_loses_a_process_is_made_again(vault: Vault, tmp_path: Path) -> None:
    expected = list(DataEngine(vault).open("ds_1").map(_sums, ["x"]))
    executor = ProcessExecutor(workers=2)
    try:
        data = DataEngine(vault, executor=executor).open("ds_1")
        marker = tmp_path / "died"
        assert list(data.map(DiesOnce(str(marker)), ["x"])) == expected
        assert marker.exists()
    finally:
        executor.close()


def test_nobody_at_the_address_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.dask.CONNECT_S", 0.5)
    with pytest.raises(NoClusterError, match="no Dask scheduler answers there"):
        Passes(scheduler="tcp://127.0.0.1:9").require()


def test_a_way_that_fails_is_closed_before_it_is_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed as garbage, while another way is opened, it would wait for Dask's lock for ever."""

    async def fail(_: Client, **__: object) -> None:
        raise ZeroDivisionError

    gc.collect()  # what others have left
    ended: list[str] = []
    monkeypatch.setattr(Client, "__del__", lambda client: ended.append(client.status))
    monkeypatch.setattr(Client, "_ensure_connected", fail)
    with pytest.raises(NoClusterError):
        Passes(scheduler="tcp://127.0.0.1:9").require()
    gc.collect()
    assert ended == ["closed"]


def test_a_cluster_without_tls_is_none_for_who_needs_it(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.dask.CONNECT_S", 0.5)
    authority, certificate, key = certificates()
    passes = Passes(
        scheduler=scheduler.replace("tcp", "tls"),
        authority=authority,
        certificate=certificate,
        key=key,
    )
    with pytest.raises(NoClusterError, match="none that TLS trusts"):
        passes.require()
    # It answers, however busy the machine is.
    monkeypatch.setattr("app.engine.dask.CONNECT_S", 60.0)
    Passes(scheduler=scheduler).require()


PEMS = {"dask_tls_ca": "a\nb", "dask_tls_cert": "a\nb", "dask_tls_key": "a\nb"}
FAR, NEAR = "tls://scheduler.example.org:8786", "tcp://127.0.0.1:8786"


@in_one(
    ("wrong", "reported"),
    [
        ({"dask_scheduler": "tcp://scheduler.example.org:8786"}, "this is tls://"),
        ({"dask_scheduler": "tcp://127.0.0.1.example.org:8786"}, "this is tls://"),
        ({"dask_scheduler": "tcp://10.0.0.1:8786", **PEMS}, "this is tls://"),
        ({"dask_scheduler": "scheduler.example.org"}, "this is tls://"),
        ({"dask_scheduler": f"{NEAR}\n"}, "this is tls://"),
        ({"dask_scheduler": FAR}, "needs dask_tls_ca"),
        ({"dask_scheduler": FAR, **PEMS, "dask_tls_ca": ""}, "needs dask_tls_ca"),
        ({"dask_scheduler": FAR, **PEMS, "dask_tls_key": None}, "needs dask_tls_key"),
        (PEMS, "dask_tls_ca needs dask_scheduler"),
    ],
)
def test_what_goes_over_a_network_goes_by_tls(wrong: dict[str, Any], reported: str) -> None:
    with pytest.raises(ValidationError, match=reported):
        Settings(**wrong)


def test_a_cluster_is_told_to_every_process_that_makes_passes() -> None:
    passes = passes_of(Settings(dask_scheduler=FAR, **PEMS))
    assert passes == pickle.loads(pickle.dumps(passes))
    assert (passes.authority, passes.certificate, passes.key) == ("a\nb",) * 3
    assert "key" not in repr(passes)
    assert passes_of(Settings(dask_scheduler=NEAR)) == Passes(scheduler=NEAR)
    assert isinstance(passes_of(Settings(executor_processes=3)).executor(), ProcessExecutor)
    assert isinstance(passes_of(Settings()).executor(), SerialExecutor)


def test_a_missing_package_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.choice.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="DASK_SCHEDULER: a Dask scheduler needs the extra"):
        require_passes(Settings(dask_scheduler=NEAR))
    require_passes(Settings())
