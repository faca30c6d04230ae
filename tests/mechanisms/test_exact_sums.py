"""Sums are those of values: exactly for whole numbers, else within what the answer states."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from app.engine.schema import Gram, read_gram
from mechanisms.domain import EXACT_WIDTH, SUM_MAX, NumberColumn, Schema
from mechanisms.knorm import integer_noise, offered_norms
from mechanisms.privacy import Adjacency
from mechanisms.sketches import ArrayData, limb_sums
from mechanisms.statistics.additive import AdditiveForm, AdditiveStatistic, Leaf
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance
from tests.mechanisms.forms import form_of
from tests.mechanisms.test_knorm_privacy import loss

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
Number = int | float
_KINDS = 11
Rows = Sequence[Mapping[str, Number]]
WEIGHT = NumberColumn(Fraction(1), Fraction(7), kind="integer")


def whole(generator: random.Random, bits: int) -> NumberColumn:
    """A column of whole numbers about ``2**bits`` wide, anywhere in 64 bits."""
    width = generator.randrange(1 << (bits - 1), 1 << bits) if bits else 1
    low = generator.choice([0, -width, generator.randrange(-(1 << 63), (1 << 63) - 1 - width)])
    return NumberColumn(Fraction(low), Fraction(low + width), kind="integer")


def real(generator: random.Random) -> NumberColumn:
    low, width = generator.uniform(-1, 1) * 10 ** generator.uniform(-3, 9), generator.uniform(1, 9)
    scaled = width * 10 ** generator.randint(-3, 9)
    return NumberColumn(Fraction(low), Fraction(low) + Fraction(scaled))


def cells(generator: random.Random, column: NumberColumn, count: int) -> list[Number]:
    """Values of a column: its ends, and any between."""
    if column.dtype == np.float64:
        low, high = float(column.lower), float(column.upper)
        found = [low, high, *(generator.uniform(low, high) for _ in range(count - 2))]
        return [float(each) for each in column.clamped(np.array(found))]
    low, high = int(column.lower), int(column.upper)
    return [low, high, *(generator.randint(low, high) for _ in range(count - 2))]


def rows_of(generator: random.Random, columns: Mapping[str, NumberColumn], count: int) -> Rows:
    made = {name: cells(generator, column, count) for name, column in columns.items()}
    return [dict(zip(made, row, strict=True)) for row in zip(*made.values(), strict=True)]


def data_of(columns: Mapping[str, NumberColumn], rows: Rows) -> ArrayData:
    schema = Schema(columns, REPLACE, len(rows))
    return ArrayData.from_values(schema, {name: [row[name] for row in rows] for name in columns})


def schema_of(columns: Mapping[str, NumberColumn], adjacency: Adjacency, rows: int) -> Schema:
    return Schema(columns, adjacency, rows if adjacency is REPLACE else None, max_rows=rows)


def answered(statistic: AdditiveStatistic, schema: Schema, data: ArrayData) -> object:
    """The answer of no noise: a tree of leaves."""
    form = form_of(statistic, schema)
    return form.answer([Fraction(each) for each in form.total(data)])


def leaves(tree: object) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, Mapping):
        for each in tree.values():
            yield from leaves(each)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for each in tree:
            yield from leaves(each)


def mean(numbers: Sequence[Fraction]) -> Fraction:
    return sum(numbers, Fraction(0)) / len(numbers)


def truths(rows: Rows) -> Iterator[tuple[AdditiveStatistic, list[Fraction]]]:
    """Questions about x and y, and their answers by plain Python."""
    x, y, w = ([Fraction(row[name]) for row in rows] for name in "xyw")
    both, (mx, my) = (x, y), (mean(x), mean(y))
    products = {
        (i, j): mean([a * b for a, b in zip(both[i], both[j], strict=True)])
        for i in range(2)
        for j in range(2)
    }
    spreads = {(i, j): products[i, j] - (mx, my)[i] * (mx, my)[j] for i, j in products}
    names = ("x", "y")
    yield Sum(columns=names), [sum(x, Fraction(0)), sum(y, Fraction(0))]
    yield Mean(columns=names), [mx, my]
    yield Variance(columns=names), [spreads[0, 0], spreads[1, 1]]
    yield Covariance(columns=names), [spreads[i, j] for i, j in sorted(spreads)]
    found = [mx, my, *(products[i, j] for i, j in sorted(products))]
    yield Moments(columns=names), found
    weighed = [a * b for a, b in zip(x, w, strict=True)]
    yield Sum(columns=("x",), weights="w"), [sum(weighed, Fraction(0))]
    yield Mean(columns=("x",), weights="w"), [mean(weighed) / mean(w)]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_sums_of_random_columns_are_those_of_plain_fractions(adjacency: Adjacency) -> None:
    """Of every width up to 64 bits: exact up to 2**25, else as near as the answer says."""
    generator, exact = random.Random(f"sums {adjacency}"), 0
    for case in range(64):
        made = whole(generator, max(case, 1)) if case % 3 else real(generator)
        columns = {"x": made, "y": whole(generator, generator.randint(0, 25)), "w": WEIGHT}
        rows = rows_of(generator, columns, generator.randint(3, 9))
        data, schema = data_of(columns, rows), schema_of(columns, adjacency, len(rows))
        narrow = made.whole and made.upper - made.lower <= EXACT_WIDTH
        for statistic, expected in truths(rows):
            numbers = list(leaves(answered(statistic, schema, data)))[-len(expected) :]
            for leaf, truth in zip(numbers, expected, strict=True):
                assert abs(leaf.value - truth) <= leaf.rounding, (statistic, made, leaf, truth)
                assert not (narrow and leaf.rounding), (statistic, made)
            exact += narrow
    assert exact > 100


def test_a_filtered_mean_is_that_of_the_records_it_is_about() -> None:
    generator = random.Random("filtered")
    for bits in range(1, 63, 4):
        columns = {"x": whole(generator, bits), "w": WEIGHT}
        rows = rows_of(generator, columns, 9)
        where = (Condition(column="w", op=">=", value=3),)
        chosen = [Fraction(row["x"]) for row in rows if row["w"] >= 3]
        for adjacency in (REPLACE, ADD):
            schema = schema_of(columns, adjacency, len(rows))
            (leaf,) = leaves(
                answered(Mean(columns=("x",), where=where), schema, data_of(columns, rows))
            )
            assert abs(leaf.value - mean(chosen)) <= leaf.rounding
            assert bool(leaf.rounding) == (bits > 25)


def test_rounding_is_far_below_the_noise_of_ten_million_rows_at_epsilon_10() -> None:
    """Less than a hundredth of its standard deviation, and counted into what is stated."""
    rows, deviation = 10**7, 2**0.5 * 2 / 10  # of the sum's noise, in half-widths
    for column in (
        NumberColumn(Fraction(0), Fraction(30_000_000)),
        NumberColumn(Fraction(0), Fraction(10**18), kind="integer"),
        NumberColumn(Fraction(-(10**6)), Fraction(10**9)),
    ):
        assert 0 < rows * column.sum_error / column.half_width < deviation / 100
    assert NumberColumn(Fraction(0), Fraction(30_000_000), kind="integer").sum_error == 0


def neighbours(form: AdditiveForm, columns: Mapping[str, NumberColumn]) -> Iterator[list[int]]:
    """What a record at any corner changes in a total when it comes, goes or is replaced."""
    generator = random.Random("neighbours")
    ends = [
        {name: generator.choice(cells(generator, column, 4)) for name, column in columns.items()}
        for _ in range(_KINDS + 1)
    ]
    common = ends[0]
    totals = [form.total(data_of(columns, [common, each])) for each in ends]
    alone = form.total(data_of(columns, [common]))
    for one, other in pairwise(totals):
        yield [a - b for a, b in zip(one, other, strict=True)]
    for one in totals:
        yield [a - b for a, b in zip(one, alone, strict=True)]


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_no_record_moves_a_sum_beyond_its_sensitivity(adjacency: Adjacency) -> None:
    """In exact integers, in every norm that is offered, whatever sum codes are made of."""
    generator = random.Random("moves")
    for bits in (1, 5, 20, 25, 26, 40, 63):
        columns = {"x": whole(generator, bits), "y": real(generator), "w": WEIGHT}
        schema = schema_of(columns, adjacency, 2)
        for statistic in (
            Sum(columns=("x", "y")),
            Sum(columns=("x",), weights="w"),
            Mean(columns=("x", "y")),
            Mean(columns=("y",), weights="w"),
            Moments(columns=("x", "y")),
        ):
            form = statistic.additive(schema)
            found = list(neighbours(form, columns))
            moves = found[_KINDS:] if adjacency is ADD else found[:_KINDS]
            for norm in offered_norms(form.space):
                noise = integer_noise(form.space, norm, Fraction(1))
                assert max(loss(noise, move) for move in moves) <= 1, (statistic, columns, norm)


def test_scaled_sums_of_a_regression_are_within_their_units() -> None:
    """Each scaled value lies in [-1, 1], and codes give the values they stand for."""
    generator = random.Random("scaled")
    for bits in range(1, 64, 3):
        columns = {"x": whole(generator, bits), "y": real(generator)}
        for intercept in (True, False):
            asked = LinearRegression(target="y", features=("x",), intercept=intercept)
            scaling = asked.scaling(schema_of(columns, REPLACE, 2))
            assert scaling.target is not None
            for scaled in (*scaling.features, scaling.target):
                column = columns[scaled.name]
                for value in cells(generator, column, 5):
                    (code,) = column.sum_codes(np.array([value])).tolist()
                    found = scaled.scale(code)
                    assert -1 <= found <= 1
                    back = scaled.centre + scaled.width * found
                    assert abs(back - Fraction(value)) <= column.sum_error


@pytest.mark.parametrize("columns", [0, 1, 4])
def test_gram_matrices_are_those_of_plain_integers(columns: int) -> None:
    """However rows are cut, added up, written and read."""
    generator = np.random.default_rng(columns)
    total, other = Gram.empty(columns), Gram.empty(columns)
    entries: list[list[int]] = [[] for _ in range(1 + columns)]
    for part, rows in enumerate((0, 1, 4095, 5000)):
        codes = [generator.integers(-SUM_MAX, SUM_MAX + 1, rows) for _ in range(columns)]
        for column in codes[:1]:
            column[: rows // 2] = SUM_MAX
        (total, other)[part % 2].add_limbs(limb_sums(codes, rows))
        for place, column in enumerate([np.ones(rows, dtype=np.int64), *codes]):
            entries[place] += column.tolist()
    total.add(read_gram(other.to_bytes()))
    expected = [
        [sum(a * b for a, b in zip(one, two, strict=True)) for two in entries] for one in entries
    ]
    assert read_gram(total.to_bytes()).some(range(1 + columns)) == expected
