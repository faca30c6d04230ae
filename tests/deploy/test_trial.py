"""The profiles `tls` and `oidc` of the compose file: TLS and a provider, run as plain processes."""

from __future__ import annotations

import re
import shlex
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.settings import Settings
from tests.contract.service import running
from tests.deploy.recipes import ROOT, compose_file, stages
from tests.deploy.test_proxies import at_work, free_port, write_certificate
from tests.speed import PATIENCE_S

TRIAL = ROOT / "deploy" / "trial"
SERVICES: dict[str, dict[str, Any]] = compose_file()["services"]
PROFILES = {"tls", "oidc"}


def started() -> set[str]:
    """Return what `docker compose --profile tls --profile oidc up` starts."""
    return {
        name
        for name, service in SERVICES.items()
        if not service.get("profiles") or PROFILES & set(service["profiles"])
    }


def settings_of_the_file() -> dict[str, str]:
    lines = (TRIAL / "desk.env").read_text("utf-8").splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    prefix = "RELEASE_DESK_"
    assert all(name.startswith(prefix) for name, _, _ in pairs)
    return {name.removeprefix(prefix).lower(): value.strip("'") for name, _, value in pairs}


def test_the_profiles_start_a_desk_a_proxy_and_a_provider() -> None:
    assert started() == {"release-desk", "proxy", "identities"}
    proxy, identities = SERVICES["proxy"], SERVICES["identities"]
    assert proxy["depends_on"] == {"release-desk": {"condition": "service_healthy"}}
    assert identities["network_mode"] == "service:release-desk", "localhost is the desk's own"
    ports = [each.rpartition(":")[2] for each in proxy["ports"]]
    assert ports == ["80", "443", "9400"]
    assert proxy["ports"][2].startswith("127.0.0.1:"), "the provider is for this machine alone"
    assert "ports" not in identities


@pytest.mark.parametrize("name", ["proxy", "identities"])
def test_what_they_are_built_of_is_there_and_pinned(name: str) -> None:
    service = SERVICES[name]
    recipe = (ROOT / service["build"]["dockerfile"]).read_text("utf-8")
    (base,) = re.findall(r"^FROM (\S+)$", recipe, re.MULTILINE)
    assert base == stages()[0][0].split()[1], "the base image of the desk"
    assert service["pull_policy"] == "build"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    for mount in service["volumes"]:
        source = mount.split(":")[0]
        assert not source.startswith("./") or (ROOT / source).is_file()
    assert re.search(r"^USER 10001:10001$", recipe, re.MULTILINE)


def test_the_settings_are_settings_and_the_provider_is_the_services() -> None:
    said = Settings(**settings_of_the_file())
    (provider,) = said.resolved_oidc_providers
    assert provider.issuer == "http://localhost:9400"
    command = SERVICES["identities"]["command"]
    assert command[command.index("--port") + 1] == "9400"
    assert SERVICES["release-desk"]["env_file"] == [{"path": "./desk.env", "required": False}]
    assert "/desk.env" in (ROOT / ".gitignore").read_text("utf-8").split()


@contextmanager
def provider_at_work(port: int) -> Iterator[None]:
    """Run the provider as the compose file starts it, at a port of 127.0.0.1."""
    command = list(SERVICES["identities"]["command"])
    command[command.index("--port") + 1] = str(port)
    command[command.index("--host") + 1] = "127.0.0.1"
    program = Path(sys.executable).parent / "oidc-provider-mock"
    process = subprocess.Popen(
        [str(program), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert process.poll() is None, shlex.join(command)
            try:
                httpx.get(f"http://localhost:{port}/.well-known/openid-configuration", verify=False)
                break
            except httpx.HTTPError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ssl.SSLContext]]:
    """Return the desk's address behind Caddy, with the provider, and whom to trust there."""
    if shutil.which("caddy") is None:
        pytest.skip("NOT RUN: THERE IS NO CADDY")
    folder = tmp_path_factory.mktemp("trial")
    port, issuer = free_port(), free_port()
    address = f"https://127.0.0.1:{port}"
    write_certificate(folder)
    said = settings_of_the_file() | {"public_url": address}
    said["oidc_providers"] = said["oidc_providers"].replace("9400", str(issuer))
    said["trusted_proxies"] = "127.0.0.1"
    with provider_at_work(issuer), running(folder / "data", **said) as service:
        text = (TRIAL / "Caddyfile").read_text("utf-8").partition("# The provider")[0]
        opened = f"{address} {{\n\tbind 127.0.0.1\n\ttls {folder}/fullchain.pem {folder}/key.pem"
        text = text.replace("{$DESK_NAME:localhost} {", opened)
        text = text.replace("release-desk:8000", service.url.removeprefix("http://"))
        (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text)
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
        with at_work(command, folder, port):
            yield address, ssl.create_default_context(cafile=str(folder / "fullchain.pem"))


@pytest.mark.parametrize(("person", "status"), [("ada", 200), ("bob", 403)])
def test_somebody_signs_in_at_the_provider_by_tls(
    site: tuple[str, ssl.SSLContext], person: str, status: int
) -> None:
    address, trusted = site
    with httpx.Client(base_url=address, verify=trusted, timeout=PATIENCE_S) as browser:
        assert "Sign in with the trial provider" in browser.get("/desk/sign-in").text
        away = browser.get("/desk/sign-in/trial").headers["location"]
        sent = httpx.post(away, data={"sub": person})
        back = sent.headers["location"]
        assert back.startswith(f"{address}/desk/sign-in/trial/callback?")
        page = browser.get(back)
        assert page.status_code == 200, page.text
        assert "__Host-release-desk-session" in page.headers["set-cookie"]
        assert "secure" in page.headers["set-cookie"].lower()
        assert f"{person}@example.org" in browser.get("/desk").text
        assert browser.get("/desk/datasets/new").status_code == status


@pytest.mark.skipif(shutil.which("caddy") is None, reason="NOT RUN: THERE IS NO CADDY")
def test_caddy_takes_the_file() -> None:
    checked = subprocess.run(
        ["caddy", "validate", "--adapter", "caddyfile", "--config", str(TRIAL / "Caddyfile")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
