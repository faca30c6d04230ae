"""Every figure, in the order of the page. To add one, write its module and list it here."""

from __future__ import annotations

from studies.figures import kng_1, kng_2, printed_errors, ss_1, ss_2, ss_3, ss_4
from studies.figures.figure import Figure

_ALL = (
    kng_1.FIGURE,
    kng_2.FIGURE,
    ss_1.FIGURE,
    ss_2.FIGURE,
    ss_3.FIGURE,
    ss_4.FIGURE,
    printed_errors.FIGURE,
)

FIGURES: dict[str, Figure] = {each.name: each for each in _ALL}
