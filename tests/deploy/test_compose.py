"""The compose file: what it names is there, and its services start, in its order."""

from __future__ import annotations

import re
import shlex
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.x509 import load_pem_x509_certificate
from sqlalchemy.engine import make_url

from app.settings import Settings
from app.store.anchor.database import DatabaseAnchor
from app.store.database.engines import is_shared
from tests.deploy.containers import Project, commands_of_the_comments
from tests.deploy.recipes import (
    ROOT,
    compose_file,
    dask_options,
    image,
    options_of,
    settings_named,
    volumes_of,
)
from tests.e2e.live import release_mean, upload
from tests.tiers import in_one

DESKS = ("release-desk", "release-desk-postgres", "release-desk-cluster")
MEMBERS = ("scheduler", "workers")
SERVICES: dict[str, dict[str, Any]] = compose_file()["services"]


@in_one("name", SERVICES)
def test_open_files_memory_and_processes_are_bounded(name: str) -> None:
    service = SERVICES[name]
    assert service["ulimits"]["nofile"]["soft"] == service["ulimits"]["nofile"]["hard"] >= 16_384
    assert re.fullmatch(r"\d+g", service["mem_limit"])
    assert 256 <= service["pids_limit"] <= 4_096


@pytest.mark.parametrize("name", DESKS)
def test_a_desk_gives_away_nothing(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["cap_drop"] == ["ALL"]
    assert service["pull_policy"] == "build", "an image of this name may be a stranger's"
    places = ["/data"] if name.endswith("postgres") else ["/anchor", "/data"]
    assert sorted(volumes_of(service)) == places, "on PostgreSQL the anchor is in a database"
    assert set(places) <= set(image().volumes)
    assert service["user"] == image().user
    files = {name: value for name, value in service["environment"].items() if "_FILE" in name}
    assert service["environment"].keys() - files.keys() <= {"RELEASE_DESK_DASK_SCHEDULER"}
    assert files == {
        f"RELEASE_DESK_{setting}_FILE": f"/run/secrets/{secret}"
        for setting, secret in (
            ("BOOTSTRAP_KEY", "admin_key"),
            ("ANCHOR_URL", "anchor_url"),
            ("DATABASE_URL", "database_url"),
            ("DASK_TLS_CA", "dask_ca"),
            ("DASK_TLS_CERT", "dask_cert"),
            ("DASK_TLS_KEY", "dask_key"),
        )
        if secret in service["secrets"]
    }


@pytest.mark.parametrize("name", DESKS)
def test_a_desk_is_started_by_a_command_that_there_is(name: str) -> None:
    service = SERVICES[name]
    options = options_of([*image().entrypoint, *service.get("command", image().command)])
    (port,) = service["ports"]
    assert port.split(":")[-1] == str(options["port"])
    assert options["host"] == "0.0.0.0"
    assert settings_named(service["environment"]).keys() == service["environment"].keys()
    grace = int(service["stop_grace_period"].removesuffix("s"))
    assert grace > 30, "longer than the desk takes to finish what it has charged"


def test_what_services_name_is_there_and_what_is_there_is_named() -> None:
    compose = compose_file()
    mounted = {name for each in SERVICES.values() for name in volumes_of(each).values()}
    files = {each for each in mounted if each.startswith("./")}
    assert all((ROOT / each).is_file() for each in files)
    mounted -= files
    assert mounted == compose["volumes"].keys()
    given = {secret for each in SERVICES.values() for secret in each["secrets"]}
    assert given == compose["secrets"].keys()
    for service in SERVICES.values():
        read = [value for name, value in service["environment"].items() if name.endswith("_FILE")]
        read += re.findall(r"=(/run/secrets/\w+)", " ".join(service.get("command", ())))
        assert sorted(read) == sorted(f"/run/secrets/{each}" for each in service["secrets"])
    files = [each["file"].removeprefix("./") for each in compose["secrets"].values()]
    made = [command.rpartition("> ")[2] for command in commands_of_the_comments()]
    assert sorted(made) == sorted(files)
    assert {f"/{file}" for file in files} <= set((ROOT / ".gitignore").read_text().split())


def test_services_wait_for_what_they_need() -> None:
    needs = {name: set(service.get("depends_on", {})) for name, service in SERVICES.items()}
    order = list(TopologicalSorter(needs).static_order())  # a circle is an error
    assert set(order) == SERVICES.keys()
    assert order.index("release-desk-postgres") > order.index("postgres-anchor")
    for service in SERVICES.values():
        for other, wanted in service.get("depends_on", {}).items():
            assert wanted == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[other] or other in DESKS, "the image has one"
            needed = set(SERVICES[other].get("profiles", service["profiles"]))
            assert needed == set(service["profiles"])


def test_it_can_serve_from_postgresql() -> None:
    names = ("postgres", "postgres-anchor")
    desk, *servers = (SERVICES[name] for name in ("release-desk-postgres", *names))
    assert desk["depends_on"].keys() == set(names)
    for server in servers:
        assert "ports" not in server, "only the desk speaks to it"
        assert "pg_isready" in server["healthcheck"]["test"]
        assert "POSTGRES_PASSWORD" not in server["environment"]
    one, other = (server["volumes"][0].split(":")[0] for server in servers)
    assert one != other, "what restores the ledger leaves the anchor as it is"
    assert options_of([*image().entrypoint, *desk["command"]])["workers"] > 1
    # What the comment says to put into the files are addresses that the settings take.
    lines = [line for line in commands_of_the_comments() if line.startswith("echo")]
    for line, name, server in zip(lines, names, servers, strict=True):
        url = make_url(shlex.split(line)[1])
        assert is_shared(url.render_as_string(hide_password=False))
        assert (url.host, url.username, url.database) == (
            name,
            server["environment"]["POSTGRES_USER"],
            server["environment"]["POSTGRES_DB"],
        )
    ledger, anchor = (re.sub(r"\$\(.*\)", "word", shlex.split(line)[1]) for line in lines)
    assert make_url(ledger).host != make_url(anchor).host
    assert DatabaseAnchor(anchor).place == "database"


def test_a_cluster_speaks_tls_and_its_workers_see_rows_and_no_keys() -> None:
    desk = SERVICES["release-desk-cluster"]
    address = desk["environment"]["RELEASE_DESK_DASK_SCHEDULER"]
    for name in MEMBERS:
        member = SERVICES[name]
        assert member["entrypoint"] == ["dask"]
        assert member["build"] == desk["build"] == {"context": ".", "args": {"EXTRAS": "[dask]"}}
        assert member["image"] == desk["image"] != SERVICES["release-desk"]["image"]
        assert member["ports"] == [], "only the cluster speaks to it"
        options = dask_options(member["command"])
        assert options["dashboard"] is False
        assert options["dashboard_address"] == "127.0.0.1:0", "its pages ask nobody for a key"
        assert all(options[f"tls_{each}"] for each in ("ca_file", "cert", "key"))
    scheduler, workers = (SERVICES[name] for name in MEMBERS)
    options = dask_options(scheduler["command"])
    assert address == f"{options['protocol']}://scheduler:{options['port']}"
    assert str(options["port"]) in scheduler["healthcheck"]["test"][-1]
    assert address in workers["command"]
    assert workers["scale"] == 2
    assert scheduler["volumes"] == []
    for mount in workers["volumes"]:
        assert mount["source"] == volumes_of(desk)["/data"]
        assert mount["read_only"] is True
        assert mount["target"] == f"/data/{mount['volume']['subpath']}", "the desk's own path"
    assert sorted(volumes_of(workers)) == ["/data/datasets", "/data/staging"]
    pems = dict.fromkeys(("dask_tls_ca", "dask_tls_cert", "dask_tls_key"), "a\nb")
    assert Settings(dask_scheduler=address, **pems).dask_scheduler == address


def test_the_certificates_of_the_comments_are_a_clusters(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("NOT RUN: there is no openssl to make certificates with")
    for command in (each for each in commands_of_the_comments() if "openssl" in each):
        subprocess.run(["/bin/sh", "-ec", command], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.create_default_context(cafile=str(tmp_path / "dask_ca.pem"))
    context.load_cert_chain(tmp_path / "dask_cert.pem", tmp_path / "dask_key.pem")
    authority, member = (
        load_pem_x509_certificate((tmp_path / f"dask_{name}.pem").read_bytes())
        for name in ("ca", "cert")
    )
    member.verify_directly_issued_by(authority)


@pytest.fixture
def project() -> Iterator[Project]:
    # Not below pytest's own directory, which PostgreSQL's user may not enter.
    home = Path(tempfile.mkdtemp(prefix="release-desk-compose-"))
    home.chmod(0o755)
    try:
        found = Project(home)
        yield found
        found.down()
    finally:
        shutil.rmtree(home)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("release-desk", ["release-desk"]),
        pytest.param(
            "release-desk-postgres",
            ["postgres", "postgres-anchor", "release-desk-postgres"],
            marks=pytest.mark.postgres,
        ),
    ],
)
def test_the_services_start_in_order_and_release(
    project: Project, name: str, order: list[str]
) -> None:
    project.up(name)
    assert list(project.running) == order
    key = (project.home / "admin_key.txt").read_text().strip()
    with httpx.Client(
        base_url=f"http://127.0.0.1:{project.ports[name]}",
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
    ) as client:
        columns = {"age": {"type": "number", "lower": 0, "upper": 100}}
        dataset = upload(client, "age\n31\n45\n", columns)["id"]
        answer = release_mean(client, dataset, column="age", epsilon="1", key="composed")
        assert answer.status_code == 201, answer.text
        anchored = client.get("/readyz").json()["anchor"]
    assert anchored == ("database" if name.endswith("postgres") else "directory")
    codes = project.down()
    assert list(codes) == order[::-1]
    assert codes[name] == 0


@pytest.mark.slow
@pytest.mark.postgres
def test_a_service_that_is_not_healthy_keeps_others_from_starting(project: Project) -> None:
    broken = project.file["services"]["postgres"]
    broken["healthcheck"] = {"test": ["CMD", "false"]}
    project.longest_s = 2.0
    with pytest.raises(AssertionError):
        project.up("release-desk-postgres")
    assert "release-desk-postgres" not in project.running
