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
decimals they are written with) counts 64 times as many as that even spread.

*Verdict.* The tables overlap when ``(s - r) / (1 - r)``, the share that chance
does not explain, is at least ``0.1 + r/2``, and so many common rows would arise
by chance less than once in 2**20 cases: ``N KL(s || r) >= 20`` bits over ``N``
rows compared. Besides, two tables with the very same rows as often each overlap
when chance would repeat their counts less than once in 2**20 cases; this is what
tells a table of few different rows that comes back unchanged.

Rows, shares and counts stay inside: what is told is that there is an overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MIN_SHARE = 0.1
MIN_COMMON = 2
MIN_BITS = 20.0
_EVEN_SLACK = 64
_ENOUGH_TWINS = 30
_LEAST_CHANCE = 2.0**-40


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
    """

    rows: int
    distinct: float
    twins: float
    bits: float


def chance_of_equal(*, smaller: TableShape, larger: TableShape) -> float:
    """Return the chance that a row of an unrelated table has an equal in the larger one.

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
    even = min(1.0, larger.distinct * 2.0**-larger.bits)
    told_by_twins = twins >= even and larger.twins * larger.rows >= _ENOUGH_TWINS
    chance = twins if told_by_twins else max(twins, min(1.0, _EVEN_SLACK * even))
    return max(_LEAST_CHANCE, chance)


def overlaps(*, smaller: TableShape, larger: TableShape, compared: int, common: int) -> bool:
    """Say whether ``common`` of ``compared`` rows of the smaller table are too many for chance."""
    if common < MIN_COMMON:
        return False
    chance = chance_of_equal(smaller=smaller, larger=larger)
    share = common / compared
    if share - chance < (MIN_SHARE + chance / 2) * (1 - chance):
        return False
    return compared * _divergence_bits(share, chance) >= MIN_BITS


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


def _divergence_bits(share: float, chance: float) -> float:
    """Return the Kullback-Leibler divergence of two coins, in bits."""
    bits = share * math.log2(share / chance)
    return bits + (0.0 if share == 1 else (1 - share) * math.log2((1 - share) / (1 - chance)))
