"""Questions in the form in which a plan draws them, and facts about their errors.

This module decides which errors need a simulation, which columns depend on each other in synthetic
rows, and which question each of several groups answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import cast

from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.foresight.synthetic import Relation
from mechanisms.grouped import group_epsilon, group_facts
from mechanisms.privacy import MAX_EPSILON_NANOS, Adjacency, Epsilon, PrivacyLoss
from mechanisms.single import SINGLE_MECHANISMS, calibrate_by
from mechanisms.statistics.cells.parting import columns_named
from mechanisms.statistics.questions import Missing, Question, Viewed, viewed


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as it is drawn: everything that its error depends on."""

    statistic: Statistic
    schema: Schema
    epsilon: PrivacyLoss
    mechanism: str
    norm: str
    inference: Fraction | None = None
    """The share of epsilon that standard errors take, where they are wanted."""

    def plan(self) -> Plan:
        """Return the plan of its numbers, standard errors apart."""
        return calibrate_by(
            SINGLE_MECHANISMS,
            self.statistic,
            self.schema,
            self.epsilon,
            mechanism=self.mechanism,
            norm=self.norm,
        )

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


def is_simulated(statistic: Statistic, schema: Schema) -> bool:
    """Return whether the error of an answer takes a simulation.

    Of a ratio or a product a plan states the widest noise there can be, which is no expectation.
    """
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
    about = [*_columns_of(wanted.statistic)]
    return bool(set(stored(wanted, groups)) & set(stored(wanted, about)))


def _columns_of(statistic: Statistic) -> Iterator[str]:
    """Yield the columns that an answer is about."""
    for name in ("column", "target", "weights", "columns", "features"):
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
