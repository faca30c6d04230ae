"""Uploads are read by processes that can be lost: bombs, limits, and readers that lie."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.domain.problems import Problem
from app.domain.upload_reports import ColumnCounts
from app.processes import upload_reading as reading
from app.processes.channel import Message, receive, send
from app.processes.program import Forks
from app.processes.upload_reading import SHARED, UploadReader
from app.uploads.trouble import UNREADABLE, Limits
from tests.app.bombs import gzip_bomb, nested_gzip, parquet, parquet_bombs
from tests.app.forks import children_of, host_of, wait
from tests.app.uploads import SENTINEL, columns_spec, encode, read_upload, refused, troubles

NUMBER = columns_spec({"x": {"type": "number", "lower": 0, "upper": 2}})
LOST = [(None, None, UNREADABLE)]


def _files_of(process: int) -> set[str]:
    return {str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir()}


def _host(reader: UploadReader = SHARED) -> int:
    return int(host_of(reader.forks).process.pid)


def test_the_files_written_by_hand_are_sound() -> None:
    assert encode(parquet(rows=10), NUMBER)["x"].tolist() == [0] * 10


@pytest.mark.parametrize("name", parquet_bombs())
def test_a_parquet_bomb_costs_no_more_than_its_limits(name: str) -> None:
    bomb = parquet_bombs()[name]
    assert len(bomb) < 300
    started = time.monotonic()
    try:
        codes = encode(bomb, NUMBER, max_upload_rows=1 << 40)["x"]
    except Problem as problem:
        assert problem.code == "invalid-upload"  # noqa: PT017 - either is sound
    else:
        assert codes.size == 10
    assert time.monotonic() - started < 20
    assert refused(parquet_bombs()["rows"], NUMBER).code == "too-large"


@pytest.mark.slow
def test_a_gzip_bomb_is_refused_by_its_ratio() -> None:
    bomb = gzip_bomb("x", "1", mebibytes=100)
    assert len(bomb) < 150_000
    assert refused(bomb, NUMBER).extras == {"limit": "max_compression_ratio", "maximum": 250}
    problem = refused(bomb, NUMBER, max_compression_ratio=10_000, max_expanded_bytes=1 << 26)
    assert problem.extras == {"limit": "max_expanded_bytes", "maximum": 1 << 26}
    # what is repetitive and small is no bomb
    assert encode(gzip_bomb("x", "1", mebibytes=2), NUMBER)["x"].size == 1 << 20


def test_gzip_inside_gzip_is_not_unpacked_further() -> None:
    assert refused(nested_gzip(b"x\n1\n", times=4), NUMBER).code == "invalid-upload"


@pytest.mark.wide
def test_a_million_columns_are_refused() -> None:
    header = ",".join(f"c{number}" for number in range(1_000_000)).encode() + b"\n"
    assert troubles(header, NUMBER)[0][2].startswith("the header of the file is longer than")
    problem = refused(header, NUMBER, max_record_bytes=1 << 24)
    assert problem.extras == {"limit": "max_file_columns", "maximum": 10_000}
    wide = b",".join([b"x"] * 5_000) + b"\n" + b",".join([b"1"] * 5_000) + b"\n"
    assert troubles(wide, NUMBER) == [(None, "x", "is in the file twice")]


def test_an_enormous_cell_is_refused() -> None:
    assert "longer than" in troubles(b"x\n" + b"9" * (3 << 20) + b"\n", NUMBER)[0][2]
    quoted = b'x\n"' + b"\n" * (3 << 20) + b'"\n'
    assert "longer than" in troubles(quoted, NUMBER)[0][2]


@pytest.mark.wide
def test_processor_time_runs_out() -> None:
    bomb = gzip_bomb("x", "1", mebibytes=400)
    started = os.times()
    assert (
        troubles(bomb, NUMBER, upload_cpu_s=1, max_compression_ratio=10_000, silence_s=60) == LOST
    )
    assert os.times().elapsed - started.elapsed < 60


def test_memory_runs_out() -> None:
    assert (
        troubles(
            parquet(rows=1 << 27), NUMBER, max_upload_rows=1 << 40, upload_memory_bytes=1 << 30
        )
        == LOST
    )


def test_a_reader_can_write_nothing_and_holds_nothing_of_the_service(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SENTINEL)
    os.environ["RELEASE_DESK_TEST_ONLY"] = SENTINEL
    try:
        with secret.open():
            encode(b"x\n1\n", NUMBER)
            host = _host()
            assert str(secret) not in _files_of(host)
            assert SENTINEL.encode() not in Path(f"/proc/{host}/environ").read_bytes()
    finally:
        del os.environ["RELEASE_DESK_TEST_ONLY"]


def test_a_reader_is_confined_and_leaves_when_nobody_listens() -> None:
    reader = UploadReader(Forks("app.processes.upload_reader", quiet=True))
    try:
        content = b"x\n" + b"1\n" * 3_000_000
        blocks = read_upload(
            io.BytesIO(content), NUMBER, limits=Limits(chunk_bytes=1 << 16), reader=reader
        )
        next(blocks)
        (process,) = children_of(_host(reader))
        limits = Path(f"/proc/{process}/limits").read_text()
        assert f"Max data size             {1 << 31}" in limits
        # besides, what libraries and threads reserve, and two maps of the file: all no memory
        allowed = (1 << 31) + (1 << 30) + 2 * len(content)
        assert f"Max address space         {allowed}" in limits
        assert "Max file size             0" in limits
        assert "Max cpu time              1800" in limits
        for each in (_host(reader), process):
            niceness = os.getpriority(os.PRIO_PROCESS, each)
            assert niceness == os.getpriority(os.PRIO_PROCESS, 0) + 5
        assert Path(f"/proc/{process}/oom_score_adj").read_text().strip() == "1000"
        blocks.close()  # type: ignore[attr-defined]
        wait(lambda: not Path(f"/proc/{process}").exists())
    finally:
        reader.forks.close()


@pytest.mark.parametrize("whom", ["reader", "host"])
def test_a_reader_that_is_killed_ends_its_upload_alone(whom: str) -> None:
    reader = UploadReader(Forks("app.processes.upload_reader", quiet=True))
    try:
        content = b"x\n" + b"1\n" * 3_000_000
        blocks = read_upload(
            io.BytesIO(content), NUMBER, limits=Limits(chunk_bytes=1 << 16), reader=reader
        )
        next(blocks)
        host = _host(reader)
        (process,) = children_of(host)
        os.kill(host if whom == "host" else process, signal.SIGKILL)
        if whom == "reader":
            with pytest.raises(Problem) as lost:
                list(blocks)
            assert lost.value.code == "invalid-upload"
        else:
            assert sum(block["x"].size for block in blocks) > 2_000_000
        again = read_upload(io.BytesIO(b"x\n1\n"), NUMBER, reader=reader)
        assert [block["x"].tolist() for block in again] == [[1]]
        assert (_host(reader) == host) == (whom == "reader")
    finally:
        reader.forks.close()


def _told(monkeypatch: pytest.MonkeyPatch, *messages: bytes) -> list[Any]:
    """Let a stand-in that has been taken over read an upload and send these messages."""

    def order(self: Forks, file: int, channel: int, *, spare: bool) -> None:
        with Connection(os.dup(channel)) as sending:
            for message in messages:
                sending.send_bytes(message)

    monkeypatch.setattr(Forks, "order", order)
    return list(read_upload(io.BytesIO(b""), NUMBER, limits=Limits(silence_s=5)))


@pytest.mark.parametrize("pieces", [1, 3, 5000])
def test_a_message_in_pieces_is_that_of_all_of_them(pieces: int) -> None:
    body = np.arange(5000, dtype=np.uint16).tobytes()
    size = -(-len(body) // pieces)
    ours, theirs = Pipe()
    with ours, theirs, ThreadPoolExecutor(1) as beside:
        sent = beside.submit(
            send,
            ours,
            Message.BLOCK,
            *(memoryview(body)[start : start + size] for start in range(0, len(body), size)),
        )
        message, received = receive(theirs, 5)
        sent.result()
    assert (message, bytes(received)) == (Message.BLOCK, body)


def _block(*values: float) -> bytes:
    return bytes([Message.BLOCK]) + np.array(values, dtype=np.float64).tobytes()


_COUNTS = dict.fromkeys([each.name for each in fields(ColumnCounts)], 0)
END = (
    bytes([Message.OUTCOME])
    + json.dumps({"rows": 2, "rows_dropped": 0, "columns": {"x": _COUNTS}, "people": None}).encode()
)


@pytest.mark.parametrize(
    "messages",
    [
        (_block(2, math.nextafter(2, 3)), END),
        (_block(-5e-324), END),
        (_block(1, math.nan), END),
        (_block(1)[:-1], END),
        (_block(1),),
        (b"",),
        (b"\xff",),
        (bytes([Message.FAILED]) + b"MemoryError",),
        (_block(1), bytes([Message.STARVED])),
        (bytes([Message.PROBLEM]) + json.dumps({"code": "not-found"}).encode(),),
    ],
    ids=[
        "above",
        "below",
        "no number",
        "cut",
        "no end",
        "nothing",
        "unknown",
        "failed",
        "starved",
        "another refusal",
    ],
)
def test_what_a_reader_sends_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, messages: tuple[bytes, ...]
) -> None:
    with pytest.raises(Problem) as refusal:
        _told(monkeypatch, *messages)
    assert refusal.value.code == "invalid-upload"
    assert refusal.value.extras["problems"][0]["reason"] == UNREADABLE  # type: ignore[index]


def test_a_sound_message_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [block["x"].tolist() for block in _told(monkeypatch, _block(1, 2), END)] == [[1, 2]]


def test_a_reader_that_waits_for_who_listens_goes_on() -> None:
    limits = Limits(chunk_bytes=1 << 16, standstill_s=0.5)
    blocks = read_upload(io.BytesIO(b"x\n" + b"1\n" * 3_000_000), NUMBER, limits=limits)
    next(blocks)
    time.sleep(1.5)
    assert sum(block["x"].size for block in blocks) > 2_000_000


def test_two_readers_of_a_file_do_not_move_each_other(tmp_path: Path) -> None:
    content = b"x\n" + b"1\n" * 500_000
    (tmp_path / "f").write_bytes(content)
    with (tmp_path / "f").open("rb") as stream:
        limits = Limits(chunk_bytes=1 << 16)
        both = [read_upload(stream, NUMBER, limits=limits) for _ in range(2)]
        heights = [len(block["x"]) for blocks in zip(*both, strict=True) for block in blocks]
    assert sum(heights) == 1_000_000


def test_a_silent_reader_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    monkeypatch.setattr(Forks, "order", lambda _self, _f, c, spare: held.append(os.dup(c)))
    with pytest.raises(Problem):
        list(read_upload(io.BytesIO(b""), NUMBER, limits=Limits(silence_s=0.05)))
    for each in held:
        os.close(each)


def test_many_threads_share_one_host() -> None:
    found: list[int] = []

    def read(number: int) -> None:
        found.append(int(encode(b"x\n" + b"1\n" * number, NUMBER)["x"].size))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 9))
    assert reading.SHARED is SHARED
