"""The proxies' files, run by the proxies themselves in front of a service, and the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client.parser import text_string_to_metric_families

from tests.contract.service import ADMIN_KEY, Service, make_key, running, spec
from tests.deploy.recipes import ROOT
from tests.speed import PATIENCE_S

PROXIES = ROOT / "deploy" / "proxies"
NAME = "numbers.example.org"
ROWS = "income,food,region,owner\n" + "40,20,south,false\n60,30,north,true\n" * 100_000
"""More than what proxies take of a body by default: 1 MiB."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def write_certificate(folder: Path) -> None:
    """Write a certificate of this machine's address, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(here, critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "fullchain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "key.pem").write_bytes(private)


def replaced(text: str, **changes: str) -> str:
    """Return a file with what an operator fills in."""
    for found, wanted in changes.items():
        assert found in text
        text = text.replace(found, wanted)
    return text


def nginx(folder: Path, port: int, backend: str) -> list[str]:
    site = (PROXIES / "nginx.conf").read_text("utf-8")
    changes = {
        "listen 443": f"listen 127.0.0.1:{port}", "/etc/ssl/release-desk": str(folder),
        "127.0.0.1:8000": backend, NAME: "127.0.0.1",
    }  # fmt: skip
    temporary = "".join(
        f"{each}_temp_path {folder}/{each};"
        for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{replaced(site, **changes)} }}\n"
    )
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def caddy(folder: Path, port: int, backend: str) -> list[str]:
    site = (PROXIES / "Caddyfile").read_text("utf-8")
    opened = f"https://127.0.0.1:{port} {{\n\tbind 127.0.0.1"
    tls = f"\n\ttls {folder}/fullchain.pem {folder}/key.pem"
    changes = {f"{NAME} {{": opened + tls, "127.0.0.1:8000": backend}
    (folder / "Caddyfile").write_text(
        "{\n\tadmin off\n\tauto_https off\n}\n" + replaced(site, **changes)
    )
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@contextmanager
def at_work(command: list[str], folder: Path, port: int) -> Iterator[None]:
    """Run a proxy until the block ends."""
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/bin"}
    with (folder / "said").open("wb") as said:
        proxy = subprocess.Popen(command, stdout=said, stderr=said, env=home)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert proxy.poll() is None, (folder / "said").read_text()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield
    finally:
        proxy.terminate()
        proxy.wait(30)


KINDS: dict[str, Callable[[Path, int, str], list[str]]] = {"nginx": nginx, "caddy": caddy}


@pytest.fixture(scope="module", params=KINDS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, str, ssl.SSLContext]]:
    """Return a service, its address behind a proxy, and whom to trust there."""
    if shutil.which(request.param) is None:
        pytest.skip(f"NOT RUN: THERE IS NO {request.param.upper()}")
    folder, port = tmp_path_factory.mktemp(request.param), free_port()
    write_certificate(folder)
    settings: dict[str, Any] = {"anonymous_rate_limit_per_minute": 30}
    with running(folder / "data", **settings) as service:
        backend = service.url.removeprefix("http://")
        with at_work(KINDS[request.param](folder, port, backend), folder, port):
            trusted = ssl.create_default_context(cafile=str(folder / "fullchain.pem"))
            yield service, f"https://127.0.0.1:{port}", trusted


@pytest.mark.slow
def test_a_proxy_passes_on_what_the_service_needs(
    served: tuple[Service, str, ssl.SSLContext],
) -> None:
    _, url, trusted = served
    bearer = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with httpx.Client(base_url=url, verify=trusted, timeout=PATIENCE_S) as browser:
        form = {"key": make_key_by(browser, bearer), "next": "/desk"}
        own = {"Sec-Fetch-Site": "same-origin"}
        answer = browser.post("/desk/sign-in", data=form, headers=own)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-release-desk-session=")
        assert "secure" in cookie.lower()
        sent = {"file": ("rows.csv", ROWS), "spec": (None, json.dumps(spec()))}
        made = browser.post("/v1/datasets", files=sent, headers=bearer)
        assert made.status_code == 201, made.text
        assert made.json()["rows"] == 200_000
        assert url in browser.get("/public/feed.atom").text


def make_key_by(browser: httpx.Client, bearer: dict[str, str]) -> str:
    browser.headers.update(bearer)
    try:
        return str(make_key(browser, "analyst")["secret"])
    finally:
        del browser.headers["Authorization"]


def statuses(client: httpx.Client) -> set[int]:
    """Return what requests get that each claim to come from an address of their own."""
    claimed = ({"X-Forwarded-For": f"192.0.2.{number}"} for number in range(20))
    return {client.get("/v1/catalog", headers=each).status_code for each in claimed}


@pytest.mark.slow
def test_a_client_behind_a_proxy_does_not_choose_its_address(
    served: tuple[Service, str, ssl.SSLContext],
) -> None:
    """Each address has its rate: who could name others would have any."""
    service, url, trusted = served
    with httpx.Client(base_url=url, verify=trusted, timeout=PATIENCE_S) as client:
        assert 429 in statuses(client)
    with service.client(None) as next_to_it:  # the twin: from there the address is believed
        assert statuses(next_to_it) == {200}


def test_traefik_waits_for_large_files_and_has_the_routes() -> None:
    static = yaml.safe_load((PROXIES / "traefik.yml").read_text("utf-8"))
    (entry,) = static["entryPoints"].values()
    assert entry["transport"]["respondingTimeouts"]["readTimeout"] == "1h"
    routes = yaml.safe_load((PROXIES / "traefik-routes.yml").read_text("utf-8"))["http"]
    (router,) = routes["routers"].values()
    assert router["entryPoints"] == list(static["entryPoints"])
    assert router["service"] in routes["services"]
    assert set(router["middlewares"]) == set(routes["middlewares"])
    assert router["tls"]["certResolver"] in static["certificatesResolvers"]


def test_the_dashboard_shows_metrics_that_there_are(tmp_path: Path) -> None:
    text = (ROOT / "deploy/grafana/release-desk.json").read_text("utf-8")
    asked = set(re.findall(r"release_desk_[a-z_]+", text))
    with running(tmp_path / "data") as service, service.client() as admin:
        admin.get("/v1/datasets")
        admin.get("/v1/nowhere")
        metrics = admin.get("/metrics").text
    there = {
        sample.name
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
    }
    assert asked <= there, asked - there
    panels = json.loads(text)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
