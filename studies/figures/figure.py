"""The interface of a figure: its cells, its picture, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure as Picture

from studies.figures.cells import Cell, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim of a paper, our measurement of it, and whether it holds.

    ``claim`` says in its first words where it is made.
    """

    claim: str
    measured: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a paper.

    Attributes
    ----------
    name
        Of its files, such as "kng-1".
    claim
        What the paper shows, and how it was made there, for the page.
    method
        How it is made here, where that differs.
    cells
        Of the quick study or the full one.
    covers
        Whether its CSV has a column ``coverage``.
    """

    name: str
    title: str
    claim: str
    method: str
    cells: Callable[[bool], tuple[Cell, ...]]
    draw: Callable[[Sequence[Result]], Picture]
    findings: Callable[[Sequence[Result]], tuple[Finding, ...]]
    covers: bool = False
