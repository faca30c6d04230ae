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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, cast

from mechanisms import knorm
from mechanisms.contract import (
    Calibrate,
    Data,
    Inference,
    InvalidStatisticError,
    Json,
    Noise,
    Outcome,
    Plan,
    Statistic,
    joined_noise,
    require_valid,
)
from mechanisms.domain import Schema
from mechanisms.filtered import FilteredDraw
from mechanisms.parted import parts_of
from mechanisms.privacy import Adjacency, Guarantee, PrivacyLoss, split
from mechanisms.randomness import Randomness
from mechanisms.statistics.additive import GroupedAdditive
from mechanisms.statistics.cells.axes import MAX_CELLS
from mechanisms.statistics.cells.parting import Merged, Parting
from mechanisms.statistics.histogram import CellStatistic
from mechanisms.statistics.questions import Question, plain, reading_ms

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
    replaced = schema.adjacency is Adjacency.REPLACE_ONE
    if replaced and isinstance(statistic, CellStatistic):
        return _plan_jointly(statistic, parting, schema, epsilon, norm)
    if replaced and isinstance(statistic, GroupedAdditive):
        jointly = _plan_sums(statistic, parting, schema, epsilon, norm)
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
    each_ms = plan.expected_ms
    if plan.time_depends_on_data:  # it reads rows, and those of all groups are no more than all
        even = replace(facts, max_rows=_even(facts.max_rows, parting.cells))
        each_ms = planned(even).expected_ms
    groups = Groups(parting.labels)
    return replace(
        plan,
        guarantee=_guarantee(plan.guarantee, schema, epsilon),
        draw=GroupedDraw(parting, groups, plan.draw),
        errors_on=None,  # the others follow from one group
        preview=lambda rows: groups.noise([plan.preview(_even(rows, parting.cells))] * len(groups)),
        expected_ms=parting.cells * each_ms + reading_ms(statistic, parting, schema),
        figure=_no_figure,
        details={**plan.details, "groups": parting.cells, "epsilon_per_group": str(share)},
    )


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


def _even(rows: int | None, groups: int) -> int | None:
    """Return how many rows a group has if all rows are spread evenly."""
    return None if rows is None else rows // groups


def _no_figure() -> None:
    """Draw nothing: a figure shows one group."""


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
        )

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


@dataclass(frozen=True, slots=True)
class GroupedDraw:
    """Draws every group, from disjoint bits."""

    parting: Parting
    groups: Groups
    draw: Callable[[Data, Randomness], Outcome]

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        parts = parts_of(data, self.parting)
        return self.groups.together([self.draw(part, randomness) for part in parts])


# Sums of one column, jointly


def _plan_sums(
    statistic: GroupedAdditive, parting: Parting, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan | None:
    """Return the plan of all groups' sums together; None where they are drawn apart."""
    form = statistic.additive_in_groups(parting, schema)
    if form is None:
        return None
    asked = cast(Question, statistic)
    # plan_form does not validate the form, and nothing else has checked this question.
    require_valid(cast(Statistic, plain(asked)), replace(schema, selected=True), "k_norm", norm)
    plan = knorm.plan_form(form, schema, epsilon, norm)
    return replace(
        plan,
        guarantee=replace(plan.guarantee, reduction=_JOINT),
        expected_ms=plan.expected_ms + reading_ms(asked, parting, schema),
        figure=_no_figure,
        details={**plan.details, "groups": parting.cells},
    )


# Counts and histograms, jointly


def _plan_jointly(
    statistic: CellStatistic,
    parting: Parting,
    schema: Schema,
    epsilon: PrivacyLoss,
    norm: str,
) -> Plan:
    asked = cast(Question, statistic)
    whole = statistic.over_groups(Merged.of(asked.by))
    plan = knorm.calibrate(whole, replace(schema, selected=bool(asked.where)), epsilon, norm)
    table = _JointTable(Groups(parting.labels), statistic)
    # The groups are cells of the histogram by now; conditions alone still choose rows.
    chosen = Parting(parting.conditions, ())
    read_ms = reading_ms(asked, parting, schema) if asked.where else 0.0
    draw = FilteredDraw(chosen, plan.draw) if asked.where else plan.draw
    return replace(
        plan,
        guarantee=replace(plan.guarantee, reduction=_JOINT),
        draw=lambda data, randomness: table.outcome(draw(data, randomness)),
        errors_on=None,
        preview=lambda rows: table.noise(plan.preview(rows)),
        expected_ms=plan.expected_ms + read_ms,
        figure=_no_figure,
        details={**plan.details, "groups": parting.cells},
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
