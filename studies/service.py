"""The service over HTTP: the cost of n, and the throughput relative to a bare endpoint."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import httpx
import numpy as np

from studies import load

KEY = "bench-bootstrap-key-of-more-than-32-characters"
BARE_PATH = "/bench/bare"
CLOCKS_PATH = "/bench/clocks"
THREADS = {"MainThread": "event loop", "ledger-writer": "writer", "draw": "draws"}
"""Names of the server's kinds of threads, by the prefix of the thread's name."""
FLUSHING_S = 0.5
FLUSHED_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Run:
    """A load, and the CPU time in seconds that each kind of thread spent per request."""

    load: load.Load
    processor_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Throughput:
    """Bare validated requests and whole releases, turn and turn about on one server.

    ``longest_flush_s`` is of the disk alone, between the turns: no release is answered before
    two flushes, so 64 clients wait for every one that takes long.
    """

    bare: tuple[Run, ...]
    releases: tuple[Run, ...]
    longest_flush_s: float

    @property
    def share(self) -> float:
        """Return releases per second as a share of bare requests per second, the median turn's."""
        pairs = zip(self.releases, self.bare, strict=True)
        return statistics.median(a.load.per_second / b.load.per_second for a, b in pairs)

    @property
    def slow_release_s(self) -> float:
        """Return the latency that one release in a hundred exceeds, over all turns."""
        latencies = sorted(chain.from_iterable(run.load.latencies_s for run in self.releases))
        return latencies[int(0.99 * len(latencies))]

    @property
    def usual_slow_release_s(self) -> float:
        """Return the same for the median turn alone: the value between stalls."""
        return statistics.median(run.load.quantile(0.99) for run in self.releases)


def per_second(runs: tuple[Run, ...]) -> float:
    """Return the median turn's requests per second."""
    return statistics.median(run.load.per_second for run in runs)


def processor_us(runs: tuple[Run, ...]) -> Mapping[str, float]:
    """Return the median turn's microseconds of CPU time per request, by kind of thread."""
    kinds = dict.fromkeys(chain.from_iterable(run.processor_s for run in runs))
    return {
        kind: 1e6 * statistics.median(run.processor_s.get(kind, 0.0) for run in runs)
        for kind in kinds
    }


def _clocks() -> dict[str, float]:
    """Return the CPU time that each kind of thread of this process has spent."""
    spent = dict.fromkeys((*THREADS.values(), "others"), 0.0)
    for thread in threading.enumerate():
        kind = next((k for name, k in THREADS.items() if thread.name.startswith(name)), "others")
        if thread.ident is not None:
            spent[kind] += time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    spent["draws"] += _beside()
    return spent


def _beside() -> float:
    """Return the CPU time of this process's descendants: one of them makes small draws."""
    tick_s, family, total_s = 1 / os.sysconf("SC_CLK_TCK"), {os.getpid()}, 0.0
    # processes are listed by number, and these are begun one after the other
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda folder: int(folder.name)):
        with suppress(OSError):  # it has gone
            fields = (folder / "stat").read_text().rsplit(") ", 1)[1].split()
            if int(fields[1]) in family:
                family.add(int(folder.name))
                total_s += (int(fields[11]) + int(fields[12])) * tick_s
    return total_s


def _serve(data_dir: Path, port: int, settings: Mapping[str, int]) -> None:
    import uvicorn  # noqa: PLC0415

    from app.main import create_app, keep_in_memory  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415
    from app.web.requests.questions import ReleaseRequest  # noqa: PLC0415

    os.environ["RELEASE_DESK_BOOTSTRAP_KEY"] = KEY
    os.environ["RELEASE_DESK_DATA_DIR"] = str(data_dir)
    chosen = {"response_slot_ms": 0, "rate_limit_per_minute": 0, **settings}
    for name, value in chosen.items():
        os.environ[f"RELEASE_DESK_{name.upper()}"] = str(value)
    app = create_app(Settings())

    async def bare(body: ReleaseRequest) -> dict[str, str]:
        return {"epsilon": str(body.epsilon)}

    async def clocks() -> dict[str, float]:
        return _clocks()

    # a local name, which the framework could not look up
    bare.__annotations__["body"] = ReleaseRequest
    app.get(CLOCKS_PATH)(clocks)
    app.post(BARE_PATH)(bare)
    # looked for first, so that it does not pay for all our routes before it
    app.router.routes.insert(0, app.router.routes.pop())
    keep_in_memory()
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        http="app.api.connections:PatientProtocol",
        ws="none",
        server_header=False,
        log_level="error",
        access_log=False,
    )


