r"""Tables by noise on their margins: unbiased estimates, and whole counts that agree.

    release M_B for every wanted table B,   all of one measurement of all tables

*Measurement* (:mod:`mechanisms.tables.planning`): discrete Laplace noise on whole margins, each
with its share of epsilon, or the cube's noise on the characters of binary columns, whichever gives
the smaller sum of cell variances, in closed form. By the mechanism ``gaussian``, in accounts that
have a delta: discrete Gaussian noise on the residuals of the tables.

**Privacy.** The measurement is epsilon-DP under every change that the schema allows, by Proposition
2.10 of Awan & Slavkovic (2021): :mod:`mechanisms.tables.laplace` and
:mod:`mechanisms.tables.characters` prove it for replace-one, add-remove, and both. Estimates,
reconciled counts, and the number of rows under add-remove are functions of it, of public sizes and
of a public number of rows: post-processing. Gaussian noise is rho-zCDP with ``rho = epsilon**2 /
2``: :mod:`mechanisms.tables.gaussian` proves it for the same changes.

*Weights.* Records count in whole parts of the largest weight. The measurement is calibrated for
records that come, go and are replaced, at epsilon over the number of parts:
:class:`~mechanisms.tables.planning.WeighedMeasurement` proves that this suffices.

*Noise.* Estimates have the variance in closed form. Their intervals hold 95%: 2.12 standard
deviations, which is what a single Laplace variable needs and sums of them do not exceed (1.96 would
do for Gaussian noise), and half a count more, since noise is whole (or one standard deviation, if
that is less). A reconciled count is nearer to the truth on average, by an amount that no closed
form gives: its stated standard deviation is the estimate's. Its interval is that of the estimate,
cut off at 0 and at the number of rows, and widened to the count.

*Selected tables.* :class:`SelectingDraw` proves what they cost. In accounts with a delta the noise
is Gaussian, and the choice takes its share of ``rho = epsilon**2 / 2``. The counts of columns that
the choice is made with are a part of the tables' estimates.

*Levels* (:mod:`mechanisms.tables.levels`). The tables of every level of a hierarchy are margins
like others: a level is a function of the record, so a record is in one cell of each. Neighbors'
tables differ as :mod:`mechanisms.tables.sensitivities` proves for columns that are free: under
add-remove in one cell of each table by 1. Under replace-one two records may differ in all levels
and other columns at once, so by 2 in the l1 norm of each table, which is what is charged. Gaussian
noise is charged for the worst set of columns in which they differ; with levels not every set is
possible, and the largest over all of them is a bound. The split is that of the workload, in closed
form: for a sum of variances, shares of epsilon in proportion to the cube root of a table's cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil, fsum, log, log10, pi, sqrt
from typing import Any, Literal, cast

import numpy as np

from mechanisms.contract import (
    Alternative,
    Data,
    Drawing,
    InvalidStatisticError,
    Json,
    LateNoise,
    Noise,
    Outcome,
    Plan,
    Statistic,
    require_valid,
)
from mechanisms.domain import Schema
from mechanisms.privacy import PURE, ZCDP, Adjacency, Guarantee, PrivacyLoss, pure_rho
from mechanisms.randomness import Randomness
from mechanisms.statistics.facts.defaults import largest_weight
from mechanisms.statistics.tables import Alike, MarginStatistic
from mechanisms.statistics.weights import HELD_PARTS, Weighted, private_rows, weights_of
from mechanisms.tables.characters import CubeCharacters
from mechanisms.tables.gaussian import GaussianResiduals
from mechanisms.tables.laplace import LaplaceMargins
from mechanisms.tables.levels import fit_levels
from mechanisms.tables.planning import (
    Estimates,
    JoinedMeasurement,
    Measurement,
    TreeChoice,
    WeighedMeasurement,
    pure_measurement,
    score,
)
from mechanisms.tables.records import MOST_RECORDS, MOST_ROUNDS, fit_records
from mechanisms.tables.residuals import cell_variance
from mechanisms.tables.sensitivities import Changes
from mechanisms.tables.workload import ColumnSet, Counts, Workload
from mechanisms.words import rounded, worded

THEOREM = "Awan & Slavkovic 2021, Proposition 2.10 (K-norm mechanism, on margins)"
NOISE = (
    "the standard deviations of the unbiased estimates, in closed form; intervals of at least 95%, "
    "of whole counts cut off at 0 and at the number of rows; sampling error is not in them"
)
THEOREM_OF_GAUSSIAN = "Canonne, Kamath & Steinke 2020, Theorem 4 (discrete Gaussian)"
THEOREM_OF_SELECTING = (
    f"{THEOREM}; McKenna & Sheldon 2020, Theorem 1 (permute-and-flip); Dwork & Roth 2014, "
    "Corollary 3.15 (composition)"
)
THEOREM_OF_SELECTING_IN_ZCDP = (
    f"{THEOREM_OF_GAUSSIAN}; Cesar & Rogers 2021, Theorem 2 (bounded range); Bun & Steinke 2016, "
    "Lemma 1.7 (composition)"
)
HALF_WIDTH = log(20) / sqrt(2)
"""Of a 95% interval, in standard deviations of a Laplace variable."""
_GAUSSIAN = "gaussian"

MEAN_SIZE = sqrt(2 / pi)
"""Of a normal variable, in standard deviations: sums of Laplace variables have 0.71 to 0.8."""

_MS_PER_CELL = 0.013  # measured; of the noise and the estimate of one, and of its lines in JSON
_MS_PER_LOOK = 3e-6  # measured; of a record and a cell that it could be in, in one round
_ROUNDS, _FAR = 5, 10.0  # measured; so many more for each tenth of an error of so many times all
_MARGIN = 1.5
"""How many times the expected time many cells take at most: their sum varies little."""
_MS_PER_CODE = 1e-5  # measured; of one that is read
_MS_PER_LEVEL_CELL = 0.02  # measured; of a table of places that is split
_MS_PER_CANDIDATE = 0.01  # of a column that is joined
_USUAL_RECORDS = 1 << 13


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginNoise:
    """The parameters of tables: the noise, its shares of epsilon, its lattice or its variances.

    Those of tables that are selected follow from the choice: ``law`` is "selected", or "selected
    gaussian".
    """

    law: Literal["laplace", "cube", "gaussian", "selected", "selected gaussian"]
    epsilon: Fraction
    shares: tuple[int, ...] = ()
    refinement: int = 1
    variances: tuple[Fraction, ...] = ()

    @classmethod
    def of(cls, measurement: Measurement, epsilon: Fraction) -> MarginNoise:
        """Return the parameters of a measurement."""
        if isinstance(measurement, CubeCharacters):
            return cls(law="cube", epsilon=epsilon, refinement=measurement.refinement)
        if isinstance(measurement, GaussianResiduals):
            return cls(law="gaussian", epsilon=epsilon, variances=measurement.variances)
        own = cast(LaplaceMargins, measurement)
        return cls(law="laplace", epsilon=epsilon, shares=own.shares)

    def on(self, workload: Workload, changes: Changes) -> Measurement:
        """Return the measurement, of the workload it was calibrated for."""
        sets = tuple(A for A in workload.closure() if A or not changes.records_known)
        if self.law == "cube":
            return CubeCharacters(workload, changes, sets, self.refinement, self.epsilon)
        if self.law == "gaussian":
            if len(sets) != len(self.variances):
                raise ValueError("there are variances for other margins")
            rho = self.epsilon**2 / 2
            return GaussianResiduals(workload, changes, sets, self.variances, rho)
        sets = workload.maximal()
        if len(sets) != len(self.shares):
            raise ValueError("there are shares for other margins")
        return LaplaceMargins(workload, changes, sets, self.shares, self.epsilon)

    def drawing(self, statistic: MarginStatistic, schema: Schema) -> Drawing:
        """Return how the tables are drawn."""
        if self.law in ("selected", "selected gaussian"):
            gaussian = self.law != "selected"
            draw = SelectingDraw(statistic, schema, self.epsilon, gaussian=gaussian)
            return Drawing(draw=draw, preview=lambda _rows: None)
        found = self.on(statistic.workload(schema), changes_of(facts_of(statistic, schema)))
        measurement = weighed(found, statistic, schema)
        return Drawing(
            draw=MarginDraw(statistic, schema, measurement),
            preview=partial(_preview, statistic, schema, measurement),
        )


def changes_of(schema: Schema) -> Changes:
    """Return what neighbours differ by."""
    replaced = schema.adjacency is Adjacency.REPLACE_ONE
    return Changes(replaced=replaced, added=schema.selected or not replaced)


def measurement_of(
    statistic: MarginStatistic, schema: Schema, epsilon: PrivacyLoss, mechanism: str
) -> Measurement:
    """Return what is measured for tables: the same for the draw, and for what follows from it."""
    workload, changes = statistic.workload(schema), changes_of(facts_of(statistic, schema))
    own = _own_epsilon(statistic, epsilon)
    gaussian = mechanism == _GAUSSIAN
    if statistic.selecting:
        choice = _choice(workload, changes, own, statistic.selecting, gaussian=gaussian)
        return _joined(choice, workload, own, statistic.selecting)
    found: Measurement = (
        GaussianResiduals.calibrated(workload, changes, own**2 / 2)
        if gaussian
        else pure_measurement(workload, changes, own)
    )
    return weighed(found, statistic, schema)


def _choice(
    workload: Workload, changes: Changes, epsilon: Fraction, share: Fraction, *, gaussian: bool
) -> TreeChoice:
    """Return the choice of tables for a share of epsilon, or of rho."""
    if gaussian:
        return TreeChoice.in_zcdp(workload.sizes, changes, share * epsilon**2 / 2)
    return TreeChoice.calibrated(workload.sizes, changes, share * epsilon)


def _joined(
    choice: TreeChoice, workload: Workload, epsilon: Fraction, share: Fraction
) -> JoinedMeasurement:
    """Return what the choice has measured, and the chosen tables at what it has left."""
    singles, left = choice.singles, 1 - share
    if isinstance(singles, GaussianResiduals):
        own = left * epsilon**2 / 2
        tables: Measurement = GaussianResiduals.calibrated(workload, singles.changes, own)
    else:
        tables = pure_measurement(workload, singles.changes, left * epsilon)
    return JoinedMeasurement(singles, tables)


def _own_epsilon(statistic: MarginStatistic, epsilon: PrivacyLoss) -> Fraction:
    """Return the epsilon of a record that counts once: of one part of a weight, where any are."""
    return epsilon.fraction if statistic.weights is None else epsilon.fraction / HELD_PARTS


def facts_of(statistic: MarginStatistic, schema: Schema) -> Schema:
    """Return the facts that a question is planned with: how many records count, weights hide."""
    return schema if statistic.weights is None else private_rows(schema)


def weighed(found: Measurement, statistic: MarginStatistic, schema: Schema) -> Measurement:
    """Return a measurement in parts of weights as one of weights, any other as it is."""
    weights = weights_of(cast(Weighted, statistic), schema)
    if weights is None:
        return found
    return WeighedMeasurement(found, weights.column.upper / HELD_PARTS)


def calibrate(statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /) -> Plan:
    """Return the plan of tables with pure epsilon-DP.

    Raises
    ------
    InvalidStatisticError
        The statistic is none of margins, or does not fit the schema.
    """
    return _calibrated("margins", statistic, schema, epsilon, norm)


def calibrate_gaussian(
    statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /
) -> Plan:
    """Return the plan of tables with Gaussian noise, which costs what a pure draw costs in zCDP.

    Raises
    ------
    InvalidStatisticError
        The statistic is none of margins, or does not fit the schema.
    """
    return _calibrated(_GAUSSIAN, statistic, schema, epsilon, norm)


def _calibrated(
    mechanism: str, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /
) -> Plan:
    tables = _tables(statistic, schema, mechanism, norm)
    if tables.selecting:
        return _selecting_plan(tables, schema, epsilon, mechanism)
    return _plan(tables, schema, epsilon, measurement_of(tables, schema, epsilon, mechanism))


def calibrate_best(
    statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str, /
) -> Plan:
    """Return the plan with the smaller sum of cell variances, both at the same cost in zCDP."""
    tables = _tables(statistic, schema, "margins", norm)
    if tables.selecting:
        # a tree of few pairs: Gaussian noise is the smaller one, whichever they are
        return _selecting_plan(tables, schema, epsilon, _GAUSSIAN)
    offered = {
        name: measurement_of(tables, schema, epsilon, name) for name in (_GAUSSIAN, "margins")
    }
    scores = {name: score(each, "sum") for name, each in offered.items()}
    taken, other = sorted(offered, key=scores.__getitem__)
    plan = _plan(tables, schema, epsilon, offered[taken])
    reason = f"The smaller variance at the same charge. {plan.reason}"
    # at an enormous epsilon both have hardly any noise, and one a variance below the floats
    if not scores[taken]:
        return replace(plan, reason=reason)
    ratio = sqrt(scores[other] / scores[taken])
    compared = Alternative(
        mechanism=other, norm=None, comparison=f"{rounded(ratio)} times the standard deviation"
    )
    return replace(plan, reason=reason, alternatives=(compared,))


def _tables(statistic: Statistic, schema: Schema, mechanism: str, norm: str) -> MarginStatistic:
    if not isinstance(statistic, MarginStatistic):
        raise InvalidStatisticError(f"{mechanism} releases tables", field_name="mechanism")
    require_valid(cast(Statistic, statistic), schema, mechanism, norm)
    return statistic


def _plan(
    statistic: MarginStatistic, schema: Schema, epsilon: PrivacyLoss, measurement: Measurement
) -> Plan:
    """Return the plan with a measurement."""
    workload = measurement.workload
    drawn = measurement.whole if isinstance(measurement, WeighedMeasurement) else measurement
    kind, weights = _KINDS[type(drawn)], weights_of(cast(Weighted, statistic), schema)
    gaussian = kind.mechanism == _GAUSSIAN
    return Plan(
        mechanism=kind.mechanism,
        norm=None,
        statistic=cast(Statistic, statistic),
        schema=schema,
        parameters=MarginNoise.of(drawn, _own_epsilon(statistic, epsilon)),
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=kind.sensitivity(measurement.changes),
            sensitivity_unit=kind.unit,
            theorem=kind.theorem,
            definition=ZCDP if gaussian else PURE,
            rho=pure_rho(epsilon) if gaussian else None,
        ),
        grid=_grid(statistic, drawn, 1.0 if weights is None else weights.column.upper / HELD_PARTS),
        reason=kind.reason,
        expected_ms=_expected_ms(statistic, workload, schema, _rounds(measurement, schema)),
        time_depends_on_data=False,
        margin=_MARGIN,
        details={
            "noise": NOISE,
            "tables": len(workload.margins),
            "cells": workload.cells,
            "measured": kind.measured,
            **({} if weights is None else {"weights": weights.facts()}),
            **_levels_facts(statistic, schema),
            **_rounded_away(statistic, schema),
        },
    )


def _rounded_away(statistic: MarginStatistic, schema: Schema) -> Json:
    """Return a warning where whole counts round sums of small weights; nothing elsewhere."""
    largest = largest_weight(schema, statistic.weights)
    if statistic.raw or largest >= 1:
        return {}
    said = worded(
        "No weight is above %(largest)s, and counts are rounded to whole numbers: ask for "
        'unrounded ones ("raw": true).',
        largest=f"{largest:g}",
    )
    return {"warnings": [said]}


def _selecting_plan(
    statistic: MarginStatistic, schema: Schema, epsilon: PrivacyLoss, mechanism: str
) -> Plan:
    """Return the plan of tables that are selected where they are drawn."""
    gaussian = mechanism == _GAUSSIAN
    workload, changes = statistic.workload(schema), changes_of(schema)
    kind = _KINDS[GaussianResiduals if gaussian else LaplaceMargins]
    reached = [kind.sensitivity(changes), str(changes.l1)]
    columns = len(workload.sizes)
    return Plan(
        mechanism=mechanism,
        norm=None,
        statistic=cast(Statistic, statistic),
        schema=schema,
        parameters=MarginNoise(
            law="selected gaussian" if gaussian else "selected", epsilon=epsilon.fraction
        ),
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity="; ".join(dict.fromkeys(reached)),
            sensitivity_unit=f"{kind.unit}; in the score of each pair",
            theorem=THEOREM_OF_SELECTING_IN_ZCDP if gaussian else THEOREM_OF_SELECTING,
            definition=ZCDP if gaussian else PURE,
            rho=pure_rho(epsilon) if gaussian else None,
        ),
        grid={"step": {"count": 1.0}},
        reason="Columns are measured with discrete noise, then a tree of pairs, which is drawn by "
        f"{'the exponential mechanism' if gaussian else 'permute-and-flip'}.",
        expected_ms=_expected_ms(statistic, workload, schema, MOST_ROUNDS / 2)
        + _MS_PER_CANDIDATE * len(workload.margins) * columns,
        time_depends_on_data=True,
        details={
            "noise": NOISE,
            "tables": columns - 1,
            "select": {
                "private": True,
                "share": str(statistic.selecting),
                "candidates": len(workload.margins),
            },
        },
    )


def _levels_facts(statistic: MarginStatistic, schema: Schema) -> Json:
    """Return the levels, and the totals that the caller states as public; nothing without any."""
    levels = statistic.levels(schema)
    if levels is None:
        return {}
    names = statistic.names(schema)
    stated = {name: dict(each) for name, each in statistic.known.items()}
    return {
        "levels": [names[column] for column in levels.columns],
        **({"public_totals": stated} if stated else {}),
    }


def _grid(statistic: MarginStatistic, drawn: Measurement, unit: Fraction | float) -> Json:
    """Return the step of whole counts; of raw estimates that of what they are read off."""
    if not statistic.raw:
        return {"step": {"count": float(unit)}}
    steps = drawn.refinement if isinstance(drawn, CubeCharacters) else 1
    return {"read_off": {"step": {_KINDS[type(drawn)].measured: float(unit) / steps}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What is said of a kind of measurement."""

    mechanism: str
    measured: str
    unit: str
    theorem: str
    reason: str
    sensitivity: Callable[[Changes], str] = lambda changes: str(changes.l1)


