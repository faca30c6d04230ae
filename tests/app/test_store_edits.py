"""A thousand random edits, row by row on both databases and byte by byte: every one is found.

*What counts by row*: any other value in any column of any table, but for what is
no part of the ledger (``NOT_THE_LEDGER``).

*What counts by byte*: flipping bytes so that reading every row of every table, or
the schema, gives something else or fails, or so that SQLite itself finds the file
unsound. Other flips (free space, counters in the header, white space between the words of
the schema) change nothing.
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.domain.policies import Role
from app.domain.releases import ReleaseState
from app.services.releases.receipts import Receipts
from app.store import StoreError, Verification, inspecting
from app.store.database.engines import migrating_engine
from app.store.database.tables import metadata
from app.store.ledger.pauses import Paused
from app.store.verification.verify import verify
from tests.app.ledgers import (
    REFUSALS,
    Ledger,
    Place,
    Raw,
    approved_plan,
    opened,
    place_on,
    planned_debit,
    raw,
    requested_plan,
    resent_plan,
    talked_about,
    unguarded,
)
from tests.app.logs import log_of
from tests.tiers import wide

SEED = 20_261_121


def unnoticed() -> dict[str, set[str]]:
    """Return the columns in the table of the threat model."""
    text = (Path(__file__).parents[2] / "docs/explanation/threat-model.md").read_text("utf-8")
    _, _, reported = text.partition("### Edits that verification does not find")
    found: dict[str, set[str]] = {}
    for line in reported.partition("\n## ")[0].splitlines():
        if not line.startswith("| `"):
            continue
        listed, columns = (re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:3])
        for table in listed:
            every = metadata.tables[table].c.keys()
            assert set(columns) <= set(every), line
            found[table] = set(columns) or set(every)
    return found


NOT_THE_LEDGER = unnoticed()
"""By table: columns of which an edit is not found, as the threat model documents them."""
ANSWER = b'{"id":"rel","value":{"income":%d}}'


def done(ledger: Ledger, idem: str, amount: int = 3) -> str:
    """Charge, sign and store an answer."""
    record = ledger.debit(idem, amount)
    signed = Receipts(ledger.store).attach(record, ANSWER % amount)
    ledger.store.write(lambda u: u.releases.finish(record.id, signed))
    return record.id


def reserve(ledger: Ledger, idem: str) -> str:
    return ledger.store.write(
        lambda u: u.reviews.reserve(
            account=ledger.account, amount=2, dataset=ledger.dataset, principal="person_ann",
            request="{}", plan="{}", idem=idem,
        )
    ).id  # fmt: skip


def publish(ledger: Ledger, release: str) -> None:
    ledger.store.write(
        lambda u: u.publications.publish(
            release=release, dataset=ledger.dataset, kinds=["mean"], words="mean", content="a" * 64,
            principal="person_cleo", reason="a table",
        )
    )  # fmt: skip


def everything(ledger: Ledger) -> None:
    """Leave one of everything that a ledger can hold."""
    write = ledger.store.write
    releases = [done(ledger, f"done {number}") for number in range(5)]
    for release in releases[:2]:
        publish(ledger, release)
    write(lambda u: u.publications.withdraw(releases[0], principal="person_cleo", note="a mistake"))
    ledger.debit("left", 4)
    void = ledger.debit("void", 1)
    write(lambda u: u.releases.begin_attempt(void.id))
    write(lambda u: u.releases.void(void.id))
    again = ledger.debit("again", 1)
    write(lambda u: u.releases.begin_attempt(again.id))
    reserve(ledger, "waiting")
    talked_about(ledger.store, reserve(ledger, "talked about"), ledger.dataset)
    planned_debit(ledger, approved_plan(ledger))
    requested_plan(ledger)
    resent_plan(ledger)
    approved = reserve(ledger, "approved")
    record = write(lambda u: u.reviews.approve(approved, principal="person_cleo"))
    signed = Receipts(ledger.store).attach(record, ANSWER % 9)
    write(lambda u: u.releases.finish(approved, signed))
    for end in (ReleaseState.REJECTED, ReleaseState.WITHDRAWN, ReleaseState.EXPIRED):
        release = reserve(ledger, f"{end}")
        write(
            lambda u, r=release, e=end: u.reviews.unreserve(
                r, e, principal="person_cleo", reason="no"
            )
        )
    ledger.grant(50)
    write(
        lambda u: u.accounts.grant(
            ledger.account, 5, principal="person_cleo", reason="for a while",
            expires_at="2027-01-01T00:00:00.000000Z",
        )
    )  # fmt: skip
    write(
        lambda u: u.accounts.set_cap(
            ledger.account, "person_ann", 60, principal="person_cleo", reason="a slice"
        )
    )
    for what, name in ((Paused.PERSON, "person_dan"), (Paused.DATASET, "ds_none")):
        write(
            lambda u, w=what, n=name: u.pauses.pause(w, n, principal="person_cleo", reason="flood")
        )
    write(
        lambda u: u.pauses.resume(Paused.DATASET, "ds_none", principal="person_cleo", reason="over")
    )
    other = write(lambda u: u.accounts.open(total=7, principal="person_cleo", reason="another"))
    upload = write(
        lambda u: u.datasets.insert(
            name="others", account=other.id, spec="{}", rows=None, principal="person_cleo",
            lineage="a" * 64,
        )
    )  # fmt: skip
    write(
        lambda u: u.datasets.insert(
            name="more", account=other.id, spec="{}", rows=None, principal="person_cleo",
            extends=upload,
        )
    )  # fmt: skip
    write(lambda u: u.datasets.archive(upload.id, principal="person_cleo"))
    for number in range(2):
        key = write(
            lambda u, n=number: u.keys.insert(
                name=f"k{n}", role=Role.ANALYST, person="person_ann", secret_hash=f"{n}" * 64,
                expires_at="2027-01-01T00:00:00Z" if n else None, principal="person_ada",
            )
        )  # fmt: skip
    write(lambda u: u.keys.note_use(key.id, at="2026-11-21T12:00Z"))
    write(lambda u: u.keys.revoke(key.id, principal="person_ada"))
    log = log_of(ledger)
    log.extend()
    done(ledger, "in a second part of the log")
    log.extend()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("original")
    with opened(directory, total=100) as ledger:
        everything(ledger)
        return ledger.file


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "copy.sqlite"))


def check(file: Path) -> Verification:
    with inspecting(f"sqlite:///{file}") as reader:
        return reader.verify(signed=True)


def test_nothing_is_found_where_nothing_is_wrong(copy: Path) -> None:
    assert check(copy).faults == ()


# Rows


def tables_of(connection: sqlite3.Connection) -> list[str]:
    return [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        )
    ]


def content(file: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the schema and every row, as a reader of the file gets them."""
    with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as connection:
        connection.text_factory = lambda text: text.decode(errors="surrogateescape")
        found = {
            name: connection.execute(f'SELECT * FROM "{name}" NOT INDEXED').fetchall()
            for name in tables_of(connection)
        }
        found["schema"] = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
        ).fetchall()
    return found


