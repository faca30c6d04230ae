"""The compose file: what it names is there, and its services start, in its order."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.engine import make_url

from app.store.anchor.database import DatabaseAnchor
from app.store.database.engines import is_shared
from tests.deploy.containers import Project, commands_of_the_comments
from tests.deploy.recipes import ROOT, compose_file, image, options_of, settings_named
from tests.e2e.live import release_mean, upload

DESKS = ("release-desk", "release-desk-postgres")
SERVICES: dict[str, dict[str, Any]] = compose_file()["services"]


@pytest.mark.parametrize("name", SERVICES)
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
    mounts = dict(volume.split(":") for volume in service["volumes"])
    places = ["/data"] if name.endswith("postgres") else ["/anchor", "/data"]
    assert sorted(mounts.values()) == places, "on PostgreSQL the anchor is in a database"
    assert set(places) <= set(image().volumes)
    assert service["user"] == image().user
    assert service["environment"] == {
        f"RELEASE_DESK_{setting}_FILE": f"/run/secrets/{secret}"
        for setting, secret in (
            ("BOOTSTRAP_KEY", "admin_key"),
            ("ANCHOR_URL", "anchor_url"),
            ("DATABASE_URL", "database_url"),
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
    mounts = [mount for each in SERVICES.values() for mount in each["volumes"]]
    assert {mount.split(":")[0] for mount in mounts} == compose["volumes"].keys()
    given = {secret for each in SERVICES.values() for secret in each["secrets"]}
    assert given == compose["secrets"].keys()
    for service in SERVICES.values():
        read = [value for name, value in service["environment"].items() if name.endswith("_FILE")]
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
            assert "healthcheck" in SERVICES[other]
            assert set(SERVICES[other]["profiles"]) == set(service["profiles"])


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