_KINDS: Mapping[type[Measurement], _Kind] = {
    LaplaceMargins: _Kind(
        mechanism="margins",
        measured="tables",
        unit="records, in the l1 norm of each table, all tables with their share of epsilon",
        theorem=THEOREM,
        reason="Discrete Laplace noise on whole tables, combined by least squares.",
    ),
    CubeCharacters: _Kind(
        mechanism="margins",
        measured="characters",
        unit="records, in the linf norm of all characters",
        theorem=THEOREM,
        reason="All columns have two cells: the noise of a cube on their characters.",
    ),
    GaussianResiduals: _Kind(
        mechanism=_GAUSSIAN,
        measured="residuals",
        unit="records, in the l2 norm of all residuals, each in terms of epsilon and its own noise",
        theorem=THEOREM_OF_GAUSSIAN,
        reason="Discrete Gaussian noise on the residuals of all tables, split by closed form.",
        sensitivity=lambda _changes: "1",
    ),
}


def _rows(schema: Schema) -> int:
    return (schema.rows if schema.adjacency is Adjacency.REPLACE_ONE else schema.max_rows) or 0


def _rounds(measurement: Measurement, schema: Schema) -> float:
    """Return about how many rounds the fit takes: the more, the smaller the noise is."""
    workload, spreads = measurement.workload, measurement.spreads()
    errors = [
        workload.size(m) * sqrt(cell_variance(workload, spreads, m)) for m in workload.margins
    ]
    share = fsum(errors) / (2 * max(_rows(schema), 1) * len(errors))
    return min(max(_ROUNDS * log10(_FAR / max(share, 1e-9)), 0.0), MOST_ROUNDS)


