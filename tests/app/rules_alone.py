"""A ledger on which nothing but its rules is left to refuse a statement.

On SQLite foreign keys and CHECKs are off, as they are on a stranger's connection that asks for
no more; on PostgreSQL there are none, and no unique constraints either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from string import Template

from sqlalchemy import Connection

from app.domain.policies import Role
from app.domain.releases import ReleaseState
from app.store.database.engines import migrating_engine
from app.store.database.rules import RULES, create_rules
from tests.app.dropped_rules import drop_rules
from tests.app.ledgers import (
    ANALYST,
    CURATOR,
    Place,
    approved_plan,
    drafted,
    opened,
    requested_plan,
    resent_plan,
    returned_plan,
    talked_about,
)
from tests.app.logs import log_of

_FORGED = (
    # An account whose last entry is of an epoch that has not begun.
    "UPDATE entry SET epoch = epoch + 1 WHERE account = '$later'",
    # A charge whose release goes by another name.
    "UPDATE release SET id = 'rel_renamed' WHERE id = '$renamed'",
    # A step of a study plan on another account than the system's.
    "UPDATE entry SET kind = 'study_plan_requested' WHERE account = '$third'",
)
"""What the rules let no one write: some conditions stand behind others, and show only on these."""


@contextmanager
def prepared(place: Place) -> Iterator[tuple[Connection, Mapping[str, str]]]:
    """Give a connection to a ledger that only its rules guard, and the ids in it."""
    names = _filled(place)
    sqlite = place.backend == "sqlite"
    names["REPLACE"] = "REPLACE" if sqlite else "INSERT"
    engine = migrating_engine(place.url)
    with engine.connect() as connection:
        if sqlite:
            # As on a stranger's connection, whose REPLACE also fires no triggers of DELETE.
            driver = connection.connection.driver_connection
            assert driver is not None
            for pragma in (
                "foreign_keys = OFF",
                "ignore_check_constraints = ON",
                "recursive_triggers = OFF",
            ):
                driver.execute(f"PRAGMA {pragma}")
        with connection.begin():
            if not sqlite:
                _drop_constraints(connection)
            drop_rules(connection, [rule.name for rule in RULES])
            for statement in _FORGED:
                done = connection.exec_driver_sql(Template(statement).substitute(names))
                assert done.rowcount == 1
            create_rules(connection)
        yield connection, names
    engine.dispose()


def _filled(place: Place) -> dict[str, str]:
    """Make a ledger with something of everything, and return the ids."""
    with opened(place) as ledger:
        store, main = ledger.store, ledger.account

        def grant(amount: int, expires_at: str) -> None:
            store.write(
                lambda u: u.accounts.grant(
                    main, amount, principal=CURATOR, reason="a while", expires_at=expires_at
                )
            )

        def reserve(idem: str, amount: int, account: str, dataset: str) -> str:
            made = store.write(
                lambda u: u.reviews.reserve(
                    account=account, amount=amount, dataset=dataset, principal=ANALYST,
                    request="{}", plan="{}", idem=idem,
                )
            )  # fmt: skip
            return made.id

        def account() -> str:
            return store.write(
                lambda u: u.accounts.open(total=500, principal=CURATOR, reason="first budget").id
            )

        def key(person: str, role: Role) -> str:
            return store.write(
                lambda u: u.keys.insert(
                    name=person, role=role, person=person, secret_hash=f"secret of {person}",
                    expires_at=None, principal=CURATOR,
                ).id
            )  # fmt: skip

        names = {"main": main, "dataset": ledger.dataset}
        names |= {"analysts_key": key(ANALYST, Role.ANALYST), "key": key(CURATOR, Role.CURATOR)}
        names["reviewers_key"] = key("person_rev", Role.REVIEWER)
        names["revoked_key"] = key("person_gone", Role.ANALYST)
        store.write(lambda u: u.keys.revoke(names["revoked_key"], principal=CURATOR))
        names |= {name: account() for name in ("other", "third", "later")}
        grant(50, "2999-01-01T00:00:00Z")
        log_of(ledger).extend()
        size, _ = store.write(lambda u: u.stamps.due()) or (0, "")
        store.write(lambda u: u.stamps.add(size, b"a stamp"))
        names["released"] = ledger.release("first", 10).id
        names["debited"] = ledger.debit("second", 20).id
        names["reserved"] = reserve("third", 30, main, ledger.dataset)
        names["waiting"] = reserve("fourth", 31, main, ledger.dataset)
        names["withdrawn"] = reserve("fifth", 40, main, ledger.dataset)
        store.write(
            lambda u: u.reviews.unreserve(
                names["withdrawn"], ReleaseState.WITHDRAWN, principal=ANALYST, reason="no more"
            )
        )
        names["renamed"] = ledger.debit("sixth", 15).id
        grant(60, "2001-01-01T00:00:00Z")
        assert store.write(lambda u: u.accounts.expire_due()) == 1
        names["others"] = store.write(
            lambda u: u.datasets.insert(
                name="others", account=names["other"], spec="{}", rows=3, principal=CURATOR,
                lineage="a" * 64,
            )
        ).id  # fmt: skip
        names["unasked"] = store.write(
            lambda u: u.datasets.insert(
                name="unasked", account=names["other"], spec="{}", rows=3, principal=CURATOR
            )
        ).id  # fmt: skip
        names["foreign"] = reserve("seventh", 7, names["other"], names["others"])
        for person in (ANALYST, "person_bob"):
            store.write(
                lambda u, person=person: u.accounts.set_cap(
                    main, person, 900, principal=CURATOR, reason="a slice"
                )
            )
        names["revised"] = reserve("eighth", 3, main, ledger.dataset)
        talked_about(store, names["revised"], names["dataset"])
        names["draft"] = drafted(ledger)
        names["requested"] = requested_plan(ledger)
        names["approved"] = approved_plan(ledger)
        names["returned"] = returned_plan(ledger)
        names["resent"] = resent_plan(ledger)
        assert store.verify().ok
    return names


def _drop_constraints(connection: Connection) -> None:
    for kind in ("f", "c", "u", "p"):  # a key goes only after what refers to it
        rows = connection.exec_driver_sql(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint"
            f" WHERE connamespace = 'public'::regnamespace AND contype = '{kind}'"
            " AND conrelid <> 0"
        )
        for table, name in rows.all():
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    unique = connection.exec_driver_sql(
        "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indexrelid"
        " WHERE indisunique AND relnamespace = 'public'::regnamespace"
    )
    for (name,) in unique.all():
        connection.exec_driver_sql(f"DROP INDEX {name}")
