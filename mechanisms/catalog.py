"""All offered statistics and mechanisms, and how a request gets its plan.

Each statistic states which mechanisms release it, and with which norms. The tables are
:mod:`mechanisms.statistics.registry` and :mod:`mechanisms.single`; this module adds the stack and
its composition.

*A plan as JSON* is written once, when it is charged, and read where it is drawn. A draw is by the
parameters that are written, whatever this version would calibrate. The question and the public
facts are not written with them: the reader of a plan has both, and
:class:`~mechanisms.contract.Parameters` makes of them what follows from them.

*Earlier forms.* :data:`FORM` counts the forms of a plan. It is raised with every change of what
parameters mean for a draw, or of what a draw makes of question and facts (sensitivities, the order
of sums), and not for other parameters. ``tests/mechanisms/test_plans.py`` then fails, as stored
ones draw otherwise. A plan of another form is refused: it might have less noise than it promises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from mechanisms import composition
from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.analysis.pca import PrincipalComponents
from mechanisms.analysis.summary import Summary
from mechanisms.available import ByColumn
from mechanisms.clipping import PrivateClip, StatedClip
from mechanisms.composition import Stacked
from mechanisms.contract import Parameters, Plan, ReadOff, Statistic
from mechanisms.domain import Schema
from mechanisms.exponential import linear as exponential_linear
from mechanisms.exponential.quantile import FlipRates
from mechanisms.exponential.quantile_regression import WideParameters
from mechanisms.filtered import Filtered
from mechanisms.functional.linear import SanitizedMoments
from mechanisms.gaussian.noise import AddedGaussian, SanitizedGaussian
from mechanisms.grouped import CellsInGroups, CountsInGroups, Grouped, SumsInGroups
from mechanisms.inference.bought import (
    CountedNeighbours,
    KnownNeighbours,
    WithCurvature,
    WithNeighbours,
)
from mechanisms.inference.design import WithDesign
from mechanisms.inference.moments import OfMoments, ReadOffMoments
from mechanisms.kng import linear as kng_linear
from mechanisms.kng.geometric_median import MedianParameters
from mechanisms.kng.quantile import JointRate, LevelRates
from mechanisms.kng.quantile_regression import NarrowParameters
from mechanisms.knorm import AddedNoise, ReadCounts
from mechanisms.margins.ranges import RangeNoise
from mechanisms.margins.release import MarginNoise
from mechanisms.perturbation.likelihoods import (
    PerturbedCox,
    PerturbedLogistic,
    PerturbedMultinomial,
    PerturbedPoisson,
    PerturbedQuantileRegression,
)
from mechanisms.perturbation.linear import PerturbedLinear
from mechanisms.privacy import (
    Adjacency,
    Epsilon,
    EpsilonShare,
    Guarantee,
    PrivacyLoss,
)
from mechanisms.single import (
    IN_ZCDP,
    SINGLE_MECHANISMS,
    MechanismModule,
    OfRows,
    ReadOffWhole,
    calibrate_by,
)
from mechanisms.statistics.questions import Question
from mechanisms.statistics.registry import SINGLE_STATISTICS
from mechanisms.statistics.stack import MechanismName, Stack

STATISTICS: dict[str, type[Statistic]] = {
    **SINGLE_STATISTICS,
    "stack": Stack,
    "summary": Summary,
    "test": HypothesisTest,
    "pca": PrincipalComponents,
}

MECHANISMS: dict[str, MechanismModule] = {**SINGLE_MECHANISMS, "composition": composition}


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
    the statistic has one mechanism only. ``example`` is a whole question. ``rows_per_person`` is
    how many rows one person may have under add-remove, each planned for at its part of epsilon.
    ``accounting`` is how an account may be kept that this is offered for.
    """

    statistic: str
    mechanism: str
    default: bool
    norms: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    adjacencies: tuple[str, ...]
    accounting: tuple[str, ...]
    rows_per_person: int
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
    inference: Fraction | None = None,
) -> Plan:
    """Return the plan of a release: public facts alone decide it.

    Parameters
    ----------
    mechanism : str
        One the statistic offers, or "auto": for a linear regression the one of least regret
        (:mod:`mechanisms.perturbation.choice`); where it offers ``gaussian`` and the account is
        kept in zCDP, the one of the smaller variance (:mod:`mechanisms.gaussian`); else the first.
    norm : str
        One the mechanism offers for it, or "auto".
    inference : Fraction
        What share of epsilon a regression's standard errors may cost; None for none of either.

    Raises
    ------
    InvalidStatisticError
        The question does not fit the schema, or asks for what is not on offer;
        the message names what is.
    """
    return calibrate_by(
        MECHANISMS,
        statistic,
        schema,
        epsilon,
        mechanism=mechanism,
        norm=norm,
        inference=inference,
    )