def other_value(value: object, column: list[object], rng: random.Random) -> object:
    """Return another value: slightly changed, one of another row, nothing, or a far one."""
    others = [each for each in column if each != value]
    if others and rng.random() < 0.3:
        return rng.choice(others)
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 10**6, -(10**6)))
    if isinstance(value, bytes):
        place = rng.randrange(len(value))
        return value[:place] + bytes([value[place] ^ 1 << rng.randrange(7)]) + value[place + 1 :]
    if value is None or rng.random() < 0.1:
        return "x" if value is None else None
    text = str(value)
    place = rng.randrange(len(text)) if text else 0
    return text[:place] + rng.choice("abcdef0123") + text[place + 1 :]


def columns_of(connection: Raw) -> dict[str, list[str]]:
    """Return the columns of every table that an edit may be made in."""
    if connection.backend == "postgres":
        return {name: [*table.c.keys()] for name, table in sorted(metadata.tables.items())}
    return {
        table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for table in tables_of(connection.connection)
    }


def edit_a_cell(
    connection: Raw, rng: random.Random, table: str | None = None, name: str | None = None
) -> str | None:
    """Change one cell of the ledger; return what was done, or None where nothing was."""
    columns = columns_of(connection)
    table = rng.choice(sorted(columns)) if table is None else table
    names = columns[table]
    name = rng.choice(names) if name is None else name
    if name in NOT_THE_LEDGER.get(table, ()):
        return None
    listed = ", ".join(names)
    rows = connection.execute(f"SELECT {listed} FROM {table} ORDER BY {listed}").fetchall()
    if not rows:
        return None
    row = rng.choice(rows)
    value = row[names.index(name)]
    changed = other_value(value, [each[names.index(name)] for each in rows], rng)
    postgres = connection.backend == "postgres"
    same = "IS NOT DISTINCT FROM" if postgres else "IS"
    where = " AND ".join(f"{each} {same} ?" for each in names)
    # What cannot be switched off, types and keys, refuses some of them.
    with (
        contextlib.suppress(*REFUSALS),
        connection.connection.transaction() if postgres else contextlib.nullcontext(),
    ):
        connection.execute(f"UPDATE {table} SET {name} = ? WHERE {where}", (changed, *row))
        return None if changed == value else f"{table}.{name}: {value!r} -> {changed!r}"
    return None


