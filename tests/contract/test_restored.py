"""People whom a restored database has forgotten: their account comes back, and no second one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from sqlalchemy.engine import make_url

from app.cli import main
from app.places import open_anchor
from app.services.audit import check_lineage
from app.settings import Settings
from app.store import Findings, reconciling
from tests.app.ledgers import place_on
from tests.contract.service import ask, assert_problem, running, send_upload, spec, upload

COLUMNS = {
    "income": {"type": "number", "lower": 0, "upper": 5000},
    "food": {"type": "number", "lower": 0, "upper": 2500},
}


def file_of(seed: int) -> str:
    chance = random.Random(seed)
    rows = [f"{chance.uniform(0, 5000):.3f},{chance.uniform(0, 2500):.3f}" for _ in range(60)]
    return "\n".join(["income,food", *random.Random().sample(rows, 60)]) + "\n"


def money(**changes: Any) -> dict[str, Any]:
    return spec(columns=COLUMNS, **changes)


@dataclass
class Desk:
    """A service whose database can be put back."""

    data_dir: Path
    database: dict[str, str]

    @property
    def lineage(self) -> Path:
        return self.data_dir / "lineage"

    def life(self, act: Callable[[httpx.Client], Any]) -> Any:
        """Serve until something has been done, and return what came of it."""
        with running(self.data_dir, **self.database) as service, service.client() as admin:
            return act(admin)

    def save(self) -> Callable[[], None]:
        """Copy the database; what is returned puts it back."""
        if self.database:
            from tests.app.postgres import databases

            name = str(make_url(self.database["database_url"]).database)
            databases().administer(f'CREATE DATABASE "{name}_saved" TEMPLATE "{name}"')

            def put_back() -> None:
                databases().administer(f'DROP DATABASE "{name}" WITH (FORCE)')
                databases().administer(f'ALTER DATABASE "{name}_saved" RENAME TO "{name}"')

            return put_back
        file = self.data_dir / "release-desk.db"
        saved = shutil.copy(file, self.data_dir.parent / "saved.db")

        def copy_back() -> None:
            for suffix in ("-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)
            shutil.copy(saved, file)

        return copy_back

    def reconcile(self) -> Findings:
        settings = Settings(data_dir=self.data_dir, **self.database)  # type: ignore[arg-type]
        with reconciling(
            settings.resolved_database_url, data_dir=self.data_dir, anchor=open_anchor(settings)
        ) as ledger:
            findings = ledger.findings()
            ledger.apply()
        return findings


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)],
)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    directory = tmp_path / "data"
    if request.param == "sqlite":
        yield Desk(directory, {})
        return
    from tests.app.postgres import databases

    with place_on("postgres", directory) as place:
        anchor = databases().url(databases().empty())
        yield Desk(directory, {"database_url": place.url, "anchor_url": anchor})


@pytest.fixture
def here(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "data", {})


def forget(
    desk: Desk, *, epsilon: str = "1", **changes: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Upload known people, save, upload others and spend all of it, and put the old one back."""
    known = desk.life(lambda admin: upload(admin, file_of(1), columns=COLUMNS))

    def spend(admin: httpx.Client) -> Any:
        gone = upload(admin, file_of(2), columns=COLUMNS, **{"budget": {"epsilon": "1"}, **changes})
        assert ask(admin, gone["id"], epsilon=epsilon).status_code == 201
        return gone

    put_back = desk.save()
    gone = desk.life(spend)
    put_back()
    return known, gone


def sound(admin: httpx.Client) -> None:
    verification = admin.get("/v1/ledger/verification").json()
    assert verification["ok"], verification


