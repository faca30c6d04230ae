"""Numbers of groups as rows and columns, and the files of such tables."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import BytesIO, StringIO
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import pytest
from openpyxl import load_workbook

from app.tidy.keys import Key
from app.tidy.pivots import (
    MOST_ACROSS,
    Pivot,
    as_csv,
    as_excel,
    as_latex,
    as_markdown,
    as_word,
    pivots_of,
)
from app.tidy.rows import Row, rows_of

COLUMNS: dict[str, dict[str, Any]] = {
    "income": {"type": "number", "unit_of_measure": "EUR"},
    "age": {"type": "number"},
    "sex": {"type": "category", "labels": {"f": "women", "m": "men"}},
}
SEXES, AREAS = ("f", "m"), ("x_1", "y|2", "[z")


def mean(term: str, value: float, **group: str) -> Row:
    key = Key(kind="mean", terms=(term,), group=group)
    return Row(key=key, estimate=value, noise=(value - 1, value + 1))


MEANS = [
    mean(term, 100 * s + 10 * a + t, sex=sex, area=area)
    for s, sex in enumerate(SEXES)
    for a, area in enumerate(AREAS)
    for t, term in enumerate(("income", "age"))
]


def one(rows: Sequence[Row], across: str | None = None) -> Pivot:
    (found,) = pivots_of(rows, COLUMNS, across)
    return found


def values(pivot: Pivot) -> list[tuple[tuple[str, ...], list[Any]]]:
    return [(names, [cell and cell.estimate for cell in cells]) for names, cells in pivot.lines]


def test_groups_are_rows_and_columns_and_each_number_is_in_one_cell() -> None:
    found = one(MEANS)
    assert (found.down, found.across) == (["number", "sex"], "area")
    assert found.heads == [*AREAS]
    assert found.choices == ("number", "sex", "area")
    assert values(found) == [
        (("income [EUR]", "women"), [0, 10, 20]),
        (("income [EUR]", "men"), [100, 110, 120]),
        (("age", "women"), [1, 11, 21]),
        (("age", "men"), [101, 111, 121]),
    ]
    spans = [[rows for _, rows in names] for names, _ in found.first(4)]
    assert spans == [[2, 1], [0, 1], [2, 1], [0, 1]]
    assert [len(names) for names, _ in found.first(1)] == [2]


def test_a_curve_is_a_life_table_next_to_the_numbers_that_have_no_place_on_it() -> None:
    value = {
        "groups": [
            {"by": {"sex": sex}, "value": {"curve": [
                {"time": str(at), "at_risk": 10.0 - at, "survival": 1 - at / 10} for at in (1, 2)
            ]}}
            for sex in SEXES
        ],
        "log_rank": {"statistic": 4.0, "p_value": 0.05},
    }  # fmt: skip
    rows = rows_of({"statistic": {"kind": "kaplan_meier", "by": ["sex"]}, "value": value})
    test, life = pivots_of(rows, COLUMNS)
    assert [names for names, _ in values(test)] == [("log rank statistic",), ("log rank p value",)]
    assert (life.down, life.across, life.heads) == (
        ["sex", "time"], "number", ["at risk", "survival"],
    )  # fmt: skip
    assert values(life) == [
        (("women", "1"), [9, 0.9]),
        (("women", "2"), [8, 0.8]),
        (("men", "1"), [9, 0.9]),
        (("men", "2"), [8, 0.8]),
    ]


def test_rows_are_sorted_by_a_column_and_what_is_no_number_comes_last() -> None:
    lacking = [row for row in MEANS if row.estimate != 100]
    found = one(lacking)
    down = values(found.sorted_by(-1))
    assert [numbers[0] for _, numbers in down] == [101, 1, 0, None]
    up = found.sorted_by(1)
    assert [numbers[0] for _, numbers in values(up)] == [0, 1, 101, None]
    spans = [[rows for _, rows in names] for names, _ in up.first(4)]
    assert spans == [[1, 1], [2, 1], [0, 1], [1, 1]]
    for none in (0, 4, -4):
        assert found.sorted_by(none) == found


@pytest.mark.parametrize("across", ["number", "sex", "area", ""])
def test_any_dimension_or_none_is_across(across: str) -> None:
    found = one(MEANS, across)
    assert found.across == across
    assert across not in found.down
    numbers = sorted(value for _, cells in values(found) for value in cells)
    assert numbers == sorted(row.estimate for row in MEANS)
    assert one(MEANS, "what is none") == one(MEANS)


def test_one_dimension_is_down_and_a_fixed_one_in_the_title() -> None:
    found = one([row for row in MEANS if row.key.group["sex"] == "f"][::2])
    assert (found.down, found.across) == (["area"], "")
    assert found.title == "Mean of income [EUR] (sex=women)"
    assert found.heads == ["Mean of income [EUR]"]
    lone = one(MEANS[:1])
    assert (lone.down, values(lone)) == (["area"], [(("x_1",), [0])])


def test_a_dimension_of_many_values_is_down() -> None:
    many = [mean("age", n, sex="f", area=str(n)) for n in range(MOST_ACROSS + 1)]
    many += [mean("age", n, sex="m", area=str(n)) for n in range(MOST_ACROSS)]
    found = one(many)
    assert (found.down, found.across) == (["area"], "sex")
    assert values(found)[-1] == ((str(MOST_ACROSS),), [MOST_ACROSS, None])
    wide = [mean("age", n, area=str(n)) for n in range(MOST_ACROSS + 1)]
    assert one(wide).across == ""


def test_a_matrix_has_its_columns_both_ways_and_numbers_without_groups_no_table() -> None:
    entries = [
        Row(key=Key(kind="correlation", terms=pair), estimate=at)
        for at, pair in enumerate([("a", "a"), ("a", "b"), ("b", "b")])
    ]
    found = one(entries)
    assert values(found) == [(("a",), [0, 1]), (("b",), [None, 2])]
    assert found.choices == ()
    assert pivots_of([Row(key=Key(kind="mean", terms=("a",)), estimate=1)], COLUMNS) == ()
    fit = Key(kind="mean", measure="fit", terms=("r_squared",), group={"sex": "f"})
    assert pivots_of([Row(key=fit, estimate=1)], COLUMNS) == ()


def test_parts_of_a_stack_are_tables_of_their_own() -> None:
    where = ({"column": "age", "op": ">", "value": 5},)
    rows = [
        Row(key=Key(kind=kind, part=part, where=where, terms=("age",), group={"sex": sex}))
        for part, kind in ((1, "mean"), (2, "std"))
        for sex in SEXES
    ]
    titles = [each.title for each in pivots_of(rows, COLUMNS)]
    assert titles == ["Mean of age where age > 5", "Standard deviation of age where age > 5"]
    assert as_csv(pivots_of(rows, COLUMNS)).count("\r\n\r\n") == 1


def test_confidence_intervals_are_shown_where_there_are_any() -> None:
    key = Key(kind="quantile", measure="level", terms=("0.5",), subject="age", group={"sex": "f"})
    found = one([Row(key=key, estimate=5.0, noise=(4.0, 6.0), confidence=(1.0, 9.0))])
    assert (found.intervals, found.said(found.lines[0][1][0])) == (
        "95% confidence interval", "1 to 9"
    )  # fmt: skip
    assert found.said(None) == ""


def test_files_have_every_number_and_nothing_that_their_language_reads_as_its_own() -> None:
    found = pivots_of(MEANS, COLUMNS)
    head, *lines = csv.reader(StringIO(as_csv(found)))
    assert head[:5] == [
        "number", "sex", "Mean, area: x_1",
        "Mean, area: x_1, 95% noise interval, low", "Mean, area: x_1, 95% noise interval, high",
    ]  # fmt: skip
    assert lines[1][2:5] == ["100", "99", "101"]
    markdown = as_markdown(found).splitlines()
    assert markdown[2] == r"| number | sex | area: x\_1 | area: y\|2 | area: \[z |"
    assert markdown[4] == r"| income \[EUR\] | women | 0 (-1 to 1) | 10 (9 to 11) | 20 (19 to 21) |"
    latex = as_latex(found).splitlines()
    assert latex[:3] == [
        r"\begin{table}",
        r"\caption{Mean; in parentheses the 95\% noise interval}",
        r"\begin{tabular}{llrrr}",
    ]
    assert latex[4] == r"number & sex & area: x\_1 & area: y|2 & area: {[}z \\"
    assert not [line for line in latex if line.startswith("[")]


def test_the_columns_of_a_csv_file_say_what_their_numbers_are() -> None:
    """A file that is read by a program has its header in the first line."""
    incomes = [row for row in MEANS if row.key.terms == ("income",)]
    pivots = pivots_of(incomes, COLUMNS, "sex", "where wave is 3")
    head, *lines = csv.reader(StringIO(as_csv(pivots)))
    titled = f"{pivots[0].title}, sex: women"
    assert titled == "Mean of income [EUR], where wave is 3, sex: women"
    assert head[:2] == ["area", titled]
    assert {len(line) for line in lines} == {len(head)} == {7}
    assert len(set(head)) == len(head), "each column has a name of its own"
    alone, *_ = csv.reader(StringIO(as_csv(pivots_of(incomes, COLUMNS, ""))))
    assert alone[2] == "Mean of income [EUR]", "of one column the head is the title alone"
    numbers, *_ = csv.reader(StringIO(as_csv(pivots_of(MEANS, COLUMNS, "number"))))
    assert [each for each in numbers if "interval" not in each] == [
        "sex", "area", "Mean, income [EUR]", "Mean, age"
    ]  # fmt: skip


def test_a_unit_is_said_once() -> None:
    rows = [mean("pay (EUR)", 1.0, sex=sex) for sex in SEXES]
    (found,) = pivots_of(rows, {"pay (EUR)": {"type": "number", "unit_of_measure": "EUR"}})
    assert found.title == "Mean of pay (EUR)"


def test_every_document_of_a_table_says_which_records_it_is_of() -> None:
    found = pivots_of(MEANS[:1], COLUMNS, said="where age > 5, weighted by w")
    words = "Mean of income [EUR] (sex=women), where age > 5, weighted by w"
    assert found[0].title == words
    assert found[0].heads == [words.replace(" (sex=women)", "")]
    contents = load_workbook(BytesIO(as_excel(found)))["Contents"]
    assert [[cell.value for cell in row] for row in contents.iter_rows()] == [
        ["Sheet", "Content"], ["Table 1", words]
    ]  # fmt: skip
    assert words.replace("[", r"\[").replace("]", r"\]").replace(">", r"\>") in as_markdown(found)
    with ZipFile(BytesIO(as_word(found))) as archive:
        assert b"weighted by w" in archive.read("word/document.xml")


def test_a_workbook_has_numbers_with_all_digits_and_no_formulas() -> None:
    rows = [mean("=1+1", 1 / 3, sex="f"), mean("age", 2**53 + 1, sex="f")]
    content = as_excel(pivots_of(rows, {}))
    assert content == as_excel(pivots_of(rows, {})), "the same bytes each time"
    sheet = load_workbook(BytesIO(content))["Table 1"]
    cells = [cell for row in sheet.iter_rows() for cell in row]
    assert {cell.data_type for cell in cells} == {"s", "n"}
    assert {"=1+1", 1 / 3, str(2**53 + 1)} <= {cell.value for cell in cells}


def test_a_word_document_has_the_cells_of_the_markdown_table() -> None:
    found = pivots_of(MEANS, COLUMNS)
    with ZipFile(BytesIO(as_word(found))) as archive:
        tree = ElementTree.fromstring(archive.read("word/document.xml"))
    word = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
    rows = [
        ["".join(c.itertext()) for c in row.iter(f"{word}tc")] for row in tree.iter(f"{word}tr")
    ]
    assert rows[0] == ["number", "sex", "area: x_1", "area: y|2", "area: [z"]
    assert [row[:2] for row in rows[1:3]] == [["income [EUR]", "women"], ["income [EUR]", "men"]]
    assert rows[1][2].startswith("0 (")


def test_a_number_that_cannot_be_said_is_a_word_and_an_empty_cell() -> None:
    row = Row(key=Key(kind="mean", terms=("age",), group={"sex": "f"}), note="why")
    found = pivots_of([row], COLUMNS)
    assert "cannot be said" in as_markdown(found)
    assert as_csv(found).splitlines()[1] == "women,"
