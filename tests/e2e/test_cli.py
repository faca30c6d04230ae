"""The command line: what it prints, and what it exits with."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import httpx
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.refusals import REFUSED, UNREACHABLE
from app.places import open_store
from app.settings import Settings
from app.vault.vault import Vault
from tests.app.uploads import DataHere, columns_spec, sample_csv
from tests.e2e.live import ADMIN_KEY, LiveServer, free_port
from tests.speed import PATIENCE_S
from tests.tiers import in_one

WRONG_USAGE = 2
SPEC = {
    "name": "ages",
    "adjacency": "replace_one",
    "columns": {"age": {"type": "number", "lower": 0, "upper": 100}},
    "budget": {"epsilon": "1"},
}
MEAN = json.dumps({"kind": "mean", "columns": ["age"]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("cli") / "data") as live:
        yield live


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Point the settings to a fresh directory."""
    monkeypatch.setenv("RELEASE_DESK_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def invoke(*words: str, key: str = ADMIN_KEY, url: str = "http://127.0.0.1:1") -> Result:
    environment = {"RELEASE_DESK_URL": url, "RELEASE_DESK_KEY": key}
    return CliRunner().invoke(main, words, env=environment)


def done(*words: str, url: str, key: str = ADMIN_KEY) -> str:
    result = invoke(*words, url=url, key=key)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_a_worker_refuses_sqlite_and_names_what_it_needs(offline: Path) -> None:
    refused = invoke("worker")
    assert refused.exit_code == WRONG_USAGE
    assert "PostgreSQL" in refused.output
    assert not offline.exists()


def test_jobs_are_not_left_to_workers_that_cannot_be(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_DESK_JOB_PROCESSES", "0")
    refused = invoke("serve", "--port", "0")
    assert refused.exit_code == WRONG_USAGE
    assert "PostgreSQL" in refused.output
    assert not offline.exists()


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("WEBHOOK_URL", "https://example.org", "webhook_url needs webhook_secret"),
        ("DASK_SCHEDULER", "tcp://192.0.2.1:8786", "RELEASE_DESK_DASK_SCHEDULER: this is tls://"),
        ("DASK_SCHEDULER", "tls://192.0.2.1:8786", "dask_scheduler needs dask_tls_ca"),
        ("DASK_SCHEDULER", "tcp://127.0.0.1:9", "no Dask scheduler answers there"),
    ],
)
def test_a_wrong_setting_is_said_in_a_sentence_before_anything_is_made(
    offline: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, reported: str
) -> None:
    monkeypatch.setattr("app.engine.dask.CONNECT_S", 0.5)
    monkeypatch.setenv(f"RELEASE_DESK_{name}", value)
    refused = invoke("serve", "--port", "0")
    assert refused.exit_code == 1
    assert reported in refused.output
    assert refused.output.count("\n") == 1
    assert not offline.exists()


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


