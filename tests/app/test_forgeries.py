"""What somebody with the host's files forges, and what then finds it.

Each forgery was once called sound: the rows that the ledger leans on were edited for as long as it
took, or together with all that was checked against them.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
from sqlalchemy import text

from app.domain.ledger import Entry, chain_hash
from app.domain.policies import Acting, Role
from app.domain.problems import Problem
from app.engine.choice import Passes
from app.services.audit import check_manifests, check_stored_data
from app.settings import Settings
from app.store import Debit, Standing, Store
from app.store.database.engines import migrating_engine
from app.store.database.rules import RULES, create_rules
from tests.app.dropped_rules import drop_rules
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened
from tests.app.test_services import new_dataset
from tests.app.test_services import opened as serving


@pytest.fixture
def unanchored(place: Place) -> Place:
    """A place where only the ledger itself tells what has been edited."""
    return replace(place, anchored=False)


def key_of(ledger: Ledger, role: Role, person: str = ANALYST) -> str:
    return ledger.store.write(
        lambda u: u.keys.insert(
            name="a key", role=role, person=person, secret_hash=f"{role} {person}",
            expires_at=None, principal="bootstrap",
        ).id
    )  # fmt: skip


def grant_by(ledger: Ledger, acting: Acting, person: str = ANALYST) -> Entry:
    return ledger.store.write(
        lambda u: u.by(acting).accounts.grant(ledger.account, 9, principal=person, reason="more")
    )


_CHECK = {"sqlite": "SELECT 1", "postgres": "SET CONSTRAINTS ALL IMMEDIATE"}
"""What PostgreSQL wants done before a table's triggers are made."""


def edit(place: Place, *statements: str, **values: object) -> None:
    """Change rows while no rule is there to refuse it."""
    engine = migrating_engine(place.url)
    with engine.connect() as connection, connection.begin():
        drop_rules(connection, [rule.name for rule in RULES])
        for statement in statements:
            connection.execute(text(statement), values)
        connection.exec_driver_sql(_CHECK[place.backend])
        create_rules(connection)
    engine.dispose()


def reopened(place: Place) -> Store:
    return place.open()


def test_entries_say_by_which_key_and_role_they_were_made(place: Place) -> None:
    with opened(place) as ledger:
        key = key_of(ledger, Role.CURATOR, CURATOR)
        entry = grant_by(ledger, Acting(key, "curator"), CURATOR)
        assert (entry.key, entry.role) == (key, "curator")
        assert entry.hash == chain_hash(entry, ledger.store.identity.id)
        assert replace(entry, role="admin").sealed(ledger.store.identity.id).hash != entry.hash
        # and what the service does next to it, by itself
        ledger.store.write(lambda u: u.by(Acting(key, "curator")).accounts.expire_due())
        after = ledger.store.write(lambda u: u.accounts.system_entry("noted", principal="system"))
        assert (after.key, after.role) == (None, "system")
        assert ledger.store.verify().ok


def test_a_role_edited_for_as_long_as_a_grant_takes_is_found(place: Place) -> None:
    """The row is as it was, and the entry does not fit it any more."""
    with opened(place) as ledger:
        key = key_of(ledger, Role.ANALYST)
        with pytest.raises(Exception, match="not made by a key in a role that allows it"):
            grant_by(ledger, Acting(key, "admin"))
        edit(place, "UPDATE api_key SET role = 'admin' WHERE id = :key", key=key)
        forged = grant_by(ledger, Acting(key, "admin"))
        edit(place, "UPDATE api_key SET role = 'analyst' WHERE id = :key", key=key)
        found = ledger.store.verify()
        said = "it was not made by a key in a role that allows it"
        assert found.faults == (f"account {ledger.account}, entry {forged.seq}: {said}",)
        assert ledger.store.frozen is Standing.EDITED
        with pytest.raises(Problem, match="ledger-frozen"):
            ledger.debit("a")
    store = reopened(place)
    assert store.frozen is Standing.EDITED
    store.close()


def test_only_entries_that_there_are_are_said_to_be_nobodys(place: Place) -> None:
    """The smallest account and the smallest place of some acts may belong to no one of them."""
    with opened(place) as ledger:
        store, why = ledger.store, {"principal": CURATOR, "reason": "more"}
        other = store.write(lambda u: u.accounts.open(total=5, **why)).id
        first, second = sorted((ledger.account, other))
        for _ in range(5):
            store.write(lambda u: u.accounts.grant(first, 1, **why))
        key = key_of(ledger, Role.ANALYST)
        edit(place, "UPDATE api_key SET role = 'admin' WHERE id = :key", key=key)
        for account in (second, first):
            store.write(
                lambda u, to=account: u.by(Acting(key, "admin")).accounts.grant(
                    to, 1, principal=ANALYST, reason="more"
                )
            )
        edit(place, "UPDATE api_key SET role = 'analyst' WHERE id = :key", key=key)
        seqs = [last_entry(store, each).seq for each in (first, second)]
        assert seqs[0] > seqs[1]
        said = "it was not made by a key in a role that allows it"
        assert set(store.verify().faults) == {
            f"account {account}, entry {seq}: {said}"
            for account, seq in zip((first, second), seqs, strict=True)
        }


