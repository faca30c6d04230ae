"""``make peers``: every cell and every audit in one run, into ``build/studies``.

Writes a CSV for each kind of result and the tables, ``peers.md``. With ``--page`` nothing is
run: the results are stored next to a page of the documents, and the page's part is updated.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from studies.peers import intervals, regressions, simple, tables, urban
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
}
"""What a run writes, and the member of the results that it holds."""

T = TypeVar("T")


def cells() -> Iterator[Cell]:
    """Yield all cells."""
    yield from simple.cells()
    yield from regressions.cells()


def study(out: Path, *, quick: bool, peers: Sequence[str], only: str) -> None:
    """Run the cells with ``only`` in their name (all if it is empty), and write the results."""
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        started = {name: stack.enter_context(running(name)) for name in peers}
        _say("  ".join(f"{peer.name} {peer.version}" for peer in started.values()))
        rows = [
            row
            for cell in cells()
            if only in cell.name
            for row in _reported(cell, started, quick=quick)
        ]
        audited = [
            each
            for pair in pairs()
            if only in pair.name
            for each in _reported_audits(pair, started, quick=quick)
        ]
    results = tables.Results(
        rows=rows,
        audits=audited,
        findings=[] if only else [_said(each) for each in urban.findings(quick=quick)],
        intervals=[] if only else [_said(each) for each in intervals.intervals(quick=quick)],
    )
    for name, (member, _) in FILES.items():
        if found := getattr(results, member):
            (out / name).write_text(tables.written(found), "utf-8")
    (out / PAGE).write_text("\n".join(tables.lines(results)) + "\n", "utf-8")
    _say(f"\n{out / PAGE}")


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
    """Copy the rows of a run next to a page, and update the page's part."""
    folder = page.parent / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).write_text((made_in / name).read_text("utf-8"), "utf-8")
    page.write_text(fresh(page), "utf-8")


def kept(page: Path) -> tables.Results:
    """Return the results that are stored next to a page."""
    folder = page.parent / "studies"
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
    parser.add_argument("--out", type=Path, default=Path("build/studies"), help="folder of results")
    parser.add_argument("--page", type=Path, help="run nothing; keep results in this page instead")
    asked = parser.parse_args()
    if asked.page is not None:
        keep(asked.out, asked.page)
        return
    if not PYTHON.exists():
        parser.error("the peers' environment is missing: `make peers` installs it")
    os.environ["OMP_NUM_THREADS"] = "1"
    study(asked.out, quick=asked.quick, peers=asked.peers.split(","), only=asked.only)