def settled(statistic: Statistic, mechanism: str, *, zcdp: bool) -> tuple[Statistic, str]:
    """Return a question with the mechanism that ``auto`` stands for where no error decides it.

    It is then the first that the statistic offers. ``zcdp`` says that the account is kept in zCDP,
    where variances decide whether noise is ``gaussian``.
    """
    if isinstance(statistic, Stack):
        parts = []
        for part in statistic.parts:
            alone, name = settled(part.statistic, part.mechanism, zcdp=zcdp)
            parts.append(replace(part, statistic=alone, mechanism=cast(MechanismName, name)))
        statistic = replace(statistic, parts=tuple(parts))
    compared = statistic.chosen_by_error or (zcdp and IN_ZCDP in statistic.mechanisms)
    if mechanism == "auto" and not compared:
        mechanism = next(iter(statistic.mechanisms))
    return statistic, mechanism


@cache
def offers() -> Sequence[Offer]:
    """Return everything on offer, in the order of the catalog; a form reads it many times."""
    return tuple(
        _offer(kind, statistic, mechanism, norms)
        for kind, statistic in STATISTICS.items()
        for mechanism, norms in statistic.mechanisms.items()
    )


def _offer(kind: str, statistic: type[Statistic], mechanism: str, norms: tuple[str, ...]) -> Offer:
    return Offer(
        statistic=kind,
        mechanism=mechanism,
        default=mechanism == next(iter(statistic.mechanisms)),
        norms=norms,
        parameters=tuple(
            _parameter(entry, statistic.example)
            for entry in _own_first(statistic)
            if entry.name != "kind"
        ),
        adjacencies=tuple(adjacency.value for adjacency in Adjacency),
        accounting=("zcdp",) if mechanism == IN_ZCDP else ("pure", "zcdp"),
        rows_per_person=statistic.most_rows_per_person,
        summary=(statistic.__doc__ or "").strip().splitlines()[0],
        theorem=MECHANISMS[mechanism].THEOREM,
        limits=statistic.limits,
        advice=statistic.advice.get(mechanism),
        example=statistic.example,
    )


def _own_first(statistic: type[Statistic]) -> list[Field[object]]:
    """Return a statistic's fields: its own, then those that all questions have."""
    shared = {entry.name for entry in fields(Question)}
    every: list[Field[object]] = list(fields(statistic))  # type: ignore[arg-type]
    return sorted(every, key=lambda entry: entry.name in shared)


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


# A plan as JSON

FORM = 7


class PlanChangedError(Exception):
    """A release would be drawn otherwise than it was charged for, so it is not drawn."""


PARAMETERS: Mapping[str, type[Any]] = {
    "k_norm": AddedNoise,
    "k_norm/read": ReadCounts,
    "gaussian": AddedGaussian,
    "gaussian/linear_regression": SanitizedGaussian,
    "kng/quantile/joint": JointRate,
    "kng/quantile/each": LevelRates,
    "kng/linear_regression": kng_linear.LinearParameters,
    "kng/quantile_regression": NarrowParameters,
    "kng/geometric_median": MedianParameters,
    "exponential/quantile": FlipRates,
    "exponential/linear_regression": exponential_linear.LinearParameters,
    "exponential/quantile_regression": WideParameters,
    "objective_perturbation/linear_regression": PerturbedLinear,
    "objective_perturbation/logistic_regression": PerturbedLogistic,
    "objective_perturbation/quantile_regression": PerturbedQuantileRegression,
    "objective_perturbation/multinomial_regression": PerturbedMultinomial,
    "objective_perturbation/poisson_regression": PerturbedPoisson,
    "objective_perturbation/cox_regression": PerturbedCox,
    "functional/linear_regression": SanitizedMoments,
    "functional/moments": OfMoments,
    "margins": MarginNoise,
    "ranges": RangeNoise,
    "composition": Stacked,
    "rows": OfRows,
    "where": Filtered,
    "by": Grouped,
    "by/sums": SumsInGroups,
    "by/cells": CellsInGroups,
    "by/read": CountsInGroups,
    "by_column": ByColumn,
    "read_off": ReadOff,
    "read_off/whole": ReadOffWhole,
    "clip/private": PrivateClip,
    "clip/stated": StatedClip,
    "inference/moments": ReadOffMoments,
    "inference/curvature": WithCurvature,
    "inference/design": WithDesign,
    "inference/neighbours": WithNeighbours,
    "inference/neighbours/known": KnownNeighbours,
    "inference/neighbours/counted": CountedNeighbours,
}
"""What draws, by the name it has in a written plan: a mechanism's own, or how parts are joined."""

