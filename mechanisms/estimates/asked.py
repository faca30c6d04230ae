"""Questions in the form in which a plan draws them, and facts about their errors.

This module decides which errors need a simulation, which columns depend on each other in synthetic
rows, and which question each of several groups answers.

*Verdicts on answers that are divided by a spread of values that no assumption states.* The error
of a correlation is in proportion to 1 / (s t), s and t the standard deviations of its two columns,
and that of a slope to 1 / s**2: a statistic says which it is divided by (``divided_by``). A column
without a stated distribution is assumed to be spread evenly over its bounds or values. So let r be
the largest expected error under that assumption, as a share of the possible range, of an answer
that is divided p times by such columns. Where each spreads c times as far, it is about r / c**p,
and

    c >= (r / 2%)**(1 / p) is good,   c >= (r / 10%)**(1 / p) is weak.

The verdict is then ``depends``, unless it is the same for all columns that spread at least 1/30
as far: about 1% of the width of their bounds. A verdict ``noise`` also stays, because it applies to
almost all columns that spread further.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from math import ceil, sqrt
from threading import Lock
from typing import Generic, Protocol, TypeVar, cast, runtime_checkable

from mechanisms.contract import InvalidStatisticError, Json, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.estimates.assumptions import Assumptions
from mechanisms.estimates.synthetic import Relation
from mechanisms.estimates.trees import numbers
from mechanisms.estimates.verdicts import GOOD, WEAK, Usefulness, depending, verdict_of
from mechanisms.grouped import group_epsilon, group_facts
from mechanisms.inference.bought import is_read_off_moments, spent_on_numbers
from mechanisms.privacy import MAX_EPSILON_NANOS, Adjacency, Epsilon, PrivacyLoss, split
from mechanisms.single import SINGLE_MECHANISMS, calibrate_by
from mechanisms.statistics.cells.parting import columns_named
from mechanisms.statistics.facts.clipping import is_clipped
from mechanisms.statistics.facts.readings import Sourced
from mechanisms.statistics.questions import Missing, Question, Viewed, viewed
from mechanisms.statistics.stack import Stack
from mechanisms.words import listed, worded

# A cache of the results of long calculations, for repeated questions

T = TypeVar("T")


class Memory(Generic[T]):
    """Results by the text of their question; the oldest are dropped. Any thread may use it.

    Parameters
    ----------
    most
        How many results it stores.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # By a digest: the text of a question holds its schema, which may be long.
        self._known: OrderedDict[bytes, T] = OrderedDict()
        self._lock = Lock()

    def get(self, text: str) -> T | None:
        """Return a stored result, or None."""
        return self._known.get(_digest(text))

    def keep(self, results: Mapping[str, T]) -> None:
        """Store results."""
        with self._lock:
            self._known.update({_digest(text): found for text, found in results.items()})
            while len(self._known) > self._most:
                self._known.popitem(last=False)


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


# Questions in the form in which a plan draws them, and facts about their errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as it is drawn: everything that its error depends on."""

    statistic: Statistic
    schema: Schema
    epsilon: PrivacyLoss
    mechanism: str
    norm: str
    inference: Fraction | None = None
    """The share of epsilon that standard errors take, where they are wanted; of a question as it is
    drawn, None where they change nothing of how its numbers are drawn with this epsilon."""
    rows_of: EstimatedByRows | None = None
    """The question whose rows show its numbers, where it is drawn for one."""

    def shown(self, tree: Json) -> Json:
        """Return the numbers that are shown, of a tree in the shape of its own answer."""
        return tree if self.rows_of is None else self.rows_of.with_rows_alone(tree)

    def plan(self) -> Plan:
        """Return the plan of its numbers, standard errors apart; the last ones are remembered."""
        for asked, plan in tuple(_RECENT):
            if asked == self:
                return plan
        found = calibrate_by(
            SINGLE_MECHANISMS,
            self.statistic,
            self.schema,
            self.epsilon,
            mechanism=self.mechanism,
            norm=self.norm,
            inference=self.inference,
        )
        _RECENT.append((self, found))
        return found

    def on(self, rows: int) -> Asked:
        """Return the same question about a data set of ``rows`` rows."""
        if self.schema.adjacency is Adjacency.REPLACE_ONE:
            return replace(self, schema=replace(self.schema, rows=rows))
        return replace(self, schema=replace(self.schema, max_rows=rows))

    def at(self, epsilon: Fraction) -> Asked:
        """Return the same question at another epsilon, to the next billionth above."""
        # Rounded up: a tiny share must not become no epsilon at all.
        nanos = min(max(ceil(epsilon * 10**9), 1), MAX_EPSILON_NANOS)
        return replace(self, epsilon=Epsilon(nanos))


_RECENT: deque[tuple[Asked, Plan]] = deque(maxlen=8)
"""An estimate asks for the plans of a question and of its simulation several times each."""


