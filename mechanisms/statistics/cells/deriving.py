"""Columns derived for a question: a canonical expression per name, with or without bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import ClassVar

from mechanisms.contract import InvalidStatisticError, meaning
from mechanisms.exact.fractions import as_written
from mechanisms.expressions.derived import Definition, DefinitionError
from mechanisms.views import part_of

MOST_DERIVED = 100
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A column computed from others of its row, with narrower bounds than follow from them."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    expr: str = field(
        metadata=meaning(
            "The expression: columns, numbers, + - * / ^, functions, comparisons, in, and, or, "
            "not; see the page on derived columns.",
            example="log(max(income, 1))",
        )
    )
    lower: float | None = field(
        default=None,
        metadata=meaning(
            "The least value, if it is to be more than what follows from the columns' bounds.",
            example=5,
        ),
    )
    upper: float | None = field(
        default=None,
        metadata=meaning(
            "The largest value, if it is to be less than what follows from the columns' bounds.",
            example=8,
        ),
    )

    def definition(self) -> Definition:
        """Return the definition that this is.

        Raises
        ------
        DefinitionError
            It cannot be read, or has a bound that is not finite.
        """
        for part, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound is not None and not isfinite(bound):
                raise DefinitionError("must be a finite number", part)
        return Definition.read(
            self.expr,
            lower=None if self.lower is None else as_written(self.lower),
            upper=None if self.upper is None else as_written(self.upper),
        )


def settled(derive: Mapping[str, str | Derived]) -> dict[str, str | Derived]:
    """Return derived columns with each expression as its one text.

    Raises
    ------
    InvalidStatisticError
        One cannot be read, has no proper name, or there are too many.
    """
    if len(derive) > MOST_DERIVED:
        raise InvalidStatisticError(f"derive at most {MOST_DERIVED} columns", field_name="derive")
    found: dict[str, str | Derived] = {}
    for at, (name, wanted) in enumerate(derive.items()):
        if not (1 <= len(name) <= _LONGEST_NAME and name.isprintable()):
            raise InvalidStatisticError(
                f"a name must be printable text of 1 to {_LONGEST_NAME} characters",
                field_name="derive",
            )
        column = Derived(expr=wanted) if isinstance(wanted, str) else wanted
        text = str(definition_of(f"derive[{at}]", column).tree)
        bounded = column.lower is not None or column.upper is not None
        found[name] = replace(column, expr=text) if bounded else text
    return found


def definition_of(place: str, column: Derived) -> Definition:
    """Return the definition that a column is; ``place`` is where it was asked for.

    Raises
    ------
    InvalidStatisticError
        It cannot be read.
    """
    try:
        return column.definition()
    except DefinitionError as error:
        raise InvalidStatisticError(error.detail, field_name=part_of(place, error)) from None
