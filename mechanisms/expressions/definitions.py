"""Several derived columns by name, which may depend on each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.domain import Column
from mechanisms.expressions.derived import (
    EXPRESSION,
    DefinitionError,
    DerivedColumn,
    derived_column,
)
from mechanisms.expressions.parsing import DEEPEST, parse
from mechanisms.expressions.refusals import ExpressionError
from mechanisms.expressions.tree import Node

NAME = ""
"""The part of a definition that an error about its name is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A column to derive: an expression, and narrower bounds if any."""

    tree: Node
    lower: Fraction | None = None
    upper: Fraction | None = None

    @classmethod
    def read(
        cls, expr: str, *, lower: Fraction | None = None, upper: Fraction | None = None
    ) -> Definition:
        """Return the definition that a text is.

        Raises
        ------
        DefinitionError
            It cannot be read.
        """
        try:
            return cls(tree=parse(expr), lower=lower, upper=upper)
        except ExpressionError as error:
            raise DefinitionError(error.detail, EXPRESSION) from None


class NamedError(Exception):
    """An error in one of several definitions."""

    def __init__(self, name: str, error: DefinitionError) -> None:
        super().__init__(error.detail)
        self.name = name
        self.detail = error.detail
        self.part = error.part


def derived_columns(
    definitions: Mapping[str, Definition],
    columns: Mapping[str, Column],
    *,
    may_miss: bool = False,
    optional: Collection[str] = (),
) -> dict[str, DerivedColumn]:
    """Return the columns that definitions make of others and of one another.

    They come in an order in which each is made of columns before it. ``optional`` are the columns
    that keep their missing cells.

    Raises
    ------
    NamedError
        A name that a column has, a circle, or a definition that does not fit.
    """
    found: dict[str, DerivedColumn] = {}
    lacking = set(optional)
    begun: set[str] = set()

    def make(name: str, depth: int) -> None:
        if depth > DEEPEST:
            raise NamedError(name, DefinitionError("too many columns in a row", EXPRESSION))
        wanted = definitions[name]
        for each in wanted.tree.columns:
            if each in columns or each in found or each not in definitions:
                continue
            if each in begun:
                raise NamedError(name, DefinitionError("the column is made of itself", EXPRESSION))
            begun.add(each)
            make(each, depth + 1)
        there = {**columns, **{each: made.column for each, made in found.items()}}
        try:
            found[name] = derived_column(
                wanted.tree,
                there,
                lower=wanted.lower,
                upper=wanted.upper,
                may_miss=may_miss,
                optional=lacking,
            )
        except DefinitionError as error:
            raise NamedError(name, error) from None
        if found[name].misses:
            lacking.add(name)

    for name in definitions:
        if name in columns:
            raise NamedError(name, DefinitionError("a column has this name already", NAME))
        if name not in found:
            begun.add(name)
            make(name, 1)
    return found