@runtime_checkable
class EstimatedByRows(Sourced, Protocol):
    """A question drawn as a stack, whose rows have errors that follow from those of others."""

    def counted_records(self) -> Statistic:
        """Return the count of the records that its rows are about, drawn or public."""

    def estimated_as(self, schema: Schema, /) -> Sequence[tuple[int, Statistic]]:
        """Return the questions whose errors the rows have, each with its part's place."""

    def with_rows_alone(self, tree: Json, /) -> Json:
        """Return the errors of one of those without the numbers that are in no row."""

    def rows_of_errors(
        self, trees: Sequence[Json | None], sizes: Sequence[float], schema: Schema, /
    ) -> Json:
        """Return the rows' errors from those, given the expected sizes of the groups."""

    def rows_of_ranges(self, trees: Sequence[Json | None], schema: Schema, /) -> Json:
        """Return the ranges of the rows' numbers from those."""


_LOST = 0.25  # 1 / 0.8 - 1: of the rows' worth a fifth is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What the noise does to each of several tests of some rows: their errors in those without."""

    error: float
    rows: int
    tests: int

    @property
    def worth(self) -> float:
        """Return how many rows without noise have the same power."""
        return self.rows / self.error**2

    @property
    def more_epsilon(self) -> float:
        """Return by what factor epsilon must be larger to keep four fifths of the rows' worth."""
        return sqrt((self.error**2 - 1) / _LOST)

    @property
    def more_rows(self) -> float:
        """Return by what factor there must be more rows for the same."""
        return (self.error**2 - 1) / _LOST


@runtime_checkable
class Weighed(Protocol):
    """A test: in place of expected errors it has what the noise takes of its power."""

    def weighed(self, asked: Asked, rows: int, /) -> Weight:
        """Return what the noise does to the test, for this many rows."""


@runtime_checkable
class Comparing(Protocol):
    """A question whose answer also has a test that compares its groups."""

    def compared_by(self, schema: Schema, /) -> Statistic | None:
        """Return the question of all counts that the test is made of; None without a test."""

    def error_of_comparison(self, rows: int, std: float, schema: Schema, /) -> float:
        """Return the test's error in that without noise; each count's noise has this deviation."""


def comparison(asked: Asked, rows: int) -> Weight | None:
    """Return what the noise does to the test that compares a question's groups, if it has one.

    Rows are assumed to spread evenly over the groups and their cells.
    """
    statistic = asked.statistic
    if not isinstance(statistic, Comparing):
        return None
    counted = statistic.compared_by(asked.schema)
    if counted is None:
        return None
    noise = replace(asked, statistic=counted, inference=None).plan().preview(rows)
    assert noise is not None
    std = max(std for _, std in numbers(noise.std))
    error = statistic.error_of_comparison(rows, std, asked.schema)
    return Weight(error=error, rows=rows, tests=1)


def parts_asked(asked: Asked) -> list[Asked]:
    """Return the parts of a stack as they are drawn by themselves; any other question as it is.

    A part's epsilon is what its numbers are drawn with: standard errors have their share of it.
    """
    stack = asked.statistic
    if isinstance(stack, EstimatedByRows):
        places = [place for place, _ in stack.estimated_as(asked.schema)]
        source = cast(Stack, stack.source_question(asked.schema))
        share = asked.inference or stack.inference_share(asked.schema)
        drawn = parts_asked(replace(asked, statistic=source, inference=share))
        return [
            replace(drawn[place], statistic=each, rows_of=stack)
            for place, (_, each) in zip(places, stack.estimated_as(asked.schema), strict=True)
        ]
    if not isinstance(stack, Stack):
        return [replace(asked, inference=_in_its_draw(asked.statistic, asked.inference))]
    shares = split(asked.epsilon, stack.exact_shares())
    return [
        Asked(
            statistic=part.statistic,
            schema=asked.schema,
            epsilon=spent_on_numbers(part.statistic, part.mechanism, share, asked.inference),
            mechanism=part.mechanism,
            norm=part.norm,
            inference=_in_its_draw(part.statistic, asked.inference),
        )
        for part, share in zip(stack.parts, shares, strict=True)
    ]


def _in_its_draw(statistic: Statistic, inference: Fraction | None) -> Fraction | None:
    """Return the share where standard errors change what is drawn at this epsilon, else None."""
    return inference if is_read_off_moments(statistic) else None


def is_simulated(statistic: Statistic, schema: Schema) -> bool:
    """Return whether the error of an answer takes a simulation.

    Of a ratio or a product a plan states the widest noise there can be, which is no expectation.
    """
    if is_clipped(statistic):
        return True
    if statistic.error_law == "linear":
        return False
    known = schema.known_rows is not None and getattr(statistic, "weights", None) is None
    if not (known and statistic.error_law == "linear where rows are known"):
        return True
    try:
        asked = viewed(statistic, schema).statistic
    except InvalidStatisticError:  # it is refused where it is planned
        return False
    return isinstance(asked, Question) and not asked.is_of_all_rows


