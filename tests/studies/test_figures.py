"""The studies' machine: seeds, resuming, columns, and a page that says what its rows say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Picture
from rich.console import Console

from studies.figures import page, plots, slopes, store
from studies.figures.cells import Cell, Measured, Result
from studies.figures.figure import Figure, Finding
from studies.figures.registry import FIGURES
from studies.figures.run import study
from studies.figures.store import Store
from tests.documents import ROOT
from tests.tiers import in_one, wide

DOCS = ROOT / "docs" / "research"
RUN: list[str] = []


def toy(cell: Cell) -> Measured:
    """Add private noise to a mean of normal data."""
    RUN.append(cell.name)
    errors = []
    for dice in cell.dice():
        mean = dice.data.standard_normal(cell.n).mean()
        errors.append(abs(float(mean)) + dice.draws.bits(20) / 2**20)
    return Measured(errors=errors)


def cells_of(replicates: int, methods: Sequence[str] = ("a", "b")) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            figure="toy",
            panel="all",
            method=method,
            n=n,
            epsilon="1",
            replicate_count=replicates,
            measure=toy,
        )
        for n in (10, 100)
        for method in methods
    )


def figure_of(replicates: int) -> Figure:
    def draw(rows: Sequence[Result]) -> Picture:
        made, [axes] = plots.picture()
        plots.errors_by(axes, rows, [plots.Line(method="a", label="a", colour=plots.BLUE)], by="n")
        return made

    return Figure(
        name="toy",
        title="a toy",
        claim="None.",
        method="Ours.",
        cells=lambda _quick: cells_of(replicates),
        draw=draw,
        findings=lambda rows: (
            Finding(claim="a | b", measured=f"{len(rows)} rows", holds=len(rows) == 4),
        ),
    )


def ran(figure: Figure, out: Path) -> list[str]:
    """Run a study here; return which cells it had to run."""
    RUN.clear()
    study([figure], quick=True, out=out, jobs=1, say=Console(file=StringIO()))
    return list(RUN)


@pytest.mark.wide
def test_a_study_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    names = [cell.name for cell in cells_of(5)]
    assert ran(figure_of(5), tmp_path) == names
    whole = (tmp_path / "toy.csv").read_text()
    assert ran(figure_of(5), tmp_path) == []
    # stopped in the third row: that one is half there, and the fourth is not
    lines = whole.splitlines(keepends=True)
    (tmp_path / "toy.csv").write_text("".join(lines[:3]) + lines[3][:-4])
    assert ran(figure_of(5), tmp_path) == names[2:]
    assert (tmp_path / "toy.csv").read_text() == whole
    assert ran(figure_of(6), tmp_path) == names, "another count of replicates"


@pytest.mark.wide
def test_a_row_counts_only_by_the_seed_that_is_noted(tmp_path: Path) -> None:
    ran(figure_of(2), tmp_path)
    notes = Store(folder=tmp_path, figure="toy").notes
    first = cells_of(2)[0]
    text = notes.read_text()
    assert str(first.seed) in text
    notes.write_text(text.replace(str(first.seed), "1"))
    assert ran(figure_of(2), tmp_path) == [first.name]


@pytest.mark.wide
def test_a_cell_alone_is_the_cell_in_its_study(tmp_path: Path) -> None:
    ran(figure_of(4), tmp_path)
    rows = Store(folder=tmp_path, figure="toy").rows()
    for cell, row in zip(cells_of(4), rows, strict=True):
        alone = cell.run()
        assert (row.error_mean, row.error_se) == pytest.approx(
            (alone.error_mean, alone.error_se), rel=1e-5
        )
    assert len({row.error_mean for row in rows}) == 4


def test_methods_share_data_and_never_draws() -> None:
    a, b = cells_of(3)[:2]
    for one, other in zip(a.dice(), b.dice(), strict=True):
        assert one.data.random() == other.data.random()
        assert one.draws.bits(64) != other.draws.bits(64)
    apart = replace(b, data_name="others")
    assert next(iter(apart.dice())).data.random() != next(iter(a.dice())).data.random()
    assert apart.seed != b.seed


def test_the_columns_are_those_that_are_promised() -> None:
    asked = "figure,panel,method,norm,n,epsilon,replicate_count,error_mean,error_median,error_se"
    row = cells_of(3)[0].run()
    assert store.written([row], covers=False).splitlines()[0] == asked
    covered = replace(row, coverage=0.25)
    text = store.written([covered], covers=True)
    assert text.splitlines()[0] == f"{asked},coverage"
    [back] = store.read(text)
    assert back.coverage == 0.25
    assert back.name == row.name
    with pytest.raises(ValueError, match="columns"):
        store.read("figure,panel\nx,y\n")


def test_slopes_and_ratios() -> None:
    def line(method: str, factor: float, power: float) -> list[Result]:
        return [
            replace(cells_of(2)[0].run(), method=method, n=n, error_mean=factor * n**power)
            for n in (10, 1000, 100)
        ]

    rows = line("a", 3, -0.5) + line("b", 6, -0.5)
    a, b = slopes.of_method(rows, "a"), slopes.of_method(rows, "b")
    assert [row.n for row in a] == [10, 100, 1000]
    assert slopes.fitted_slope(a) == pytest.approx(-0.5)
    assert slopes.fitted_slope(a, from_n=100) == pytest.approx(-0.5)
    assert slopes.ratios(b, a) == pytest.approx({10: 2, 100: 2, 1000: 2})
    with pytest.raises(ValueError, match="two points"):
        slopes.fitted_slope(a, from_n=1000)


@pytest.mark.wide
def test_a_finding_that_fails_is_shown(tmp_path: Path) -> None:
    figure = figure_of(2)
    ran(figure, tmp_path)
    rows = Store(folder=tmp_path, figure="toy").rows()
    text = "\n".join(page.section(figure, rows, pictures=Path("p"), csv=Path("c")))
    assert r"| a \| b | 4 rows | yes |" in text
    assert "(p/toy.svg)" in text
    assert "(c/toy.csv)" in text
    assert "full study, each point of 2 replicates" in text
    fewer = "\n".join(page.section(figure, rows[1:], pictures=Path("p"), csv=Path("c")))
    assert r"| a \| b | 3 rows | **no** |" in fewer


# The page ----------------------------------------------------------------------------------


def test_the_page_says_what_its_rows_say() -> None:
    text = (DOCS / "studies.md").read_text("utf-8")
    figures = list(FIGURES.values())
    assert page.rewritten(text, figures, DOCS) == text, (
        "run: python -m studies.figures --page docs/research/studies.md"
    )
    assert all(f"## {name}:" in text for name in FIGURES), "every figure is on the page"
    with pytest.raises(ValueError, match="no <!--"):
        page.rewritten(text.replace(page.END, ""), figures, DOCS)


@in_one("name", FIGURES)
def test_the_picture_is_of_these_rows(name: str) -> None:
    rows = (DOCS / "studies" / f"{name}.csv").read_text("utf-8")
    svg = (DOCS / "images" / "studies" / f"{name}.svg").read_text("utf-8")
    assert plots.digest(rows) in svg
    assert len(svg) < 400_000


@in_one("name", FIGURES)
def test_the_rows_are_of_the_figure_s_cells(name: str) -> None:
    """Quick or full: the page's rows are those of the cells as they are now."""
    figure = FIGURES[name]
    rows = page.kept_rows(figure, DOCS)
    assert page.size_of(figure, rows) in {"quick", "full"}
    assert page.size_of(figure, rows[1:]) is None
    assert len({cell.name for cell in figure.cells(False)}) == len(figure.cells(False))