@pytest.mark.slow
def test_forgotten_people_come_back_to_their_account(desk: Desk) -> None:
    known, gone = forget(desk)
    found = desk.reconcile()
    assert found.lost == {gone["account"]: 10**9}
    assert [each.dataset for each in found.forgotten] == [gone["id"]]

    def come_back(admin: httpx.Client) -> None:
        for elsewhere in ({}, {"account": known["account"]}):
            refused = send_upload(admin, file_of(2), money(**elsewhere))
            problem = assert_problem(refused, 409, "overlapping-dataset")
            assert (problem["dataset"], problem["account"]) == (gone["id"], gone["account"])
        upload(admin, file_of(3), columns=COLUMNS)  # other people are no one's
        join = {"account": gone["account"], "budget": None}
        refused = send_upload(admin, file_of(2), money(**join, adjacency="add_remove", max_rows=99))
        assert assert_problem(refused, 422)["errors"][0]["field"] == "spec.adjacency"
        again = upload(admin, file_of(2), columns=COLUMNS, **join)
        assert again["account"] == gone["account"]
        assert again["budget"]["epsilon"]["spent"] == "1"
        assert_problem(ask(admin, again["id"]), 409, "budget-exceeded")
        sound(admin)

    desk.life(come_back)
    # again, and again in the next life: nothing is left to do, and the data set is found itself
    assert desk.reconcile().forgotten == ()
    refused = desk.life(lambda admin: send_upload(admin, file_of(2), money()))
    assert assert_problem(refused, 409)["account"] == gone["account"]


@pytest.mark.wide
def test_an_admin_may_override_for_forgotten_people(here: Desk) -> None:
    forget(here)
    here.reconcile()
    reason = {"reason": "synthetic"}
    answer = here.life(lambda admin: send_upload(admin, file_of(2), money(overlap=reason)))
    assert answer.status_code == 201


@pytest.mark.slow
def test_people_without_digests_may_be_anybody(desk: Desk) -> None:
    known, gone = forget(desk)
    for file in desk.lineage.glob(f"{gone['id']}.*"):
        file.unlink()
    assert desk.reconcile().forgotten == ()

    def come_back(admin: httpx.Client) -> None:
        for elsewhere in ({}, {"account": known["account"]}):
            refused = send_upload(admin, file_of(3), money(**elsewhere))
            assert assert_problem(refused, 503, "lineage-lost")["accounts"] == [gone["account"]]
        # one override is for one upload
        upload(admin, file_of(3), columns=COLUMNS, overlap={"reason": "known to be others"})
        assert_problem(send_upload(admin, file_of(4), money()), 503, "lineage-lost")
        upload(admin, file_of(2), columns=COLUMNS, account=gone["account"], budget=None)
        upload(admin, file_of(4), columns=COLUMNS)
        refused = send_upload(admin, file_of(2), money())
        assert assert_problem(refused, 409)["account"] == gone["account"]
        sound(admin)

    desk.life(come_back)


@pytest.mark.wide
def test_digests_that_are_found_later_tell_after_another_reconciliation(here: Desk) -> None:
    _, gone = forget(here)
    kept = {file: file.read_bytes() for file in here.lineage.glob(f"{gone['id']}.*")}
    for file in kept:
        file.unlink()
    here.reconcile()
    for file, content in kept.items():
        file.write_bytes(content)
    found = here.reconcile()
    assert (found.lost, [each.dataset for each in found.forgotten]) == ({}, [gone["id"]])

    def come_back(admin: httpx.Client) -> None:
        refused = assert_problem(send_upload(admin, file_of(2), money()), 409)
        assert refused["account"] == gone["account"]
        upload(admin, file_of(3), columns=COLUMNS)

    here.life(come_back)


@pytest.mark.wide
def test_digests_without_an_account_may_be_of_any_opened_again(here: Desk) -> None:
    _, gone = forget(here)
    (here.lineage / f"{gone['id']}.account").unlink()
    (forgotten,) = here.reconcile().forgotten
    assert forgotten.origin is None

    def come_back(admin: httpx.Client) -> None:
        problem = assert_problem(send_upload(admin, file_of(2), money()), 409)
        assert problem["account"] == gone["account"], "there is no other"
        assert_problem(send_upload(admin, file_of(3), money()), 503, "lineage-lost")
        join = {"account": gone["account"], "budget": None}
        for _ in range(2):
            upload(admin, file_of(2), columns=COLUMNS, **join)
        upload(admin, file_of(3), columns=COLUMNS)

    here.life(come_back)


@pytest.mark.wide
def test_forgotten_digests_are_kept_to_what_they_were(here: Desk) -> None:
    _, gone = forget(here)
    here.reconcile()
    ledger = f"sqlite:///{here.data_dir / 'release-desk.db'}"
    assert list(check_lineage(here.data_dir, ledger)) == []
    (here.lineage / f"{gone['id']}.digests").unlink()
    assert list(check_lineage(here.data_dir, ledger)) == [gone["id"]]
    refused = here.life(lambda admin: send_upload(admin, file_of(3), money()))
    assert assert_problem(refused, 503, "lineage-lost")["dataset"] == gone["id"]