def edits_of_rows(original: Path, directory: Path, count: int) -> Iterator[str]:
    """Make edits until so many counted, each on a fresh copy, and yield those not found."""
    rng = random.Random(SEED)
    seen: set[str] = set()
    before = content(original)
    while count:
        file = Path(shutil.copy(original, directory / "edited.sqlite"))
        with raw(file, guarded=False) as connection:
            edit = edit_a_cell(Raw(connection, "sqlite"), rng)
        if edit is None or content(file) == before:
            continue
        column = edit.partition(":")[0]
        count -= 1
        seen.add(column)
        if check(file).ok:
            yield edit
    assert len(seen) > 55, f"the edits must have tried most columns, not {sorted(seen)}"


@pytest.mark.wide
def test_every_column_is_covered_or_documented(original: Path, tmp_path: Path) -> None:
    """One edit of each column that the database takes."""
    rng, missed, taken = random.Random(SEED), [], 0
    with closing(sqlite3.connect(original)) as connection:
        columns = columns_of(Raw(connection, "sqlite"))
    assert set(NOT_THE_LEDGER) <= set(columns)
    for table, names in columns.items():
        for name in names:
            if name in NOT_THE_LEDGER.get(table, ()):
                continue
            file = Path(shutil.copy(original, tmp_path / "edited.sqlite"))
            with raw(file, guarded=False) as connection:
                edits = (
                    edit_a_cell(Raw(connection, "sqlite"), rng, table, name) for _ in range(20)
                )
                edit = next((each for each in edits if each is not None), None)
            taken += edit is not None
            if edit is not None and check(file).ok:
                missed.append(edit)
    assert missed == []
    assert taken > 100


@pytest.mark.slow
@pytest.mark.wide
def test_random_edits_of_rows_are_found(original: Path, tmp_path: Path) -> None:
    assert list(edits_of_rows(original, tmp_path, 250)) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_edits_of_rows_are_found(original: Path, tmp_path: Path) -> None:
    assert list(edits_of_rows(original, tmp_path, 1000)) == []


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_on("postgres", tmp_path_factory.mktemp("served")) as place:
        with opened(place, total=100) as ledger:
            everything(ledger)
        yield place