@pytest.mark.parametrize("role", ["curator", "admin"])
def test_a_charge_in_a_role_that_its_key_never_had_is_found(place: Place, role: str) -> None:
    with opened(place) as ledger:
        key = key_of(ledger, Role.ANALYST)
        edit(place, "UPDATE api_key SET role = :role WHERE id = :key", role=role, key=key)
        ask = Debit(
            dataset=ledger.dataset, principal=ANALYST, idem="a", amount=1, request="{}",
            plan="{}", acting=Acting(key, role),
        )  # fmt: skip
        charged = ledger.store.write(ask).record
        edit(place, "UPDATE api_key SET role = 'analyst' WHERE id = :key", key=key)
        (fault,) = ledger.store.verify().faults
        assert fault.startswith(f"account {ledger.account}, entry {charged.seq}: it was not made")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE api_key SET role = 'admin'",
        "UPDATE api_key SET person = 'person_eve'",
        "UPDATE dataset SET spec = '[]'",
        "UPDATE dataset SET status = 'archived', archived_at = 'now'",
        "UPDATE cap SET amount = amount + 1",
    ],
)
def test_a_start_looks_at_keys_policies_archives_and_caps(place: Place, statement: str) -> None:
    with opened(place) as ledger:
        key_of(ledger, Role.ANALYST)
        ledger.store.write(
            lambda u: u.accounts.set_cap(
                ledger.account, ANALYST, 5, principal=CURATOR, reason="a slice"
            )
        )
    store = reopened(place)
    assert store.frozen is None
    store.close()
    edit(place, statement)
    store = reopened(place)
    assert store.frozen is Standing.EDITED
    with pytest.raises(Problem, match="ledger-frozen"):
        store.write(lambda u: u.accounts.open(total=1, principal=CURATOR, reason="x"))
    store.close()


def test_a_cap_edited_for_as_long_as_a_charge_takes_is_not_found(place: Place) -> None:
    """As the threat model says: by which rules a charge was judged no entry holds."""
    with opened(place) as ledger:
        ledger.store.write(
            lambda u: u.accounts.set_cap(
                ledger.account, ANALYST, 1, principal=CURATOR, reason="a slice"
            )
        )
        with pytest.raises(Problem, match="budget-exceeded"):
            ledger.debit("a", 3)
        edit(place, "UPDATE cap SET amount = 3")
        ledger.debit("a", 3)
        assert ledger.store.verify().faults != (), "while it stands there it is found"
        edit(place, "UPDATE cap SET amount = 1")
        assert ledger.store.verify().ok


_MOVED = "UPDATE account SET seq = :seq, total = :total_after, head = :hash WHERE id = :account"
_OPENED = (
    "INSERT INTO account (id, seq, total, spent, reserved, head)"
    " VALUES (:account, :seq, :total_after, 0, 0, :hash)"
)


def forge(place: Place, ledger: str, entry: Entry, account: str = _MOVED) -> None:
    """Insert an entry, hashed as it should be, and let its account follow."""
    forged = entry.sealed(ledger)
    columns = {field.name: getattr(forged, field.name) for field in fields(forged)}
    marks = ", ".join(f":{name}" for name in columns)
    edit(place, account, f"INSERT INTO entry ({', '.join(columns)}) VALUES ({marks})", **columns)


def granted_after(before: Entry, **made_by: object) -> Entry:
    """Return what a grant after an entry would be."""
    return replace(
        before, seq=before.seq + 1, kind="grant", amount=9, prev=before.hash, release=None,
        idem=None, fingerprint=None, total_after=before.total_after + 9, **made_by,
    )  # fmt: skip


def last_entry(store: Store, account: str) -> Entry:
    with store.reading() as reader:
        return reader.entries.list(account)[-1]


def test_a_grant_without_a_role_that_allows_it_is_found(unanchored: Place) -> None:
    """Written past the rules, chained and hashed, and its account moved along."""
    with opened(unanchored) as ledger:
        key = key_of(ledger, Role.ANALYST)
        before = last_entry(ledger.store, ledger.account)
        forge(
            unanchored, ledger.store.identity.id,
            granted_after(before, key=key, role="analyst", principal=ANALYST),
        )  # fmt: skip
        place = f"account {ledger.account}, entry {before.seq + 1}"
        said = "it was not made by a key in a role that allows it"
        assert f"{place}: {said}" in ledger.store.verify().faults


def test_the_rules_take_no_entry_without_a_role(place: Place) -> None:
    with (
        opened(place) as ledger,
        pytest.raises(
            Exception, match=r"(?i)not made by a key in a role that allows it|not null|null value"
        ),
    ):
        grant_by(ledger, Acting(None, None))  # type: ignore[arg-type]


# Rows


def test_other_rows_with_a_fitting_manifest_are_found(tmp_path: Path) -> None:
    """Every file fits its manifest, and every sketch its rows: only the ledger knows better.

    Nothing is charged for them, and ``audit data`` says so.
    """

    async def scenario() -> None:
        async with serving(tmp_path) as (_, services):
            kept.append(await new_dataset(services))
            kept.append(await new_dataset(services, rows=b"x\n0.25\n0.75\n", name="another"))

    kept: list[str] = []
    asyncio.run(scenario())
    url = Settings(data_dir=tmp_path).resolved_database_url
    assert [*check_manifests(tmp_path, url)] == []
    ours, others = (tmp_path / "datasets" / name for name in kept)
    shutil.rmtree(ours)
    shutil.copytree(others, ours)
    manifest = ours / "manifest.json"
    manifest.write_text(manifest.read_text().replace(kept[1], kept[0]))
    assert dict(check_stored_data(tmp_path, Passes())) == dict.fromkeys(kept)
    assert [*check_manifests(tmp_path, url)] == kept[:1]

    async def asked() -> None:
        async with serving(tmp_path) as (_, services):
            with pytest.raises(Problem, match="dataset-unreadable"):
                await services.readable.require(kept[0])
            await services.readable.require(kept[1])
            assert services.readable.unreadable == 1

    asyncio.run(asked())
