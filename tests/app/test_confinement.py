"""What a taken-over decoder could reach: everything is tried from inside such a process."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest

from app.processes import confinement
from app.processes.program import Forks
from app.uploads.sources.feeding import reopened
from tests.speed import PATIENCE_S

OWN = "open its own file again"
NO_PROGRAM = "run a program"  # there is none: what matters is which error says so


def tried(module: str, folder: Path) -> Sequence[Mapping[str, str | None]]:
    """Return what became of each try, in a process's first thread and in a later one."""
    folder.mkdir()
    (folder / "release-desk.db").write_text("the ledger")
    for number in range(8):
        (folder / f"victim{number}").write_text("something")
    forks = Forks(module, quiet=False)
    ours, theirs = Pipe()
    # someone to be traced and signalled
    service = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with (folder / "upload").open("w+b") as file, socket.create_server(("127.0.0.1", 0)) as to:
            file.write(b"a,b\n1,2\n")
            file.flush()
            opened = reopened(file.fileno())
            with theirs:
                forks.order(opened, theirs.fileno())
            os.close(opened)
            order = {"folder": str(folder), "port": to.getsockname()[1], "service": service.pid}
            ours.send_bytes(json.dumps(order).encode())
            assert ours.poll(PATIENCE_S)
            found: Sequence[Mapping[str, str | None]] = json.loads(ours.recv_bytes())
            return found
    finally:
        ours.close()
        forks.close()
        service.kill()
        service.communicate()


@pytest.mark.skipif(bool(confinement.lacking()), reason="this system cannot confine")
def test_a_reader_of_uploads_reaches_nothing_but_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for found in tried("tests.app.confined_child", folder):
        assert found.pop(OWN) is None
        worked = {name for name, error in found.items() if error is None}
        assert not worked
        odd = {name: error for name, error in found.items() if error != "PermissionError"}
        assert odd == {"write to its own file": "OSError"}
    assert (folder / "upload").read_text() == "a,b\n1,2\n"
    names = {"release-desk.db", "upload", *(f"victim{number}" for number in range(8))}
    assert {each.name for each in folder.iterdir()} == names
    assert all((folder / f"victim{number}").read_text() for number in range(8))


def test_one_that_is_not_confined_reaches_all(tmp_path: Path) -> None:
    found = dict(tried("tests.app.unconfined_child", tmp_path / "data")[0])
    assert found.pop(NO_PROGRAM) == "FileNotFoundError"
    # its file was opened for reading alone
    for name in ("truncate its own file", "map its own file to write", "write to its own file"):
        assert found.pop(name) is not None
    found.pop("trace the service")  # a system may have its own rule about this
    assert {name: error for name, error in found.items() if error is not None} == {}


def test_what_a_system_lacks_is_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(confinement, "_landlock_version", lambda: -1)
    monkeypatch.setattr(confinement.platform, "machine", lambda: "riscv64")
    assert confinement.lacking() == ["Landlock", "seccomp"]
    with caplog.at_level(logging.WARNING):
        confinement.warn_of_what_is_lacking()
    assert "this system lacks Landlock" in caplog.text
    assert "this system lacks seccomp" in caplog.text


@pytest.mark.parametrize("machine", sorted(confinement.MACHINES))
def test_a_filter_refuses_the_calls_of_its_machine(machine: str) -> None:
    """Every jump ends in the program, and each number of the table is looked for."""
    place, name = confinement.MACHINES[machine]
    program = confinement.program_for(place, name, own=7)
    steps = [program[at : at + 8] for at in range(0, len(program), 8)]
    looked_for = {int.from_bytes(step[4:], sys.byteorder) for step in steps if step[0] == 0x15}
    wanted = {numbers[place] for numbers in confinement.REFUSED.values()} - {None}
    assert wanted <= looked_for
    assert all(at + 1 + max(step[2], step[3]) < len(steps) for at, step in enumerate(steps[:-1]))
    assert len(steps) < 4096