def _expected_ms(
    statistic: MarginStatistic, workload: Workload, schema: Schema, rounds: float
) -> float:
    rows = _rows(schema)
    read = _MS_PER_CODE * rows * (len(workload.sizes) + len(workload.margins))
    looks = sum(workload.sizes[i] for margin in workload.margins for i in margin)
    fitted = 0.0 if statistic.raw else _MS_PER_LOOK * rounds * looks * min(rows, _USUAL_RECORDS)
    if statistic.hierarchy is not None and not statistic.raw:
        fitted = _MS_PER_LEVEL_CELL * workload.cells
    return 1 + read + _MS_PER_CELL * workload.cells + fitted


@dataclass(frozen=True, slots=True)
class MarginDraw:
    """Draws all tables at once."""

    statistic: MarginStatistic
    schema: Schema
    measurement: Measurement

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        counts = self.statistic.counted(data, self.schema)
        return self.finished(self.measurement.draw(counts, randomness))

    def finished(self, measured: Sequence[Counts]) -> Outcome:
        """Return the answer of noisy measurements: public numbers alone."""
        known = self.measurement.changes.records_known
        people = self.schema.rows if known else None
        residuals = self.measurement.residuals(measured, people)
        workload = self.measurement.workload
        estimates = Estimates(workload, residuals)
        total = estimates.margin(()).floats()
        raw = {margin: estimates.margin(margin).floats().ravel() for margin in workload.margins}
        values, rows = raw, (people if people is not None else float(total))
        most = None
        if not self.statistic.raw:
            weight = largest_weight(self.schema, self.statistic.weights)
            limit = min(ceil(self.schema.row_bound * weight), MOST_RECORDS)
            levels = self.statistic.levels(self.schema)
            nominal = self.measurement.nominal()
            found = (
                fit_records(workload, residuals, nominal, people, limit)
                if levels is None
                else fit_levels(workload, levels, residuals, nominal, people=people, most=limit)
            )
            values = {margin: found.margin(margin).ravel() for margin in workload.margins}
            rows = found.people
            most = people if people is not None else limit
        return Outcome(
            value=self._answer(values, rows),
            noise=LateNoise(partial(self._noise, raw, values, (float(total), rows), most)),
        )

    def _answer(self, numbers: Mapping[ColumnSet, Any], rows: Any) -> Json:
        plain = {
            margin: each.tolist() if isinstance(each, np.ndarray) else each
            for margin, each in numbers.items()
        }
        return self.statistic.answer(self.schema, plain, rows)

    def _noise(
        self,
        raw: Mapping[ColumnSet, Any],
        values: Mapping[ColumnSet, Any],
        rows: tuple[float, float],
        most: int | None,
    ) -> Noise:
        """Return the law of the noise around what is released."""
        deviations, total = _deviations(self.statistic, self.schema, self.measurement)
        intervals = {
            margin: _intervals_around(centres, deviations[margin], values[margin], most)
            for margin, centres in raw.items()
        }
        spread = _spread(self.statistic, self.schema, deviations, total)
        ends = self._answer(intervals, interval_around(rows[0], total, rows[1], most))
        return Noise(std=spread(1.0), interval_95=ends, expected_error=spread(MEAN_SIZE))