@in_one("path", [(), *commands()])
def test_every_command_and_option_is_documented(path: tuple[str, ...]) -> None:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    assert command.help
    assert command.help.strip().split("\n")[0].endswith(".")
    result = invoke(*path, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_the_contract_s_commands_are_there() -> None:
    assert {
        "serve",
        "worker",
        "migrate",
        "backup",
        "demo",
        "groups",
        "ledger",
        "keys",
        "pauses",
        "plans",
        "datasets",
        "releases",
        "audit",
        "inbox",
        "log",
        "sbom",
    } == set(main.commands)
    assert ("audit", "verify") in commands()


def make_ledger() -> None:
    open_store(Settings()).close()


def test_migrate_then_verify(offline: Path) -> None:
    make_ledger()
    assert invoke("migrate").exit_code == 0
    assert (offline / "release-desk.db").is_file()
    result = invoke("audit", "verify", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["ok"] is True


@pytest.mark.parametrize("words", [("migrate",), ("ledger", "reconcile", "--yes")], ids=" ".join)
def test_what_mends_a_ledger_makes_none(offline: Path, words: tuple[str, ...]) -> None:
    refused = invoke(*words)
    assert refused.exit_code == REFUSED
    assert f"there is no ledger at {offline.absolute()}" in refused.stderr
    assert not offline.exists()
    assert not offline.with_name(f"{offline.name}-anchor").exists()


def test_verify_without_a_ledger(offline: Path) -> None:
    result = invoke("audit", "verify")
    assert result.exit_code == REFUSED
    assert "no ledger" in result.stderr
    assert not offline.exists(), "looking must not make anything"


LOADED = """
import sys
import time
from app.cli import main
try:
    main(sys.argv[1:])
finally:
    print("loaded:", *{name.partition(".")[0] for name in sys.modules})
"""


@pytest.mark.wide
def test_migrate_and_verify_load_no_more_than_they_need(offline: Path) -> None:
    """A service loads for two seconds, most of them for what a look at the ledger never uses."""
    make_ledger()
    for command in (["migrate"], ["audit", "verify"]):
        run = subprocess.run(
            [sys.executable, "-c", LOADED, *command],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "RELEASE_DESK_DATA_DIR": str(offline)},
        )
        loaded = set(run.stdout.rpartition("loaded:")[2].split())
        assert "sqlalchemy" in loaded
        assert loaded.isdisjoint({"fastapi", "scipy", "polars", "psycopg"}), command


def test_verify_finds_an_edit(offline: Path) -> None:
    make_ledger()
    database = offline / "release-desk.db"
    edit = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "t = [r for (r,) in c.execute(\"select name from sqlite_master where type='trigger'\")];"
        "[c.execute(f'drop trigger \"{n}\"') for n in t];"
        'c.execute("update entry set hash = lower(hex(randomblob(32)))"); c.commit()'
    )
    subprocess.run([sys.executable, "-c", edit, database], check=True)
    result = invoke("audit", "verify")
    assert result.exit_code == REFUSED
    assert result.stdout.startswith("INVALID")


def test_stored_data_is_checked(offline: Path) -> None:
    engine = DataHere(Vault(offline))
    for name in ("ds_a", "ds_b"):
        engine.store(name, io.BytesIO(sample_csv(50).encode()), columns_spec())
    result = invoke("audit", "data", "--processes", "1")
    assert (result.exit_code, result.stdout) == (0, "ds_a ok\nds_b ok\n")
    part = next((offline / "datasets" / "ds_b").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    result = invoke("audit", "data", "--processes", "1")
    assert result.exit_code == REFUSED
    assert result.stdout == "ds_a ok\nds_b INVALID: TamperedError\n"


def test_stored_data_without_a_directory(offline: Path) -> None:
    result = invoke("audit", "data")
    assert result.exit_code == REFUSED
    assert "no data directory" in result.stderr
    assert not offline.exists()


@pytest.mark.usefixtures("offline")
def test_workers_on_sqlite_are_refused_by_name() -> None:
    result = invoke("serve", "--workers", "2")
    assert result.exit_code == WRONG_USAGE
    assert "PostgreSQL" in result.stderr


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BOOTSTRAP_KEY", "tooshort", "has fewer than 32 characters. It is this setting: Secret"),
        ("MAX_UPLOAD_ROWS", "many", "must be a whole number"),
        ("MAX_UPLOAD_ROWS", "-7", "must be at least 1"),
        ("LOG_LEVEL", "chatty", "must be one of 'debug', 'info', 'warning' or 'error'"),
        ("DRAIN_TIMEOUT_S", "0.0", "must be above 0"),
        ("LOG_ADDRESSES", "perhaps", "must be true or false"),
        ("CORS_ORIGINS", "nowhere", "has another form than this setting takes"),
    ],
)
def test_a_bad_setting_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"RELEASE_DESK_{name}", value)
    result = invoke("serve", "--port", "0")
    assert result.exit_code == REFUSED
    assert f"RELEASE_DESK_{name} {said}" in result.stderr
    assert value not in result.output.replace(said, "")


