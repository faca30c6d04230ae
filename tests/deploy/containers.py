"""The services of the compose file on plain processes, for a machine without a container engine.

A service gets what compose would give it: the image's command and settings with its own in their
place, its secrets as files, its volumes as directories, its neighbours by name. What lies at
``/data`` in a container lies below ``home`` here, and every service listens on a port of its own
of 127.0.0.1.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from tests.app.postgres import databases
from tests.deploy.recipes import ROOT, compose_file, image
from tests.e2e.live import free_port

_SECRETS = "/run/secrets/"


def commands_of_the_comments() -> list[str]:
    """Return the lines of the file's head that make a file for a secret."""
    head = (ROOT / "docker-compose.yml").read_text("utf-8").partition("\nx-desk")[0]
    reported = (line.removeprefix("#").strip() for line in head.splitlines())
    return [line for line in reported if " > " in line]


class Project:
    """The file's services, started as ``docker compose up`` starts them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file: dict[str, Any] = compose_file()
        self.ports = {name: free_port() for name in self.file["services"]}
        self.longest_s = 120.0
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        for command in (each for each in commands_of_the_comments() if ".txt" in each):
            subprocess.run(["/bin/sh", "-ec", command], cwd=home, env=_environment(), check=True)

    def up(self, name: str) -> None:
        """Start a service, once what it depends on is healthy."""
        service = self.file["services"][name]
        for other, wanted in service.get("depends_on", {}).items():
            if other not in self.running:
                self.up(other)
            assert wanted == {"condition": "service_healthy"}
            self._wait_until_healthy(other)
        make = self._desk if "build" in service else self._database
        command, environment, user = make(name, service)
        with self.log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(
                command, env=environment, cwd=self.home, stdout=log, stderr=log, user=user
            )
        self._wait_until_healthy(name)

    def down(self) -> dict[str, int]:
        """Stop what runs, the last first; return how each ended."""
        codes = {}
        for name in reversed(list(self.running)):
            process = self.running.pop(name)
            service = self.file["services"][name]
            # What the image ``postgres`` is stopped by, so that it waits for no client.
            process.send_signal(signal.SIGTERM if "build" in service else signal.SIGINT)
            try:
                codes[name] = process.wait(self.longest_s)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = process.wait()
        return codes

    def log(self, name: str) -> Path:
        """Return the file of what a service says."""
        return self.home / f"{name}.log"

    def secret(self, name: str) -> Path:
        """Return the file of a secret, addresses in it as they are here."""
        given = self.home / self.file["secrets"][name]["file"]
        here = given.with_suffix(".here")
        text = given.read_text("utf-8")
        for other, port in self.ports.items():
            text = text.replace(f"@{other}/", f"@127.0.0.1:{port}/")
        here.write_text(text, "utf-8")
        here.chmod(0o644)
        return here

    def volume(self, service: dict[str, Any], place: str) -> Path:
        """Return the directory that stands for a place in a container."""
        mounts = dict(reversed(each.split(":")) for each in service["volumes"])
        found = self.home / "volumes" / mounts.get(place, "anonymous")
        found.mkdir(parents=True, exist_ok=True)
        return found

    def _desk(self, name: str, service: dict[str, Any]) -> tuple[list[str], dict[str, str], str]:
        built = image()
        environment = built.environment | {"PATH": _environment()["PATH"]}
        for setting, value in (built.environment | service["environment"]).items():
            if value in built.volumes:
                environment[setting] = str(self.volume(service, value))
            elif value.startswith(_SECRETS):
                given = value.removeprefix(_SECRETS)
                assert given in service["secrets"], f"{name} reads a secret that it is not given"
                environment[setting] = str(self.secret(given))
        command = [*built.entrypoint, *service.get("command", built.command)]
        return self._here(command, name), environment, getpass.getuser()

    def _here(self, command: list[str], name: str) -> list[str]:
        """Return a command or an address of the image as it is on this machine."""
        (inside,) = image().ports
        return [
            part.replace("0.0.0.0", "127.0.0.1").replace(str(inside), str(self.ports[name]))
            for part in command
        ]

    def _database(
        self, name: str, service: dict[str, Any]
    ) -> tuple[list[str], dict[str, str], str]:
        """Do what the image ``postgres`` does at its first start."""
        programs, user = _programs_and_user()
        reported = service["environment"]
        (place,) = (each.split(":")[1] for each in service["volumes"])
        data = self.volume(service, place)
        password = self.secret(reported["POSTGRES_PASSWORD_FILE"].removeprefix(_SECRETS))
        shutil.chown(data, user)
        first = [f"--username={reported['POSTGRES_USER']}", f"--pwfile={password}"]
        initdb = [programs / "initdb", "--auth=scram-sha-256", "--encoding=utf8", *first]
        subprocess.run(
            [*initdb, "-D", data], user=user, cwd="/", check=True, stdout=subprocess.DEVNULL
        )
        subprocess.run(
            [programs / "postgres", "--single", "-D", data, "postgres"],
            input=f"CREATE DATABASE {reported['POSTGRES_DB']}\n".encode(),
            user=user,
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with (data / "postgresql.conf").open("a") as file:
            file.write("shared_buffers = 16MB\n")
        address = ["-h", "127.0.0.1", "-p", str(self.ports[name]), "-k", ""]
        return [str(programs / "postgres"), "-D", str(data), *address], _environment(), user

    def _wait_until_healthy(self, name: str) -> None:
        deadline = time.monotonic() + self.longest_s
        while not self._is_healthy(name):
            assert self.running[name].poll() is None, self.log(name).read_text(errors="replace")
            assert time.monotonic() < deadline, self.log(name).read_text(errors="replace")
            time.sleep(0.2)

    def _is_healthy(self, name: str) -> bool:
        service = self.file["services"][name]
        if "build" in service:
            test = self._here(image().health, name)
        else:
            kind, *test = service["healthcheck"]["test"]
            assert kind == "CMD"
        port = str(self.ports[name])
        place = _environment() | {"PGHOST": "127.0.0.1", "PGPORT": port}
        place["PATH"] = f"{_programs_and_user()[0]}:{place['PATH']}"
        done = subprocess.run(test, env=place, capture_output=True, check=False)
        return done.returncode == 0


@cache
def _programs_and_user() -> tuple[Path, str]:
    """Return where PostgreSQL's programs are, and who may run them: they refuse root."""
    with psycopg.connect(databases().url("postgres")) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return Path(databases().tools()), Path(row[0]).owner()


def _environment() -> dict[str, str]:
    """Return an environment with nothing but where programs and sources are."""
    found = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    return found | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
