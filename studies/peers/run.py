"""``make peers``: every cell and every audit in one run, into ``build/studies``.

Writes a CSV for each kind of result and the tables, ``peers.md``. With ``--page`` nothing is
run: the results are stored next to a page of the documents, and the page's part is updated.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from studies.peers import deltas, intervals, regressions, simple, synthetic, tables, urban
from studies.peers.asking import PYTHON, Peer, running
from studies.peers.auditing import Audited, audits
from studies.peers.cells import Cell
from studies.peers.comparing import Row, rows_of
from studies.peers.pairs import Pair, pairs
from studies.peers.there.__main__ import PACKAGES

PAGE = "peers.md"
FILES: dict[str, tuple[str, type[Any]]] = {
    "peers.csv": ("rows", Row),
    "peers-audits.csv": ("audits", Audited),
    "peers-urban.csv": ("findings", urban.Finding),
    "peers-intervals.csv": ("intervals", intervals.Intervals),
    "peers-delta.csv": ("deltas", deltas.WithDelta),
    "peers-synthetic.csv": ("synthetic", synthetic.Synthesized),
}
"""What a run writes, and the member of the results that it holds."""

T = TypeVar("T")


def cells() -> Iterator[Cell]:
    """Yield all cells."""
    yield from simple.cells()
    yield from regressions.cells()


PARTS = tuple(member for member, _ in FILES.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What of the comparison is run: cells with ``only`` in their name, or all of them.

    Two of the parts, measures and intervals, have no names.
    """

    out: Path
    peers: Sequence[str]
    quick: bool = False
    only: str = ""

    def write(self, part: str) -> None:
        """Run a part with peers of its own, and write its rows as they come.

        So what takes hours is there when it is broken off.
        """
        (name,) = (name for name, (member, _) in FILES.items() if member == part)
        found = []
        with ExitStack() as stack:
            started = {name: stack.enter_context(running(name)) for name in self.peers}
            for row in _rows(part, started, quick=self.quick, only=self.only):
                found.append(row)
                (self.out / name).write_text(tables.written(found), "utf-8")


def study(run: Run, parts: Sequence[str] = PARTS, *, jobs: int) -> None:
    """Run some parts, ``jobs`` at a time, and write the page when all parts have results.

    Raises
    ------
    RuntimeError
        A peer stopped; the results of the other parts are written.
    """
    run.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        # Synthetic rows take the longest by far, so they begin.
        begun = [pool.submit(run.write, part) for part in PARTS[::-1] if part in parts]
    for each in begun:
        each.result()
    if all((run.out / name).exists() for name in FILES):
        (run.out / PAGE).write_text("\n".join(tables.lines(stored(run.out))) + "\n", "utf-8")
        _say(f"\n{run.out / PAGE}")


def _rows(part: str, peers: dict[str, Peer], *, quick: bool, only: str) -> Iterator[Any]:
    """Yield the results of a part, each of them reported."""
    if part == "rows":
        for cell in cells():
            if only in cell.name:
                yield from _reported(cell, peers, quick=quick)
    elif part == "audits":
        for pair in pairs():
            if only in pair.name:
                yield from _reported_audits(pair, peers, quick=quick)
    elif part == "deltas":
        yield from map(_said, deltas.with_delta(quick=quick, only=only))
    elif part == "synthetic":
        if {synthetic.DATA, synthetic.MBI} <= set(peers):
            yield from map(_said, synthetic.synthetic(peers, quick=quick, only=only))
    elif not only:
        yield from map(
            _said, (urban.findings if part == "findings" else intervals.intervals)(quick=quick)
        )


def _reported(cell: Cell, peers: dict[str, Peer], *, quick: bool) -> Iterator[Row]:
    for row in rows_of(cell, peers, quick=quick):
        _say(
            f"{row.cell:<38} {row.method:<40} error {row.error_mean:9.4g} ± {row.error_se:<8.2g}"
            f" {row.ms:8.3f} ms   {row.replicate_count} draws"
        )
        yield row


def _reported_audits(pair: Pair, peers: dict[str, Peer], *, quick: bool) -> Iterator[Audited]:
    for each in audits(pair, peers, quick=quick):
        refuted = "   REFUTED" if each.broken else ""
        _say(f"audit: {pair.name:<38} {each.method:<30} {each.certified_epsilon:5.2f}{refuted}")
        yield each


def _said(found: T) -> T:
    _say(str(found))
    return found


def keep(made_in: Path, page: Path) -> None:
    """Copy the rows of a run, or of its parts that ran, next to a page, and update the page."""
    folder = page.parent / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (made_in / name).exists():
            (folder / name).write_text((made_in / name).read_text("utf-8"), "utf-8")
    page.write_text(fresh(page), "utf-8")


def kept(page: Path) -> tables.Results:
    """Return the results that are stored next to a page."""
    return stored(page.parent / "studies")


def stored(folder: Path) -> tables.Results:
    """Return the results in a folder."""
    return tables.Results(
        **{
            member: tables.read((folder / name).read_text("utf-8"), kind)
            for name, (member, kind) in FILES.items()
        }
    )


def fresh(page: Path) -> str:
    """Return a page with the part that the rows next to it make."""
    return tables.rewritten(page.read_text("utf-8"), kept(page))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the comparison, or write the page of its results."""
    parser = argparse.ArgumentParser(prog="python -m studies.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the draws")
    parser.add_argument("--only", default="", help="cells and audits whose name holds this")
    parser.add_argument("--peers", default=",".join(PACKAGES), help="with commas between them")
    parser.add_argument("--parts", default=",".join(PARTS), help="with commas between them")
    parser.add_argument("--jobs", type=int, default=2, help="parts at once, a core each")
    parser.add_argument("--out", type=Path, default=Path("build/studies"), help="folder of results")
    parser.add_argument("--page", type=Path, help="run nothing; keep results in this page instead")
    asked = parser.parse_args()
    if asked.page is not None:
        keep(asked.out, asked.page)
        return
    if not PYTHON.exists():
        parser.error("the peers' environment is missing: `make peers` installs it")
    os.environ["OMP_NUM_THREADS"] = "1"
    peers = [each for each in asked.peers.split(",") if each]
    run = Run(out=asked.out, peers=peers, quick=asked.quick, only=asked.only)
    study(run, asked.parts.split(","), jobs=asked.jobs)