@pytest.mark.wide
def test_a_held_directory_is_refused_in_one_line(server: LiveServer) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "app.cli", "serve", "--port", str(free_port())],
        env={"RELEASE_DESK_DATA_DIR": str(server.data_dir)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == REFUSED
    assert result.stderr.startswith("Error: another Release Desk server")
    assert result.stderr.count("\n") == 1


@pytest.mark.wide
def test_every_line_of_a_server_has_one_form(tmp_path: Path) -> None:
    """Banner, uvicorn, Alembic and requests; with addresses, as the operator allows here."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "serve", "--port", str(port)],
        env={
            "RELEASE_DESK_DATA_DIR": str(tmp_path / "data"),
            "RELEASE_DESK_BOOTSTRAP_KEY": "k" * 40,
            "RELEASE_DESK_LOG_LEVEL": "info",
            "RELEASE_DESK_LOG_ADDRESSES": "true",
            "RELEASE_DESK_TRUSTED_PROXIES": "127.0.0.1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/livez", verify=False)
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        behind = {"X-Forwarded-For": "203.0.113.9"}
        httpx.get(f"http://127.0.0.1:{port}/v1/catalog", headers=behind)
    finally:
        server.send_signal(signal.SIGTERM)
        printed, _ = server.communicate(timeout=PATIENCE_S)
    lines = [json.loads(line) for line in printed.splitlines()]
    assert all({"at", "level", "logger", "event"} <= line.keys() for line in lines)
    assert {line["logger"].split(".")[0] for line in lines} == {"alembic", "app", "uvicorn"}
    (start,) = (line for line in lines if line["logger"] == "app.start")
    assert (start["event"], start["url"]) == ("starting", f"http://127.0.0.1:{port}")
    clients = [line["client"] for line in lines if line["event"] == "request"]
    assert clients[0] == "127.0.0.1"
    assert clients[-1] == "203.0.113.9"


def test_no_service_there() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    result = invoke("datasets", "list", url=url)
    assert result.exit_code == UNREACHABLE
    assert "no answer" in result.stderr
    assert f"Is it at {url}?" in result.stderr


@pytest.mark.parametrize("statistic", ["mean", "[1]"])
def test_a_statistic_that_is_no_object(statistic: str) -> None:
    result = invoke("releases", "ask", "ds_x", statistic, "--epsilon", "1")
    assert result.exit_code == WRONG_USAGE


def test_a_bad_key_is_refused(server: LiveServer) -> None:
    result = invoke("datasets", "list", url=server.url, key="x" * 40)
    assert result.exit_code == REFUSED
    assert "unauthorized" in result.stderr


@pytest.mark.wide
def test_a_job_is_waited_for_with_a_line_on_the_terminal(
    server: LiveServer, tmp_path: Path
) -> None:
    bounds = {"type": "number", "lower": 0, "upper": 1}
    spec = {**SPEC, "name": "jobs", "columns": dict.fromkeys("xyz", bounds)}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "rows.csv").write_text("x,y,z\n0,0.5,1\n1,0.2,0\n")
    upload = ("datasets", "upload", str(tmp_path / "rows.csv"), str(tmp_path / "spec.json"))
    dataset = done(*upload, url=server.url)
    statistic = {"kind": "quantile_regression", "target": "y", "features": ["x", "z"], "bound": 1}
    ask = ("releases", "ask", dataset, json.dumps(statistic), "--mechanism", "kng")
    priced = (*ask, "--epsilon", "0.5", "--idempotency-key", "job")
    running = json.loads(done(*priced, "--no-wait", url=server.url))
    # without a terminal there is the answer, what it is worth, and nothing else
    quiet = invoke(*priced, url=server.url)
    released = json.loads(quiet.stdout)
    worth = released["usefulness"]["sentence"]
    assert (quiet.exit_code, quiet.stderr) == (0, f"{worth}\n")
    assert (running["status"], released["status"]) == ("running", "released")
    assert released["id"] == running["id"]

    terminal, theirs = os.openpty()
    second = (*ask, "--epsilon", "0.4", "--url", server.url, "--key", ADMIN_KEY)
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", *second], stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        assert process.stdout is not None
        answer = json.loads(process.stdout.read())
        assert process.wait(30) == 0
    line = os.read(terminal, 4096).decode()
    os.close(terminal)
    assert answer["status"] == "released"
    assert f"{answer['id']} is running: 0 s (drawn in about " in line
    assert "), looking again in 1 s" in line
    assert line.rpartition("\r\x1b[K")[2].strip() == answer["usefulness"]["sentence"]


def test_a_day_at_the_desk(server: LiveServer, tmp_path: Path) -> None:
    url = server.url
    analyst = done("keys", "create", "Ann", "--role", "analyst", url=url)
    assert "Ann" in done("keys", "list", url=url)
    assert analyst not in done("keys", "list", "--json", url=url)

    (tmp_path / "rows.csv").write_text("age\n31\n45\n27\n")
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    files = (str(tmp_path / "rows.csv"), str(tmp_path / "spec.json"))
    dataset = done("datasets", "upload", *files, url=url)
    assert dataset in done("datasets", "list", url=url, key=analyst)

    price = ("--epsilon", "0.5")
    preview = json.loads(done("releases", "preview", dataset, MEAN, *price, url=url, key=analyst))
    assert preview["mechanism"] == "k_norm"
    assert preview["usefulness"]["verdict"] == "noise", "of three people"
    assume = ("--assume", '{"population": {"age": {"mean": 40, "std": 9}}}')
    assumed = done("releases", "preview", dataset, MEAN, *price, *assume, url=url, key=analyst)
    assert json.loads(assumed)["assume"]["population"]["age"]["mean"] == 40
    wanted = ("releases", "preview", SPEC["name"], MEAN, "--accuracy", "5")
    by_name = json.loads(done(*wanted, url=url, key=analyst))
    assert (by_name["dataset"], by_name["accuracy"]["wanted"]) == (dataset, 5)
    assert by_name["epsilon"] == by_name["accuracy"]["epsilon"]
    assert "--accuracy" in invoke("releases", "preview", dataset, MEAN, url=url, key=analyst).output
    untouched = done("datasets", "budget", dataset, url=url)
    shown = done("datasets", "show", SPEC["name"], url=url, key=analyst)
    assert dataset in shown
    assert "remain" in shown
    assert all(name in shown for name in SPEC["columns"])
    as_json = done("datasets", "show", dataset, "--json", url=url, key=analyst)
    assert json.loads(as_json)["id"] == dataset
    worthless = ("releases", "ask", dataset, MEAN, *price, "--careful")
    refused = invoke(*worthless, url=url, key=analyst)  # no one answers the question
    assert refused.exit_code == 1
    assert "Mostly noise." in refused.output
    assert "Pay for it all the same?" in refused.output
    assert done("datasets", "budget", dataset, url=url) == untouched
    ask = ("releases", "ask", dataset, MEAN, *price, "--idempotency-key", "first")
    answer = done(*ask, url=url, key=analyst)
    assert done(*ask, url=url, key=analyst) == answer
    release = json.loads(answer)
    assert set(release["value"]) == {"age"}
    assert done("releases", "show", release["id"], url=url) == answer
    assert release["id"] in done("releases", "list", url=url, key=analyst)
    (tmp_path / "answer.json").write_text(answer)
    (tmp_path / "keys.json").write_bytes(httpx.get(f"{url}/v1/ledger/public-keys").content)
    check = ("releases", "check", str(tmp_path / "answer.json"))
    assert json.loads(done(*check, url=url, key=analyst))["ok"] is True
    offline = (*check, "--public-key", str(tmp_path / "keys.json"))
    assert json.loads(done(*offline, url="http://127.0.0.1:1"))["release"] == release["id"]
    (tmp_path / "answer.json").write_text(answer.replace("age", "wage", 1))
    assert invoke(*check, url=url, key=analyst).exit_code == REFUSED
    broken = invoke(*offline)
    assert (broken.exit_code, broken.stderr.split(":")[0]) == (REFUSED, "INVALID")
    assert "remaining 0.5" in done("datasets", "budget", dataset, url=url)

    refused = invoke("releases", "ask", dataset, MEAN, "--epsilon", "1", url=url, key=analyst)
    assert refused.exit_code == REFUSED
    assert "budget-exceeded" in refused.stderr
    assert 'remaining: "0.5"' in refused.stderr
    grant = ("datasets", "grant", dataset, "--epsilon", "2", "--reason", "a second wave", "--yes")
    assert done(*grant, url=url) == "total 3"
    assert invoke(*grant, url=url, key=analyst).exit_code == REFUSED
    for_a_while = (*grant, "--expires", "2101-01-01T00:00:00Z")
    assert done(*for_a_while, url=url) == "total 5"
    cap = ("datasets", "cap", dataset, "bootstrap", "--reason", "to be fair")
    assert done(*cap, "--epsilon", "1.5", url=url).startswith("cap 1.5  used 0")
    assert "bootstrap" in done("datasets", "caps", dataset, url=url)
    assert "yours: cap 1.5" in done("datasets", "budget", dataset, url=url)
    assert done(*cap, url=url).startswith("cap none")

    assert done("datasets", "archive", dataset, "--yes", url=url) == "archived"
    (key,) = [
        key
        for key in map(json.loads, done("keys", "list", "--json", url=url).splitlines())
        if key["name"] == "Ann"
    ]
    assert done("keys", "duplicates", url=url) == ""
    refused = invoke("keys", "create", "ANN ", "--role", "analyst", url=url)
    assert (refused.exit_code, 'person: "Ann"' in refused.stderr) == (REFUSED, True)
    done("keys", "revoke", key["id"], "--yes", url=url)
    assert invoke("datasets", "list", url=url, key=analyst).exit_code == REFUSED


def test_versions_are_added_and_listed(server: LiveServer, tmp_path: Path) -> None:
    url = server.url
    (tmp_path / "first.csv").write_text("age\n" + "".join(f"{at}.25\n" for at in range(9)))
    (tmp_path / "more.csv").write_text("age\n" + "".join(f"{at}.75\n" for at in range(40, 46)))
    (tmp_path / "spec.json").write_text(json.dumps({**SPEC, "name": "growing"}))
    files = (str(tmp_path / "first.csv"), str(tmp_path / "spec.json"))
    first = done("datasets", "upload", *files, url=url)
    extend = ("datasets", "extend", first)
    assert "FILE or --source" in invoke(*extend, url=url).stderr
    refused = invoke(*extend, "--source", "file:///none.csv", url=url)
    assert (refused.exit_code, "source" in refused.stderr) == (REFUSED, True)
    more = str(tmp_path / "more.csv")
    assert done(*extend, more, "--check", url=url).startswith("rows: 6 read")
    assert "--check" in invoke(*extend, "--source", "file:///none.csv", "--check", url=url).stderr
    assert done("datasets", "versions", first, "--json", url=url).count(chr(10)) == 0, "one alone"
    second = done(*extend, more, url=url)

    analyst = done("keys", "create", "Vera", "--role", "analyst", url=url)
    for named in (first, second, "growing"):
        listed = done("datasets", "versions", named, url=url, key=analyst).splitlines()
        assert [line.split()[:2] for line in listed] == [
            ["version", "id"], ["2", second], ["1", first],
        ]  # fmt: skip
    reported = done("datasets", "versions", second, "--json", url=url, key=analyst)
    versions = [json.loads(line) for line in reported.splitlines()]
    assert [(each["id"], each["version"], each["rows"]) for each in versions] == [
        (second, 2, 15),
        (first, 1, 9),
    ]
    assert invoke("datasets", "versions", "ds_none", url=url).exit_code == REFUSED


def test_groups_are_printed_in_columns(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sexes = {"type": "category", "values": ["f", "not said"]}
    spec = {**SPEC, "name": "in groups", "columns": {**SPEC["columns"], "sex": sexes}}
    (tmp_path / "rows.csv").write_text("age,sex\n" + "31,f\n45,not said\n" * 500)
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    upload = ("datasets", "upload", str(tmp_path / "rows.csv"), str(tmp_path / "spec.json"))
    dataset = done(*upload, url=server.url)
    statistic = json.dumps({"kind": "mean", "columns": ["age"], "by": ["sex"]})
    ask = ("releases", "ask", dataset, statistic, "--epsilon", "0.5")
    release = json.loads(done(*ask, url=server.url))
    head, *lines = done(*ask, "--table", url=server.url).splitlines()
    assert head.split() == ["sex", "term", "value", "noise", "noise_low", "noise_high"]
    starts = ("f         age  ", "not said  age  ")
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == [True] * 2
    assert {len(line) for line in lines} == {len(head)}, "numbers end where their column ends"
    groups = release["value"]["groups"]
    values = [f"{group['value']['age']:.6g}" for group in groups]
    assert [value in line for value, line in zip(values, lines, strict=True)] == [True] * 2
    shown = done("releases", "show", release["id"], "--table", url=server.url)
    monkeypatch.setattr("app.cli.remote.is_terminal", lambda: True)
    assert shown in done("releases", "show", release["id"], url=server.url)
    assert json.loads(done("releases", "show", release["id"], "--json", url=server.url)) == release
    monkeypatch.undo()
    assert shown.splitlines() == [head, *lines], "the same line again was the same release"
    reported = done("releases", "show", release["id"], "--summary", url=server.url).splitlines()
    assert reported[:3] == [head, *lines]
    assert reported[4].startswith("There are no standard errors.")
    assert done(*ask, "--summary", url=server.url).splitlines() == reported
    counts = json.dumps({"kind": "count", "by": ["sex"]})
    preview = ("releases", "preview", dataset, counts, "--epsilon", "0.5", "--table")
    assert done(*preview, url=server.url).splitlines()[0].split()[:3] == ["sex", "term", "noise"]
    anew = json.loads(done(*ask, "--fresh", url=server.url))
    assert anew["id"] != release["id"]


@pytest.mark.wide
def test_a_review_at_the_desk(server: LiveServer, tmp_path: Path) -> None:
    url = server.url
    (tmp_path / "rows.csv").write_text("age\n33\n48\n29\n51\n")
    spec = {**SPEC, "name": "reviewed ages", "policy": {"review": "always"}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    files = (str(tmp_path / "rows.csv"), str(tmp_path / "spec.json"))
    dataset = done("datasets", "upload", *files, url=url)
    analyst = done("keys", "create", "Ada", "--role", "analyst", url=url)
    price = ("--epsilon", "0.25")
    preview = json.loads(done("releases", "preview", dataset, MEAN, *price, url=url, key=analyst))
    assert preview["review"] is True

    def ask(key: str) -> str:
        asked = invoke(
            "releases", "ask", dataset, MEAN, *price, "--idempotency-key", key, url=url, key=analyst
        )
        assert asked.exit_code == 0, asked.output
        release = json.loads(asked.stdout)
        assert release["status"] == "awaiting_review"
        assert asked.stderr.splitlines()[-1].startswith(f"{release['id']} awaits a review")
        return str(release["id"])

    first, second, third = ask("one"), ask("two"), ask("three")
    assert "reserved 0.75" in done("datasets", "budget", dataset, url=url)
    waiting = done("releases", "reviews", url=url)
    assert [line.split()[0] for line in waiting.splitlines()] == ["id", third, second, first]
    assert "Ada" in waiting
    reason = ("--reason", "as agreed")
    approve = ("releases", "approve", first, *reason, "--yes")
    own = invoke(*approve, url=url, key=analyst)
    assert own.exit_code == REFUSED
    assert "403 forbidden" in own.stderr
    assert done(*approve, url=url) == "running"
    assert invoke(*approve, url=url).exit_code == REFUSED
    assert done("releases", "reject", second, *reason, "--yes", url=url) == "rejected"
    assert done("releases", "withdraw", third, "--yes", url=url, key=analyst) == "withdrawn"
    assert "as agreed" in done("releases", "show", second, url=url, key=analyst)
    assert done("releases", "reviews", "--json", url=url) == ""
    again = ("releases", "ask", dataset, MEAN, *price, "--idempotency-key", "one")
    assert json.loads(done(*again, url=url, key=analyst))["status"] == "released"


def test_verify_beside_a_running_service(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_DESK_DATA_DIR", str(server.data_dir))
    result = invoke("audit", "verify")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("ok: ")


def test_a_statistic_that_is_no_json_is_refused_with_one_that_is() -> None:
    for wrong in ("mean", "[1]"):
        result = invoke("releases", "ask", "ds_1", wrong, "--epsilon", "1")
        assert result.exit_code == WRONG_USAGE
        assert (
            """such as '{"kind": "mean", "columns": ["income"]}', or "$(cat FILE)\""""
            in result.output
        )
