"""The R package: installed from the tree into a library of its own, and used against a server.

Where R is missing, or one of the packages that the tests need, every test is skipped aloud.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from app.client import Dataset, ReleaseDesk
from app.settings import PREFIX
from tests.documents import ROOT, Document
from tests.e2e.live import ADMIN_KEY, LiveServer, upload
from tests.e2e.r import PACKAGE, has_r, installed, run_r

ODD = "wages of \"Łódź\" \\ 'n' 😀"
BY_SEX = {"kind": "mean", "columns": ["age"], "by": ["sex"]}
RUN_TESTS = """
library(testthat)
test_dir("testthat", package = "releasedesk", load_package = "installed", reporter = "summary")
"""


def test_both_clients_say_the_same() -> None:
    described = dict(
        line.split(": ", 1)
        for line in (PACKAGE / "DESCRIPTION").read_text("utf-8").splitlines()
        if re.match(r"\w+: ", line)
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert described["Version"] == project["version"]
    assert described["License"] == "MIT + file LICENSE"


@pytest.fixture(scope="module")
def library() -> Path:
    """Return a library with the package in it."""
    if not has_r("httr2", "jsonlite", "testthat"):
        pytest.skip("R IS MISSING (or httr2, jsonlite, testthat): THE R PACKAGE WAS NOT TESTED")
    return installed()


@pytest.fixture(scope="module")
def lying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose files the service may read."""
    return tmp_path_factory.mktemp("lying")


