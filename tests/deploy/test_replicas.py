"""The Kubernetes profile for PostgreSQL on plain processes: its job, then its two servers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.app.postgres import databases
from tests.deploy.kustomize import Resource, containers, pod_of, render
from tests.deploy.recipes import ROOT, image
from tests.e2e.live import free_port, release_mean, upload

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

PROFILE = ROOT / "deploy" / "kubernetes" / "overlays" / "postgresql"
KEY = "a-first-key-of-more-than-32-characters"
SERVER = "desk_server"
"""A user that may act as the service and owns no table."""


class Pods:
    """The containers of the profile, with secrets as files and a shared volume as a directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        found = {each["kind"]: each for each in render(PROFILE) if pod_of(each) is not None}
        self.deployment, self.job = found["Deployment"], found["Job"]
        ledger, anchor = (databases().url(databases().empty()) for _ in range(2))
        owned = ledger.replace("postgres:", f"{SERVER}:")
        made = [sys.executable, "-c", _NEW_KEY]
        signing = subprocess.run(made, capture_output=True, text=True, check=True).stdout
        self.secrets = {
            "release-desk-keys": {"bootstrap_key": KEY, "signing_key": signing},
            "release-desk-owner": {"database_url": ledger, "anchor_url": anchor},
            "release-desk-database": {"database_url": owned, "anchor_url": anchor},
        }

    def start(self, workload: Resource, port: int, log: Path) -> subprocess.Popen[bytes]:
        """Start a workload's container with what it mounts."""
        (container,) = containers(workload)
        mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        variables = {each["name"]: each["value"] for each in container["env"]}
        built = image()
        environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
        environment |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        for name, value in (built.environment | variables).items():
            place, _, last = value.rpartition("/")
            if name.endswith("_FILE"):
                environment[name] = str(self._secret(workload, mounts[place], last))
            elif value in built.volumes:
                environment[name] = str(self.home / last)
            elif name not in environment:
                environment[name] = value
        (inside,) = built.ports
        command = [
            each.replace("0.0.0.0", "127.0.0.1").replace(str(inside), str(port))
            for each in (*built.entrypoint, *container["args"])
        ]
        with log.open("wb") as stream:
            return subprocess.Popen(
                command, env=environment, cwd=self.home, stdout=stream, stderr=stream
            )

    def _secret(self, workload: Resource, volume: str, key: str) -> Path:
        pod = pod_of(workload)
        assert pod is not None
        (name,) = [
            each["secret"]["secretName"]
            for each in pod["spec"]["volumes"]
            if each["name"] == volume
        ]
        file = self.home / name / key
        file.parent.mkdir(exist_ok=True)
        file.write_text(self.secrets[name][key])
        return file


_NEW_KEY = """
from cryptography.hazmat.primitives import serialization as how
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey as Key
encoding, form = how.Encoding.PEM, how.PrivateFormat.PKCS8
print(Key.generate().private_bytes(encoding, form, how.NoEncryption()).decode())
"""


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    databases().administer(f"CREATE ROLE {SERVER} LOGIN")
    found = Pods(tmp_path)
    yield found
    for name in ("REVOKE release_desk_service FROM", "DROP ROLE"):
        databases().administer(f"{name} {SERVER}")


def await_life(url: str, process: subprocess.Popen[bytes], log: Path, probe: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        try:
            if httpx.get(f"{url}{probe}", timeout=5, verify=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)


def test_two_servers_serve_what_the_job_has_migrated(pods: Pods, tmp_path: Path) -> None:
    early = tmp_path / "early.log"
    assert pods.start(pods.deployment, free_port(), early).wait(120) != 0
    assert "Traceback" not in early.read_text(errors="replace")
    log = tmp_path / "job.log"
    assert pods.start(pods.job, 0, log).wait(120) == 0, log.read_text(errors="replace")
    databases().administer(f"GRANT release_desk_service TO {SERVER}")
    (server,) = containers(pods.deployment)
    urls = []
    with ExitStack() as stack:
        for number in range(pods.deployment["spec"]["replicas"]):
            port, log = free_port(), tmp_path / f"server-{number}.log"
            process = stack.enter_context(pods.start(pods.deployment, port, log))
            stack.callback(process.terminate)
            urls.append(f"http://127.0.0.1:{port}")
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                await_life(urls[-1], process, log, server[probe]["httpGet"]["path"])
        headers = {"Authorization": f"Bearer {KEY}"}
        one, other = (
            stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=60))
            for url in urls
        )
        columns = {"age": {"type": "number", "lower": 0, "upper": 100}}
        dataset = upload(one, "age\n31\n45\n", columns)["id"]
        answer = release_mean(other, dataset, column="age", epsilon="1", key="replicated")
        assert answer.status_code == 201, answer.text
        again = release_mean(one, dataset, column="age", epsilon="1", key="replicated")
        assert again.content == answer.content
