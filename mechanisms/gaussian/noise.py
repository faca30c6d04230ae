r"""Discrete Gaussian noise on additive statistics, for accounts kept in zCDP.

    release T(X) + V,   P(V = v) ∝ exp(-||v||_2**2 / (2 sigma**2)),   v in Z^m,
    sigma**2 = (Delta_2 / epsilon)**2,

with T an exact integer vector, Delta_2 its exact or certified sensitivity in the l2 norm, in
lattice units, and sigma**2 an exact rational.

**Privacy.** Between neighbours T changes by u with ``||u||_2 <= Delta_2``. The coordinates of V are
independent, so the release is rho-zCDP (:mod:`mechanisms.samplers.knorm`) with

    rho = Delta_2**2 / (2 sigma**2) = epsilon**2 / 2.

That is what an epsilon-DP draw costs an account in zCDP (Bun & Steinke 2016, Proposition 1.4), so
both are compared at the same charge. The release is epsilon'-DP for no epsilon': its loss is not
bounded. *Delta_2* is that of the adjacent output space of the K-norm mechanism, whose modules prove
it for replace-one, add-remove, and for a record that may be replaced, added or removed, where
conditions make the number of records private:

- sums and means of m columns (:mod:`mechanisms.geometry.spaces`, :mod:`mechanisms.statistics.mean`,
  :mod:`mechanisms.statistics.total`): ``sqrt(m)`` times the largest change of one;
- counts and histograms (:mod:`mechanisms.statistics.histogram`): 1 where a record comes or goes,
  ``sqrt(2)`` where it moves from one cell to another;
- moments (:mod:`mechanisms.statistics.second_order`).

*Groups, several rows of a person, stacks* take a draw's rho as they find it:
:mod:`mechanisms.grouped`, :mod:`mechanisms.people`, :mod:`mechanisms.composition`. The arguments
there are about any rho-zCDP draw.

*Variance.* In every direction it is ``Delta_2**2 / epsilon**2``. With the l_p balls at the same
charge it is at least twice that (on fine lattices), in every coordinate: under l1
``2 Delta_1**2 / epsilon**2``, and ``Delta_1 >= Delta_2``; under l2
``(m + 1) Delta_2**2 / epsilon**2``, m > 1; under linf
``(m + 1)(m + 2) / 3 Delta_inf**2 / epsilon**2``, where ``m Delta_inf**2 >= Delta_2**2`` and
``(m + 1)(m + 2) >= 6 m``. With the hull of moments of 5, 10 and 20 columns the standard deviation
is 2.4, 4.8 and 8.8 times as large. The hull of a histogram of two cells, whose sum is public, has
about the same variance as this noise: so :func:`best_form` compares.

*Linear regression* (:mod:`mechanisms.functional`) is least squares of moments with this noise: a
function of them, so it costs what they do. ``Delta_2`` is that of its moments, by cells too; a
record that counts by a weight is one that comes or goes.

*Grid.* The noise is whole in lattice units of the statistic: for sums 2**-34 of a column's width or
less, for counts one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from statistics import fmean

import numpy as np
from scipy.special import ndtri

from mechanisms.contract import (
    Alternative,
    Drawing,
    InvalidStatisticError,
    Plan,
    Statistic,
    require_valid,
)
from mechanisms.domain import Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.linear import plan_sanitized, rule_of, sanitized_draw, space_of
from mechanisms.functional.sanitized import Rule
from mechanisms.geometry.advisor import advise
from mechanisms.geometry.laws import discrete_gaussian_law, hashed_uniforms
from mechanisms.geometry.smooth import NoiseLaw
from mechanisms.geometry.spaces import AdjacentOutputSpace, upper_root
from mechanisms.knorm import (
    AdditiveNoise,
    drawing_with,
    expected_ms,
    integer_noise,
    spread_of,
)
from mechanisms.knorm import plan_form as plan_by_norm
from mechanisms.privacy import ZCDP, Guarantee, PrivacyLoss, pure_rho
from mechanisms.randomness import Randomness
from mechanisms.samplers.knorm import draw_discrete_gaussian
from mechanisms.statistics.additive import AdditiveForm, AdditiveStatistic
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.words import rounded

NOISE = (
    "discrete Gaussian, its law known exactly; sampling error is not in it; an interval holds 95% "
    "(on whole numbers at least that; 94% to 96% where a number combines several coordinates)"
)
THEOREM = "Canonne, Kamath & Steinke 2020, Theorem 4 (discrete Gaussian)"
_MECHANISM = "gaussian"


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Independent discrete Gaussian noise of one variance parameter on every coordinate.

    Attributes
    ----------
    dimension
        m.
    variance
        ``sigma**2``, in lattice units of the statistic.
    """

    dimension: int
    variance: Fraction

    @classmethod
    def calibrated(cls, space: AdjacentOutputSpace, epsilon: Fraction) -> GaussianNoise:
        """Return noise that costs ``epsilon**2 / 2`` in zCDP on a statistic with this space."""
        return cls(space.dimension, space.l2_squared * space.unit**2 / epsilon**2)

    @property
    def refinement(self) -> int:
        """Return 1: the noise is whole in lattice units of the statistic."""
        return 1

    @property
    def uncorrelated(self) -> bool:
        """Return True."""
        return True

    @property
    def unit_rate(self) -> Fraction:
        """Return ``1 / sigma``, rounded down where that is a root."""
        return 1 / upper_root(self.variance)

    def describe(self) -> tuple[Sequence[NoiseLaw], Fraction]:
        """Return each coordinate's law, in lattice units of the statistic."""
        return [discrete_gaussian_law(float(self.variance))] * self.dimension, Fraction(1)

    def correlation(self, _one: int, _other: int) -> float:
        """Return 0, of two different coordinates."""
        return 0.0

    def simulate(self, count: int, *, seed: bytes) -> Floats:
        """Return simulated vectors at sigma = 1, shape (count, m); they are never released."""
        uniforms = hashed_uniforms(seed, count * self.dimension)
        return np.asarray(ndtri(uniforms).reshape(count, self.dimension), dtype=np.float64)

    def draw(self, randomness: Randomness) -> list[int]:
        """Return one draw, in lattice units of the statistic."""
        return draw_discrete_gaussian(randomness, self.dimension, self.variance)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedGaussian:
    """The parameter of an additive release: the variance of :class:`GaussianNoise`."""

    variance: Fraction

    def drawing(self, statistic: AdditiveStatistic, schema: Schema) -> Drawing:
        """Return how the statistic is drawn."""
        return self.drawing_of(statistic.additive(schema))

    def on(self, space: AdjacentOutputSpace) -> GaussianNoise:
        """Return the noise, on the space it was calibrated for."""
        return GaussianNoise(space.dimension, self.variance)

    def drawing_of(self, form: AdditiveForm) -> Drawing:
        """Return how an additive form is drawn."""
        return drawing_with(form, self.on(form.space))


