"""The features of a regression, and the columns of its design.

A feature is a column's name, a category with a reference level, an expression, a logarithm, or a
product of those. Each becomes columns of a view of the data, which are regressed on.

*Coding*, as R does it. A category becomes a 0/1 column for each declared value but its reference,
the first or the one named in any of the features: the treatment contrasts. In a product it does
so if the rest of the product is a feature by itself (or nothing is left), and has a column for
every value otherwise. Without an intercept the first category has a column for every value.
Levels come from the declared list, never from the rows. Coefficients are named as R names them:
``sexfemale``, ``age:educ``, ``log(income)``, ``I(age^2)``.

The 0/1 columns of a category sum to at most 1, so that rows lie in a simplex and not in a cube.
In the scaled coordinates, where each column is on [-1, 1] and every entry of a dummy is at an end,
this does not lower the largest entry, nor the l1 or l2 norm of a row, which is what sensitivities
of gradients are made of: the cube's bounds are used, and are attained. Moments are summed by the
cells of categories instead: :mod:`mechanisms.statistics.designs.cells`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Annotated, Any, ClassVar

from mechanisms.contract import InvalidStatisticError, meaning, require_column
from mechanisms.domain import CategoryColumn, Schema
from mechanisms.expressions import tree
from mechanisms.expressions.derived import Definition
from mechanisms.expressions.parsing import ExpressionError, parse
from mechanisms.expressions.tree import Node
from mechanisms.statistics.cells.spelling import spelled_expression
from mechanisms.statistics.designs.boxes import MAX_COEFFICIENTS
from mechanisms.statistics.designs.scaling import INTERCEPT
from mechanisms.words import listed, no_value

MOST_FACTORS = 4
"""In one product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A category with the level that its other levels are compared with."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    column: str = field(metadata=meaning("A category column.", example="ocean_proximity"))
    reference: str | None = field(
        default=None,
        metadata=meaning(
            "The declared value that the others are compared with; null is the first.",
            example="INLAND",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Logarithm:
    """The natural logarithm of a column whose bounds are above 0."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    log: str = field(metadata=meaning("A number column.", example="median_income"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """An expression of one row's columns."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    expr: str = field(
        metadata=meaning("As in `derive`; see the page on derived columns.", example="age^2")
    )


class FactorForms:
    """Marks a field of a request model that holds a factor of a product, or a whole feature."""

    def __init__(self, *, products: bool) -> None:
        self._products = products

    def __get_pydantic_core_schema__(self, _source: object, handler: Any) -> dict[str, object]:
        """Return the union, by the field that distinguishes members. The validator calls this."""
        forms: dict[str, type] = {"column": Category, "log": Logarithm, "expr": Expression}
        if self._products:
            forms["product"] = Product
        words = listed([f'"{name}"' for name in forms], last="or")
        message = f"must be a column's name, or an object with {words}"
        # a tag may not be a field's name, or a place would seem to go on inside that field
        return {
            "type": "tagged-union",
            "discriminator": lambda value: _form_of(value, forms),
            "choices": {
                form.__name__: handler.generate_schema(form) for form in (str, *forms.values())
            },
            "custom_error_type": "own_words",
            "custom_error_message": "{message}",
            "custom_error_context": {"message": message},
        }


def _form_of(value: object, forms: Mapping[str, type]) -> str | None:
    if isinstance(value, str):
        return "str"
    if isinstance(value, Mapping):
        return next((form.__name__ for name, form in forms.items() if name in value), None)
    return type(value).__name__


Factor = str | Category | Logarithm | Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The product of several columns: an interaction."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    product: tuple[Annotated[Factor, FactorForms(products=False)], ...] = field(
        metadata=meaning(
            "What is multiplied: columns' names, categories, logarithms, expressions.",
            example=["housing_median_age", "median_income"],
        )
    )


Feature = str | Category | Logarithm | Expression | Product
Features = tuple[Annotated[Feature, FactorForms(products=True)], ...]