@pytest.fixture(scope="module")
def server(
    library: Path, lying: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    allowed = {f"{PREFIX}SOURCE_ROOTS": f"file://{lying}"}
    with LiveServer(tmp_path_factory.mktemp("served") / "data", **allowed) as live:
        yield live


@pytest.fixture(scope="module")
def settings(server: LiveServer) -> Mapping[str, str]:
    return {f"{PREFIX}URL": server.url, f"{PREFIX}KEY": ADMIN_KEY}


@pytest.fixture(scope="module")
def wages(server: LiveServer) -> Iterator[Dataset]:
    """Return a data set under a name that is hard to write down."""
    columns = {
        "age": {"type": "number", "lower": 0, "upper": 100},
        "sex": {"type": "category", "values": ["f", "m"]},
    }
    with server.client() as client, ReleaseDesk(server.url, ADMIN_KEY) as desk:
        made = upload(client, "age,sex\n" + "31,f\n45,m\n" * 50, columns, name=ODD)
        yield desk.dataset(made["id"])


@pytest.mark.slow
def test_its_own_tests_pass(library: Path, settings: Mapping[str, str]) -> None:
    told = run_r(RUN_TESTS, library, settings, PACKAGE / "tests")
    assert "DONE" in told
    assert "Skipped" not in told, told


@pytest.mark.slow
def test_all_that_is_exported_is_documented(library: Path, tmp_path: Path) -> None:
    faults = "c(tools::undoc('releasedesk'), tools::codoc('releasedesk'))"
    pages = "unlist(lapply(list.files(commandArgs(TRUE), full.names = TRUE), tools::checkRd))"
    asked = f"library(releasedesk); stopifnot(!length(unlist({faults})))"
    run_r(asked, library, {}, tmp_path)
    run_r(pages.replace("commandArgs(TRUE)", f"'{PACKAGE / 'man'}'"), library, {}, tmp_path)


@pytest.mark.slow
def test_the_readme_runs(library: Path, settings: Mapping[str, str], tmp_path: Path) -> None:
    page = Document("clients/r/README.md", (PACKAGE / "README.md").read_text("utf-8"))
    blocks = [block.text for block in page.blocks if block.language == "r"]
    assert len(blocks) > 5
    program = tmp_path / "readme.R"
    program.write_text("\n".join(blocks), "utf-8")
    told = run_r(program, library, settings, tmp_path)
    assert "budget-exceeded with " in told
    assert (tmp_path / "means.pdf").stat().st_size > 1000


REGISTER = """
library(releasedesk)
columns <- list(age = list(type = "number", lower = 0, upper = 100))
spec <- list(name = "lying", adjacency = "replace_one", budget = list(epsilon = "1"),
  columns = columns, policy = list(allowed = "mean"))
made <- register(release_desk(), "file://FOLDER/*.csv", spec)
print(made)
print(extend_dataset(made, url = "file://FOLDER/later/ages.csv"))
spec$name <- "none"
refused <- tryCatch(register(release_desk(), "file://FOLDER/none.csv", spec),
  desk_problem_source_unreadable = function(problem) "refused")
print(refused)
"""


@pytest.mark.slow
@pytest.mark.wide
def test_rows_are_registered_where_they_lie(
    library: Path, settings: Mapping[str, str], lying: Path, tmp_path: Path
) -> None:
    (lying / "ages.csv").write_text("age\n" + "".join(f"{20 + at}.5\n" for at in range(30)))
    (lying / "later").mkdir()
    (lying / "later" / "ages.csv").write_text("age\n" + "".join(f"{at}.25\n" for at in range(12)))
    program = tmp_path / "register.R"
    program.write_text(REGISTER.replace("FOLDER", str(lying)), "utf-8")
    told = run_r(program, library, settings, tmp_path)
    assert "lying" in told
    assert "30 rows" in told
    assert "42 rows" in told
    assert '"refused"' in told


@pytest.mark.slow
def test_programs_that_the_service_writes_run_and_both_languages_pay_once(
    library: Path, settings: Mapping[str, str], wages: Dataset, tmp_path: Path
) -> None:
    asked = wages.script(BY_SEX, epsilon="0.5", language="r", assume={"rows": 90})
    program = tmp_path / "program.R"

    def told(text: str) -> str:
        assert ADMIN_KEY not in text
        program.write_text(text, "utf-8")
        return run_r(program, library, settings, tmp_path)

    assert "<desk_dry_run>" in told(asked)
    assert wages.budget_left().epsilon.spent == "0"
    first = told(asked.replace("ASK <- FALSE", "ASK <- TRUE"))
    release = wages.release(BY_SEX, epsilon="0.5")
    assert f"<desk_release> {release.id} " in first, "R and Python name a question alike"
    assert wages.budget_left().epsilon.spent == "0.5"
    read = told(wages.desk.script(release, language="r"))
    assert f"<desk_release> {release.id} " in read
    assert "[1] TRUE" in read, "the receipt is good"


PURPOSE = 'a "b" \\ \n é 😀'
QUESTIONS = [
    {"kind": "stack", "parts": [{"statistic": BY_SEX, "share": 2}]},
    {"kind": "histogram", "columns": ["age"], "edges": {"age": [0, 20.5, 100]}},
    {"kind": "mean", "columns": ["age"], "where": [{"column": "sex", "op": "==", "value": "f"}]},
    {"kind": "quantile", "column": "age", "levels": [0.1, 1e-7, 0.5]},
]
SHOW = 'cat(releasedesk:::to_json(c(list(statistic = question), choice)), "\\n")'


@pytest.mark.slow
@pytest.mark.wide
def test_what_is_written_for_r_reads_back_as_it_was_asked(
    library: Path, server: LiveServer, wages: Dataset, tmp_path: Path
) -> None:
    lines = ["library(releasedesk)"]
    for question in QUESTIONS:
        text = wages.script(question, epsilon="0.5", language="r", purpose=PURPOSE)
        found = re.search(r"^question <- .*?\n\n", text, re.MULTILINE | re.DOTALL)
        assert found
        lines += [found[0], SHOW]
    program = tmp_path / "literals.R"
    program.write_text("\n".join(lines), "utf-8")
    shown = run_r(program, library, {}, tmp_path).splitlines()
    path, kind = f"/v1/datasets/{wages.id}/dry-runs", {"Content-Type": "application/json"}
    with server.client() as client:
        for question, body in zip(QUESTIONS, shown, strict=True):
            asked = {"statistic": question, "epsilon": "0.5", "purpose": PURPOSE}
            sent = client.post(path, content=body, headers=kind)
            assert sent.status_code == 200, sent.text
            assert sent.text == client.post(path, json=asked).text
