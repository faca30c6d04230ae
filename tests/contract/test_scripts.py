"""Releases and questions as programs: they run as they come, and hold no key."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.client import Dataset, ReleaseDesk
from app.settings import PREFIX
from tests.contract.examples import with_examples
from tests.contract.programs import pack_client, program_of, run_python
from tests.contract.service import MEAN, Service, ask, assert_problem, make_key, spent, upload
from tests.contract.test_estimates import KINDS

ODD = "wages of \"Łódź\" \\ 'n' 😀 # "
BY_REGION = {**MEAN, "by": ["region"]}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_client(tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def key(admin: httpx.Client) -> str:
    return str(make_key(admin, "analyst")["secret"])


@pytest.fixture(scope="module")
def desk(service: Service, key: str) -> Iterator[ReleaseDesk]:
    with ReleaseDesk(service.url, key) as found:
        yield found


@pytest.fixture
def wages(desk: ReleaseDesk, curator: httpx.Client) -> Dataset:
    """Return a data set under a name that is hard to write down."""
    return desk.dataset(upload(curator, name=f"{ODD}{uuid4()}")["name"])


def run(text: str, packed: Path, service: Service, key: str) -> str:
    assert key not in text
    return run_python(text, packed, url=service.url, key=key)


def test_a_release_is_read_by_its_script(
    service: Service, packed: Path, desk: ReleaseDesk, wages: Dataset, key: str
) -> None:
    release = wages.release(BY_REGION, epsilon="0.5", purpose='for "Table 2"\nof the report')
    reported = run(desk.script(release), packed, service, key)
    assert release.to_text() in reported
    assert reported.splitlines()[-1] == "True", "the receipt is good"
    assert desk.budget(wages).epsilon.spent == "0.5"


@pytest.mark.wide
def test_a_script_asks_where_it_is_told_to_and_pays_once(
    service: Service, packed: Path, desk: ReleaseDesk, wages: Dataset, key: str
) -> None:
    text = wages.script(BY_REGION, epsilon="0.5", purpose="Table 2")
    rehearsed = run(text, packed, service, key)
    assert wages.preview(BY_REGION, epsilon="0.5").usefulness["sentence"] in rehearsed
    assert wages.dry_run(BY_REGION, epsilon="0.5").to_text() in rehearsed
    assert desk.budget(wages).epsilon.spent == "0"
    paying = text.replace("ASK = False", "ASK = True")
    first, second = (run(paying, packed, service, key) for _ in range(2))
    assert first == second
    release = wages.release(BY_REGION, epsilon="0.5", purpose="Table 2")
    assert release.to_text() in first
    assert desk.budget(wages).epsilon.spent == "0.5"
    again = desk.script(release).replace("ASK = False", "ASK = True")
    assert run(again, packed, service, key).count(release.to_text()) == 2
    assert desk.budget(wages).epsilon.spent == "0.5"


def test_what_a_preview_assumes_is_in_its_script(
    service: Service, packed: Path, wages: Dataset, key: str
) -> None:
    assume = {"population": {"income": {"mean": 60, "std": 2}}}
    text = wages.script(MEAN, epsilon="9", assume=assume, accuracy=0.5)
    reported = run(text, packed, service, key)
    assert wages.dry_run(MEAN, epsilon="9", assume=assume).to_text() in reported
    assert "'accuracy': 0.5" in text


@pytest.mark.wide
def test_notebooks_run_cell_by_cell(
    service: Service, packed: Path, desk: ReleaseDesk, wages: Dataset, key: str
) -> None:
    release = wages.release(BY_REGION, epsilon="0.5")
    of_release = desk.script(release, language="notebook")
    of_question = wages.script(BY_REGION, epsilon="0.5", language="notebook")
    preview = wages.preview(BY_REGION, epsilon="0.5")
    for notebook, answer in ((of_release, release), (of_question, preview)):
        reported = run(program_of(notebook), packed, service, key)
        assert answer._repr_html_() in reported


@pytest.mark.parametrize(
    "statistic", with_examples(list(KINDS.values())), ids=lambda each: each["kind"]
)
def test_every_question_is_written_in_both_languages(
    desk: ReleaseDesk, untouched: str, statistic: dict[str, Any]
) -> None:
    asked = {"statistic": statistic, "epsilon": "0.5"}
    text = desk.dataset(untouched).script(statistic, epsilon="0.5")
    found = {
        node.targets[0].id: ast.literal_eval(node.value)  # type: ignore[attr-defined]
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
    }
    preview = desk.preview(untouched, asked["statistic"], epsilon="0.5")
    assert found["question"] == preview.statistic
    assert found["choice"] == {"mechanism": "auto", "norm": "auto", "epsilon": "0.5"}
    in_r = desk.dataset(untouched).script(statistic, epsilon="0.5", language="r")
    assert in_r.isascii()
    assert f'kind = "{statistic["kind"]}"' in in_r


def test_the_command_line_prints_both(
    service: Service, desk: ReleaseDesk, wages: Dataset, key: str
) -> None:
    release = wages.release(MEAN, epsilon="0.1")
    environment = {f"{PREFIX}URL": service.url, f"{PREFIX}KEY": key}

    def printed(*arguments: str) -> str:
        done = CliRunner().invoke(main, arguments, env=environment)
        assert done.exit_code == 0, done.output
        return done.stdout

    reported = printed("releases", "script", release.id, "--language", "r")
    assert reported == desk.script(release, language="r")
    asked = ("--epsilon", "0.1", "--assume", '{"rows": 9}', "--language", "notebook")
    reported = printed("datasets", "script", wages.id, json.dumps(MEAN), *asked)
    assert reported == wages.script(MEAN, epsilon="0.1", assume={"rows": 9}, language="notebook")


@pytest.mark.parametrize(
    ("language", "kind", "ending"),
    [("python", "text/x-python", "py"), ("r", "text/x-r", "R"),
     ("notebook", "application/x-ipynb+json", "ipynb")],
)  # fmt: skip
def test_a_script_is_a_file(
    curator: httpx.Client, dataset: str, language: str, kind: str, ending: str
) -> None:
    release = ask(curator, dataset).json()["id"]
    answer = curator.get(f"/v1/releases/{release}/script", params={"language": language})
    assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{release}.{ending}"'
    refused = curator.get(f"/v1/releases/{release}/script", params={"language": "cobol"})
    assert_problem(refused, 422, "invalid-request")


def test_a_script_tells_nothing_of_a_draw(curator: httpx.Client, analyst: httpx.Client) -> None:
    reviewed = upload(curator, policy={"review": "always"})["id"]
    waiting = ask(analyst, reviewed).json()["id"]
    path = f"/v1/releases/{waiting}"
    before = analyst.get(f"{path}/script").text
    seen = curator.get(path).headers["etag"]
    body = {"decision": "reject", "reason": "no"}
    assert curator.post(f"{path}/decision", json=body, headers={"If-Match": seen}).is_success
    assert analyst.get(f"{path}/script").text == before


def test_an_archived_data_set_is_named_by_its_id(curator: httpx.Client, dataset: str) -> None:
    release = ask(curator, dataset).json()["id"]
    assert f"desk.dataset('{dataset}')" not in curator.get(f"/v1/releases/{release}/script").text
    curator.post(f"/v1/datasets/{dataset}/archive")
    assert f"desk.dataset('{dataset}')" in curator.get(f"/v1/releases/{release}/script").text
    assert spent(curator, dataset) == "0.1"
