"""Files that lie below an allowed root: what a URL may mean, and what is opened for it."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.domain.problems import Problem
from app.domain.sources import InvalidSourceError, Source, located, meets, partitions_of, roots_of
from app.places import source_roots
from app.settings import Settings, SettingsError
from app.uploads.sources.feeding import FedError, FileOfMany, fed_files, feeding
from app.uploads.sources.places import Folders
from tests.tiers import in_one

SENTINEL = "sentinel6610029384"


def source(url: str, roots: str, *, files: int = 10, size: int = 10**6) -> Source:
    return located(url, roots_of(roots), max_files=files, max_bytes=size)


@in_one(
    "url",
    [
        "file:///database/x.csv",
        "file:///data",
        "file:///data/",
        "file:///dat/x.csv",
        "file:///DATA/x.csv",
        "file:///data/../etc/passwd",
        "file:///data/./x.csv",
        "file:///data//x.csv",
        "file:///data/x.csv/",
        "file:///data/%2e%2e/etc/passwd",
        "file:///data/..%2fetc",
        "file:///data/..\\etc",
        "file:///data/x.csv?y",
        "file:///data/x.csv#y",
        "file:///data/x\0.csv",
        "file:///data/x\n.csv",
        "file://localhost/data/x.csv",
        "file://host/data/x.csv",
        "file:/data/x.csv",
        "file:////data/x.csv",
        "FILE:///data/x.csv",
        " file:///data/x.csv",
        "/data/x.csv",
        "data/x.csv",
        "http://127.0.0.1/data/x.csv",
        "https://169.254.169.254/latest/meta-data",
        "s3://data/x.csv",
        "s3://people/data/x.csv",
        "s3://people/../figures/x.csv",
        "s3://people@host/figures/x.csv",
        "s3:///figures/x.csv",
        "s3://*/figures/x.csv",
        "ftp://data/x.csv",
        "gopher:///data/x",
        "file:///*/x.csv",
        "file:///data/**x/y.csv",
        "file:///data/**/**/y.csv",
        "file:///data/**",
        "file:///data/" + "x" * 2000,
        "",
    ],
)
def test_nothing_outside_the_roots_is_named(url: str) -> None:
    with pytest.raises(InvalidSourceError) as refused:
        source(url, "file:///data,s3://people/figures")
    assert "etc" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("file:///data/x.csv", ("x.csv",)),
        ("file:///data/a b/ö=1.csv", ("a b", "ö=1.csv")),
        ("file:///data/**/*.csv", ("**", "*.csv")),
        ("s3://people/figures/2024/x", ("2024", "x")),
    ],
)
def test_what_is_below_a_root_is_named(url: str, pattern: tuple[str, ...]) -> None:
    found = source(url, " file:///data/ ,s3://people/figures, ")
    assert (found.pattern, found.url) == (pattern, url)
    assert Source.of(found.to_json()) == found


def test_without_roots_the_feature_is_off_and_says_so() -> None:
    with pytest.raises(InvalidSourceError, match="is off on this service"):
        source("file:///data/x.csv", "")


@pytest.mark.parametrize(
    "roots", ["/data", "file:///", "file:///a/../b", "file:///a*", "http://x/"]
)
def test_roots_are_roots(roots: str) -> None:
    with pytest.raises(InvalidSourceError):
        roots_of(roots)


@in_one(
    ("pattern", "path", "met"),
    [
        ("*.csv", "x.csv", True),
        ("*.csv", "x.CSV", False),
        ("*.csv", ".csv", False),
        ("*.csv", "_x.csv", False),
        ("*.csv", "a/x.csv", False),
        (".*.csv", ".x.csv", True),
        ("_x.csv", "_x.csv", True),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("*a*a*", "xaxx", False),
        ("**/x.csv", "x.csv", True),
        ("**/x.csv", "a/b/x.csv", True),
        ("**/x.csv", "a/_b/x.csv", False),
        ("**/x.csv", "a/b/y.csv", False),
        ("a/**/*.csv", "a/.b/y.csv", False),
    ],
)
def test_stars_stand_for_names(pattern: str, path: str, met: bool) -> None:
    assert meets(tuple(pattern.split("/")), tuple(path.split("/"))) is met


def test_many_stars_take_no_time() -> None:
    assert not meets(("*a" * 200 + "*b",), ("a" * 255,))


def test_folders_tell_columns() -> None:
    path = ("plain", "year=2024", "place=a%2Fb", "empty=", "left=__HIVE_DEFAULT_PARTITION__", "f=1")
    reported = {"year": "2024", "place": "a/b", "empty": "", "left": None}
    assert partitions_of(path) == reported
    for wrong in (("a=1", "a=2", "f"), ("a=%ff", "f")):
        with pytest.raises(InvalidSourceError) as refused:
            partitions_of(wrong)
        assert "%ff" not in str(refused.value)


def test_the_services_own_files_are_no_source(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "link").symlink_to(data)
    for folder in (tmp_path, data, data / "datasets", tmp_path / "link", tmp_path / "data-anchor"):
        with pytest.raises(SettingsError, match="own files lie there"):
            source_roots(Settings(data_dir=data, source_roots=f"file://{folder}"))
    (found,) = source_roots(Settings(data_dir=data, source_roots=f"file://{tmp_path}/other"))
    assert found.url == f"file://{tmp_path}/other"
    with pytest.raises(SettingsError, match="SOURCE_ROOTS"):
        source_roots(Settings(data_dir=data, source_roots="/srv"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "root"
    found.mkdir()
    return found


def folders(root: Path, pattern: str, **most: int) -> Folders:
    return Folders(source(f"file://{root}/{pattern}", f"file://{root}", **most))


def reading(root: Path, pattern: str, **most: int) -> list[bytes]:
    """Return what is read of each file that a pattern stands for."""
    place = folders(root, pattern, **most)
    contents = []
    for path in place.found():
        opened = place.opened(path)
        contents.append(b"".join(opened.pieces()))
        assert opened.look_again() == opened.look
        opened.close()
    place.close()
    return contents


def refusal(root: Path, pattern: str, **most: int) -> Problem:
    with pytest.raises(Problem) as refused:
        reading(root, pattern, **most)
    assert SENTINEL not in f"{refused.value.detail}{refused.value.extras}"
    return refused.value


def test_files_are_found_in_the_order_of_their_paths(root: Path) -> None:
    for name in [
        "b/2.csv",
        "b/1.csv",
        "a.csv",
        "b/_SUCCESS",
        "b/.2.csv.crc",
        ".c/3.csv",
        "b/c/4.csv",
    ]:
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(name)
    assert reading(root, "*/*.csv") == [b"b/1.csv", b"b/2.csv"]
    assert reading(root, "**/*") == [b"a.csv", b"b/1.csv", b"b/2.csv", b"b/c/4.csv"]
    assert reading(root, "b/c/4.csv") == [b"b/c/4.csv"]


def test_no_link_is_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / SENTINEL
    outside.mkdir()
    (outside / "x.csv").write_text("x")
    (root / "file").symlink_to(outside / "x.csv")
    (root / "folder").symlink_to(outside)
    (root / "own.csv").write_text("x")
    (root / "inner").symlink_to(root / "own.csv")
    for pattern in ("file", "folder/x.csv", "inner", "f*", "*/x.csv", "**/x.csv"):
        assert refusal(root, pattern).code == "source-unreadable"


def test_what_is_no_file_is_refused(root: Path) -> None:
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(root)
        bound.bind("socket")
        os.chdir(here)
    os.mkfifo(root / "folder" / "pipe.csv")
    for pattern in (
        *["folder", "pipe", "socket", "none", "none/x", "pipe/x", "folder/*.csv"],
        "n" * 300,
    ):
        assert refusal(root, pattern).code == "source-unreadable", pattern
    assert "no file has such a name" in refusal(root, "*.csv").detail
    assert refusal(root / "gone", "x.csv").code == "source-unreadable"


def test_a_name_that_is_no_text_is_told_and_not_repeated(root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/\xff.csv", os.O_CREAT))
    assert "no text" in refusal(root, "*.csv").detail


def test_what_may_not_be_read_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = os.open

    def denied(path: Any, *rest: Any, **options: Any) -> int:
        if path == "x.csv":
            raise PermissionError(errno.EACCES, SENTINEL)
        return opening(path, *rest, **options)

    monkeypatch.setattr(os, "open", denied)
    assert "may not read" in refusal(root, "x.csv").detail


def test_there_are_not_too_many_files(root: Path) -> None:
    for number in range(4):
        (root / f"{number}.csv").write_text("x")
    assert len(reading(root, "*.csv", files=4)) == 4
    reported = refusal(root, "*.csv", files=3)
    assert (reported.code, reported.extras["limit"]) == ("too-large", "max_source_files")
    for number in range(101):
        (root / f"{number}.txt").write_text("x")
    assert refusal(root, "*.none", files=1).code == "too-large"


class Reader:
    """The end that is fed."""

    def __init__(self, end: socket.socket) -> None:
        self._files = fed_files(end)

    def next(self) -> FileOfMany | None:
        return next(self._files, None)

    def all(self) -> list[bytes]:
        return [file.stream.read() for file in self._files]


@contextmanager
def fed(place: Folders, wanted: Source, columns: tuple[str, ...] = ()) -> Iterator[Any]:
    """Feed a reader for the block, which gets it and the feeder."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, feeding(wanted, place, ours, columns) as feeder:
        yield Reader(theirs), feeder


