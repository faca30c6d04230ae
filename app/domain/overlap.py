"""When two tables hold largely the same people: the public rule.

The rule compares rows by keyed digests of their cells (:mod:`app.uploads.row_digests`),
over all columns and over some subsets of them. For each subset the rule takes the
*smaller* table, the one with fewer distinct rows. It computes the share ``s`` of its
distinct rows that the *larger* table holds too.

*Chance.* Unrelated tables share rows as well: two tables of two booleans share all of
theirs. The rule estimates the chance ``r`` that a row of an unrelated table occurs in the
larger one. The estimate is the share of repeated rows in the larger table, because a row
of the same distribution finds an equal there about as often as its own rows do. Three
corrections apply:

- A table that holds every row twice must not pass for one of many repeated rows. So the
  smaller table's share, scaled to the larger one's size, bounds ``r`` from above.
- A list of numbers or a full design has no repeated rows, and unrelated tables share it
  all the same. Let the columns' ranges and decimals allow ``2**bits`` different rows, and
  compare with rows spread evenly over these. If fewer rows repeat than that, the even
  spread counts, 64-fold.
- Where a column is a list, ``r`` is at least the chance that two rows agree in all other
  columns.

*Verdict.* The tables overlap when two conditions hold. First, ``(s - r) / (1 - r)``, the
share that chance does not explain, is at least ``0.1 + r/2``. Second, chance produces as
many common rows less than once in 2**20 cases: ``N KL(s || r) >= 20`` bits over the ``N``
rows compared. A small table may also have few repeated rows by chance: days, or rounded
prices. So for every ``r`` up to the larger share of repeated rows, this must be as unlikely:
both tables repeat as few rows as they do, and have as many rows in common. Two tables
with the same rows, each equally often, also overlap when chance would repeat their counts
less than once in 2**20 cases. This detects an unchanged copy of a table with few different
rows.

*People with ids.* Two data sets with a declared person identifier hold the same people where
their ids are the same texts: no chance is discounted. Files that number their people from 1
count as the same people, because they do not show otherwise; an admin can say so.

*Other people's data.* The result of a comparison reveals something about earlier data. The
person who uploaded that data has seen it. No one else may test for single persons by uploads
of a few rows. So with the data of others the rule compares nothing below :data:`OTHERS`. An
upload that could identify persons and is smaller is refused without a comparison. Each
different row counts once, and so do rows with the same values in other columns. Otherwise an
uploader could guess how often each of a few rows is in another person's table. The price:
the rule does not notice that two people upload one table of a few booleans.

*Many small files.* The rule applies to each file, and to the newest 2, 4, 8, ... and all files of
an account together, each against one file and all files of another account
(:mod:`app.services.datasets.comparing`).

Rows, shares and counts stay inside: the only output is that there is an overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

MIN_SHARE = 0.1
MIN_BITS = 20.0  # once in 2**20 cases
_EVEN_SLACK = 64  # rows are never spread as evenly as a full grid would have them
_ENOUGH_REPEATED = 30  # fewer say too little of how often rows recur
_NEARLY_ALL = 1 - 2.0**-20
_CHANCES = 32  # that a verdict is tried with
_LEAST_CHANCE = 2.0**-40
_LIST_DENSITY = 0.25  # of a range: a sample of all days of a year is still a list of days
_CHANCE_OF_FEW = 3
"""Equal pairs of cells that a column may well have when a sample of pairs shows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """How many different rows must be compared, and be in common, before a result is shown."""

    compared: int
    common: int


