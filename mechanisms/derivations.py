"""Derivations: statistics computed from an earlier release. Free of charge.

    answer' = f(answer),   f public

**Privacy.** A function of a released answer and of public facts is post-processing
(Awan & Slavkovic, Proposition 2.11): it keeps the release's guarantee and costs no epsilon.
Nothing here takes a data set, so nothing here can read one. Derivations also work after the data
have been erased.

*From ``moments``*: any linear regression, plain or ridge, and every statistic that first and
second moments determine (:class:`~mechanisms.statistics.second_order.MomentStatistic`), of the
same columns or fewer. The noisy vector is read back from the released numbers, as exact fractions
of them, and goes through the code that a direct release goes through. Each number's noise follows
from the law of the parent's: exactly where a number reads one coordinate, to first order
otherwise, and for regressions by the bootstrap of :mod:`mechanisms.functional.sanitized`. The
result is as noisy as the parent's dimension makes it: a mean of one column out of a release of
moments of many has the noise of all.

*From ``tables``*: any count, histogram or tables of columns that one table has together, of the
same cells or of unions of them, and of records that conditions select by whole cells
(:mod:`mechanisms.margins.covered`).

*From others*: each statistic states from what it follows
(:mod:`mechanisms.statistics.facts.readings`), most often the same statistic of more columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import cast

from mechanisms.contract import (
    Inference,
    InvalidStatisticError,
    Json,
    Noise,
    Outcome,
    Statistic,
)
from mechanisms.domain import Schema
from mechanisms.gaussian import additive_noise
from mechanisms.grouped import Groups, group_epsilon, group_facts
from mechanisms.inference.moments import answer
from mechanisms.margins.covered import Source, covered, of_tables
from mechanisms.privacy import ONE_ROW, part_of, split
from mechanisms.statistics.cells.parting import (
    Parting,
    about_groups,
    columns_named,
    is_of_each_column,
)
from mechanisms.statistics.conditions import Comparison
from mechanisms.statistics.facts.clipping import is_clipped
from mechanisms.statistics.facts.readings import Released, Sourced
from mechanisms.statistics.histogram import CellStatistic
from mechanisms.statistics.questions import (
    Question,
    check_asked,
    plain,
    viewed,
)
from mechanisms.statistics.registry import SINGLE_STATISTICS
from mechanisms.statistics.second_order import MomentSource
from mechanisms.statistics.stack import Stack
from mechanisms.statistics.tables import MarginStatistic

__all__ = ["Released", "derivable", "derive", "deriving_ms", "parts_of"]

_READING_MS, _SIMULATING_MS = 1.0, 15.0  # of numbers that are read off, and of a group's bootstrap
_MS_PER_CELL = 0.01


def derive(statistic: Statistic, released: Released, schema: Schema) -> Outcome:
    """Return a statistic computed from a released answer.

    Parameters
    ----------
    statistic
        What is wanted.
    released
        What there is; a stack's parts are tried in their order.
    schema
        The public facts of the data set.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, or cannot be derived from the
        release; the message says what can.
    """
    several = schema.protects.rows
    if several == 1:
        return _derive(statistic, released, schema)
    # each row was planned for at its part of epsilon (mechanisms.people)
    each = replace(released, epsilon=part_of(released.epsilon, several))
    outcome = _derive(statistic, each, replace(schema, protects=ONE_ROW))
    # rows of one person are not drawn independently, which all inference assumes
    return replace(outcome, inference=None)


def _derive(statistic: Statistic, released: Released, schema: Schema) -> Outcome:
    if isinstance(statistic, Sourced):
        return statistic.derived(released, schema)
    parts = list(parts_of(released))
    refusals = []
    for part in parts:
        try:
            outcome = _derive_one(statistic, part, schema)
        except InvalidStatisticError as error:  # another part may know more columns
            refusals.append(error)
            continue
        if outcome is not None:
            return outcome
    # Only where every part refuses: one that knows the columns says what can be derived instead.
    if len(refusals) == len(parts):
        raise refusals[0]
    derived = "; ".join(text for part in parts if (text := derivable(part, schema)))
    raise InvalidStatisticError(
        f"this release does not determine that; from it can be derived: {derived}"
        if derived
        else "this release does not determine that; from it nothing can be derived"
    )


def deriving_ms(source: Statistic, schema: Schema) -> float:
    """Return about how many milliseconds of one core it takes to derive from a release of this."""
    if isinstance(source, Stack):
        return sum(deriving_ms(part.statistic, schema) for part in source.parts)
    if isinstance(source, MarginStatistic):
        return _READING_MS + _MS_PER_CELL * source.answer_numbers(schema)
    if not isinstance(source, MomentSource):
        return _READING_MS
    groups = max(about_groups(cast(Question, source).by, schema), 1)
    return groups * (_SIMULATING_MS + len(source.columns) ** 2)


def derivable(released: Released, schema: Schema) -> str:
    """Return in words what can be derived from a release of one statistic; empty if nothing."""
    asked = viewed(released.statistic, schema)
    source, schema = _of_all_rows(asked.statistic, asked.view.schema)
    kinds = [kind for kind, wanted in _asked_alike(source) if _determines(source, wanted, schema)]
    kinds.sort(key=lambda kind: kind != source.kind)  # its own first
    if isinstance(source, MomentSource):
        kinds += [kind for kind, each in SINGLE_STATISTICS.items() if each.follows_from_moments]
    alike = ""
    if isinstance(released.statistic, Question):
        conditions = cast(Question, asked.statistic).where
        alike += " under the same conditions" if conditions else ""
        alike += " in the same groups" if released.statistic.by else ""
    return f"{', '.join(kinds)}{alike} of {', '.join(columns_named(source))}" if kinds else ""


def _of_all_rows(source: Statistic, schema: Schema) -> tuple[Statistic, Schema]:
    """Return a question without its conditions and groups, and the facts it was planned with."""
    if not isinstance(source, Question) or source.is_of_all_rows:
        return source, schema
    facts = group_facts(schema) if source.by else replace(schema, selected=True)
    return cast(Statistic, plain(source)), facts


def _asked_alike(source: Statistic) -> Iterator[tuple[str, Statistic]]:
    """Yield the question of each kind about the columns and conditions of another one."""
    for kind, asked in SINGLE_STATISTICS.items():
        names = {each.name for each in fields(asked)} - {"kind"}  # type: ignore[arg-type]
        alike = {name: getattr(source, name) for name in names if hasattr(source, name)}
        with suppress(TypeError, InvalidStatisticError):  # it asks for more
            yield kind, asked(**alike)


def _determines(source: Statistic, wanted: Statistic, schema: Schema) -> bool:
    if is_clipped(source) or is_clipped(wanted):
        return False
    if isinstance(source, MomentSource):
        return wanted.moment_columns(schema) is not None
    if isinstance(source, MarginStatistic):
        stated = isinstance(wanted, MarginStatistic) and not wanted.selecting
        return stated or isinstance(wanted, CellStatistic)
    return wanted.reading(source, schema) is not None


def parts_of(released: Released) -> Iterator[Released]:
    """Yield a stack's parts as releases of their own; anything else as it is."""
    if not isinstance(released.statistic, Stack):
        yield released
        return
    stack = released.statistic
    shares = split(released.epsilon, stack.exact_shares())
    facts = cast(Sequence[Json], released.details["parts"])
    values = cast(Sequence[Json], released.value["parts"])
    for place, (part, share, value) in enumerate(zip(stack.parts, shares, values, strict=True)):
        yield Released(
            statistic=part.statistic,
            mechanism=cast(str, facts[place]["mechanism"]),
            norm=cast(str | None, facts[place]["norm"]),
            epsilon=share,
            value=value,
            noise=_part_of(released.noise, place),
            inference=_inference_of(released.inference, place),
            details=cast(Json, facts[place]["details"]),
        )