def feeding_of(root: Path, pattern: str, *columns: str, **most: int) -> Any:
    wanted = source(f"file://{root}/{pattern}", f"file://{root}", **most)
    return fed(Folders(wanted), wanted, columns)


def fails(root: Path, pattern: str, between: Any, **most: int) -> Problem:
    """Return what a source is refused for that something happens to after its first file."""

    def read() -> None:
        with feeding_of(root, pattern, **most) as (reader, feeder):
            assert reader.next() is not None
            between()
            with pytest.raises(FedError):
                reader.all()
            feeder.facts()

    with pytest.raises(Problem) as refused:
        read()
    return refused.value


def test_a_reader_is_fed_and_the_files_are_noted(root: Path) -> None:
    for name, content in (("year=1/a.csv", b"one"), ("year=2/a.csv", b"two")):
        (root / name).parent.mkdir()
        (root / name).write_bytes(content)
    with feeding_of(root, "*/*.csv", "year", "x") as (reader, feeder):
        first = reader.next()
        assert (first.number, first.partitions, first.stream.read()) == (1, {"year": "1"}, b"one")
        with pytest.raises(Problem):
            feeder.facts()
        second = reader.next()
        assert (second.number, second.partitions) == (2, {"year": "2"})
        assert second.stream.read() == b"two"
        assert first.stream.closed
        assert reader.next() is None
        facts = feeder.facts()
    assert facts == {
        "source": {
            "url": f"file://{root}/*/*.csv",
            "mode": "copy",
            "files": [
                {"path": f"year={n}/a.csv", "bytes": 3, "sha256": hashlib.sha256(body).hexdigest()}
                for n, body in ((1, b"one"), (2, b"two"))
            ],
        }
    }