@dataclass(frozen=True, slots=True)
class SelectingDraw:
    """Draws a tree of pairs of columns, and then its tables.

    The choice is (share epsilon)-DP (:mod:`mechanisms.tables.planning`), and the tables of any tree
    cost what is left of epsilon. Together that is epsilon: adaptive composition (Dwork & Roth 2014,
    Theorem 3.14 and Corollary 3.15). With Gaussian noise the choice costs ``share epsilon**2 / 2``
    at most in zCDP, the tables of any tree ``(1 - share) epsilon**2 / 2``, and both the sum (Bun &
    Steinke 2016, Lemma 1.7).
    """

    statistic: MarginStatistic
    schema: Schema
    epsilon: Fraction
    gaussian: bool = False

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        workload, changes = self.statistic.workload(self.schema), changes_of(self.schema)
        counts = self.statistic.counted(data, self.schema)
        share = self.statistic.selecting
        choice = _choice(workload, changes, self.epsilon, share, gaussian=self.gaussian)
        people = self.schema.rows if changes.records_known else None
        pairs, singles = choice.draw(counts, people, randomness)
        # the pairs are public now
        tree = Workload(workload.sizes, pairs)
        names = self.statistic.names(self.schema)
        chosen = [[names[i] for i in pair] for pair in pairs]
        statistic = self.statistic.answered({"tables": [{"columns": each} for each in chosen]})
        measurement = _joined(choice, tree, self.epsilon, share)
        tables = measurement.tables.draw({pair: counts[pair] for pair in pairs}, randomness)
        outcome = MarginDraw(statistic, self.schema, measurement).finished((*singles, *tables))
        return replace(outcome, facts={"select": {"chosen": chosen}})


