"""Several statistics in one release: a mean, a histogram and a quantile for one epsilon.

    epsilon_i = epsilon * share_i / (share_1 + ... + share_k),

exact fractions whose sum is epsilon. Each part is drawn by a mechanism and norm of
its own; :mod:`mechanisms.composition` says why the whole is epsilon-DP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd, lcm
from typing import Annotated, Any, ClassVar, Literal

from mechanisms.contract import InvalidStatisticError, Json, Statistic, meaning
from mechanisms.domain import Schema
from mechanisms.exact.fractions import as_written, has_decimals
from mechanisms.probes import ENDS, Probe
from mechanisms.statistics.cells.axes import MAX_CELLS
from mechanisms.statistics.cells.spelling import canonical
from mechanisms.statistics.count import Count
from mechanisms.statistics.facts.defaults import Facts
from mechanisms.statistics.questions import Question, check_asked, planning_ms, viewed
from mechanisms.statistics.registry import SINGLE_STATISTICS

MAX_PARTS = 20
SMALLEST_SHARE, LARGEST_SHARE = 1e-6, 1e6
_MOST_DECIMALS = 9

MechanismName = Literal[
    "auto",
    "k_norm",
    "kng",
    "objective_perturbation",
    "exponential",
    "functional",
    "margins",
    "gaussian",
]
NormName = Literal["auto", "l1", "l2", "linf", "optimal"]


class SingleStatistic:
    """Marks a field of a request model that holds any statistic of the catalog but a stack."""

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> dict[str, object]:
        """Return the union by kind. The validator's builder calls this; no import of it here."""
        choices = {
            kind: handler.generate_schema(statistic)
            for kind, statistic in SINGLE_STATISTICS.items()
        }
        return {"type": "tagged-union", "discriminator": "kind", "choices": choices}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One statistic of a stack."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    statistic: Annotated[Statistic, SingleStatistic()] = field(
        metadata=meaning(
            "Any statistic but a stack.",
            example={"kind": "quantile", "column": "income", "levels": [0.5]},
        )
    )
    share: float = field(
        default=1.0,
        metadata=meaning(
            "Its share of epsilon relative to the other parts', between 0.000001 and 1000000 with "
            "at most 9 decimals. Shares need not sum to 1.",
            example=2,
        ),
    )
    mechanism: MechanismName = field(
        default="auto",
        metadata=meaning("As in a release of this statistic alone.", example="auto"),
    )
    norm: NormName = field(
        default="auto",
        metadata=meaning("As in a release of this statistic alone.", example="auto"),
    )

    @property
    def exact_share(self) -> Fraction:
        """Return the share as the decimal it was written as.

        Raises
        ------
        InvalidStatisticError
            It is out of range or too fine.
        """
        if not SMALLEST_SHARE <= self.share <= LARGEST_SHARE:  # also refuses NaN
            raise InvalidStatisticError(
                "a share must lie between 0.000001 and 1000000", field_name="share"
            )
        exact = as_written(self.share)
        if not has_decimals(exact, _MOST_DECIMALS):
            raise InvalidStatisticError("a share has at most 9 decimals", field_name="share")
        return exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack(Facts):
    """Several statistics in one release, one epsilon split exactly by their shares."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    mechanisms: ClassVar[Mapping[str, tuple[str, ...]]] = {"composition": ()}
    limits: ClassVar[Mapping[str, int]] = {"parts": MAX_PARTS, "cells": MAX_CELLS}
    example: ClassVar[Json] = {
        "kind": "stack",
        "parts": [
            {"statistic": {"kind": "mean", "columns": ["income"]}, "share": 2},
            {"statistic": {"kind": "quantile", "column": "income", "levels": [0.5]}},
        ],
    }

    probes: ClassVar[tuple[Probe, ...]] = (
        Probe({"kind": "stack", "parts": [{"statistic": Count.probes[0].question}] * 2}, ENDS),
    )

    kind: Literal["stack"] = "stack"
    parts: tuple[Part, ...] = field(
        metadata=meaning(
            "Between 1 and 20 parts, their histograms with at most 10,000 cells in all. A stack "
            "cannot hold another."
        )
    )

    def check(self, schema: Schema) -> None:
        """Raise :class:`InvalidStatisticError` when the question does not fit the schema."""
        self.exact_shares()
        cells = 0
        for index, part in enumerate(self.parts):
            kind = part.statistic.kind
            if kind not in SINGLE_STATISTICS:  # read off others, or several itself
                raise InvalidStatisticError(
                    "a stack cannot hold another stack: ask for it alone"
                    if kind == self.kind
                    else f"a stack cannot hold a {kind}: ask for it alone",
                    field_name=f"parts[{index}].statistic",
                )
            try:
                asked = viewed(part.statistic, schema)
                check_asked(asked.statistic, asked.view.schema)
            except InvalidStatisticError as error:
                raise within(index, error) from None
            if asked.statistic.has_cells and isinstance(asked.statistic, Question):
                groups = asked.statistic.parting(asked.view.schema).cells
                cells += groups * asked.statistic.answer_numbers(asked.view.schema)
        if cells > MAX_CELLS:
            raise InvalidStatisticError(
                f"the histograms of a stack have at most {MAX_CELLS} cells in all",
                field_name="parts",
            )

    def spelled(self, schema: Schema, /) -> Mapping[str, object]:
        """Return the parts in their one spelling, with the least whole shares of their ratio.

        Shares of 1 : 2 are those of 0.5 : 1. Least whole shares above the largest that there may
        be are divided by the least power of ten that makes them fit.

        Raises
        ------
        InvalidStatisticError
            A share is out of range or too fine.
        """
        shares = self.exact_shares()
        least = [share / rational_gcd(shares) for share in shares]
        while max(least) > LARGEST_SHARE:
            least = [share / 10 for share in least]
        if min(least) < SMALLEST_SHARE:
            least = list(shares)
        return {
            "parts": tuple(
                replace(part, statistic=canonical(part.statistic, schema), share=float(share))
                for part, share in zip(self.parts, least, strict=True)
            )
        }

    def answer_numbers(self, schema: Schema, /) -> int:
        """Return about how many numbers the parts' answers have together."""
        return sum(part.statistic.answer_numbers(schema) for part in self.parts)

    def planning_ms(self, schema: Schema, _mechanism: str, /) -> float:
        """Return about how many milliseconds of one core the parts' plans take together."""
        return sum(planning_ms(part.statistic, schema, part.mechanism) for part in self.parts)

    def exact_shares(self) -> tuple[Fraction, ...]:
        """Return the shares as the decimals they were written as.

        Raises
        ------
        InvalidStatisticError
            None or too many, out of range, or too fine.
        """
        if not 1 <= len(self.parts) <= MAX_PARTS:
            raise InvalidStatisticError(
                f"a stack has between 1 and {MAX_PARTS} parts", field_name="parts"
            )
        shares = []
        for index, part in enumerate(self.parts):
            try:
                shares.append(part.exact_share)
            except InvalidStatisticError as error:
                raise within(index, error) from None
        return tuple(shares)


def rational_gcd(numbers: Sequence[Fraction]) -> Fraction:
    """Return the largest rational of which all these are whole multiples."""
    return Fraction(
        gcd(*(each.numerator for each in numbers)), lcm(*(each.denominator for each in numbers))
    )


def within(index: int, error: InvalidStatisticError) -> InvalidStatisticError:
    """Return a part's refusal with the place it has in the stack."""
    place = error.field_name
    if place not in ("statistic", "share", "mechanism", "norm"):
        place = f"statistic.{place}"
    return InvalidStatisticError(error.detail, field_name=f"parts[{index}].{place}")