def plan_form(
    statistic: Statistic, form: AdditiveForm, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a statistic with this form; there is no norm to choose.

    Notes
    -----
    **Privacy.** rho-zCDP with ``rho = epsilon**2 / 2`` under the schema's adjacency, see above.
    Under add-remove nothing but the drawn coordinates depends on the row count.
    """
    if norm != "auto":
        raise InvalidStatisticError("gaussian has no norm to choose", field_name="norm")
    space = form.space
    noise = GaussianNoise.calibrated(space, epsilon.fraction)
    advised = advise(space).norm
    other = spread_of(form, integer_noise(space, advised, epsilon.fraction))
    return Plan(
        mechanism=_MECHANISM,
        norm=None,
        statistic=statistic,
        schema=schema,
        parameters=AddedGaussian(variance=noise.variance),
        guarantee=guarantee_of(space, schema, epsilon),
        grid=form.grid(Fraction(1)),
        reason="Gaussian noise, charged in rho as an epsilon-DP draw at this epsilon is.",
        expected_ms=expected_ms(form, schema),
        time_depends_on_data=False,
        alternatives=(
            Alternative(
                mechanism="k_norm",
                norm=advised,
                comparison=other.compared_with(spread_of(form, noise)),
                std=other.first,
            ),
        ),
        details={
            "noise": NOISE,
            **form.details,
            "adjacent_output_space": space.description,
        },
    )


# Linear regression from moments with this noise


@dataclass(frozen=True, slots=True)
class SanitizedGaussian:
    """The noise of a regression's moments, and what is computed of them."""

    noise: AddedGaussian
    rule: Rule

    def drawing(self, statistic: LinearRegression, schema: Schema) -> Drawing:
        """Return how the regression is drawn."""
        drawn = sanitized_draw(statistic, schema, self.rule, self.noise.on)
        return Drawing(draw=drawn, preview=drawn.preview)


def plan_regression(
    statistic: LinearRegression, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan of a linear regression from moments with this noise.

    Notes
    -----
    **Privacy.** rho-zCDP with ``rho = epsilon**2 / 2``, as the moments are.

    Raises
    ------
    InvalidStatisticError
        A norm is named, or what the functional mechanism refuses.
    """
    require_valid(statistic, schema, _MECHANISM, norm)
    statistic.require_squared()
    space = space_of(statistic, schema)
    noise = GaussianNoise.calibrated(space, epsilon.fraction)
    advised = advise(space).norm
    times = _typical_std(integer_noise(space, advised, epsilon.fraction)) / _typical_std(noise)
    return plan_sanitized(
        _MECHANISM,
        statistic,
        schema,
        norm=None,
        parameters=SanitizedGaussian(AddedGaussian(variance=noise.variance), rule_of(statistic)),
        noise=noise,
        guarantee=guarantee_of(space, schema, epsilon),
        reason="Gaussian noise, charged in rho as an epsilon-DP draw at this epsilon is.",
        alternatives=(
            Alternative(
                mechanism="functional",
                norm=advised,
                comparison=f"{rounded(float(times))} times the standard deviation of the moments",
            ),
        ),
    )


def _typical_std(noise: AdditiveNoise) -> Fraction:
    """Return the root of the mean variance of all coordinates, in lattice units."""
    laws, unit = noise.describe()
    return Fraction(sqrt(fmean(law.std**2 for law in laws))) * unit


def guarantee_of(space: AdjacentOutputSpace, schema: Schema, epsilon: PrivacyLoss) -> Guarantee:
    """Return the guarantee of this noise on a statistic with this space."""
    return Guarantee(
        epsilon=epsilon,
        adjacency=schema.adjacency,
        sensitivity=space.text("l2"),
        sensitivity_unit=f"{space.unit_name}, in the l2 norm",
        theorem=THEOREM,
        definition=ZCDP,
        rho=pure_rho(epsilon),
    )


def best_form(
    statistic: Statistic, form: AdditiveForm, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan by ``gaussian`` or by ``k_norm``, whichever has the smaller variance.

    Both cost the same. A norm that is named is drawn by ``k_norm``.

    **Privacy.** The choice is a function of the adjacent output space and of epsilon, which are
    public.
    """
    if norm != "auto":
        return plan_by_norm(statistic, form, schema, epsilon, norm)
    space = form.space
    own = spread_of(form, GaussianNoise.calibrated(space, epsilon.fraction))
    other = spread_of(form, integer_noise(space, advise(space).norm, epsilon.fraction))
    if own.typical <= other.typical:
        plan = plan_form(statistic, form, schema, epsilon, norm)
        return replace(plan, reason=f"The smaller variance at the same charge. {plan.reason}")
    plan = plan_by_norm(statistic, form, schema, epsilon, norm)
    gaussian = Alternative(
        mechanism=_MECHANISM, norm=None, comparison=own.compared_with(other), std=own.first
    )
    return replace(
        plan,
        reason=f"The smaller variance at the same charge. {plan.reason}",
        alternatives=(*plan.alternatives, gaussian),
    )


def additive_noise(
    space: AdjacentOutputSpace, mechanism: str, norm: str | None, epsilon: Fraction
) -> AdditiveNoise:
    """Return the noise of a release: the same public facts give the same noise.

    Raises
    ------
    InvalidStatisticError
        The norm cannot be drawn from for this space.
    """
    if mechanism == _MECHANISM:
        return GaussianNoise.calibrated(space, epsilon)
    return integer_noise(space, str(norm), epsilon)