def edits_on_postgres(place: Place, count: int) -> Iterator[str]:
    """Make edits by somebody who may do anything, each in a transaction that is undone."""
    rng = random.Random(SEED)
    seen: set[str] = set()
    engine = migrating_engine(place.url)
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        while count:
            with connection.begin() as transaction:
                with unguarded(driver):
                    edit = edit_a_cell(Raw(driver, "postgres"), rng)
                if edit is not None:
                    count -= 1
                    seen.add(edit.partition(":")[0])
                    if verify(connection, signed=True, processes=0).ok:
                        yield edit
                transaction.rollback()
        with connection.begin():
            assert verify(connection, signed=True, processes=0).ok, "what is undone is undone"
    assert len(seen) > 25, f"the edits must have tried many columns, not {sorted(seen)}"


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.wide
def test_random_edits_on_postgresql_are_found(served: Place) -> None:
    assert list(edits_on_postgres(served, 60)) == []


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_a_thousand_edits_on_postgresql_are_found(served: Place) -> None:
    assert list(edits_on_postgres(served, 1000)) == []


# Bytes


def flip(file: Path, rng: random.Random) -> str:
    """Flip one to eight bytes next to each other."""
    data = bytearray(file.read_bytes())
    place, length = rng.randrange(len(data)), rng.choice((1, 1, 1, 2, 8))
    for offset in range(place, min(place + length, len(data))):
        data[offset] ^= rng.randrange(1, 256)
    file.write_bytes(data)
    return f"{length} bytes at {place}"


def differs(file: Path, before: dict[str, list[tuple[object, ...]]]) -> bool:
    """Return whether the flip counts: see this module's docstring."""
    try:
        if content(file) != before:
            return True
        with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as connection:
            return connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):
        return True


def is_found(file: Path) -> bool:
    try:
        return not check(file).ok
    except StoreError:
        return True  # it cannot even be opened


def outside(file: Path, before: dict[str, list[tuple[object, ...]]]) -> bool:
    """Return whether the flip is in what is no part of the ledger, in a sound file."""
    try:
        after = content(file)
        with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as connection:
            sound = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):
        return False
    return sound and stripped(before) == stripped(after)


def stripped(found: dict[str, list[tuple[object, ...]]]) -> dict[str, Any]:
    """Return a file's content without the columns of which an edit is documented as not found."""
    # white space between the words of a statement means nothing to the database
    ledger: dict[str, Any] = {
        "schema": [(*row[:-1], str(row[-1]).split()) for row in found["schema"]]
    }
    for table in found.keys() & metadata.tables.keys():
        names, apart = metadata.tables[table].c.keys(), NOT_THE_LEDGER.get(table, set())
        kept = [place for place, name in enumerate(names) if name not in apart]
        if kept:
            ledger[table] = [[row[place] for place in kept] for row in found[table]]
    return ledger


def flips_of_bytes(original: Path, directory: Path, count: int) -> Iterator[str]:
    rng = random.Random(SEED)
    before = content(original)
    tried = 0
    while count:
        tried += 1
        file = Path(shutil.copy(original, directory / "flipped.sqlite"))
        done = flip(file, rng)
        counts = differs(file, before) and not outside(file, before)
        count -= counts
        if counts and not is_found(file):
            yield done
    assert tried < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("flips", [40, *wide(150)])
def test_random_flips_of_bytes_are_found(original: Path, tmp_path: Path, flips: int) -> None:
    assert list(flips_of_bytes(original, tmp_path, flips)) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_flips_of_bytes_are_found(original: Path, tmp_path: Path) -> None:
    assert list(flips_of_bytes(original, tmp_path, 1000)) == []


# The schema


def test_a_replaced_trigger_is_found(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("DROP TRIGGER entry_no_update")
        connection.execute(
            "CREATE TRIGGER entry_no_update AFTER UPDATE ON entry BEGIN SELECT 1; END"
        )
    assert check(copy).faults == ("the schema's entry_no_update: missing or changed",)