def smallest(figure: Figure) -> list[Cell]:
    """Return the smallest cell of each line, with two replicates."""
    found: dict[tuple[str, str, str], Cell] = {}
    for cell in figure.cells(True):
        key = (cell.panel, cell.method, cell.norm)
        if key not in found or cell.n < found[key].n:
            found[key] = replace(cell, replicate_count=2)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["kng-1", "ss-2", "printed-errors", *wide("kng-2", "ss-1", "ss-3", "ss-4")]
)
def test_every_figure_runs_and_is_drawn(name: str, tmp_path: Path) -> None:
    """Its smallest cells are measured, twice the same; its kept rows are drawn."""
    figure = FIGURES[name]
    cells = smallest(figure)
    rows = [cell.run() for cell in cells]
    assert all(row.error_mean >= 0 for row in rows)
    assert cells[-1].run() == rows[-1]
    assert [row.name for row in store.read(store.written(rows, covers=figure.covers))] == [
        cell.name for cell in cells
    ]
    path = tmp_path / "figure.png"
    page.draw(figure, page.kept_rows(figure, DOCS), path, text="")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    """On two processes, and then for a page; a figure that there is not is refused."""

    def command(*words: object) -> subprocess.CompletedProcess[str]:
        out = ("--only", "ss-1", "--out", tmp_path / "out")
        line = [sys.executable, "-m", "studies.figures", *out, *words]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    done = command("--quick")
    assert done.returncode == 0, done.stderr
    assert "holds: SS (1)" in done.stdout
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {"ss-1.csv", "ss-1.json", "ss-1.svg", "ss-1.png", "studies.md"}
    found = tmp_path / "page.md"
    found.write_text(f"# T\n\n{page.BEGIN}\n{page.END}\nafter\n")
    done = command("--page", found)
    assert done.returncode == 0, done.stderr
    assert "## ss-1" in found.read_text()
    assert found.read_text().endswith("after\n")
    assert (tmp_path / "images" / "studies" / "ss-1.svg").exists()
    done = command("--only", "x")
    assert done.returncode == 2
    assert "there is no figure x" in done.stderr
