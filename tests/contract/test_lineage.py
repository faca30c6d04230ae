"""The same people get one budget: over HTTP, and when something about the digests is wrong."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.services.audit import check_lineage
from tests.contract.service import (
    Service,
    ask,
    assert_problem,
    running,
    send_upload,
    spec,
    upload,
)
from tests.speed import PATIENCE_S

COLUMNS = {
    "income": {"type": "number", "lower": 0, "upper": 5000},
    "food": {"type": "number", "lower": 0, "upper": 2500},
}


def people(seed: int | str, rows: int = 60) -> list[str]:
    chance = random.Random(seed)
    return [f"{chance.uniform(0, 5000):.3f},{chance.uniform(0, 2500):.3f}" for _ in range(rows)]


def file_of(rows: list[str]) -> str:
    return "\n".join(["income,food", *rows]) + "\n"


def shuffled(rows: list[str]) -> list[str]:
    return random.Random(7).sample(rows, len(rows))


def money(**changes: Any) -> dict[str, Any]:
    return spec(columns=COLUMNS, **changes)


def test_the_same_people_again_are_refused(curator: httpx.Client) -> None:
    rows = people(1)
    first = upload(curator, file_of(rows), columns=COLUMNS)
    refused = assert_problem(
        send_upload(curator, file_of(shuffled(rows)[:-5]), money()), 409, "overlapping-dataset"
    )
    assert refused["dataset"] == first["id"]
    assert refused["account"] == first["account"]
    assert refused.keys() <= {
        "type", "code", "title", "status", "detail", "remedy", "request_id", "dataset", "account"
    }  # fmt: skip
    # however many rows they share, the words are the same
    other = send_upload(curator, file_of(rows), money()).json()
    assert {**other, "request_id": ""} == {**refused, "request_id": ""}


def test_only_declared_columns_are_compared(curator: httpx.Client) -> None:
    content = file_of(people(21))
    one, other = ({name: COLUMNS[name]} for name in ("income", "food"))
    first = upload(curator, content, columns=one)
    upload(curator, content, columns=other)
    refused = send_upload(curator, content, spec(columns=one | other))
    assert assert_problem(refused, 409, "overlapping-dataset")["account"] == first["account"]


def test_they_may_share_the_earlier_account(curator: httpx.Client) -> None:
    rows = people(2)
    first = upload(curator, file_of(rows), columns=COLUMNS, budget={"epsilon": "1"})
    second = upload(curator, file_of(rows), columns=COLUMNS, account=first["account"], budget=None)
    assert second["account"] == first["account"]
    assert ask(curator, second["id"], epsilon="0.7").status_code == 201
    left = assert_problem(ask(curator, first["id"], epsilon="0.7"), 409, "budget-exceeded")
    assert left["remaining"] == "0.3"
    # somebody else's account does not do
    stranger = upload(curator, file_of(people(3)), columns=COLUMNS)
    refused = send_upload(curator, file_of(rows), money(account=stranger["account"]))
    assert_problem(refused, 409, "overlapping-dataset")


def test_a_second_wave_shares_the_budget_where_its_curator_says_so(curator: httpx.Client) -> None:
    """New values of the same people are not recognised; the statement is kept and public."""
    first = upload(curator, file_of(people(31)), columns=COLUMNS, same_people="no")
    wave = file_of(people(32))
    refused = send_upload(curator, wave, money(same_people="yes"))
    (error,) = assert_problem(refused, 422, "invalid-request")["errors"]
    assert (error["field"], "second budget" in error["message"]) == ("spec.same_people", True)
    both = money(same_people="yes", adjacency="nearly")
    errors = assert_problem(send_upload(curator, wave, both), 422, "invalid-request")["errors"]
    assert "spec.adjacency" in [each["field"] for each in errors]
    assert send_upload(curator, wave, money(same_people="maybe")).status_code == 422
    second = upload(
        curator, wave, columns=COLUMNS, same_people="yes", account=first["account"], budget=None
    )
    assert (second["same_people"], second["account"]) == ("yes", first["account"])
    silent = upload(curator, file_of(people(33)), columns=COLUMNS)
    assert silent["same_people"] == "not_stated"
    for dataset, said in ((first, "no"), (silent, "not stated")):
        entries = curator.get(f"/v1/datasets/{dataset['id']}/ledger").json()["items"]
        assert entries[0]["note"] == (
            f"data set upload, same people in an earlier data set: {said}"
        )


def test_archiving_first_mints_nothing(curator: httpx.Client) -> None:
    rows = people(4)
    first = upload(curator, file_of(rows), columns=COLUMNS, budget={"epsilon": "1"})
    assert ask(curator, first["id"], epsilon="0.9").status_code == 201
    assert curator.post(f"/v1/datasets/{first['id']}/archive").status_code == 200
    refused = send_upload(curator, file_of(shuffled(rows)), money())
    assert assert_problem(refused, 409, "overlapping-dataset")["account"] == first["account"]
    again = upload(curator, file_of(rows), columns=COLUMNS, account=first["account"], budget=None)
    assert again["budget"]["epsilon"]["remaining"] == "0.1"


def test_an_admin_may_override_with_a_reason(admin: httpx.Client, curator: httpx.Client) -> None:
    rows = people(5)
    first = upload(curator, file_of(rows), columns=COLUMNS)
    reasoned = money(overlap={"reason": "synthetic rows, nobody's"})
    assert_problem(send_upload(curator, file_of(rows), reasoned), 403, "forbidden")
    answer = send_upload(admin, file_of(rows), reasoned)
    assert answer.status_code == 201
    assert answer.json()["account"] != first["account"]
    entries = admin.get(f"/v1/datasets/{answer.json()['id']}/ledger").json()["items"]
    assert entries[0]["note"].endswith("synthetic rows, nobody's")
    assert admin.get("/v1/ledger/verification").json()["ok"]
    # harmless when nothing overlaps
    assert (
        send_upload(admin, file_of(people(6)), money(overlap={"reason": "to be sure"})).status_code
        == 201
    )


def test_a_table_of_few_different_rows_comes_in_twice(curator: httpx.Client) -> None:
    rows = "a,b\n" + "0,1\n1,1\n1,0\n" * 7
    columns = {"a": {"type": "boolean"}, "b": {"type": "boolean"}}
    for _ in range(2):
        upload(curator, rows, columns=columns)


@pytest.mark.wide
def test_uploads_at_once_do_not_pass_each_other(curator: httpx.Client) -> None:
    rows = people(8, rows=2_000)
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(
                lambda turn: send_upload(
                    curator, file_of(random.Random(turn).sample(rows, 1_990)), money()
                ),
                range(6),
            )
        )
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409, 409]
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"overlapping-dataset"}


@pytest.fixture
def apart(tmp_path: Path) -> Any:
    """Give a server of its own, whose files a test may break."""
    with running(tmp_path / "data") as service:
        yield service


def test_no_other_user_may_read_any_file(apart: Service) -> None:
    with apart.client() as admin:
        dataset = upload(admin, file_of(people(1)), columns=COLUMNS)["id"]
        assert ask(admin, dataset).status_code == 201
    files = [each for each in apart.data_dir.rglob("*") if each.is_file()]
    names = {each.name for each in files}
    assert {"ledger.id", "manifest.json", "part-00000.parquet", f"{dataset}.digests"} <= names
    assert not [each for each in files if each.stat().st_mode & 0o077]


def test_lost_or_altered_digests_let_nothing_in(apart: Service) -> None:
    with apart.client() as admin:
        first = upload(admin, file_of(people(1)), columns=COLUMNS)
        file = apart.data_dir / "lineage" / f"{first['id']}.digests"
        assert file.stat().st_mode & 0o777 == 0o600
        sound = file.read_bytes()
        ledger = f"sqlite:///{apart.data_dir / 'release-desk.db'}"
        assert list(check_lineage(apart.data_dir, ledger)) == []
        for broken in (None, sound[:-8], sound[:-1] + bytes([sound[-1] ^ 1])):
            file.unlink(missing_ok=True)
            if broken is not None:
                file.write_bytes(broken)
            refused = send_upload(admin, file_of(people(2)), money())
            assert assert_problem(refused, 503, "lineage-lost")["dataset"] == first["id"]
            assert list(check_lineage(apart.data_dir, ledger)) == [first["id"]]
        # attached to that account there is nothing to compare with
        upload(admin, file_of(people(2)), columns=COLUMNS, account=first["account"], budget=None)
        # an admin takes it upon himself
        upload(admin, file_of(people(3)), columns=COLUMNS, overlap={"reason": "known people"})
        file.unlink()
        file.write_bytes(sound)
        upload(admin, file_of(people(4)), columns=COLUMNS)
        assert_problem(send_upload(admin, file_of(people(1)), money()), 409)
        left = {path.name for path in file.parent.iterdir()}
        assert len(left) == 9  # the key, and two files per data set: refused uploads leave none


@pytest.mark.wide
def test_an_index_is_made_beside_uploads_and_forgets_what_is_deleted(apart: Service) -> None:
    index = apart.data_dir / "lineage" / "index"
    with apart.client() as admin:
        made = [upload(admin, file_of(people(100 + n)), columns=COLUMNS) for n in range(9)]
        upload(admin, file_of(people(200)), columns=COLUMNS)

        def runs() -> list[bytes]:
            return [file.read_bytes().split(b"\n")[0] for file in index.glob("*.run")]

        until = time.monotonic() + PATIENCE_S
        while not runs() and time.monotonic() < until:
            time.sleep(0.05)
        assert made[0]["id"].encode() in runs()[0]
        for each, rows in ((made[0], people(100)), (made[8], people(108))):
            refused = send_upload(admin, file_of(shuffled(rows)[:40]), money())
            assert assert_problem(refused, 409, "overlapping-dataset")["dataset"] == each["id"]
        assert admin.delete(f"/v1/datasets/{made[0]['id']}").status_code == 200
        assert not any(made[0]["id"].encode() in run for run in runs())
        upload(admin, file_of(people(100)), columns=COLUMNS)
        assert_problem(send_upload(admin, file_of(people(103)), money()), 409)


def test_another_key_lets_nothing_in(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service, service.client() as admin:
        upload(admin, file_of(people(1)), columns=COLUMNS)
    key = tmp_path / "data" / "lineage" / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_bytes()) == 32
    key.unlink()
    with running(tmp_path / "data") as service, service.client() as admin:
        assert_problem(send_upload(admin, file_of(people(2)), money()), 503, "lineage-lost")


def test_an_account_has_one_adjacency(curator: httpx.Client) -> None:
    rows = people(9)
    first = upload(curator, file_of(rows), columns=COLUMNS)
    other = money(account=first["account"], budget=None, adjacency="add_remove", max_rows=100)
    refused = assert_problem(send_upload(curator, file_of(rows), other), 422, "invalid-request")
    assert refused["errors"][0]["field"] == "spec.adjacency"
    for nobody in ("0", "acc_unknown"):
        refused = assert_problem(
            send_upload(curator, file_of(rows), money(account=nobody)), 422, "invalid-request"
        )
        assert refused["errors"][0]["field"] == "spec.account"
