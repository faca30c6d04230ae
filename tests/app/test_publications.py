"""Publications in the ledger: their entries, their tombstones, and edits that are found."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.access import Span
from app.domain.ledger import SYSTEM_ACCOUNT
from app.store.publishing import PUBLISHED, WITHDRAWN, PublicationRecord, Wanted
from tests.app.conftest import ON_BOTH
from tests.app.ledgers import CURATOR, Ledger, Place, opened, place_on, raw


@pytest.fixture(params=ON_BOTH)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    with place_on(request.param, tmp_path) as place, opened(place) as found:
        yield found


def publish(ledger: Ledger, idem: str, kinds: tuple[str, ...] = ("mean",)) -> PublicationRecord:
    release = ledger.release(idem).id
    return ledger.store.write(
        lambda u: u.publications.publish(
            release=release, dataset=ledger.dataset, kinds=kinds, words=f"{idem} 50% people",
            content="c" * 64, principal=CURATOR, reason="a table",
        )
    )  # fmt: skip


def found(
    ledger: Ledger, before: int | None = None, limit: int = 10, **wanted: object
) -> list[str]:
    with ledger.store.reading() as reader:
        page = reader.publications.list(
            Wanted(**wanted),  # type: ignore[arg-type]
            Span(before=before, limit=limit),
        )
    return [each.release for each in page]


def test_a_publication_and_its_end_are_entries(ledger: Ledger) -> None:
    made = publish(ledger, "one")
    ended = ledger.store.write(
        lambda u: u.publications.withdraw(made.release, principal=CURATOR, note="wrong year")
    )
    assert (ended.note, ended.withdrawn_by) == ("wrong year", CURATOR)
    assert ended.published_at == made.published_at < (ended.withdrawn_at or "")
    with ledger.store.reading() as reader:
        assert reader.publications.get(made.release) == ended
        assert reader.publications.get("rel_none") is None
        entries = [e for e in reader.entries.list(SYSTEM_ACCOUNT) if "publi" in e.kind]
    assert [entry.kind for entry in entries] == [PUBLISHED, WITHDRAWN]
    assert (entries[0].seq, entries[0].fingerprint) == (made.seq, "c" * 64)
    assert ledger.store.verify().ok


def test_what_is_public_is_found_by_all_that_is_asked(ledger: Ledger) -> None:
    first, second = publish(ledger, "one"), publish(ledger, "two", ("mean", "quantile"))
    gone = publish(ledger, "three")
    ledger.store.write(
        lambda u: u.publications.withdraw(gone.release, principal=CURATOR, note="no")
    )
    assert found(ledger) == [second.release, first.release]
    assert found(ledger, limit=1) == [second.release]
    assert found(ledger, before=second.number) == [first.release]
    assert found(ledger, kind="quantile") == [second.release]
    assert found(ledger, kind="quant") == []
    assert found(ledger, words=("50%", "one")) == [first.release]
    assert found(ledger, words=("0_",)) == [], "a letter, and no pattern"
    assert found(ledger, dataset=ledger.dataset, words=("two",)) == [second.release]
    assert found(ledger, dataset="ds_none") == []
    with ledger.store.reading() as reader:
        assert reader.publications.datasets(9) == (ledger.dataset,)
        for text in (ledger.dataset, "people"):
            assert reader.publications.called(text) == ledger.dataset
        assert reader.publications.called("peopl") is None
        assert reader.publications.datasets(limit=0) == ()
        heads = reader.releases.heads([first.release, "rel_none"])
    assert [*heads] == [first.release]
    assert heads[first.release].result is None, "a list needs no numbers"


EDITS = {
    "another reason": "UPDATE publication SET reason = 'x' WHERE release = '{public}'",
    "by somebody else": "UPDATE publication SET published_by = 'x' WHERE release = '{public}'",
    "of another entry": "UPDATE publication SET seq = seq - 1 WHERE release = '{public}'",
    "public again": "UPDATE publication SET note = NULL, withdrawn_by = NULL, withdrawn_at = NULL"
    " WHERE release = '{gone}'",
    "withdrawn behind the ledger": "UPDATE publication SET note = 'x', withdrawn_by = 'x',"
    " withdrawn_at = 'x' WHERE release = '{public}'",
    "forgotten": "DELETE FROM publication WHERE release = '{gone}'",
    "made up": "INSERT INTO publication SELECT number + 9, '{other}', seq, dataset, kinds, words,"
    " reason, published_by, published_at, note, withdrawn_by, withdrawn_at FROM publication"
    " WHERE release = '{public}'",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    directory = tmp_path_factory.mktemp("original")
    with opened(directory) as ledger:
        gone = publish(ledger, "gone").release
        public = publish(ledger, "public").release
        ledger.store.write(lambda u: u.publications.withdraw(gone, principal=CURATOR, note="no"))
        names = {"public": public, "gone": gone, "other": ledger.release("other").id}
    return directory, names


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found(original: tuple[Path, dict[str, str]], tmp_path: Path, edit: str) -> None:
    directory, names = original
    shutil.copytree(directory, tmp_path / "copy")
    place = Place(tmp_path / "copy", f"sqlite:///{tmp_path / 'copy' / 'ledger.sqlite'}")
    with raw(place, guarded=False) as db:
        assert db.execute(EDITS[edit].format(**names)).rowcount == 1
    store = place.open()
    try:
        assert any("publication" in fault for fault in store.verify().faults), edit
    finally:
        store.close()