def test_an_account_opened_again_counts_as_it_did(here: Desk) -> None:
    _, gone = forget(here, epsilon="0.1", budget={"epsilon": "3", "delta": "1e-6"})
    here.reconcile()

    def come_back(admin: httpx.Client) -> Any:
        join = {"account": gone["account"], "budget": {"epsilon": "3", "delta": "1e-7"}}
        refused = send_upload(admin, file_of(2), money(**join))
        assert assert_problem(refused, 422)["errors"][0]["field"] == "spec.budget.delta"
        return upload(admin, file_of(2), columns=COLUMNS, account=gone["account"], budget=None)

    again = here.life(come_back)
    assert again["budget"]["delta"] == gone["budget"]["delta"]


@pytest.mark.wide
def test_people_of_whom_nothing_was_spent_are_new(here: Desk) -> None:
    here.life(lambda admin: upload(admin, file_of(1), columns=COLUMNS))
    put_back = here.save()
    here.life(lambda admin: upload(admin, file_of(2), columns=COLUMNS))
    put_back()
    assert here.reconcile().forgotten == ()
    here.life(lambda admin: upload(admin, file_of(2), columns=COLUMNS))


@pytest.mark.wide
def test_people_who_joined_a_known_account_are_told_too(here: Desk) -> None:
    known = here.life(lambda admin: upload(admin, file_of(1), columns=COLUMNS))
    put_back = here.save()
    join = {"account": known["account"], "budget": None}
    here.life(lambda admin: upload(admin, file_of(2), columns=COLUMNS, **join))
    put_back()
    here.reconcile()

    def come_back(admin: httpx.Client) -> None:
        problem = assert_problem(send_upload(admin, file_of(2), money()), 409)
        assert problem["account"] == known["account"]
        upload(admin, file_of(2), columns=COLUMNS, **join)

    here.life(come_back)


@pytest.mark.wide
def test_without_an_anchor_digests_are_all_that_is_known(here: Desk) -> None:
    """No one knows what was spent, so nothing is opened again; an admin decides."""
    forget(here)
    shutil.rmtree(here.data_dir.with_name("data-anchor"))
    assert here.reconcile().lost == {}
    problem = assert_problem(
        here.life(lambda admin: send_upload(admin, file_of(2), money())), 409, "overlapping-dataset"
    )
    assert problem["accounts"] == []


TARGET = {"epsilon": "9", "delta": "1e-6"}


def said_before(desk: Desk) -> str:
    """Return what an operator is told who then goes no further."""
    settings = {"RELEASE_DESK_DATA_DIR": str(desk.data_dir)}
    reported = CliRunner(env=settings).invoke(main, ["ledger", "reconcile"], input="n\n")
    assert reported.exit_code == 1
    return reported.output


@pytest.mark.parametrize("lineage", [True, False])
def test_the_operator_is_told_in_the_units_of_a_forgotten_account(
    here: Desk, lineage: bool
) -> None:
    _, gone = forget(here, budget=TARGET)
    if not lineage:
        for file in here.lineage.glob(f"{gone['id']}*"):
            file.unlink()
    burned = "0.5 rho" if lineage else "500000000000 units"
    assert f"account {gone['account']}: {burned} will be burned" in said_before(here)


@pytest.mark.wide
def test_the_operator_is_told_in_the_units_of_each_account(here: Desk) -> None:
    def both(admin: httpx.Client) -> list[dict[str, Any]]:
        budgets = TARGET, {"epsilon": "9"}
        return [
            upload(admin, file_of(seed), columns=COLUMNS, budget=budget)
            for seed, budget in enumerate(budgets)
        ]

    made = here.life(both)
    put_back = here.save()
    here.life(lambda admin: [ask(admin, each["id"], epsilon="1") for each in made])
    put_back()
    reported = said_before(here)
    for each, burned in zip(made, ("0.5 rho", "1 epsilon"), strict=True):
        assert f"account {each['account']}: {burned} will be burned" in reported
