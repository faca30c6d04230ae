r"""Ordered cells by noise on a tree of blocks: whole counts whose cumulative counts never fall.

    release F_k = the records in cells 1 to k, and the count F_k - F_{k-1} of every cell

*Measurement* (:mod:`mechanisms.tables.ranges`): counts of blocks at several levels, with discrete
Laplace noise in pure accounts, by the mechanism ``k_norm`` in the l1 norm, and with discrete
Gaussian noise by ``gaussian``. Branching and split have the least mean variance of all ranges.

**Privacy.** The measurement is epsilon-DP, or rho-zCDP with ``rho = epsilon**2 / 2``, under every
change that the schema allows: :mod:`mechanisms.tables.ranges` proves it for replace-one, for
add-remove, and for both. The curve, its rounding and its intervals are functions of it and of
public numbers: post-processing (Awan & Slavkovic, Proposition 2.11).

*Weighted.* A record counts for s in {0, ..., P} parts of the largest weight W. Of neighbours the
counts in parts differ by ``s e_x``, or by ``s e_x - s' e_y = s' (e_x - e_y) + (s - s') e_x`` for
s >= s'. On the blocks of a level that is at most P D_l in the l1 norm and ``P**2 D_l`` in the
squared l2 norm, D_l that of records that come, go and are replaced: both norms are convex, and 0, a
record and a replaced one are within D_l. So noise that costs epsilon / P for whole records, of
zCDP ``rho / P**2``, costs at most epsilon, or rho. Cumulative counts are made to rise and rounded
in parts, and multiplied by W / P afterwards: sums of weights below 1 are not rounded away.

*Noise.* The unbiased estimates have the stated standard deviations, or slightly less, as noise has
less variance on whole numbers than on fine lattices. The released curve is nearer to the truth on
average. Intervals are those of the estimates (:func:`mechanisms.margins.release.half_width`), cut
off at 0 and at the number of rows, and widened to what is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import ceil, sqrt
from typing import cast

import numpy as np

from mechanisms.contract import (
    Alternative,
    Data,
    Drawing,
    Json,
    LateNoise,
    Noise,
    Outcome,
    Plan,
    Statistic,
    require_valid,
)
from mechanisms.domain import Schema
from mechanisms.margins.release import (
    MEAN_SIZE,
    NOISE,
    THEOREM_OF_GAUSSIAN,
    changes_of,
    half_width,
    interval_around,
)
from mechanisms.privacy import PURE, ZCDP, Adjacency, Guarantee, PrivacyLoss, pure_rho
from mechanisms.randomness import Randomness
from mechanisms.statistics.facts.defaults import largest_weight
from mechanisms.statistics.histogram import RangeCounts
from mechanisms.statistics.weights import HELD_PARTS, private_rows, weights_of
from mechanisms.tables.ranges import STEP, Floats, Law, RangeTree, change_of, whole_curve
from mechanisms.words import rounded

THEOREM = "Awan & Slavkovic 2021, Proposition 2.10 (K-norm mechanism)"

_MECHANISMS: dict[Law, str] = {"laplace": "k_norm", "gaussian": "gaussian"}
_MS_PER_CELL = 0.03  # measured; of the noise and the estimate of one
_MS_PER_CODE = 1e-5  # measured; of one that is read


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeNoise:
    """The parameters of ordered cells: the blocks of each level, and their noise."""

    law: Law
    widths: tuple[int, ...]
    noise: tuple[Fraction, ...]

    def drawing(self, statistic: RangeCounts, schema: Schema) -> Drawing:
        """Return how the cells are drawn."""
        cells = len(statistic.axis(schema).labels)
        tree = RangeTree(
            cells, changes_of(_facts(statistic, schema)), self.law, self.widths, self.noise
        )
        draw = RangeDraw(statistic, schema, tree)
        return Drawing(draw=draw, preview=lambda _rows: draw.preview())


def calibrate(statistic: RangeCounts, schema: Schema, epsilon: PrivacyLoss, norm: str, /) -> Plan:
    """Return the plan of ordered cells with pure epsilon-DP.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, or the norm is not l1.
    """
    return _calibrated("laplace", statistic, schema, epsilon, norm)


def calibrate_gaussian(
    statistic: RangeCounts, schema: Schema, epsilon: PrivacyLoss, norm: str, /
) -> Plan:
    """Return the plan with Gaussian noise, which costs what a pure draw costs in zCDP.

    Raises
    ------
    InvalidStatisticError
        The statistic does not fit the schema, or a norm is named.
    """
    return _calibrated("gaussian", statistic, schema, epsilon, norm)


def _calibrated(
    law: Law, statistic: RangeCounts, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    require_valid(cast(Statistic, statistic), schema, _MECHANISMS[law], norm)
    cells, changes = len(statistic.axis(schema).labels), changes_of(_facts(statistic, schema))
    weights = weights_of(statistic, schema)
    own = epsilon.fraction if weights is None else epsilon.fraction / HELD_PARTS
    tree = RangeTree.calibrated(cells, changes, own, law)
    part = float(_part(statistic, schema))
    gaussian = law == "gaussian"
    moved = [change_of(cells, width, changes) for width in tree.widths]
    return Plan(
        mechanism=_MECHANISMS[law],
        norm=None if gaussian else "l1",
        statistic=cast(Statistic, statistic),
        schema=schema,
        parameters=RangeNoise(law=law, widths=tree.widths, noise=tree.noise),
        guarantee=Guarantee(
            epsilon=epsilon,
            adjacency=schema.adjacency,
            sensitivity=str(max(moved)),
            sensitivity_unit=(
                f"{'records' if weights is None else 'largest weights'}, in the "
                f"{'squared l2' if gaussian else 'l1'} norm of each level of blocks, all levels "
                f"with their share of {'rho' if gaussian else 'epsilon'}"
            ),
            theorem=THEOREM_OF_GAUSSIAN if gaussian else THEOREM,
            definition=ZCDP if gaussian else PURE,
            rho=pure_rho(epsilon) if gaussian else None,
        ),
        grid={"read_off": {"step": {"blocks": part}}},
        reason="Noise on blocks of cells at several levels, combined by least squares.",
        expected_ms=_expected_ms(statistic, tree, schema),
        time_depends_on_data=False,
        details={
            "noise": NOISE,
            "cells": cells,
            "levels": [
                {"cells_per_block": width, "blocks": size}
                for width, size in zip(tree.widths, tree.sizes, strict=True)
            ],
            "std_of_ranges": part * sqrt(tree.mean_variance()),
            **({} if weights is None else {"weights": weights.facts()}),
        },
    )


def calibrate_best(
    statistic: RangeCounts, schema: Schema, epsilon: PrivacyLoss, norm: str, /
) -> Plan:
    """Return the plan with the smaller variance of ranges, both at the same cost in zCDP.

    A norm that is named is drawn by ``k_norm``.
    """
    plans = [calibrate(statistic, schema, epsilon, norm)]
    if norm == "auto":
        plans.append(calibrate_gaussian(statistic, schema, epsilon, norm))
    stds = [cast(float, plan.details["std_of_ranges"]) for plan in plans]
    taken = stds.index(min(stds))
    if len(plans) == 1:
        return plans[0]
    other = Alternative(
        mechanism=plans[1 - taken].mechanism,
        norm=plans[1 - taken].norm,
        comparison=f"{rounded(max(stds) / min(stds))} times the standard deviation",
    )
    return _with_alternative(plans[taken], other)


def _with_alternative(plan: Plan, other: Alternative) -> Plan:
    reason = f"The smaller variance at the same charge. {plan.reason}"
    return replace(plan, reason=reason, alternatives=(other,))


def _facts(statistic: RangeCounts, schema: Schema) -> Schema:
    """Return the facts that cells are planned with: how many records count, weights hide."""
    return schema if statistic.weights is None else private_rows(schema)


def _part(statistic: RangeCounts, schema: Schema) -> Fraction:
    """Return what is counted in: a record, or a part of the largest weight."""
    weights = weights_of(statistic, schema)
    return Fraction(1) if weights is None else weights.column.upper / HELD_PARTS


def _expected_ms(statistic: RangeCounts, tree: RangeTree, schema: Schema) -> float:
    rows = (schema.rows if schema.adjacency is Adjacency.REPLACE_ONE else schema.max_rows) or 0
    read = _MS_PER_CODE * statistic.columns_read(schema) * rows
    return 1 + read + _MS_PER_CELL * sum(tree.sizes)


_ROUNDING = 1 / 12  # the variance of a rounding to whole counts, or to whole parts of a weight


@dataclass(frozen=True)
class RangeDraw:
    """Draws all cells at once."""

    statistic: RangeCounts
    schema: Schema
    tree: RangeTree

    def __call__(self, data: Data, randomness: Randomness) -> Outcome:
        """Return one release."""
        measured = self.tree.draw(self.statistic.counted(data, self.schema), randomness)
        # from here on there are public numbers alone
        records = self.schema.rows if self.tree.changes.records_known else None
        raw = self.tree.estimate(measured, records)
        whole = whole_curve(raw, records)
        own = [after - before for before, after in pairwise([0, *whole])]
        counts, curve = self._counted(own), self._counted(whole)
        return Outcome(
            value=self.statistic.answer(self.schema, counts, curve),
            noise=LateNoise(partial(self._noise, raw, counts, curve)),
        )

    def _counted(self, whole: Sequence[int]) -> Sequence[float]:
        """Return numbers of records as they are, and parts of the largest weight as weights."""
        if self.statistic.weights is None:
            return whole
        return [float(each * _part(self.statistic, self.schema)) for each in whole]

    def _noise(self, raw: Sequence[int], counts: Sequence[float], curve: Sequence[float]) -> Noise:
        """Return the law of the noise around what is released."""
        weight = largest_weight(self.schema, self.statistic.weights)
        most = max(ceil(self.schema.row_bound * weight), curve[-1])
        part = float(_part(self.statistic, self.schema))
        below = [part * (each / STEP) for each in raw]
        own = [after - before for before, after in pairwise([0.0, *below])]
        cells, cumulative = self._deviations()
        return Noise(
            std=self._spread(1.0),
            interval_95=self.statistic.answer(
                self.schema,
                _around(own, cells, counts, most),
                _around(below, cumulative, curve, most),
            ),
            expected_error=self._spread(MEAN_SIZE),
        )

    def preview(self) -> Noise:
        """Return the law of the noise of the estimates, around zero."""
        ends = [
            [[-half_width(std), half_width(std)] for std in stds.tolist()]
            for stds in self._deviations()
        ]
        return Noise(
            std=self._spread(1.0),
            interval_95=self.statistic.answer(self.schema, *ends),
            expected_error=self._spread(MEAN_SIZE),
        )

    def _deviations(self) -> tuple[Floats, Floats]:
        """Return the standard deviations of cells and of cumulative counts, in units of answers."""
        part = float(_part(self.statistic, self.schema))
        cells, cumulative = self.tree.deviations()
        return part * cells, part * cumulative

    def _spread(self, factor: float) -> Json:
        """Return deviations of what is released: a cumulative count is rounded, a cell twice."""
        rounding = _ROUNDING * float(_part(self.statistic, self.schema)) ** 2
        cells, cumulative = (
            np.where(each > 0, np.sqrt(each**2 + times * rounding), 0.0)
            for each, times in zip(self._deviations(), (2, 1), strict=True)
        )
        return self.statistic.answer(
            self.schema, (factor * cells).tolist(), (factor * cumulative).tolist()
        )


def _around(
    centres: Sequence[float], stds: Floats, released: Sequence[float], most: float
) -> list[list[float]]:
    return [
        interval_around(centre, std, value, most)
        for centre, std, value in zip(centres, stds.tolist(), released, strict=True)
    ]
