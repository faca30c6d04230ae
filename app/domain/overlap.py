"""When two tables hold largely the same people: the public rule.

Rows are compared by keyed digests of their cells (:mod:`app.uploads.row_digests`),
over all columns and over some subsets of them. For each subset the rule looks at
the *smaller* table, the one with fewer different rows, and asks which share ``s``
of its different rows the *larger* one holds too.

*Chance.* Unrelated tables share rows as well: two tables of two booleans share
all of theirs. The chance ``r`` that a row of an unrelated table is found in the
larger one is taken to be the share of the larger one's rows that have a twin in
it, since a row of the same law finds an equal there about as often as its own
rows do. Two corrections. Whoever writes every row twice must not pass for a
table full of twins, so the smaller table's twins, scaled to the larger one's
size, bound ``r`` from above. And a list of numbers or a full design has no twins
and is shared all the same, so a table with fewer twins than rows spread evenly
over its grid would have (2**bits places, from the columns' ranges and the
decimals they are written with) counts 64 times as many as that even spread. Beside a
list ``r`` is at least the chance that two rows agree in all other columns. Single columns
are compared under any names, so of those twins say nothing.

*Verdict.* The tables overlap when ``(s - r) / (1 - r)``, the share that chance
does not explain, is at least ``0.1 + r/2``, and so many common rows would arise
by chance less than once in 2**20 cases: ``N KL(s || r) >= 20`` bits over ``N``
rows compared. A small table has few twins by chance, too: days, or rounded prices. So
both tables' twins being so few and so many common rows must be as unlikely together,
for every ``r`` up to the share that twins are of either. Besides, two tables
with the very same rows as often each overlap when chance would repeat their counts
less than once in 2**20 cases; this is what tells a table of few different rows that
comes back unchanged.

*Columns that nobody declares.* A file may hold the same people though none of its
declared columns is known. Its first columns are compared by what stands beside single
values (:mod:`app.uploads.anchors`), and over all of them or all but one. Strangers share
single columns: ranks, the days of a year, places. So it does not matter that values
are shared, but what else agrees in their rows: a column counts as found when its cells
agree in more rows than chance explains, as above, where ``r`` is now the chance that
two rows of the column agree. The files overlap when the columns found are more than
three quarters of all columns of one of the two files, by their number and by their
bits. A column by which two rows agree often counts as the part of a column that its
entropy is of one bit. A list of all numbers, or of all days, counts as none.

*People with ids.* Two data sets that both declare whose their rows are hold the same people where
their ids are the same texts: no chance is discounted. Files that number their people from 1 are
taken for the same people, since nothing says that they are others; an admin can say so.

*Other people's data.* What is told of a comparison tells something of earlier data. Who
uploaded that has seen it; nobody else may ask for single persons by uploads of a few
rows. So with the data of others nothing is compared below :data:`OTHERS`, and an upload
that could tell persons and is smaller is not compared with them at all: it is refused
whatever they hold. Rows count once, however often they are written, and rows with the same values
in other columns are the same: whoever guesses how often each of a few rows is in a table of
others is not told so. The price is that nobody sees two people bring one table of a few booleans.

Rows, shares and counts stay inside: what is told is that there is an overlap.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

MIN_SHARE = 0.1
MIN_BITS = 20.0  # once in 2**20 cases
_EVEN_SLACK = 64  # rows are never spread as evenly as a full grid would have them
_ENOUGH_TWINS = 30  # fewer say too little of how often rows recur
_NEARLY_ALL = 1 - 2.0**-20
_CHANCES = 32  # that a verdict is tried with
_LEAST_CHANCE = 2.0**-40
_COVERED = 0.75
_FEWEST_COLUMNS = 1.5  # one column alone is shared by strangers: ranks, days, places
_MOST_COLUMN_BITS = 24.0  # of one column: a long number must not outweigh all the others
_LIST_DENSITY = 0.25  # of a range: a sample of all days of a year is still a list of days
_CHANCE_OF_FEW = 3
"""Pairs of equal cells that a column with none among so many pairs may have had all the same."""
_MOST_CHANCE_OF_SUMS = 0.95  # else files of columns that are mostly equal could never overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """How many different rows must be compared, and be in common, before anything is told."""

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
    twins
        Share of the rows that occur more than once, in [0, 1].
    bits
        Binary logarithm of the number of different rows the columns could hold.
    alike
        The chance that two rows agree in all columns but lists, if one of them is a list.
    """

    rows: int
    distinct: float
    twins: float
    bits: float
    alike: float = 0.0