def one_group(asked: Asked) -> Asked:
    """Return the question about the records of one group, as that is planned."""
    statistic = asked.statistic
    if not (isinstance(statistic, Question) and statistic.by):
        return asked
    return replace(
        asked,
        statistic=replace(statistic, by=(), missing=_missing_in_groups(statistic, asked.schema)),
        schema=group_facts(asked.schema),
        epsilon=group_epsilon(asked.schema, asked.epsilon),
    )


def _missing_in_groups(statistic: Question, schema: Schema) -> Missing:
    """Return the treatment of missing values in a group, where only groups may have had a cell."""
    own = columns_named(statistic) if statistic.has_cells else ()
    if statistic.missing == "cell" and not schema.optional.intersection(own):
        return "complete"
    return statistic.missing


def is_of_its_groups(wanted: Viewed[Statistic]) -> bool:
    """Return whether groups are made of columns that the answer is about, too.

    The values of a group are then others than all records', which are not simulated.
    """
    statistic = cast(Question, wanted.statistic)
    groups = [each if isinstance(each, str) else each.column for each in statistic.by]
    about = [*columns_of(wanted.statistic)]
    return bool(set(stored(wanted, groups)) & set(stored(wanted, about)))


def columns_of(statistic: Statistic) -> Iterator[str]:
    """Yield the columns that an answer is about."""
    for name in ("column", "target", "offset", "weights", "columns", "features"):
        found = getattr(statistic, name, None)
        for each in found if isinstance(found, tuple) else (found,):
            if each is not None:
                yield str(getattr(each, "column", each))


def relation_of(asked: Viewed[Statistic]) -> Relation | None:
    """Return which stored column a question's others explain; None where none needs to."""
    found = asked.statistic.relation()
    target = [] if found is None else stored(asked, [found[0]])
    if found is None or not target:
        return None
    features = stored(asked, [*found[1]])
    return Relation(
        target=target[0], features=tuple(each for each in features if each != target[0])
    )


def stored(asked: Viewed[Statistic], names: list[str]) -> list[str]:
    """Return the stored columns that these are made of."""
    added = asked.view.added
    reads = [*names, *(each for name in asked.view.needed(names) for each in added[name].reads)]
    return [
        name
        for name in dict.fromkeys(reads)
        if name in asked.view.schema.columns and name not in added
    ]


# Verdicts on answers that are divided by a spread of values that no assumption states

_NARROWEST = 1 / 30


@dataclass(frozen=True, slots=True)
class Spreads:
    """Which columns' spreads are guessed, and how often at most an answer is divided by one.

    ``jointly``: several columns are fitted at once, so it matters how they are related, too.
    """

    guessed: tuple[str, ...]
    times: int
    jointly: bool = False

    def __bool__(self) -> bool:
        return bool(self.guessed)


def spreads_of(asked: Asked, assumptions: Assumptions) -> Spreads:
    """Return which spreads an answer is divided by that nothing is stated of."""
    wanted = viewed(asked.statistic, asked.schema)
    statistic = wanted.statistic
    if assumptions.even or not isinstance(statistic, Question):
        return Spreads((), 0)
    stated = {name for name, _ in (*assumptions.population, *assumptions.shares)}

    def unstated(name: str) -> list[str]:
        return [each for each in stored(wanted, [name]) if each not in stated]

    divisors = [[name for name in each if unstated(name)] for each in statistic.divided_by]
    guessed = dict.fromkeys(each for names in divisors for n in names for each in unstated(n))
    squared = {each[0] for each in statistic.divided_by if len(set(each)) < len(each)}
    return Spreads(tuple(guessed), max(map(len, divisors), default=0), len(squared) > 1)


def with_spreads(found: Usefulness, spreads: Spreads) -> Usefulness:
    """Return a verdict that says how it depends on private spreads."""
    share, times = found.share, spreads.times
    if not spreads.guessed or not share:
        return found
    if found.verdict in ("noise", verdict_of(share / _NARROWEST**times)):
        return found
    names = listed(spreads.guessed)
    if found.verdict == "depends":  # on the number of records, too
        spread = worded(
            "Values of %(names)s are assumed to spread evenly over their bounds: where they spread "
            "less, the error is larger.",
            names=names,
        )
        return replace(found, sentence=f"{found.sentence} {spread}")
    good, weak = (f"{100 * (share / limit) ** (1 / times):.2g}%" for limit in (GOOD, WEAK))
    on = (
        worded(
            "It depends on how far the values of %(names)s spread, private: from about %(good)s of "
            "the assumed standard deviations on the answer is good, from %(weak)s on weak, with "
            "less it is mostly noise."
        )
        if found.verdict == "good"
        else worded(
            "It depends on how far the values of %(names)s spread, private: from about %(weak)s of "
            "the assumed standard deviations on the answer is weak, with less it is mostly noise."
        )
    )
    where = (
        worded(
            "That is for values spread evenly over their bounds, in columns that are independent "
            "of each other, since nothing is stated of %(names)s."
        )
        if spreads.jointly
        else worded(
            "That is for values spread evenly over their bounds, since nothing is stated of "
            "%(names)s."
        )
    )
    return depending(
        found,
        on=on % {"names": names, "good": good, "weak": weak},
        where=where % {"names": names},
    )