def test_columns_that_nobody_declares_are_not_told(root: Path) -> None:
    (root / "year=1").mkdir()
    (root / "year=1" / "a.csv").write_bytes(b"one")
    with feeding_of(root, "year=1/a.csv") as (reader, _):
        only = reader.next()
        assert (only.number, dict(only.partitions)) == (None, {})
        assert reader.next() is None


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def rewritten_in_place(path: Path) -> None:
    """Change the content behind the same times, as far as a program can."""
    seen = path.stat()
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def replaced(path: Path) -> None:
    other = path.with_name(".other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


@pytest.mark.parametrize("change", [grown, rewritten_in_place, replaced])
@pytest.mark.parametrize("pattern", ["a.csv", "*.csv"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    root: Path, pattern: str, change: Any
) -> None:
    (root / "a.csv").write_bytes(b"one")
    reported = fails(root, pattern, lambda: change(root / "a.csv"))
    assert (reported.code, reported.status) == ("source-changed", 409)


def test_a_file_that_comes_meanwhile_is_noticed(root: Path) -> None:
    (root / "a.csv").write_bytes(b"one")
    assert fails(root, "*.csv", (root / "b.csv").touch).code == "source-changed"


def test_a_file_that_goes_meanwhile_is_noticed(root: Path) -> None:
    for name in ("a.csv", "b.csv", "c.csv"):
        (root / name).write_bytes(b"one")
    assert fails(root, "*.csv", (root / "c.csv").unlink).code == "source-unreadable"
    assert fails(root, "*.csv", (root / "a.csv").unlink).code == "source-unreadable"


def test_a_source_is_not_too_large(root: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (root / name).write_bytes(b"12345")
    with feeding_of(root, "*.csv", size=10) as (reader, _):
        assert reader.all() == [b"12345", b"12345"]
    reported = fails(root, "*.csv", int, size=9)
    assert (reported.code, reported.extras["limit"]) == ("too-large", "max_source_bytes")


def test_a_reader_that_leaves_ends_the_feeding(root: Path) -> None:
    (root / "a.csv").write_bytes(b"one")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    wanted = source(f"file://{root}/a.csv", f"file://{root}")
    with feeding(wanted, Folders(wanted), ours, ()) as feeder:
        theirs.close()
        with pytest.raises(Problem):
            feeder.facts()
    assert feeder.failure is None
