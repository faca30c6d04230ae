"""Linear regression by objective perturbation: squared loss on ``||theta||_1 <= B``."""

from __future__ import annotations

from mechanisms.contract import Data, InvalidStatisticError, Plan
from mechanisms.domain import Schema
from mechanisms.objectives.losses import squared_loss
from mechanisms.objectives.quadratic import LeastSquaresObjective
from mechanisms.perturbation.release import plan_fit
from mechanisms.privacy import PrivacyLoss
from mechanisms.statistics.designs.rows import equations_of
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.weights import weighing, weights_of


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
    scaling, bound = statistic.scaling(schema), statistic.exact_bound
    weights = weights_of(statistic, schema)

    def objective(data: Data) -> LeastSquaresObjective:
        normal = equations_of(scaling, data, weights)
        return LeastSquaresObjective(normal.xx, normal.xy)

    return plan_fit(
        statistic,
        schema,
        epsilon,
        norm,
        objective=objective,
        loss=squared_loss(scaling.dimension, bound, schema.adjacency),
        bound=bound,
        newton=None,  # the sketches hold the sums
    )