def _part_of(noise: Noise | None, place: int) -> Noise | None:
    """Return the noise of one part of a stack, if it is known."""
    if noise is None:
        return None
    stds = cast(Sequence[Json | None], noise.std["parts"])
    ends = cast(Sequence[Json | None], noise.interval_95["parts"])
    std, interval = stds[place], ends[place]
    return None if std is None or interval is None else Noise(std=std, interval_95=interval)


def _inference_of(inference: Inference | None, place: int) -> Inference | None:
    """Return the inference of one part of a stack, its terms placed in that part's answer."""
    if inference is None:
        return None
    own = tuple(
        replace(term, place=term.place[2:])
        for term in inference.terms
        if term.place[:2] == ("parts", place)
    )
    return replace(inference, terms=own) if own else None


def _derive_one(statistic: Statistic, released: Released, schema: Schema) -> Outcome | None:
    """Return the statistic as derived from one release; None where that does not determine it.

    Columns that the release derived are known by their names.
    """
    source = viewed(released.statistic, schema)
    wanted = viewed(_with_derived(statistic, released.statistic), schema)
    check_asked(wanted.statistic, wanted.view.schema)
    # Weighted moments do not determine unweighted ones, or those with another weight column.
    if _weights(wanted.statistic) != _weights(source.statistic):
        return None
    # Clamped values have other sums than the values themselves, and than those clamped otherwise.
    if is_clipped(statistic) or is_clipped(released.statistic):
        return None
    # A name may mean different expressions in the two questions.
    shared = wanted.view.added.keys() & source.view.added.keys()
    if any(wanted.view.key(name) != source.view.key(name) for name in shared):
        return None
    # Means of each column's own records have no common row count to make anything else of.
    each = is_of_each_column(source.statistic), is_of_each_column(wanted.statistic)
    if any(each) and (each[0] != each[1] or source.statistic.kind != wanted.statistic.kind):
        return None
    alike = replace(released, statistic=source.statistic)
    return _of_the_same_rows(wanted.statistic, alike, wanted.view.schema)