def settled_features(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """Return features in their one form: expressions as their text, logarithms as expressions.

    Raises
    ------
    InvalidStatisticError
        An expression cannot be read, a product has too few or too many factors, or there are
        more features than coefficients.
    """
    if len(features) > MAX_COEFFICIENTS:
        raise InvalidStatisticError(
            f"at most {MAX_COEFFICIENTS} coefficients", field_name="features"
        )
    return tuple(_settled(feature, f"features[{at}]") for at, feature in enumerate(features))


def _settled(feature: Feature, place: str) -> Feature:
    if isinstance(feature, Product):
        if not 1 <= len(feature.product) <= MOST_FACTORS:
            raise InvalidStatisticError(
                f"a product has 1 to {MOST_FACTORS} factors", field_name=f"{place}.product"
            )
        factors = tuple(
            _settled_factor(factor, f"{place}.product[{at}]")
            for at, factor in enumerate(feature.product)
        )
        return factors[0] if len(factors) == 1 else replace(feature, product=factors)
    return _settled_factor(feature, place)


def _settled_factor(feature: Factor, place: str) -> Factor:
    if isinstance(feature, str | Category):
        return feature
    if isinstance(feature, Logarithm):
        return Expression(expr=str(Node("log", (tree.column(feature.log),))))
    found = _parsed(feature.expr, f"{place}.expr")
    return found.name if found.op == "column" else Expression(expr=str(found))


def _parsed(text: str, place: str) -> Node:
    try:
        return parse(text)
    except ExpressionError as error:
        raise InvalidStatisticError(error.detail, field_name=place) from None


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One column of a design.

    ``levels`` says, for the categories in it, which value it stands for.
    """

    name: str
    node: Node
    levels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Terms:
    """The columns of a design, by coefficient, and each category's reference level, if any."""

    coefficients: tuple[Coefficient, ...]
    references: Mapping[str, str]

    def definitions(self) -> dict[str, Definition]:
        """Return the columns that a view must add."""
        return {
            each.name: Definition(tree=each.node)
            for each in self.coefficients
            if each.node != tree.column(each.name)
        }


def terms_of(features: Sequence[Feature], schema: Schema, *, intercept: bool) -> Terms:
    """Return the columns that features become.

    Raises
    ------
    InvalidStatisticError
        A column there is not, a reference that is no declared value, a category of one value,
        two coefficients of one name, or too many.
    """
    return _Builder(features, schema, intercept=intercept).terms()


class _Builder:
    def __init__(self, features: Sequence[Feature], schema: Schema, *, intercept: bool) -> None:
        self._schema = schema
        self._products = [
            each.product if isinstance(each, Product) else (each,) for each in features
        ]
        # R's rule of contrasts asks whether the rest of a product is a feature, in whatever order.
        self._known = {frozenset(map(_identity, factors)) for factors in self._products}
        self._whole = None if intercept else self._first_category()
        self._named = _named_references(self._products, schema)
        self._references: dict[str, str] = {}

    def _first_category(self) -> tuple[int, int] | None:
        """Return where the category stands that has a column for every value."""
        for at, factors in enumerate(self._products):
            for place, factor in enumerate(factors):
                if self._category(factor) is not None:
                    return at, place
        return None

    def _category(self, factor: Factor) -> CategoryColumn | None:
        name = factor.column if isinstance(factor, Category) else factor
        found = self._schema.columns.get(name) if isinstance(name, str) else None
        return found if isinstance(found, CategoryColumn) else None

    def terms(self) -> Terms:
        """Return the columns of all features."""
        found: dict[str, Coefficient] = {}
        for at, factors in enumerate(self._products):
            for made in self._of_product(at, factors):
                if made.name in found or made.name == INTERCEPT:
                    raise InvalidStatisticError(
                        "two coefficients would have one name; a feature is named twice, or a "
                        "column has the name of another's coefficient",
                        field_name=f"features[{at}]",
                    )
                found[made.name] = made
        return Terms(tuple(found.values()), self._references)

    def _of_product(self, at: int, factors: Sequence[Factor]) -> Iterator[Coefficient]:
        place = f"features[{at}]"
        choices = []
        for position, factor in enumerate(factors):
            inner = f"{place}.product[{position}]" if len(factors) > 1 else place
            choices.append(self._of_factor(factor, (at, position), factors, inner))
        if prod(map(len, choices)) > MAX_COEFFICIENTS:
            raise InvalidStatisticError(
                f"at most {MAX_COEFFICIENTS} coefficients", field_name=place
            )
        # the first factor's levels run fastest, as in R
        for picked in product(*reversed(choices)):
            parts = picked[::-1]
            yield Coefficient(
                name=":".join(part.name for part in parts),
                node=tree.product(*(part.node for part in parts)),
                levels={name: level for part in parts for name, level in part.levels.items()},
            )

    def _of_factor(
        self, factor: Factor, at: tuple[int, int], factors: Sequence[Factor], place: str
    ) -> list[Coefficient]:
        category = self._category(factor)
        if isinstance(factor, Category):
            self._check_category(factor, place)
        if category is not None and isinstance(factor, str | Category):
            return self._levels(factor, category, at, factors, place)
        if isinstance(factor, Expression):
            node = _parsed(factor.expr, place)
            return [Coefficient(tree.coefficient_name(node), node, {})]
        name = factor.column if isinstance(factor, Category) else str(factor)
        require_column(self._schema, name, "features")
        return [Coefficient(name, tree.column(name), {})]

    def _check_category(self, factor: Category, place: str) -> None:
        column = require_column(self._schema, factor.column, f"{place}.column")
        if isinstance(column, CategoryColumn):
            if factor.reference is not None and column.value_of(factor.reference) is None:
                raise InvalidStatisticError(
                    no_value(factor.column, column.values, factor.reference),
                    field_name=f"{place}.reference",
                )
        elif not column.boolean:
            raise InvalidStatisticError(
                f"{factor.column} is a number, not a category: name it alone",
                field_name=f"{place}.column",
            )
        elif factor.reference is not None:
            raise InvalidStatisticError(
                f"{factor.column} is a boolean, which is 0 or 1 as it is: name it alone",
                field_name=f"{place}.reference",
            )

    def _levels(
        self,
        factor: str | Category,
        column: CategoryColumn,
        at: tuple[int, int],
        factors: Sequence[Factor],
        place: str,
    ) -> list[Coefficient]:
        name = factor if isinstance(factor, str) else factor.column
        reference = self._named.get(name, column.values[0])
        rest = frozenset(map(_identity, factors)) - {_identity(factor)}
        contrasts = at != self._whole and (not rest or rest in self._known)
        if contrasts:
            if len(column.values) == 1:
                raise InvalidStatisticError(
                    f"{name} has one declared value, so there is nothing to compare",
                    field_name=place,
                )
            self._references[name] = reference
        # Before thousands of values become coefficients, to be counted and refused.
        if len(column.values) > MAX_COEFFICIENTS + 1:
            raise InvalidStatisticError(
                f"at most {MAX_COEFFICIENTS} coefficients", field_name=place
            )
        return [
            Coefficient(name + value, tree.is_value(name, value), {name: value})
            for value in column.values
            if not (contrasts and value == reference)
        ]


def _named_references(products: Sequence[Sequence[Factor]], schema: Schema) -> dict[str, str]:
    """Return the reference of each category that one is named for; it holds in every feature.

    It is the declared value, or the text itself where that is none.
    """
    found: dict[str, str] = {}
    for at, factors in enumerate(products):
        for factor in factors:
            if not isinstance(factor, Category) or factor.reference is None:
                continue
            column, reference = schema.columns.get(factor.column), factor.reference
            if isinstance(column, CategoryColumn):
                reference = column.value_of(reference) or reference
            if found.setdefault(factor.column, reference) != reference:
                raise InvalidStatisticError(
                    "one category has two reference levels", field_name=f"features[{at}]"
                )
    return found


def spelled_features(features: Sequence[Feature], schema: Schema) -> tuple[Feature, ...]:
    """Return features with each category and expression in one spelling.

    Of a category the reference level says all of it.

    A category is its name alone where the reference is the first value, whether that was named or
    not; else each feature names the reference, which holds in all of them.

    Raises
    ------
    InvalidStatisticError
        A category has two reference levels, or one that is no declared value.
    """
    products = [each.product if isinstance(each, Product) else (each,) for each in features]
    named = _named_references(products, schema)

    def spelled(factor: Factor) -> Factor:
        if isinstance(factor, Expression):
            return Expression(expr=spelled_expression(factor.expr, schema))
        name = factor.column if isinstance(factor, Category) else factor
        column = schema.columns.get(name) if isinstance(name, str) else None
        if not isinstance(name, str) or column is None:
            return factor
        if not isinstance(column, CategoryColumn):
            plain = isinstance(factor, Category) and column.boolean and factor.reference is None
            return name if plain else factor
        reference = named.get(name, column.values[0])
        if reference not in column.values:
            raise InvalidStatisticError("no such reference level", field_name="features")
        return name if reference == column.values[0] else Category(column=name, reference=reference)

    return tuple(
        replace(each, product=tuple(map(spelled, each.product)))
        if isinstance(each, Product)
        else spelled(each)
        for each in features
    )


def _identity(factor: Factor) -> str:
    """Return a key of a factor that is equal in two products, whatever its reference."""
    if isinstance(factor, Category):
        return factor.column
    return factor if isinstance(factor, str) else f"({factor})"


def names_in(features: Sequence[Feature]) -> set[str]:
    """Return the columns that features read."""
    found: set[str] = set()
    for feature in features:
        for factor in feature.product if isinstance(feature, Product) else (feature,):
            if isinstance(factor, Expression):
                found.update(parse(factor.expr).columns)
            elif isinstance(factor, Category):
                found.add(factor.column)
            else:
                found.add(factor.log if isinstance(factor, Logarithm) else factor)
    return found


def count_columns(features: Sequence[Feature], schema: Schema) -> int:
    """Return about how many coefficients features become; of any that do not fit, anything."""
    total = 0
    for feature in features:
        factors = feature.product if isinstance(feature, Product) else (feature,)
        sizes = []
        for factor in factors:
            name = factor.column if isinstance(factor, Category) else factor
            column = schema.columns.get(name) if isinstance(name, str) else None
            sizes.append(len(column.values) if isinstance(column, CategoryColumn) else 1)
        total += prod(sizes)
    return min(total, MAX_COEFFICIENTS)


def plain_names(features: Sequence[Feature] | None) -> tuple[str, ...]:
    """Return the names of features that are columns, as mechanisms know them.

    Raises
    ------
    AttributeError
        They are not columns yet. A property that is not there is what checks of protocols expect;
        in Python 3.11 they call properties, in an order that differs from process to process.
    """
    names = tuple(each for each in features or () if isinstance(each, str))
    if len(names) != len(features or ()):
        raise AttributeError("these features are not columns yet")
    return names
