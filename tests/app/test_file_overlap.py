"""The same people by columns that nobody declared before, and strangers who share lists."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from app.uploads.file_columns import FileDigests
from app.uploads.ingest import ingest
from app.uploads.overlap import tables_overlap
from app.uploads.row_digests import MalformedError, RowDigester, RowDigests
from tests.app.test_lineage import KEY, csv_of, parquet_of, spec_of

Change = Callable[[pl.DataFrame], pl.DataFrame]


def table(rows: int = 300, *, seed: int = 1) -> pl.DataFrame:
    """Return numbers and codes of people."""
    chance = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "income": chance.lognormal(7, 1, rows).round(2),
            "age": chance.integers(18, 90, rows),
            "owner": chance.random(rows) < 0.5,
            "food": chance.lognormal(6, 1, rows).round(2),
            "size": chance.integers(1, 6, rows),
            "rent": chance.normal(900, 200, rows).round(),
        }
    )


def texts(rows: int = 300, *, seed: int = 1) -> pl.DataFrame:
    """Return eight columns of few texts each."""
    chance = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            f"answer {number}": [
                f"{'xyz'[number % 3]}-{code}" for code in chance.integers(0, 5, rows)
            ]
            for number in range(8)
        }
    )


def digested(
    frame: pl.DataFrame, declared: Sequence[str], *, parquet: Path | None = None
) -> RowDigests:
    """Digest a file of which some columns are declared, and send it through its stored form."""
    content = csv_of(frame) if parquet is None else parquet_of(frame, parquet / "file.parquet")
    spec = spec_of(frame.select(declared))
    digester = RowDigester(KEY, spec)
    with tempfile.TemporaryFile() as file:  # Parquet needs a descriptor
        file.write(content)
        file.seek(0)
        for _ in ingest(file, spec, digester=digester):
            pass
    return RowDigests.from_bytes(digester.finish().to_bytes())


def halves(frame: pl.DataFrame) -> tuple[list[str], list[str]]:
    names = frame.columns
    return names[: len(names) // 2], names[len(names) // 2 :]


def shuffled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sample(fraction=1, shuffle=True, seed=3)


def indexed(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_row_index("n", offset=1)


def without_first(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop(frame.columns[0])


def renamed(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.rename({name: f"renamed {place}" for place, name in enumerate(frame.columns)})


def noisy(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(noise=pl.Series(np.random.default_rng(9).random(frame.height)))


CHANGES: dict[str, Change] = {
    "an index": indexed,
    "a column less": without_first,
    "renamed, a column less": lambda frame: renamed(without_first(frame)),
    "an index, a column less": lambda frame: indexed(without_first(frame)),
    "a column of noise": noisy,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("kind", [table, texts])
@pytest.mark.parametrize("rows", [60, 300, 3_000])
def test_the_other_half_is_declared_of_a_file_that_was_changed(
    kind: Callable[..., pl.DataFrame], change: Change, rows: int
) -> None:
    before = kind(rows)
    after = change(shuffled(before))
    old = digested(before, halves(before)[0])
    new = digested(after, after.columns[-len(halves(before)[1]) :])
    assert tables_overlap(new, old)
    assert tables_overlap(old, new)
    # must fail: other people in the same columns
    others = change(kind(rows, seed=2))
    assert not tables_overlap(digested(others, others.columns[-3:]), old)


@pytest.mark.parametrize("rows", [60, 3_000])
def test_several_columns_are_dropped_added_and_renamed(rows: int) -> None:
    before = table(rows)
    after = renamed(shuffled(before).drop("age", "income")).with_row_index("n")
    assert tables_overlap(digested(after, ["renamed 3"]), digested(before, ["income", "age"]))


def test_csv_first_and_then_parquet_of_texts(tmp_path: Path) -> None:
    before = table()
    first, second = halves(before)
    old = digested(before, first)
    for people, same in ((shuffled(before), True), (table(seed=2), False)):
        # but for the one that is declared, which must be a number
        spelt = people.with_columns(pl.all().exclude("rent").cast(pl.String))
        assert "rent" in second
        new = digested(spelt, ["rent"], parquet=tmp_path)
        assert tables_overlap(new, old) is same


def test_text_columns_alone() -> None:
    before = texts()
    first, second = halves(before)
    assert tables_overlap(digested(shuffled(before), second), digested(before, first))
    assert not tables_overlap(digested(texts(seed=2), second), digested(before, first))


def test_part_of_the_people_by_other_columns() -> None:
    before, others = table(1_000), table(1_000, seed=2)
    first, second = halves(before)
    old = digested(before, first)
    assert tables_overlap(digested(before.sample(300, seed=1), second), old)
    mixed = pl.concat([others[:600], before[:400]])
    assert tables_overlap(digested(mixed, second), old)
    assert not tables_overlap(digested(pl.concat([others, before[:50]]), second), old)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_one_value_in_every_format(form: str, tmp_path: Path) -> None:
    """CSV "1.0", Parquet "1" and 1.0, days and their texts, true and True: one person."""
    rows = 200
    chance = np.random.default_rng(1)
    days = pl.Series(chance.integers(0, 365, rows)).cast(pl.Date)
    plain = pl.DataFrame(
        {
            "money": chance.integers(0, 10**6, rows).astype(float),
            "day": days,
            "time": days.cast(pl.Datetime("us")),
            "member": chance.random(rows) < 0.5,
            "name": [f"Name {number} Öre" for number in chance.integers(0, 10**6, rows)],
            "code": chance.integers(0, 5, rows),
        }
    )
    spelt = plain.select(
        pl.col("money").cast(pl.Int64).cast(pl.String) + ".0",
        pl.col("day").cast(pl.String),
        pl.col("time").dt.to_string("%Y-%m-%d %H:%M:%S"),
        pl.col("member").cast(pl.String).str.to_uppercase(),
        pl.lit("  ") + pl.col("name").str.to_uppercase() + " ",
        pl.col("code"),
    )
    other = None if form == "csv" else tmp_path
    one = digested(plain, ["code"], parquet=tmp_path)
    two = digested(spelt, ["code"], parquet=other)
    for ours, theirs in zip(one.file.sums, two.file.sums, strict=True):
        assert ours.sample.digests.tolist() == theirs.sample.digests.tolist()


@pytest.mark.parametrize(
    ("decimal", "thousands"), [(",", ""), (",", "."), (",", " "), (",", "'"), (".", ",")]
)
def test_numbers_with_other_signs_are_the_same_people(decimal: str, thousands: str) -> None:
    """As spreadsheets write them; the other half is declared."""
    frame = table()
    signs = str.maketrans({",": thousands, ".": decimal})
    spelt = frame.with_columns(
        pl.Series(name, [f"{number:,.2f}".translate(signs) for number in frame[name]])
        for name in ("income", "food", "rent")
    )
    assert spelt["income"].str.contains(decimal, literal=True).all()
    kept = digested(frame, ["owner", "size"])
    assert tables_overlap(digested(spelt, ["age"]), kept)
    assert tables_overlap(kept, digested(spelt, ["age"]))
    strangers = spelt.with_columns(pl.Series(name, table(seed=2)[name]) for name in spelt.columns)
    assert not tables_overlap(digested(strangers, ["age"]), kept)


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u202f"])
def test_numbers_with_any_spaces_between_their_digits_are_the_same_people(space: str) -> None:
    chance = np.random.default_rng(4)
    frame = pl.DataFrame({name: chance.integers(20, 4_000_000, 300) for name in "abcdef"})
    spelt = frame.with_columns(
        pl.Series(name, [f"{number:,}".replace(",", space) for number in frame[name]])
        for name in "cdef"
    ).with_columns(pl.Series("b", table(seed=2)["income"][:300]))
    assert tables_overlap(digested(spelt, ["b"]), digested(frame, ["a"]))
    assert tables_overlap(digested(frame, ["a"]), digested(spelt, ["b"]))


def test_whole_numbers_with_commas_between_their_digits_are_the_same_people() -> None:
    chance = np.random.default_rng(3)
    frame = pl.DataFrame({name: chance.integers(20, 4_000_000, 300) for name in "abcdef"})
    spelt = frame.with_columns(
        pl.Series(name, [f"{number:,}" for number in frame[name]]) for name in frame.columns
    )
    assert tables_overlap(digested(spelt, ["b"]), digested(frame, ["a"]))
    assert tables_overlap(digested(frame, ["b"]), digested(spelt, ["a"]))
    # where another comma stands before decimals, they all do
    weights = frame.select(pl.col("a", "b", "c") / 1000)
    other = weights.with_columns(
        pl.Series(name, [f"{number:.3f}".replace(".", ",") for number in weights[name]])
        for name in weights.columns
    )
    assert tables_overlap(digested(other, ["b"]), digested(weights, ["a"]))


def lists(rows: int) -> pl.DataFrame:
    """Return what strangers share: ranks, days one after the other, and places."""
    places = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "rank": np.arange(1, rows + 1),
            "day": pl.Series(np.arange(rows) % 365).cast(pl.Date).cast(pl.String),
            "week": np.arange(rows) % 365 // 7,
            "place": places.random(rows).round(6),
        }
    )


def own(rows: int, seed: int) -> pl.DataFrame:
    """Return what nobody else has: ones and zeros, small integers, a place of a few, money."""
    chance = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "flag": chance.random(rows) < 0.5,
            "rare": chance.random(rows) < 0.05,
            "children": chance.integers(0, 5, rows),
            "town": chance.choice([f"town {number}" for number in range(40)], rows),
            "birthday": pl.Series(chance.integers(0, 365, rows)).cast(pl.Date).cast(pl.String),
            "age": chance.integers(18, 90, rows),
            "money": chance.lognormal(7, 1, rows).round(2),
        }
    )


@pytest.mark.parametrize("rows", [40, 365, 2_000])
@pytest.mark.parametrize(
    "kept",
    [
        ["flag", "children"],
        ["flag", "rare"],
        ["children", "town"],
        ["flag", "rare", "children", "town", "birthday", "age"],
        ["birthday", "age", "flag"],
        ["money"],
        ["money", "flag", "birthday"],
    ],
)
def test_strangers_with_the_same_lists_are_no_overlap(rows: int, kept: list[str]) -> None:
    for listed in (["rank"], ["rank", "day"], ["place"], ["rank", "day", "week", "place"]):
        one, other = (
            digested(
                pl.concat([lists(rows)[listed], own(rows, seed)[kept]], how="horizontal"), [kept[0]]
            )
            for seed in (1, 2)
        )
        assert not tables_overlap(one, other), listed


def test_strangers_who_live_in_the_same_places_are_no_overlap() -> None:
    places = pl.DataFrame(
        {
            "lat": np.random.default_rng(3).uniform(46, 49, 120).round(4),
            "lon": np.random.default_rng(4).uniform(10, 17, 120).round(4),
            "name": [f"place {number}" for number in range(120)],
        }
    )
    for columns in (["lat", "lon"], ["lat", "lon", "name"]):
        for mine in (["children", "flag"], ["money"], ["money", "age"]):
            one, other = (
                digested(
                    pl.concat([places[columns], own(120, seed)[mine]], how="horizontal"), [mine[0]]
                )
                for seed in (1, 2)
            )
            assert not tables_overlap(one, other), (columns, mine)


def test_what_the_handbook_says_is_not_recognised() -> None:
    """Under other columns: a telling column in other units, and as many made-up rows."""
    frame = table()
    kept, others = halves(frame)
    old = digested(frame, kept)
    assert tables_overlap(digested(frame.with_columns(pl.col("age") * 1.1), others), old)
    scaled = frame.with_columns(pl.col("income") * 1.1)
    assert not tables_overlap(digested(scaled, others), old)
    made_up = pl.DataFrame([shuffled(frame[[name]])[name] for name in others])
    made_up = made_up.hstack([frame[name].reverse() for name in kept]).select(frame.columns)
    mixed = pl.concat([frame, made_up])
    assert tables_overlap(digested(mixed, others), old)
    noise = np.random.default_rng(5).random((len(mixed), 2))
    hidden = mixed.with_columns(more=noise[:, 0], noise=noise[:, 1])
    assert not tables_overlap(digested(hidden, others), old)
    assert tables_overlap(digested(hidden, kept), old), "what is declared again is recognised"


@pytest.mark.wide
def test_what_is_kept_of_a_file_is_bounded() -> None:
    rows = 50_000
    wide = pl.DataFrame(np.random.default_rng(1).random((rows, 30)).round(6))
    kept = digested(wide, ["column_0"])
    assert len(kept.file.columns) == 24
    assert len(kept.file.body()) < 1 << 20


def test_digests_of_an_earlier_version_are_still_compared() -> None:
    """They hold no columns of the file but a sum over numbers, and that goes on to tell."""
    before = table()
    first, second = halves(before)
    whole = digested(before, first)
    old = RowDigests(whole.key, whole.kept, whole.whole, whole.whole_bits)
    line, _, body = old.to_bytes().partition(b"\n")
    earlier = line.replace(b'"version":2', b'"version":1').split(b',"file"')[0] + b"}\n" + body
    read = RowDigests.from_bytes(earlier)
    assert read.file == FileDigests()
    assert tables_overlap(digested(shuffled(before), second), read)
    assert tables_overlap(digested(shuffled(before), first), read)
    assert not tables_overlap(digested(table(seed=2), second), read)


def test_other_bytes_are_no_digests_of_a_file() -> None:
    sound = digested(table(30), ["income"]).to_bytes()
    for broken in (
        sound[:-4],
        sound + b"1234",
        sound.replace(b'"left_out":0', b'"left_out":9'),
        sound.replace(b'"left_out":0', b'"left_out":"'),
        sound.replace(b'"anchors":[{"column":0', b'"anchors":[{"column":9'),
        sound.replace(b'"file":', b'"fils":'),
    ):
        assert broken != sound
        with pytest.raises(MalformedError):
            RowDigests.from_bytes(broken)
