"""Everything on offer: statistics, mechanisms, and how a request finds its plan.

Adding a statistic is one line in :data:`STATISTICS`, adding a mechanism one
line in :data:`MECHANISMS`. Which mechanism releases which statistic, by which
norms, is said by the statistic itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Protocol

from mechanisms import composition, exponential, functional, kng, knorm
from mechanisms.contract import InvalidStatisticError, Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.perturbation import plan as objective_perturbation
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.statistics.correlation import Correlation
from mechanisms.statistics.count import Count
from mechanisms.statistics.covariance import Covariance
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.logistic_regression import LogisticRegression
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.moments import Moments
from mechanisms.statistics.quantile import Quantile
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.statistics.stack import Stack
from mechanisms.statistics.total import Sum
from mechanisms.statistics.variance import Variance


class MechanismModule(Protocol):
    """What a mechanism's module exposes."""

    THEOREM: str

    def calibrate(
        self, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str
    ) -> Plan:
        """Return the plan of one release."""


STATISTICS: dict[str, type[Statistic]] = {
    "count": Count,
    "histogram": Histogram,
    "sum": Sum,
    "mean": Mean,
    "variance": Variance,
    "moments": Moments,
    "covariance": Covariance,
    "correlation": Correlation,
    "quantile": Quantile,
    "linear_regression": LinearRegression,
    "logistic_regression": LogisticRegression,
    "quantile_regression": QuantileRegression,
    "geometric_median": GeometricMedian,
    "stack": Stack,
}

MECHANISMS: dict[str, MechanismModule] = {
    "k_norm": knorm,
    "kng": kng,
    "exponential": exponential,
    "objective_perturbation": objective_perturbation,
    "functional": functional,
    "composition": composition,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A field of a statistic: whether it must be given, its default if not, what it means."""

    name: str
    required: bool
    default: object
    meaning: str
    example: object


@dataclass(frozen=True, slots=True)
class Offer:
    """A statistic by a mechanism: norms, parameters, theorem, limits. JSON-ready.

    ``advice`` says when this mechanism, or which of its norms, serves better; None where
    the statistic has one mechanism only. ``example`` is a whole question.
    """

    statistic: str
    mechanism: str
    default: bool
    norms: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    adjacencies: tuple[str, ...]
    summary: str
    theorem: str
    limits: Mapping[str, int]
    advice: str | None
    example: Mapping[str, object]


def calibrate(
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str = "auto",
    norm: str = "auto",
) -> Plan:
    """Return the plan of a release: public facts alone decide it.

    Parameters
    ----------
    mechanism : str
        One the statistic offers, or "auto" for its first.
    norm : str
        One the mechanism offers for it, or "auto".

    Raises
    ------
    InvalidStatisticError
        The question does not fit the schema, or asks for what is not on offer;
        the message names what is.
    """
    offered = statistic.mechanisms
    chosen = next(iter(offered)) if mechanism == "auto" else mechanism
    if chosen not in offered:
        raise InvalidStatisticError(
            f"{statistic.kind} is released by {', '.join(offered)}", field_name="mechanism"
        )
    norms = offered[chosen]
    if norm not in ("auto", *norms):
        listed = f"offers the norms {', '.join(norms)}" if norms else "has no norm to choose"
        raise InvalidStatisticError(
            f"{statistic.kind} by {chosen} {listed}",
            field_name="norm",
        )
    statistic.check(schema)
    return MECHANISMS[chosen].calibrate(statistic, schema, epsilon, norm)


def offers() -> list[Offer]:
    """Return everything on offer, in the order of the catalog."""
    return [
        _offer(kind, statistic, mechanism, norms)
        for kind, statistic in STATISTICS.items()
        for mechanism, norms in statistic.mechanisms.items()
    ]


def _offer(kind: str, statistic: type[Statistic], mechanism: str, norms: tuple[str, ...]) -> Offer:
    return Offer(
        statistic=kind,
        mechanism=mechanism,
        default=mechanism == next(iter(statistic.mechanisms)),
        norms=norms,
        parameters=tuple(
            _parameter(entry, statistic.example)
            for entry in fields(statistic)  # type: ignore[arg-type]
            if entry.name != "kind"
        ),
        adjacencies=tuple(adjacency.value for adjacency in Adjacency),
        summary=(statistic.__doc__ or "").strip().splitlines()[0],
        theorem=MECHANISMS[mechanism].THEOREM,
        limits=getattr(statistic, "limits", {}),
        advice=getattr(statistic, "advice", {}).get(mechanism),
        example=statistic.example,
    )


def _parameter(entry: Field[object], example: Mapping[str, object]) -> Parameter:
    default = None if entry.default is MISSING else entry.default
    if entry.default_factory is not MISSING:
        default = entry.default_factory()
    [own] = entry.metadata.get("examples", [None])
    return Parameter(
        name=entry.name,
        required=entry.default is MISSING and entry.default_factory is MISSING,
        default=default,
        meaning=entry.metadata["description"],
        example=example.get(entry.name, own),
    )