def chance_of_equal(*, smaller: TableShape, larger: TableShape, same_columns: bool = True) -> float:
    """Return the chance that a row of an unrelated table has an equal in the larger one.

    Twins say nothing of the rows of other columns: these may lie where the larger one's are dense.

    >>> ids = TableShape(rows=1000, distinct=1000, twins=0.0, bits=10.0)
    >>> chance_of_equal(smaller=ids, larger=ids)
    1.0
    >>> incomes = TableShape(rows=1000, distinct=1000, twins=0.0, bits=40.0)
    >>> chance_of_equal(smaller=incomes, larger=incomes) < 0.002
    True
    """
    scale = larger.rows / smaller.rows
    bound = min(1.0, (smaller.twins + 1 / smaller.rows) * scale)
    twins = min(larger.twins, bound)
    even = min(1.0, larger.distinct * math.exp2(-larger.bits))
    told_by_twins = twins >= even and larger.twins * larger.rows >= _ENOUGH_TWINS
    chance = max(_LEAST_CHANCE, twins, smaller.alike, larger.alike)
    if told_by_twins and same_columns:
        return chance
    return max(chance, min(1.0, _EVEN_SLACK * even))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnShape:
    """What the rule knows of one column of a file.

    Attributes
    ----------
    bits
        Binary logarithm of the number of different values it could hold.
    chance
        That two rows agree in it.
    is_list
        Whether it numbers the rows, or lists the days: strangers share such columns.
    """

    bits: float
    chance: float
    is_list: bool

    @property
    def weight(self) -> float:
        """Return as what part of a column it counts."""
        return 0.0 if self.is_list else min(1.0, -math.log2(self.chance))

    @property
    def counted_bits(self) -> float:
        """Return how many bits it counts."""
        return 0.0 if self.is_list else min(_MOST_COLUMN_BITS, self.bits)


def overlaps(
    *,
    smaller: TableShape,
    larger: TableShape,
    compared: int,
    common: int,
    floor: Floor = OWN,
    same_columns: bool = True,
) -> bool:
    """Say whether ``common`` of ``compared`` rows of the smaller table are too many for chance."""
    chance = chance_of_equal(smaller=smaller, larger=larger, same_columns=same_columns)
    if not beyond_chance(chance, compared=compared, common=common, floor=floor):
        return False
    # A small table may lack twins by chance: whatever those there are tell, all of it is rare.
    share = common / compared
    return all(
        compared * _surplus_bits(share, chance)
        + _few_twins_bits(smaller, chance, among=larger)
        + _few_twins_bits(larger, chance, among=larger)
        >= MIN_BITS
        for chance in _between(chance, max(smaller.twins, larger.twins))
    )


def _between(low: float, high: float) -> Iterator[float]:
    """Yield chances from one to another, if that is more, close enough to find the worst."""
    yield from (low + max(0.0, high - low) * step / _CHANCES for step in range(_CHANCES + 1))


def _few_twins_bits(table: TableShape, chance: float, *, among: TableShape) -> float:
    """Return how unlikely it is, in bits, that a table has as few twins if chance is as large.

    A row that finds an equal with a probability r among D different ones equals another one with
    r**2 / D or more. So the pairs of equal rows are about Poisson, at least ``rows**2 r**2 / 2D``.
    """
    expected = table.rows * (table.rows - 1) / 2 * chance**2 / among.distinct
    # of many twins there are more pairs: more than two rows are alike
    seen = -table.rows / 2 * math.log1p(-min(table.twins, _NEARLY_ALL))
    if seen >= expected:
        return 0.0
    nats = expected - seen + (seen * math.log(seen / expected) if seen else 0.0)  # Chernoff's bound
    return nats / math.log(2)


def is_below(floor: Floor, table: TableShape) -> bool:
    """Say whether a table is too small to be compared, and could tell single persons if it were.

    >>> income = TableShape(rows=2, distinct=2, twins=0.0, bits=20.0)
    >>> coins = TableShape(rows=2, distinct=2, twins=0.0, bits=1.0)
    >>> is_below(OTHERS, income), is_below(OTHERS, coins)
    (True, False)
    """
    if not 0 < table.distinct < floor.compared:
        return False
    # rows written several times are no less told by one of them
    once = replace(table, rows=math.ceil(table.distinct), twins=0.0)
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
    """Return the chance that two rows agree in a column, of whose rows so many pairs do.

    >>> chance_of_pair(250_000, rows=1000, bits=1.0) > 0.5
    True
    >>> chance_of_pair(0, rows=1000, bits=20.0) < 1e-5
    True
    """
    pairs = rows * (rows - 1) / 2
    return 1.0 if not pairs else min(1.0, max((equal + _CHANCE_OF_FEW) / pairs, math.exp2(-bits)))


def chance_of_columns(columns: Collection[ColumnShape]) -> float:
    """Return the chance that a row which agrees in all columns but one agrees in that too."""
    chances = [column.chance for column in columns if not column.is_list]
    return min(_MOST_CHANCE_OF_SUMS, max(chances, default=1.0))


def is_list(*, rows: int, distinct: int, bits: float) -> bool:
    """Say whether a column takes nearly every value of its range, each about once.

    >>> is_list(rows=365, distinct=365, bits=8.5), is_list(rows=365, distinct=365, bits=20.0)
    (True, False)
    """
    return 2 * distinct > rows and distinct >= _LIST_DENSITY * 2.0**bits


def covers(columns: Sequence[ColumnShape], found: Collection[int]) -> bool:
    """Say whether the columns at these places are nearly all that a file tells."""
    weight = sum(columns[place].weight for place in found)
    bits = sum(columns[place].counted_bits for place in found)
    return (
        weight >= _FEWEST_COLUMNS
        and weight > _COVERED * sum(column.weight for column in columns)
        and bits > _COVERED * sum(column.counted_bits for column in columns)
    )


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
