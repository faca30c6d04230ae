"""Verification against somebody who edits the file with every guard off."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.domain.policies import Role
from app.store import StoreError, Verification, inspecting
from app.store.ledger.entries import Entries
from tests.app.ledgers import Place, opened, raw

# Everything the chain covers, column by column.
COLUMNS = {
    table: columns.split()
    for table, columns in {
        "entry": "account seq epoch kind principal release idem fingerprint note amount total_after"
        " spent_after reserved_after at prev hash",
        "account": "id seq total spent reserved head",
        "ledger": "id",
        "release": "id account seq dataset principal request plan fingerprint result result_hash",
        "dataset": "id name account spec rows",
        "api_key": "id name role person secret_hash expires_at",
    }.items()
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed ledger with two accounts and a few of everything."""
    directory = tmp_path_factory.mktemp("original")
    with opened(directory, total=100) as ledger:
        for number in range(6):
            ledger.release(f"done {number}", 3, result=b'{"value": 1}')
        ledger.debit("left", 4)
        ledger.grant(50)
        other = ledger.store.write(
            lambda u: u.accounts.open(total=7, principal="person_cleo", reason="another")
        )
        ledger.store.write(
            lambda u: u.accounts.grant(other.id, 1, principal="person_cleo", reason="more")
        )
        for number in range(2):
            key = ledger.store.write(
                lambda u, n=number: u.keys.insert(
                    name="k",
                    role=Role.ANALYST,
                    person="person_ann",
                    secret_hash=f"{n}" * 64,
                    expires_at=None,
                    principal="person_ada",
                )
            )
        ledger.store.write(lambda u: u.keys.revoke(key.id, principal="person_ada"))
        file = ledger.file
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return file


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "copy.sqlite"))


def check(file: Path) -> Verification:
    with inspecting(f"sqlite:///{file}") as reader:
        return reader.verify()


def test_nothing_is_found_where_nothing_is_wrong(copy: Path) -> None:
    found = check(copy)
    assert found.ok
    assert found.faults == ()
    assert found.entries == 19


def changed(value: object, rng: random.Random) -> object:
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 10**6))
    if isinstance(value, bytes):
        return value + b" "
    if value is None:
        return "x"
    text = str(value)
    place = rng.randrange(len(text)) if text else 0
    return text[:place] + rng.choice("abcdef0123") + text[place + 1 :]


def random_edit(connection: sqlite3.Connection, rng: random.Random) -> str | None:
    """Edit one cell; return what was done, or None where that changed nothing."""
    table = rng.choice(list(COLUMNS))
    column = rng.choice(COLUMNS[table])
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()
    names = [name for (_, name, *_) in connection.execute(f"PRAGMA table_info({table})")]
    row = dict(zip(names, rng.choice(rows), strict=True))
    value = changed(row[column], rng)
    if value == row[column]:
        return None
    keys = {"entry": ("account", "seq")}.get(table, ("id",))
    where = " AND ".join(f"{key} = ?" for key in keys)
    try:
        connection.execute(
            f"UPDATE {table} SET {column} = ? WHERE {where}",
            (value, *(row[key] for key in keys)),
        )
    except sqlite3.IntegrityError:  # a type or uniqueness that cannot be switched off
        return None
    return f"{table}.{column}: {row[column]!r} -> {value!r}"


@pytest.mark.slow
def test_random_edits_are_all_found(original: Path, tmp_path: Path) -> None:
    rng = random.Random(20_261_121)
    done: set[str] = set()
    for number in range(200):
        file = Path(shutil.copy(original, tmp_path / f"{number}.sqlite"))
        with raw(file, guarded=False) as connection:
            edit = random_edit(connection, rng)
        if edit is not None:
            assert not check(file).ok, edit
            done.add(edit.split(":")[0])
        file.unlink()
    assert len(done) >= 30, "the edits must have tried most columns"


def test_a_damaged_page_is_a_fault_and_not_an_error(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'entry'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(copy.read_bytes())
    content[(root - 1) * size : root * size] = bytes(size)
    copy.write_bytes(content)
    assert not check(copy).ok


def test_a_file_that_is_no_database_is_refused(copy: Path) -> None:
    copy.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="cannot be opened"):
        check(copy)


def test_the_head_follows_every_entry(place: Place) -> None:
    with opened(place) as ledger:
        heads = []
        for number in range(3):
            heads.append(ledger.store.verify().head)
            ledger.release(f"k{number}")
        assert len({*heads, ledger.store.verify().head}) == 4


def test_entries_are_listed_as_they_are_chained(place: Place) -> None:
    with opened(place) as ledger:
        for number in range(5):
            ledger.release(f"k{number}")
        with ledger.store.reading() as r:
            entries: Entries = r.entries
            page = entries.list(ledger.account, limit=4)
            rest = entries.list(ledger.account, after=page[-1].seq)
        assert [entry.seq for entry in (*page, *rest)] == [1, 2, 3, 4, 5, 6]
        assert [a.hash for a in (*page, *rest)][:-1] == [b.prev for b in (*page, *rest)][1:]