def interval_around(
    centre: float, deviation: float, value: float, most: float | None
) -> list[float]:
    """Return an interval around an estimate that holds what is released, inside 0 and ``most``."""
    if deviation == 0:  # it is public, whatever was measured
        return [value, value]
    half = half_width(deviation)
    low, high = centre - half, centre + half
    if most is not None:
        low, high = min(max(low, 0.0), most), max(min(high, most), 0.0)
    return [min(low, value), max(high, value)]


def _intervals_around(
    centres: Any, deviations: float | list[float], values: Any, most: int | None
) -> list[list[float]]:
    """Return :func:`interval_around` each cell of a table."""
    stds = np.full(len(centres), deviations) if isinstance(deviations, float) else deviations
    if not np.all(stds):
        each = zip(map(float, centres), stds, map(float, values), strict=True)
        return [interval_around(centre, std, value, most) for centre, std, value in each]
    # a million cells, in the same floating-point operations
    half = HALF_WIDTH * np.asarray(stds) + np.minimum(stds, 0.5)
    low, high = centres - half, centres + half
    if most is not None:
        low, high = np.clip(low, 0.0, most), np.clip(high, 0.0, most)
    ends = np.stack([np.minimum(low, values), np.maximum(high, values)], axis=1)
    found: list[list[float]] = ends.tolist()
    return found