_NAMES = {kind: name for name, kind in PARAMETERS.items()}
_BY = "by"
_ASKED = ("statistic", "schema")


def written_plan(plan: Plan) -> dict[str, object]:
    """Return a plan as JSON-ready fields, its question and the public facts left out."""
    own = {each.name: getattr(plan, each.name) for each in fields(plan)}
    return {"form": FORM} | {name: _json(own[name]) for name in own if name not in _ASKED}


def read_plan(kept: Mapping[str, Any], statistic: Statistic, schema: Schema) -> Plan:
    """Return the plan that :func:`written_plan` wrote, for the question and facts it was made for.

    Raises
    ------
    PlanChangedError
        It has another form, or is not of this question.
    """
    try:
        if kept["form"] != FORM:
            raise PlanChangedError
        given = _fields(Plan, kept, but=_ASKED)
        plan = Plan(statistic=statistic, schema=schema, **given)
        _ = plan.drawing  # what does not fit the question is refused before it is drawn
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        raise PlanChangedError from None
    return plan


def written_guarantee(kept: Mapping[str, Any]) -> Guarantee:
    """Return what a written plan guarantees."""
    found: Guarantee = _value(Guarantee, kept["guarantee"])
    return found


def _json(value: Any) -> object:
    """Return a value as JSON has it: an exact number as its text."""
    kind = type(value)
    if isinstance(value, Fraction | Epsilon | EpsilonShare):
        return str(value)
    if is_dataclass(kind):
        named = {_BY: _NAMES[kind]} if kind in _NAMES else {}
        return named | {each.name: _json(getattr(value, each.name)) for each in fields(kind)}
    return [_json(each) for each in value] if isinstance(value, tuple) else value


def _value(kind: Any, kept: Any) -> Any:
    """Return a value of this kind as JSON has it; of several kinds, the first that it is of."""
    if get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            with suppress(ValueError, TypeError, KeyError):
                return _value(each, kept)
        raise TypeError("a value is of none of its kinds")
    if get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], each) for each in kept)
    if isinstance(kept, str) and kind in _READ:
        return _READ[kind](kept)
    if kind is Parameters or is_dataclass(kind):
        made: Any = PARAMETERS[kept[_BY]] if _BY in kept else kind
        if kind is not Parameters and made is not kind:
            raise TypeError("these are parameters of another kind")
        return made(**_fields(made, kept))
    allowed = get_args(kind) if get_origin(kind) is Literal else (kept,)
    if kept not in allowed or not isinstance(kept, _PLAIN.get(kind, object)):
        raise TypeError("a value is of another kind")
    return kept


_READ: Mapping[Any, Callable[[str], object]] = {
    Fraction: Fraction,
    Epsilon: Epsilon.parse,
    Adjacency: Adjacency,
}
_PLAIN: Mapping[Any, Any] = {
    str: str,
    int: int,
    float: int | float,
    bool: bool,
    NoneType: NoneType,
    Fraction: Fraction,
    Epsilon: Epsilon,
    EpsilonShare: EpsilonShare,
    Adjacency: Adjacency,
}


def _fields(made: type, kept: Mapping[str, Any], *, but: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass; one that is not there has its default, if it has one."""
    kinds = _kinds(made)
    return {
        each.name: _value(kinds[each.name], kept[each.name])
        for each in fields(made)
        if each.name not in but and (each.name in kept or not _has_default(each))
    }


@cache
def _kinds(made: type) -> dict[str, Any]:
    return get_type_hints(made)


def _has_default(entry: Field[Any]) -> bool:
    return entry.default is not MISSING or entry.default_factory is not MISSING
