"""Extended objective perturbation (Awan & Slavkovic, Algorithm 2, Theorem 5.1), exact.

    theta = argmin over Theta of  sum_i l(theta; record i) + gamma/2 ||theta||^2 + V'theta
    V ~ exp(-(epsilon q / Delta) ||V||_K),   gamma = lambda / (exp(epsilon (1 - q)) - 1)

Delta bounds the K-norm of the difference of two records' gradients (of one
record's under add-remove) at any theta in Theta; lambda bounds the only
eigenvalue of a record's Hessian. A Hessian of higher rank has a spectrum in its place, with a
condition and a proof in :mod:`mechanisms.objectives.several`. :mod:`linear` and
:mod:`likelihoods` make the plans of the regressions, and :mod:`release` has what plans share.
:class:`mechanisms.perturbation.calibration.Perturbation` is the mechanism itself, for

- losses: squared, logistic, the check loss smoothed by a logistic kernel
  (:mod:`mechanisms.objectives.losses`, with their constants), and Huber's
  (:mod:`mechanisms.objectives.huber`, with why its jumping Hessian does no harm). Smoothing
  is a public choice of what is minimised: it costs accuracy, not privacy, as Delta is the
  check loss' own and lambda = d / (4 h) is exact;
- norms: l1, l2, l-infinity, and any body K (:mod:`mechanisms.samplers.bodies`), such as
  polytopes and the hull of a quantile regression's changes (norm "optimal");
- records by the cells of factors (:mod:`mechanisms.statistics.designs.cells`), for Huber's loss: a
  row is x = F z, z in the block of the record's cell. Tilt and ridge are then of F'theta, so that
  other cells add neither: :class:`~mechanisms.samplers.bodies.Joined` and
  :func:`~mechanisms.objectives.huber.huber_loss_by_cells` have the proof;
- regions Theta: R^d, l1, l2 and l-infinity balls, boxes (:mod:`mechanisms.samplers.regions`).

**Errors in print.** Algorithm 2 has exp(epsilon (q - 1)) - 1, which is negative.

**What is exact.** V is drawn as lazy reals (:mod:`mechanisms.exact.continuous`),
the objective is defined by integer codes, and the minimiser is rounded to a
public grid only where a certificate says which point is right
(:mod:`mechanisms.samplers.minimiser`). gamma is an exact rational, rounded up,
and never below 2**-20: more ridge is still private, and with less neither the
certificate nor an answer on separable data would stay finite in practice.

**Why a constraint costs nothing.** Let Pi be the projection onto Theta and put
``z = theta - grad L(theta) - gamma theta - V``; then theta = Pi(z), so releasing
theta is post-processing of z. As a function of z, V = Pi(z) - z - (grad L + gamma)(Pi(z)),
a Lipschitz bijection of R^d with ``dV/dz = -M``, ``M = (H + gamma I) P + I - P``, where
H is the Hessian of the sum at theta and P the derivative of Pi, which exists
almost everywhere and is symmetric with 0 <= P <= I. For neighbours, V differs by the
difference of two gradients at the same theta: the tilt's densities are within
exp(epsilon q). Let M_0 be M for the records in common; a record with Hessian
w x x' makes it M_0 + w x x'P, whose determinant is ``det(M_0) (1 + w x'P M_0^-1 x)``.
For invertible P, ``P M_0^-1 = (C + gamma I + P^-1 - I)^-1`` with C >= 0, and P^-1 >= I, so
``0 <= gamma x'P M_0^-1 x <= ||x||^2``; a singular P is a limit of such. With
w ||x||^2 <= lambda the determinants are within 1 + lambda/gamma <= exp(epsilon (1 - q)),
as without the constraint.

**Privacy.** epsilon-DP, pure, for either adjacency; under add-remove no constant
depends on the row count.

May enter: what makes the plan of a statistic, and its line in the table. May import: the
statistics and all below them; no other mechanism.
"""

from __future__ import annotations

from mechanisms.contract import by_statistic
from mechanisms.perturbation.calibration import THEOREM
from mechanisms.perturbation.likelihoods import (
    calibrate_cox,
    calibrate_logistic,
    calibrate_multinomial,
    calibrate_poisson,
    calibrate_quantile_regression,
)
from mechanisms.perturbation.linear import calibrate_linear
from mechanisms.statistics.designs.cox_regression import CoxRegression
from mechanisms.statistics.designs.multinomial_regression import MultinomialRegression
from mechanisms.statistics.designs.poisson_regression import PoissonRegression
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.quantile_regression import QuantileRegression

__all__ = ["THEOREM", "calibrate"]

calibrate = by_statistic(
    "objective_perturbation",
    {
        LinearRegression: calibrate_linear,
        LogisticRegression: calibrate_logistic,
        QuantileRegression: calibrate_quantile_regression,
        MultinomialRegression: calibrate_multinomial,
        PoissonRegression: calibrate_poisson,
        CoxRegression: calibrate_cox,
    },
)
