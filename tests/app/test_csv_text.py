"""CSV files: a spreadsheet runs none of their cells, and numbers stay numbers."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from app.tidy.pivots import FORMULA_STARTS, csv_text

RUN = (
    "=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\r=1", "\n=1",
    "=HYPERLINK(\"a\",\"b\")",
    "-", "+", "-inf", "-1-1", "+1e", "=1", "-1 ", "\uff1d1", "-\u0661",
)  # fmt: skip
SHOWN = (
    "-5", "+5", "-.5", "+1.", "-1e-05", "1", "x", "", " =1", "'=1", "2020-01-01", "<-5", "a=1",
    -5, -0.5, 0, None, True,
)  # fmt: skip
CELLS = st.one_of(
    st.text(), st.sampled_from(RUN), st.builds("{}{}".format, st.sampled_from("=+-@"), st.text())
)


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_what_a_spreadsheet_would_run_is_text_and_all_else_is_as_it_was() -> None:
    assert read(csv_text(RUN, [RUN])) == [[f"'{cell}" for cell in RUN]] * 2
    assert read(csv_text(SHOWN, [])) == [["" if cell is None else str(cell) for cell in SHOWN]]


@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=4))
def test_no_cell_begins_like_a_formula(rows: list[list[str]]) -> None:
    for delimiter in ",;|\t":
        text = csv_text(rows[0], rows[1:], delimiter=delimiter, line_end="\n")
        found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        assert [[cell.removeprefix("'") for cell in row] for row in found] == [
            [cell.removeprefix("'") for cell in row] for row in rows
        ]
        for cell in (cell for row in found for cell in row):
            assert cell[:1] not in FORMULA_STARTS or float(cell) <= float("inf")