def half_width(deviation: float) -> float:
    """Return half the width of a 95% interval of an estimate with this standard deviation."""
    return HALF_WIDTH * deviation + min(deviation, 0.5)


_Deviations = Mapping[ColumnSet, float | list[float]]
"""Of each table's cells: one number for all of them, or one each where some are public."""


def _deviations(
    statistic: MarginStatistic, schema: Schema, measurement: Measurement
) -> tuple[_Deviations, float]:
    """Return the standard deviation of each table's cells, and of the number of rows.

    It is 0 for totals of places that are public, or that are sums of such.
    """
    workload, spreads = measurement.workload, measurement.spreads()
    found: dict[ColumnSet, float | list[float]] = {
        m: sqrt(cell_variance(workload, spreads, m)) for m in workload.margins
    }
    total = sqrt(cell_variance(workload, spreads, ()))
    levels = statistic.levels(schema)
    if levels is None or not any(levels.known):
        return found, total
    _, ((sure,), *exact) = levels.stated()
    for column, places in zip(levels.columns, exact, strict=True):
        if any(places) and (std := found.get((column,))) is not None:
            found[column,] = [0.0 if public else cast(float, std) for public in places]
    return found, 0.0 if sure else total


def _preview(
    statistic: MarginStatistic, schema: Schema, measurement: Measurement, _rows: int | None
) -> Noise:
    """Return the law of the noise of the estimates, around zero."""
    deviations, total = _deviations(statistic, schema, measurement)

    def around(std: float) -> list[float]:
        return [-half_width(std), half_width(std)]

    ends = _each(around, deviations)
    spread = _spread(statistic, schema, deviations, total)
    return Noise(
        std=spread(1.0),
        interval_95=statistic.answer(schema, ends, around(total)),
        expected_error=spread(MEAN_SIZE),
    )


def _spread(
    statistic: MarginStatistic, schema: Schema, deviations: _Deviations, total: float
) -> Callable[[float], Json]:
    """Return answers of the standard deviations, times a factor."""

    def times(factor: float) -> Json:
        numbers = _each(lambda std: factor * std, deviations)
        return statistic.answer(schema, numbers, factor * total)

    return times


def _each(made: Callable[[float], object], deviations: _Deviations) -> dict[ColumnSet, Any]:
    """Return what is made of each standard deviation: once for all cells that are alike."""
    return {
        margin: Alike(made(stds)) if isinstance(stds, float) else list(map(made, stds))
        for margin, stds in deviations.items()
    }
