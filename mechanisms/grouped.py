r"""A statistic in every public group of the records: ``by``, for every mechanism.

    release (M(D_1), ..., M(D_k)),   D_c = the records in group c,   independently,

groups being public cells (:mod:`mechanisms.statistics.cells`), empty ones drawn like others.

**Privacy.** A record is in one group at most, by a public function of the record alone.

*Add-remove.* The record that comes or goes changes one D_c, by one record. So if M is epsilon-DP
under add-remove, all answers together are (parallel composition): every group has the whole
epsilon.

*Replace-one.* A record is replaced within its group, or leaves one and enters another; a filter
may make it leave or enter alone. Let M lose e_move under one addition or removal. Two groups that
change by one record each lose 2 e_move together, their draws being independent. A replacement
within a group is a removal and an addition, so it loses at most 2 e_move as well, by the triangle
inequality of log ratios. Hence M planned under add-remove, its row count private, at epsilon / 2
makes the whole epsilon-DP. In Delta: ``max(Delta_replace, 2 Delta_add_remove)``, which is the
second. For a sum over records that is all there is to have: a move needs
e_move <= epsilon / 2, whatever a replacement needs.

*Counts and histograms under replace-one* are drawn jointly: the counts of all groups are one
histogram over groups and cells, whose adjacent output space has a hull that is drawn from
(:mod:`mechanisms.geometry.histograms`). It holds the moves e_i - e_j at norm 1, where
independent draws at epsilon / 2 have the l1 ball around it, at norm 2.

*So are sums of one column* of one sign. In units of the largest contribution a record moves them by
``v' e_j - v e_i`` with v, v' in [0, 1] (or both in [-1, 0]), or by one of the two alone. All lie in
the ball ``max(sum u+, sum u-) <= 1`` of counts under conditions, and it is their hull where a
contribution may be nothing: where the bounds begin or end at zero, or under conditions. The
noise of two groups then has 0.65 times the standard deviation of independent draws, of five 0.81.

*zCDP.* Let a draw cost rho under one addition or removal. Under add-remove all of them together
cost rho. Under replace-one two groups cost 2 rho together, and a replacement within one costs
4 rho: zCDP of groups of two (Bun & Steinke 2016, Proposition 1.9). The larger is charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, cast

from mechanisms.contract import (
    Calibrate,
    Data,
    Drawing,
    Inference,
    InvalidStatisticError,
    Json,
    Noise,
    Outcome,
    Parameters,
    Plan,
    Statistic,
    joined_noise,
    no_figure,
    require_valid,
)
from mechanisms.domain import PART_ASSUMED, Schema
from mechanisms.exact.fractions import decimal_text
from mechanisms.filtered import FilteredDraw
from mechanisms.gaussian.noise import AddedGaussian
from mechanisms.inference.bought import WithInference
from mechanisms.knorm import AddedNoise, Additive, CountedCells, ReadCounts, plan_counts
from mechanisms.parted import parts_of
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss, split
from mechanisms.randomness import Randomness
from mechanisms.statistics.additive import AdditiveStatistic, GroupedAdditive
from mechanisms.statistics.cells.axes import MAX_CELLS
from mechanisms.statistics.cells.parting import Merged, Parting
from mechanisms.statistics.curves.counts import ReadFromCounts, require_few
from mechanisms.statistics.histogram import CellStatistic
from mechanisms.statistics.questions import Question, plain, reading_ms

MOST_GROUPS_READ = 256
"""The most groups of a statistic that reads the rows of each group: a pass over the rows for each
group."""
_MS_PER_GROUP = 0.2  # measured; to sum up a group's rows in a block
_BLOCK_ROWS = 1 << 18

_REDUCTIONS = {
    Adjacency.ADD_REMOVE: (
        "One record more or less changes one group: each is drawn at the whole epsilon "
        "(parallel composition)."
    ),
    Adjacency.REPLACE_ONE: (
        "A replaced record may leave one group and enter another: each is drawn at half of "
        "epsilon, for one record more or less, which covers a replacement within a group too."
    ),
}
_JOINT = (
    "A replaced record may leave one group and enter another: the numbers of all groups are drawn "
    "jointly, for both at once."
)
_REDUCTIONS_OF_COUNTS = {
    Adjacency.ADD_REMOVE: (
        "One record more or less changes one count of one group: the counts of all groups are "
        "drawn together."
    ),
    Adjacency.REPLACE_ONE: _JOINT,
}


def plan_grouped(
    calibrate: Calibrate, statistic: Question, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a statistic in every group, of the records that meet its conditions.

    Parameters
    ----------
    calibrate
        The mechanism's, for the statistic of all records.

    Raises
    ------
    InvalidStatisticError
        What the mechanism raises; conditions or groups do not fit the schema.
    """
    parting = statistic.parting(schema)
    if isinstance(statistic, ReadFromCounts):
        return _plan_counts(statistic, parting, schema, epsilon, norm)
    replaced = schema.adjacency is Adjacency.REPLACE_ONE
    # with errors by the design each group's count is a release of its own
    apart = isinstance(calibrate, WithInference)
    if replaced and not apart and isinstance(statistic, CellStatistic):
        return _plan_jointly(calibrate, statistic, schema, epsilon, norm)
    if replaced and isinstance(statistic, GroupedAdditive) and isinstance(calibrate, Additive):
        jointly = _plan_sums(calibrate, statistic, schema, epsilon, norm)
        if jointly is not None:
            return jointly
    if parting.cells * plain(statistic).answer_numbers(schema) > MAX_CELLS:
        raise InvalidStatisticError(
            f"the answers of all groups have at most {MAX_CELLS} numbers", field_name="by"
        )
    share, facts = group_epsilon(schema, epsilon), group_facts(schema)

    def planned(facts: Schema) -> Plan:
        return calibrate(plain(statistic), facts, share, norm)

    plan = planned(facts)
    if parting.cells > MOST_GROUPS_READ and _reads_rows(statistic, plan, schema):
        raise InvalidStatisticError(
            f"this statistic reads the rows of each group, so there are at most {MOST_GROUPS_READ} "
            f"groups; here are {parting.cells:,}. Counts, sums, means, variances and quantiles "
            "may have more",
            field_name="by",
        )
    details, each_ms = plan.details, plan.expected_ms
    if "inference" in details and facts.max_rows is not None:  # what intervals need has even groups
        details = planned(replace(facts, max_rows=_even_bound(schema, parting.cells))).details
    if plan.time_depends_on_data:  # it reads rows, and those of all groups are no more than all
        even = replace(facts, max_rows=_even(facts.max_rows, parting.cells))
        each_ms = planned(even).expected_ms
    return replace(
        plan,
        statistic=cast(Statistic, statistic),
        schema=schema,
        parameters=Grouped(plan.parameters),
        guarantee=_guarantee(plan.guarantee, schema, epsilon),
        expected_ms=parting.cells * each_ms
        + _passing_ms(parting, schema)
        + reading_ms(statistic, parting, schema),
        details={
            **_of_all_groups(details, epsilon.fraction / share.fraction),
            "groups": parting.cells,
            "epsilon_per_group": str(share),
        },
    )


