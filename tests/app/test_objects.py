"""Objects in a store: listed, looked at and copied as one content, from nowhere else."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from app.domain.problems import Problem
from app.domain.sources import Source, located, roots_of
from app.places import source_roots
from app.settings import Settings
from app.uploads.sources import places
from app.uploads.sources.places import ObjectAccess, Objects
from tests.app.object_store import KEY_ID, SECRET, ObjectStore, etag, object_store

SENTINEL = "sentinel7719002834"

# the client leaves some connections to the collector: here, before another test goes on
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(scope="module")
def running() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def store(running: ObjectStore) -> Iterator[ObjectStore]:
    running.objects.clear()
    running.asked.clear()
    running.meanwhile, running.cut = (lambda _method, _name: None), None
    yield running
    gc.collect()


def source(pattern: str, *, files: int = 10) -> Source:
    root = "s3://people/figures"
    return located(f"{root}/{pattern}", roots_of(root), max_files=files, max_bytes=10**6)


def place(store: ObjectStore, wanted: Source, scratch: Path, key: str | None = KEY_ID) -> Objects:
    access = ObjectAccess(endpoint=store.url, key_id=key, secret=SECRET)
    return Objects(wanted, access, scratch)


def read(store: ObjectStore, scratch: Path, pattern: str, **most: int) -> list[bytes]:
    """Return each object that a pattern stands for, read twice."""
    found = place(store, source(pattern, **most), scratch)
    contents = []
    try:
        for path in found.found():
            opened = found.opened(path)
            try:
                contents.append(b"".join(opened.pieces()))
                assert b"".join(opened.pieces()) == contents[-1]
                assert opened.etag == etag(contents[-1])
                assert opened.look_again() == opened.look
            finally:
                opened.close()
    finally:
        found.close()
    assert list(scratch.iterdir()) == []
    return contents


def refusal(store: ObjectStore, scratch: Path, pattern: str = "x.csv", **most: int) -> Problem:
    with pytest.raises(Problem) as refused:
        read(store, scratch, pattern, **most)
    reported = f"{refused.value.detail}{refused.value.extras}"
    assert not any(word in reported for word in (SENTINEL, SECRET, "127.0.0.1"))
    return refused.value


def test_objects_are_found_over_pages_and_read(store: ObjectStore, tmp_path: Path) -> None:
    for name in ("b/2.csv", "b/1.csv", "a.csv", "b/_SUCCESS", "b/ö +&=1/3.csv", "b//4.csv"):
        store.objects[f"people/figures/{name}"] = name.encode()
    for name in ("people/figures2/5.csv", "people/6.csv", "others/figures/7.csv"):
        store.objects[name] = b"out of bounds"
    assert read(store, tmp_path, "**/*.csv") == [
        b"a.csv", b"b/1.csv", b"b/2.csv", "b/ö +&=1/3.csv".encode(),
    ]  # fmt: skip
    assert read(store, tmp_path, "b/1.csv") == [b"b/1.csv"]
    assert refusal(store, tmp_path, "b/*.parquet").code == "source-unreadable"
    assert refusal(store, tmp_path, "**/*.csv", files=3).extras["limit"] == "max_source_files"


def test_an_object_is_copied_by_ranges(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_RANGE_BYTES", 10)
    content = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(2))[:37]
    store.objects["people/figures/x.csv"] = content
    store.cut = 3
    assert read(store, tmp_path, "x.csv") == [content]
    assert store.asked.count(("GET", "people/figures/x.csv")) == 5  # one broke off
    store.objects["people/figures/x.csv"] = b""
    assert read(store, tmp_path, "x.csv") == [b""]


def test_an_object_that_changes_is_noticed(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_RANGE_BYTES", 2)
    store.objects["people/figures/x.csv"] = b"before"
    found = place(store, source("x.csv"), tmp_path)
    opened = found.opened(("x.csv",))
    pieces = opened.pieces()
    assert next(pieces) == b"be"
    store.objects["people/figures/x.csv"] = b"behind"
    with pytest.raises(Problem) as refused:
        next(pieces)
    assert refused.value.code == "source-changed"
    assert opened.look_again() != opened.look
    opened.close()
    found.close()


def test_no_redirect_is_followed(store: ObjectStore, tmp_path: Path) -> None:
    store.objects["people/figures/x.csv"] = b"own"
    found = place(store, source("*.csv"), tmp_path)
    with object_store() as other:
        other.objects["people/figures/x.csv"] = SENTINEL.encode()
        for status in (301, 302, 307, 308):
            for header, value in (
                ("Location", f"{other.url}/people/figures/x.csv"),
                ("x-amz-bucket-region", "eu-west-1"),
            ):
                store.asked.clear()
                store.meanwhile = partial(_instead, (status, header, value))
                for ask in (found.found, lambda: found.opened(("x.csv",))):
                    with pytest.raises(Problem) as refused:
                        ask()
                    assert refused.value.code == "source-unreadable"
                assert store.asked == [("GET", "people"), ("HEAD", "people/figures/x.csv")]
        assert other.asked == []
    found.close()


def _instead(reported: tuple[int, str, str], *_: str) -> tuple[int, str, str]:
    return reported


def test_who_may_not_read_is_told(store: ObjectStore, tmp_path: Path) -> None:
    store.objects["people/figures/x.csv"] = b"own"
    for key in (None, "another"):
        found = place(store, source("x.csv"), tmp_path, key)
        with pytest.raises(Problem, match="source-unreadable") as refused:
            found.opened(("x.csv",))
        assert "may not read" in refused.value.detail
        found.close()


def test_a_store_that_is_not_there_is_told(store: ObjectStore, tmp_path: Path) -> None:
    with object_store() as gone:
        pass
    assert gone.url != store.url
    assert "does not answer" in refusal(gone, tmp_path).detail


def test_secrets_are_not_shown() -> None:
    assert SECRET not in repr(ObjectAccess(secret=SECRET, token=SECRET))


def test_the_store_is_asked_by_tls_unless_it_is_here() -> None:
    for wrong in ("http://example.org", "ftp://127.0.0.1", "https://x/y", "http://127.0.0.1.evil"):
        with pytest.raises(ValueError, match="s3_endpoint"):
            Settings(s3_endpoint=wrong)
    for right in ("http://127.0.0.1:9000", "https://objects.example.org"):
        assert Settings(s3_endpoint=right).s3_endpoint == right


def test_a_key_needs_its_secret() -> None:
    with pytest.raises(ValueError, match="s3_access_key_id needs s3_secret_access_key"):
        Settings(s3_access_key_id="x")
    assert [root.url for root in source_roots(Settings(source_roots="s3://people/figures"))] == [
        "s3://people/figures"
    ]
