"""Linear regression by objective perturbation: squared or Huber's loss on ``||theta||_1 <= B``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from mechanisms.contract import Data, Drawing, InvalidStatisticError, Plan
from mechanisms.domain import Schema
from mechanisms.objectives.design import CellDesign
from mechanisms.objectives.huber import HuberObjective, huber_loss, huber_loss_by_cells
from mechanisms.objectives.losses import Loss, squared_loss
from mechanisms.objectives.quadratic import LeastSquaresObjective
from mechanisms.perturbation.release import Newton, Perturbed, plan_fit
from mechanisms.perturbation.thresholds import chosen_threshold
from mechanisms.privacy import PrivacyLoss
from mechanisms.samplers.bodies import Joined
from mechanisms.statistics.designs.cells import Cells, Placing, Shape, joined_of, shapes_of
from mechanisms.statistics.designs.rows import CellRows, CodeRows, equations_of, passes
from mechanisms.statistics.designs.scaling import design
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.weights import Weights, weighing, weights_of
from mechanisms.words import worded

SQUARED = worded("The line is that of least squares, pulled towards 0 by the ridge.")
HUBER = worded(
    "The line is that of least Huber's loss, pulled towards 0 by the ridge: where residuals are "
    "skewed, or spread differently along a feature, it is the line of most records, not of the "
    "mean."
)


@weighing
def calibrate_linear(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a linear regression, epsilon-DP.

    Raises
    ------
    InvalidStatisticError
        The statistic names a ridge.
    """
    if statistic.ridge is not None:
        raise InvalidStatisticError(
            "objective_perturbation sets its own ridge; leave it out", field_name="ridge"
        )
    width = statistic.row_scaling(schema).target_width
    threshold = statistic.scaled_threshold(width)
    if threshold is None:
        threshold = chosen_threshold(statistic, schema, epsilon, norm)
    facts: dict[str, object] = {"loss": "squared", "estimates": SQUARED}
    newton: Newton | None = None  # the sketches hold the sums of squares
    if threshold is not None:
        facts = {"loss": "huber", "threshold": float(threshold * width), "estimates": HUBER}
        newton = Newton(ms_per_cell=2e-4, passes=24)
        found = design_by_cells(statistic, schema)
        if found is not None:
            facts["cells_of"] = [split.name for split in found.placing.splits]
            newton = replace(newton, width=sum(found.joined.every))
    return plan_fit(
        PerturbedLinear,
        statistic,
        schema,
        epsilon,
        norm,
        scaling=statistic.scaling(schema) if threshold is None else statistic.row_scaling(schema),
        loss=_loss(statistic, schema, statistic.exact_bound, threshold),
        newton=newton,
        details=facts,
        threshold=threshold,
    )


def _loss(
    statistic: LinearRegression, schema: Schema, bound: Fraction, threshold: Fraction | None
) -> Loss:
    dimension = statistic.scaling(schema).dimension
    if threshold is None:
        return squared_loss(dimension, bound, schema.adjacency)
    design = design_by_cells(statistic, schema)
    if design is None:
        return huber_loss(dimension, threshold, schema.adjacency, bound)
    return huber_loss_by_cells(design.joined, threshold, schema.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedLinear(Perturbed):
    """The parameters of a linear regression.

    ``threshold`` is that of Huber's loss, in scaled units of the target; None for squared loss.
    """

    threshold: Fraction | None = None

    def drawing(self, statistic: LinearRegression, schema: Schema) -> Drawing:
        """Return how it is drawn."""
        assert self.bound is not None
        loss = _loss(statistic, schema, self.bound, self.threshold)
        if self.threshold is not None:
            rows = partial(huber_objective, statistic, self.threshold, schema, self.ridge)
            return self.drawing_of(statistic.row_scaling(schema), loss, rows)
        return self.drawing_of(
            statistic.scaling(schema), loss, partial(squared_objective, statistic, schema)
        )


def squared_objective(
    statistic: LinearRegression, schema: Schema, data: Data
) -> LeastSquaresObjective:
    """Return the squared loss of private rows."""
    normal = equations_of(statistic.scaling(schema), data, weights_of(statistic, schema))
    return LeastSquaresObjective(normal.xx, normal.xy)


def huber_objective(
    statistic: LinearRegression, threshold: Fraction, schema: Schema, ridge: Fraction, data: Data
) -> HuberObjective:
    """Return Huber's loss of private rows; by cells with the ridge of F'theta."""
    scaling, weights = statistic.row_scaling(schema), weights_of(statistic, schema)
    target = scaling.target
    assert target is not None
    found = design_by_cells(statistic, schema)
    made = partial(
        HuberObjective,
        target=(Fraction(target.offset, target.divisor), target.slope),
        threshold=threshold,
        weighted=weights is not None,
    )
    if found is None:
        plain = CodeRows(tuple(scaling.columns), weights)
        return made(passes(data, plain, schema), design(scaling))
    read = found.reader(target.name, weights)
    rows = passes(data, read, schema, width=read.width)
    return made(rows, CellDesign(found.joined), ridge=ridge)


@dataclass(frozen=True, slots=True)
class ByCells:
    """A design by cells, in scaled units of codes."""

    placing: Placing
    shapes: Sequence[Shape]
    joined: Joined

    def reader(self, target: str, weights: Weights | None) -> CellRows:
        """Return what reads the rows of a block."""
        first = self.shapes[0]
        return CellRows(
            placing=self.placing,
            effects=tuple(
                tuple(shape.columns[place - 1] for place in shape.own) for shape in self.shapes
            ),
            shared=tuple(first.columns[place - 1] for place in first.shared),
            target=target,
            weights=weights,
        )


def design_by_cells(statistic: LinearRegression, schema: Schema) -> ByCells | None:
    """Return the cells of a design and their matrices; None where all records are in one."""
    cells = Cells.chosen(statistic.names, schema)
    if cells.placing is None:
        return None
    shapes = shapes_of(cells, statistic.row_scaling(schema), schema)
    return ByCells(cells.placing, shapes, joined_of(shapes))