def _of_all_groups(details: Json, times: Fraction) -> Json:
    """Return a group's details, with the epsilon that its intervals need as one of all groups."""
    inference = cast(Mapping[str, object], details.get("inference") or {})
    needed = {
        name: decimal_text(times * Fraction(str(inference[name])))
        for name in ("enough_epsilon", "safe_epsilon")
        if inference.get(name) is not None
    }
    return {**details, "inference": {**inference, **needed}} if needed else details


def _reads_rows(statistic: Question, plan: Plan, schema: Schema) -> bool:
    """Return whether each group's draw reads the rows again, by public facts alone.

    Others are drawn from sums, counts and sorted cells of all groups, which one pass makes.
    """
    if getattr(statistic, "weights", None) is not None:
        return True
    if statistic.has_cells:
        sketched = isinstance(statistic, CellStatistic) and len(statistic.axes(schema)) <= 1
        return not sketched
    return plan.time_depends_on_data and not hasattr(statistic, "column")


def _passing_ms(parting: Parting, schema: Schema) -> float:
    """Return about how long it takes to sum up very many groups, block by block of the rows.

    Of few groups that is part of what each one's plan takes.
    """
    many = max(parting.cells - MOST_GROUPS_READ, 0)
    known = schema.rows if schema.adjacency is Adjacency.REPLACE_ONE else schema.max_rows
    return _MS_PER_GROUP * many * (1 + (known or 0) // _BLOCK_ROWS)


def group_facts(schema: Schema) -> Schema:
    """Return the public facts that each group is planned with by itself."""
    if schema.adjacency is Adjacency.ADD_REMOVE:
        return replace(schema, selected=True)
    most = schema.rows  # a group has no more rows than the data set
    return replace(schema, adjacency=Adjacency.ADD_REMOVE, rows=None, max_rows=most, selected=True)


def group_epsilon(schema: Schema, epsilon: PrivacyLoss) -> PrivacyLoss:
    """Return the privacy loss of each group's draw under one record more or less."""
    if schema.adjacency is Adjacency.ADD_REMOVE:
        return epsilon
    half, _ = split(epsilon, [Fraction(1), Fraction(1)])
    return half


def _guarantee(group: Guarantee, schema: Schema, epsilon: PrivacyLoss) -> Guarantee:
    """Return the guarantee of all groups together, from the guarantee of one."""
    rho = group.zcdp if schema.adjacency is Adjacency.ADD_REMOVE else 4 * group.zcdp
    return replace(
        group,
        epsilon=epsilon,
        adjacency=schema.adjacency,
        sensitivity_unit=f"{group.sensitivity_unit}; of one group, by one record more or less",
        rho=rho,
        reduction=_REDUCTIONS[schema.adjacency],
    )


def _even_bound(schema: Schema, groups: int) -> int:
    """Return a bound on a group's rows for which an even share of all is assumed."""
    bound = schema.row_bound
    known = schema.known_rows is not None
    return max(bound * (PART_ASSUMED if known else 1) // groups, 1)


def _even(rows: int | None, groups: int) -> int | None:
    """Return how many rows a group has if all rows are spread evenly."""
    return None if rows is None else rows // groups


@dataclass(frozen=True, slots=True)
class Grouped:
    """The parameters of a statistic in every group: each group's.

    Its figure would show one group, and the errors of all follow from those of one.
    """

    group: Parameters

    def drawing(self, statistic: Question, schema: Schema) -> Drawing:
        """Return a drawing of every group, from disjoint bits."""
        parting = statistic.parting(schema)
        groups = Groups(parting.labels)
        drawn = self.group.drawing(plain(statistic), group_facts(schema))

        def draw(data: Data, randomness: Randomness) -> Outcome:
            return groups.together(
                [drawn.draw(part, randomness) for part in parts_of(data, parting)]
            )

        def preview(rows: int | None) -> Noise | None:
            return groups.noise([drawn.preview(_even(rows, parting.cells))] * len(groups))

        return Drawing(draw=draw, preview=preview)


@dataclass(frozen=True, slots=True)
class Groups:
    """Puts answers side by side under the groups' labels."""

    labels: Sequence[Mapping[str, str]]

    def __len__(self) -> int:
        return len(self.labels)

    def table(self, values: Sequence[Json]) -> Json:
        """Return ``{"groups": [{"by": labels, "value": value}]}``."""
        rows = zip(self.labels, values, strict=True)
        return {"groups": [{"by": dict(labels), "value": value} for labels, value in rows]}

    def together(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the answers of all groups as one."""
        return Outcome(
            value=self.table([outcome.value for outcome in outcomes]),
            noise=self.noise([outcome.noise for outcome in outcomes]),
            inference=self.inference([outcome.inference for outcome in outcomes]),
            facts=self.facts([outcome.facts for outcome in outcomes]),
            shares_off=self._shares_off([outcome.shares_off for outcome in outcomes]),
        )

    def _shares_off(self, parts: Sequence[Json | None]) -> Json | None:
        known = [part for part in parts if part is not None]
        return self.table(known) if known and len(known) == len(parts) else None

    def facts(self, parts: Sequence[Json]) -> Json:
        """Return what the groups' draws chose, each with its labels; often nothing."""
        named = list(zip(self.labels, parts, strict=True))
        return {
            name: {"groups": [{"by": dict(by), **cast(Json, part[name])} for by, part in named]}
            for name in (parts[0] if parts else {})
        }

    def inference(self, parts: Sequence[Inference | None]) -> Inference | None:
        """Return the inference of all groups, each number with its group's labels."""
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        labelled = list(enumerate(zip(self.labels, known, strict=True)))
        return Inference(
            method=known[0].method,
            cost=known[0].cost,
            terms=tuple(
                replace(term, by=by, place=("groups", place, "value", *term.place))
                for place, (by, part) in labelled
                for term in part.terms
            ),
            fit=tuple(replace(term, by=by) for _, (by, part) in labelled for term in part.fit),
        )

    def parts(self, value: Json, noise: Noise | None) -> Iterator[tuple[Json, Noise | None]]:
        """Yield each group's answer."""
        for place in range(len(self)):
            own = None
            if noise is not None:
                own = noise.mapped(partial(_of_group, place=place))
            yield _of_group(value, place), own

    def noise(self, parts: Sequence[Noise | None]) -> Noise | None:
        """Return the groups' laws; None where one is unknown."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return joined_noise(known, self.table)


def _of_group(table: Json, place: int) -> Json:
    rows = cast(Sequence[Json], table["groups"])
    return cast(Json, rows[place]["value"])


# Sums of one column, jointly


def _plan_sums(
    calibrate: Additive,
    statistic: GroupedAdditive,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
) -> Plan | None:
    """Return the plan of all groups' sums together; None where they are drawn apart."""
    asked = cast(Question, statistic)
    parting = asked.parting(schema)
    form = statistic.additive_in_groups(parting, schema)
    if form is None:
        return None
    # plan_form does not validate the form, and nothing else has checked this question.
    facts = replace(schema, selected=True)
    require_valid(cast(Statistic, plain(asked)), facts, calibrate.mechanism, norm)
    plan = calibrate.plan_form(cast(Statistic, statistic), form, schema, epsilon, norm)
    return replace(
        plan,
        parameters=SumsInGroups(cast(AddedNoise | AddedGaussian, plan.parameters)),
        guarantee=replace(plan.guarantee, reduction=_JOINT),
        expected_ms=plan.expected_ms + reading_ms(asked, parting, schema),
        details={**plan.details, "groups": parting.cells},
    )


@dataclass(frozen=True, slots=True)
class SumsInGroups:
    """The parameters of all groups' sums, which are one vector."""

    noise: AddedNoise | AddedGaussian

    def drawing(self, statistic: GroupedAdditive, schema: Schema) -> Drawing:
        """Return a drawing of the sums of all groups together."""
        parting = cast(Question, statistic).parting(schema)
        form = statistic.additive_in_groups(parting, schema)
        if form is None:
            raise ValueError("the sums of these groups are drawn apart")
        return replace(self.noise.drawing_of(form), figure=no_figure)


# Counts and histograms, jointly


def _plan_jointly(
    calibrate: Calibrate,
    statistic: CellStatistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
) -> Plan:
    asked = cast(Question, statistic)
    parting = asked.parting(schema)
    plan = calibrate(*_whole(statistic, schema), epsilon, norm)
    read_ms = reading_ms(asked, parting, schema) if asked.where else 0.0
    return replace(
        plan,
        statistic=cast(Statistic, statistic),
        schema=schema,
        parameters=CellsInGroups(plan.parameters),
        guarantee=replace(plan.guarantee, reduction=_JOINT),
        expected_ms=plan.expected_ms + read_ms,
        details={**plan.details, "groups": parting.cells},
    )


def _whole(statistic: CellStatistic, schema: Schema) -> tuple[Statistic, Schema]:
    """Return the histogram over groups and cells, and the facts that it is planned with."""
    asked = cast(Question, statistic)
    whole = statistic.over_groups(Merged.of(asked.by))
    return whole, replace(schema, selected=bool(asked.where))


@dataclass(frozen=True, slots=True)
class CellsInGroups:
    """The parameters of the histogram over groups and cells, which is cut into groups' answers."""

    whole: Parameters

    def drawing(self, statistic: CellStatistic, schema: Schema) -> Drawing:
        """Return a drawing of the counts of all groups together."""
        asked = cast(Question, statistic)
        parting = asked.parting(schema)
        table = _JointTable(Groups(parting.labels), statistic)
        drawn = self.whole.drawing(*_whole(statistic, schema))
        # The groups are cells of the histogram by now; conditions alone still choose rows.
        chosen = Parting(parting.conditions, ())
        draw = FilteredDraw(chosen, drawn.draw) if asked.where else drawn.draw
        return Drawing(
            draw=lambda data, randomness: table.outcome(draw(data, randomness)),
            preview=lambda rows: table.noise(drawn.preview(rows)),
        )


@dataclass(frozen=True, slots=True)
class _JointTable:
    """Cuts the cells of the histogram over all groups into the groups' answers."""

    groups: Groups
    statistic: CellStatistic

    def outcome(self, whole: Outcome) -> Outcome:
        """Return the release."""
        return Outcome(value=self._cut(whole.value), noise=self.noise(whole.noise))

    def noise(self, whole: Noise | None) -> Noise | None:
        """Return its noise."""
        if whole is None:
            return None
        return whole.mapped(self._cut)

    def _cut(self, whole: Json) -> Json:
        cells: Any = whole["cells"]
        rest, each = iter(cells), len(cells) // len(self.groups)
        labels = self.groups.labels[0].keys()
        return self.groups.table(
            [self.statistic.of_cells(list(islice(rest, each)), labels) for _ in self.groups.labels]
        )


# Answers that are read off the counts of all groups


def _plan_counts(
    statistic: ReadFromCounts,
    parting: Parting,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
) -> Plan:
    """Return the plan of one histogram over groups and cells, whatever the adjacency.

    A record is in one of its cells, so it hides one record more or less, or a replaced one.
    """
    asked = cast(Question, statistic)
    facts = replace(schema, selected=bool(asked.where))
    require_valid(cast(Statistic, plain(asked)), facts, "k_norm", norm)
    whole = _counts_of(statistic, facts)
    require_few(parting.cells * statistic.histogram(facts).size(facts), "by")
    plan = plan_counts(statistic, whole, facts, epsilon, norm)
    read_ms = reading_ms(asked, parting, schema) if asked.where else 0.0
    return replace(
        plan,
        schema=schema,
        parameters=CountsInGroups(cast(ReadCounts, plan.parameters)),
        guarantee=replace(plan.guarantee, reduction=_REDUCTIONS_OF_COUNTS[schema.adjacency]),
        expected_ms=plan.expected_ms + read_ms,
        details={**plan.details, "groups": parting.cells},
    )


def _counts_of(statistic: ReadFromCounts, schema: Schema) -> AdditiveStatistic:
    groups = Merged.of(cast(Question, statistic).by)
    return cast(AdditiveStatistic, statistic.histogram(schema).over_groups(groups))


@dataclass(frozen=True, slots=True)
class CountsInGroups:
    """The parameters of answers that are read off the counts of all groups together."""

    whole: ReadCounts

    def drawing(self, statistic: ReadFromCounts, schema: Schema) -> Drawing:
        """Return a drawing of all groups' counts, and of what compares the groups."""
        asked = cast(Question, statistic)
        parting = asked.parting(schema)
        counted = CountedCells(
            self.whole.counts,
            statistic,
            _counts_of(statistic, schema),
            replace(schema, selected=bool(asked.where)),
            groups=parting.cells,
        )
        groups = Groups(parting.labels)

        def draw(data: Data, randomness: Randomness) -> Outcome:
            read = counted.read(data, randomness)
            found = groups.together(read.outcomes)
            return replace(found, value={**found.value, **read.compared})

        # The groups are cells of the histogram by now; conditions alone still choose rows.
        chosen = Parting(parting.conditions, ())
        return Drawing(draw=FilteredDraw(chosen, draw) if asked.where else draw)
