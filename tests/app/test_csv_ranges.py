"""CSV by ranges of bytes: the very runs that reading from the start gives."""

from __future__ import annotations

import tempfile

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.uploads.csv_file import RangedRecords, Records
from app.uploads.trouble import UnreadableError

Told = tuple[list[tuple[bytes, int]], str | None]

cells = st.one_of(
    st.text(st.sampled_from("ab1"), max_size=3),
    st.text(st.sampled_from('a,\n\r"'), max_size=6).map(
        lambda text: '"' + text.replace('"', '""') + '"'
    ),
)
lines = st.one_of(
    st.tuples(cells, cells).map(",".join),
    st.sampled_from(["", "", '"', 'a"b,c', "only", "1,2,3"]),
)
files = st.tuples(
    st.lists(st.tuples(lines, st.sampled_from(["\n", "\r\n"])), max_size=30),
    st.sampled_from(["", "\n", "1,2", '"never', "\n\n\r\n"]),
).map(lambda parts: "x,y\n" + "".join(line + end for line, end in parts[0]) + parts[1])


def told(records: Records, width: int) -> Told:
    """Return the runs that come, each with its first row, and what ends them early."""
    assert records.header() == ["x", "y"]
    seen: list[tuple[bytes, int]] = []
    try:
        for run in records.runs(width=width):
            seen.append((run.content, run.first_row))
    except UnreadableError as error:
        return seen, str(error.trouble)
    return seen, None


def both_ways(text: str, *, chunk: int, longest: int, width: int) -> tuple[Told, Told]:
    """Read a file from its start, and by ranges."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        plain = told(Records(file, chunk_bytes=chunk, max_record_bytes=longest), width)
        file.seek(0)
        by_ranges = RangedRecords(file.fileno(), file, chunk_bytes=chunk, max_record_bytes=longest)
        return plain, told(by_ranges, width)


@settings(max_examples=150, deadline=None)
@given(text=files, chunk=st.integers(1, 40), longest=st.integers(8, 60), width=st.integers(1, 2))
@example(text='x,y\n"a\n\nb",1\n' * 9, chunk=5, longest=60, width=2)
@example(text='x,y\n"' + "\n" * 90 + '",1\n', chunk=7, longest=99, width=2)
@example(text="x,y\n1,2\n" + "\n" * 50, chunk=9, longest=60, width=2)
@example(text="x,y\n" + "\n" * 90, chunk=9, longest=60, width=2)
def test_ranges_are_the_runs_of_reading_from_the_start(
    text: str, chunk: int, longest: int, width: int
) -> None:
    plain, ranged = both_ways(text, chunk=chunk, longest=longest, width=width)
    assert plain == ranged


def test_blank_lines_are_looked_for_as_far_back_as_there_are_any() -> None:
    text = "x,y\n1,2\n" + "\r\n" * 5000 + "3,4\n"
    plain, ranged = both_ways(text, chunk=4_000, longest=20_000, width=2)
    assert plain == ranged
    assert [row for _, row in ranged[0]] == [1, 2]


def test_whoever_takes_every_line_end_for_a_records_is_found_out() -> None:
    text = 'x,y\n"a\nb",1\n' * 4
    ranged = both_ways(text, chunk=5, longest=60, width=2)[1]
    assert all(content.count(b'"') % 2 == 0 for content, _ in ranged[0])
    assert any(content.count(b"\n") > 1 for content, _ in ranged[0])