OWN = Floor(compared=1, common=2)
"""For data of one's own."""
OTHERS = Floor(compared=20, common=5)
"""For data that somebody else has uploaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """What the rule knows of one table under a subset of its columns.

    Attributes
    ----------
    rows
        Rows with any cell in these columns.
    distinct
        About how many different rows these are.
    repeated
        Share of the rows that occur more than once, in [0, 1].
    bits
        Binary logarithm of the number of different rows the columns could hold.
    alike
        The chance that two rows agree in all columns but lists, if one of them is a list.
    """

    rows: int
    distinct: float
    repeated: float
    bits: float
    alike: float = 0.0


def chance_of_equal(*, smaller: TableShape, larger: TableShape) -> float:
    """Return the chance that a row of an unrelated table has an equal in the larger one.

    >>> ids = TableShape(rows=1000, distinct=1000, repeated=0.0, bits=10.0)
    >>> chance_of_equal(smaller=ids, larger=ids)
    1.0
    >>> incomes = TableShape(rows=1000, distinct=1000, repeated=0.0, bits=40.0)
    >>> chance_of_equal(smaller=incomes, larger=incomes) < 0.002
    True
    """
    scale = larger.rows / smaller.rows
    bound = min(1.0, (smaller.repeated + 1 / smaller.rows) * scale)
    repeated = min(larger.repeated, bound)
    even = min(1.0, larger.distinct * math.exp2(-larger.bits))
    enough_repeated = repeated >= even and larger.repeated * larger.rows >= _ENOUGH_REPEATED
    chance = max(_LEAST_CHANCE, repeated, smaller.alike, larger.alike)
    if enough_repeated:
        return chance
    return max(chance, min(1.0, _EVEN_SLACK * even))


def overlaps(
    *,
    smaller: TableShape,
    larger: TableShape,
    compared: int,
    common: int,
    floor: Floor = OWN,
) -> bool:
    """Say whether ``common`` of ``compared`` rows of the smaller table are too many for chance."""
    chance = chance_of_equal(smaller=smaller, larger=larger)
    if not beyond_chance(chance, compared=compared, common=common, floor=floor):
        return False
    # A small table may repeat few rows by chance, so all of the evidence must be rare together.
    share = common / compared
    return all(
        compared * _surplus_bits(share, chance)
        + _few_repeats_bits(smaller, chance, among=larger)
        + _few_repeats_bits(larger, chance, among=larger)
        >= MIN_BITS
        for chance in _between(chance, max(smaller.repeated, larger.repeated))
    )


def _between(low: float, high: float) -> Iterator[float]:
    """Yield chances from one to another, if that is more, close enough to find the worst."""
    yield from (low + max(0.0, high - low) * step / _CHANCES for step in range(_CHANCES + 1))


def _few_repeats_bits(table: TableShape, chance: float, *, among: TableShape) -> float:
    """Return how unlikely it is, in bits, that a table repeats as few rows if chance is as large.

    A row that finds an equal with a probability r among D different ones equals another one with
    r**2 / D or more. So the pairs of equal rows are about Poisson, at least ``rows**2 r**2 / 2D``.
    """
    expected = table.rows * (table.rows - 1) / 2 * chance**2 / among.distinct
    # many repeated rows make more pairs: more than two rows are alike
    seen = -table.rows / 2 * math.log1p(-min(table.repeated, _NEARLY_ALL))
    if seen >= expected:
        return 0.0
    nats = expected - seen + (seen * math.log(seen / expected) if seen else 0.0)  # Chernoff's bound
    return nats / math.log(2)


def is_below(floor: Floor, table: TableShape) -> bool:
    """Say whether a table is too small to be compared, and could identify single persons if it
    were.

    >>> income = TableShape(rows=2, distinct=2, repeated=0.0, bits=20.0)
    >>> coins = TableShape(rows=2, distinct=2, repeated=0.0, bits=1.0)
    >>> is_below(OTHERS, income), is_below(OTHERS, coins)
    (True, False)
    """
    if not 0 < table.distinct < floor.compared:
        return False
    # a row that is written several times identifies a person as much as one does
    once = replace(table, rows=math.ceil(table.distinct), repeated=0.0)
    chance = chance_of_equal(smaller=once, larger=once)
    return -table.distinct * math.log2(chance) >= MIN_BITS


def beyond_chance(chance: float, *, compared: int, common: int, floor: Floor = OWN) -> bool:
    """Say whether ``common`` of ``compared`` are too many, each of which has this chance."""
    if compared < floor.compared or common < floor.common:
        return False
    # Above 0, or the logarithm of one common row would be infinite.
    chance = min(1.0, max(_LEAST_CHANCE, chance))
    share = common / compared
    if chance == 1 or share - chance < (MIN_SHARE + chance / 2) * (1 - chance):
        return False
    return compared * _surplus_bits(share, chance) >= MIN_BITS


def same_people(*, compared: int, common: int, floor: Floor = OWN) -> bool:
    """Say whether ``common`` of ``compared`` people are too many to be strangers, by their ids.

    >>> same_people(compared=100, common=11), same_people(compared=100, common=2)
    (True, False)
    """
    return beyond_chance(0.0, compared=compared, common=common, floor=floor)


def chance_of_pair(equal: int, *, rows: int, bits: float) -> float:
    """Return the chance that two rows agree in a column with ``equal`` pairs of equal cells.

    >>> chance_of_pair(250_000, rows=1000, bits=1.0) > 0.5
    True
    >>> chance_of_pair(0, rows=1000, bits=20.0) < 1e-5
    True
    """
    pairs = rows * (rows - 1) / 2
    return 1.0 if not pairs else min(1.0, max((equal + _CHANCE_OF_FEW) / pairs, math.exp2(-bits)))


def is_list(*, rows: int, distinct: int, bits: float) -> bool:
    """Say whether a column takes nearly every value of its range, each about once.

    >>> is_list(rows=365, distinct=365, bits=8.5), is_list(rows=365, distinct=365, bits=20.0)
    (True, False)
    """
    return 2 * distinct > rows and distinct >= _LIST_DENSITY * 2.0**bits


def repeat_bits(counts: list[int]) -> float:
    """Return how unlikely it is, in bits, that chance repeats these counts of different rows.

    The number of rows itself is one of ``n``, and given it the counts are
    multinomial with their own shares as the law.

    >>> 20 < repeat_bits([250, 251, 249, 250]) < 30, repeat_bits([20, 21]) < 10
    (True, True)
    """
    rows = sum(counts)
    if rows == 0:
        return 0.0
    nats = math.lgamma(rows + 1)
    nats += sum(count * math.log(count / rows) - math.lgamma(count + 1) for count in counts)
    return math.log2(rows) - nats / math.log(2)


def _surplus_bits(share: float, chance: float) -> float:
    """Return the Kullback-Leibler divergence of two coins, in bits; 0 of a share that is less."""
    if share <= chance:
        return 0.0
    bits = share * math.log2(share / chance)
    return bits + (0.0 if share == 1 else (1 - share) * math.log2((1 - share) / (1 - chance)))