@contextmanager
def server(directory: Path, settings: Mapping[str, int]) -> Iterator[int]:
    """Run the service in a process of its own over a directory; yield its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(directory, port, settings), daemon=True
    )
    process.start()
    try:
        wait_until_ready(port)
        yield port
    finally:
        process.terminate()
        process.join(15)


def wait_until_ready(port: int) -> None:
    """Return once the service on a port answers.

    Raises
    ------
    RuntimeError
        It did not within a minute.
    """
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the service did not become ready")


def upload(port: int, rows: int) -> str:
    """Upload one column of random numbers; return the data set's id."""
    values = np.random.default_rng(rows).uniform(0, 100, rows)
    columns = {"x": {"type": "number", "lower": 0, "upper": 100}}
    return send_upload(port, f"bench {rows}", columns, "x\n" + "\n".join(map(str, values)) + "\n")


def send_upload(port: int, name: str, columns: Mapping[str, object], rows: str) -> str:
    """Upload rows of CSV; return the data set's id."""
    spec = {
        "name": name,
        "adjacency": "replace_one",
        "columns": columns,
        "budget": {"epsilon": "10000"},
    }
    answer = httpx.post(
        f"http://127.0.0.1:{port}/v1/datasets",
        files={"file": ("x.csv", rows), "spec": (None, json.dumps(spec))},
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=120,
    )
    answer.raise_for_status()
    return str(answer.json()["id"])


def mean_request(dataset: str, prefix: str) -> load.RequestBytes:
    """Return what asks for the same mean, each time under another Idempotency-Key."""
    body = b'{"statistic":{"kind":"mean","columns":["x"]},"epsilon":"0.001"}'
    headers = {"Authorization": f"Bearer {KEY}"}
    path, place = f"/v1/datasets/{dataset}/releases", b"{key}"
    asked = load.post(path, body, headers | {"Idempotency-Key": place.decode()})
    before, _, after = asked.partition(place)  # once: the generator is to take little time
    return lambda number: b"%s%s-%d%s" % (before, prefix.encode(), number, after)


def rows_ratio(port: int, *, rounds: int = 6, requests: int = 150) -> float:
    """Return the time of a mean release at 20,000 rows over that at 200 rows, interleaved."""
    medians: dict[int, list[float]] = {200: [], 20_000: []}
    datasets = {rows: upload(port, rows) for rows in medians}
    for turn in range(rounds):
        for rows, dataset in datasets.items():
            result = load.run(
                port, mean_request(dataset, f"n-{rows}-{turn}"), total=requests, connections=1
            )
            assert set(result.statuses) == {201}, result.statuses
            if turn:  # the first round warms up
                medians[rows].append(result.quantile(0.5))
    return statistics.median(medians[20_000]) / statistics.median(medians[200])


def throughput(port: int, *, connections: int = 64, turns: int = 12) -> Throughput:
    """Measure bare requests and whole releases with the same clients, in turns.

    The first turn of each warms up. Speeds of one turn are compared: what else
    the machine does changes from turn to turn, so these are many and short.
    """
    body = b'{"statistic":{"kind":"mean","columns":["x"]},"epsilon":"0.001"}'
    bare_request = load.post(BARE_PATH, body, {"Authorization": f"Bearer {KEY}"})
    dataset = upload(port, 1000)
    bare: list[Run] = []
    releases: list[Run] = []
    flushes: list[float] = []
    for turn in range(turns + 1):
        release = mean_request(dataset, f"load-{turn}")
        bare.append(_run(port, lambda _: bare_request, total=1200, connections=connections))
        releases.append(_run(port, release, total=960, connections=connections))
        assert set(bare[-1].load.statuses) == {200}, bare[-1].load.statuses
        assert set(releases[-1].load.statuses) == {201}, releases[-1].load.statuses
        flushes.append(_longest_flush_s())
    return Throughput(tuple(bare[1:]), tuple(releases[1:]), max(flushes))


def _longest_flush_s() -> float:
    """Write as a commit does, for a while; return the longest time that it took."""
    longest_s = 0.0
    with tempfile.TemporaryFile(buffering=0) as file:
        end = time.perf_counter() + FLUSHING_S
        while (started := time.perf_counter()) < end:
            file.write(bytes(FLUSHED_BYTES))
            os.fdatasync(file.fileno())
            longest_s = max(longest_s, time.perf_counter() - started)
    return longest_s


def _run(port: int, request: load.RequestBytes, *, total: int, connections: int) -> Run:
    before = _read_clocks(port)
    result = load.run(port, request, total=total, connections=connections)
    after = _read_clocks(port)
    return Run(result, {kind: (after[kind] - before[kind]) / total for kind in after})


def _read_clocks(port: int) -> dict[str, float]:
    clocks: dict[str, float] = httpx.get(f"http://127.0.0.1:{port}{CLOCKS_PATH}").json()
    return clocks