def _of_the_same_rows(statistic: Statistic, released: Released, schema: Schema) -> Outcome | None:
    """Return the statistic from a release; None if that is of other records or other groups."""
    wanted, source = _parting(statistic, schema), _parting(released.statistic, schema)
    if source is None and wanted is not None and not wanted.axes:
        return _of_some_cells(statistic, released, wanted.conditions, schema)
    if source is None or wanted is None:
        return _read(statistic, released, schema) if source is wanted else None
    if source.key != wanted.key:
        return None
    (asked, facts), (question, _) = (
        _of_all_rows(each, schema) for each in (statistic, released.statistic)
    )
    alike = replace(released, statistic=question)
    if not source.axes:
        return _read(asked, alike, facts)
    alike = replace(alike, epsilon=group_epsilon(schema, released.epsilon))
    return _read_groups(asked, alike, Groups(source.labels), facts)


def _of_some_cells(
    statistic: Statistic, released: Released, conditions: Sequence[Comparison], schema: Schema
) -> Outcome | None:
    """Return the statistic of some records, from tables of all records that distinguish them."""
    if not isinstance(released.statistic, MarginStatistic):
        return None
    asked, facts = _of_all_rows(statistic, schema)
    if not isinstance(asked, CellStatistic | MarginStatistic):
        return None
    source = _of_tables(released.statistic, released, schema)
    return covered(asked, [source], facts, conditions)


def _of_tables(statistic: MarginStatistic, released: Released, schema: Schema) -> Source:
    return of_tables(statistic, released.value, released.epsilon, released.mechanism, schema)


def _parting(statistic: Statistic, schema: Schema) -> Parting | None:
    """Return which records a question is about, None for all of them."""
    if not isinstance(statistic, Question) or statistic.is_of_all_rows:
        return None
    return statistic.parting(schema)


def _read_groups(
    statistic: Statistic, released: Released, groups: Groups, schema: Schema
) -> Outcome | None:
    """Return the statistic from the answers of all groups, group by group."""
    found: list[Outcome] = []
    for value, noise in groups.parts(released.value, released.noise):
        outcome = _read(statistic, replace(released, value=value, noise=noise), schema)
        if outcome is None:
            return None
        found.append(outcome)
    return groups.together(found)


def _read(statistic: Statistic, released: Released, schema: Schema) -> Outcome | None:
    """Return the statistic of all records, from a release of all records."""
    if isinstance(released.statistic, MarginStatistic):
        if not isinstance(statistic, CellStatistic | MarginStatistic):
            return None
        source = _of_tables(released.statistic, released, schema)
        return covered(statistic, [source], schema)
    if isinstance(released.statistic, MomentSource):
        return _from_moments(statistic, released, released.statistic, schema)
    read = statistic.reading(released.statistic, schema)
    return None if read is None else read(Outcome(value=released.value, noise=released.noise))


def _weights(statistic: Statistic) -> str | None:
    """Return by which column's weights records count, None where each counts once."""
    return cast(str | None, getattr(statistic, "weights", None))


def _with_derived(statistic: Statistic, source: Statistic) -> Statistic:
    """Return a question that knows the columns derived for another one, if it derives any."""
    theirs = getattr(source, "derive", {})
    if not theirs or not isinstance(statistic, Question):
        return statistic
    return cast(Statistic, replace(statistic, derive={**theirs, **statistic.derive}))


# From moments


def _from_moments(
    statistic: Statistic, released: Released, source: MomentSource, schema: Schema
) -> Outcome | None:
    needed = statistic.moment_columns(schema)
    if needed is None or not set(needed) <= set(source.columns):
        return None
    layout = source.layout(schema)
    return answer(
        statistic,
        needed,
        layout=layout,
        coordinates=source.read_back(released.value, schema),
        noise=additive_noise(
            layout.space(), released.mechanism, released.norm, released.epsilon.fraction
        ),
        schema=schema,
    )
