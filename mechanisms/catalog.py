"""All offered statistics and mechanisms, and how a request gets its plan.

Each statistic states which mechanisms release it, and with which norms. The tables are
:mod:`mechanisms.statistics.registry` and :mod:`mechanisms.single`; this module adds the stack and
its composition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from fractions import Fraction
from typing import cast

from mechanisms import composition
from mechanisms.contract import Plan, Statistic
from mechanisms.domain import Schema
from mechanisms.foresight.choice import choose
from mechanisms.privacy import MOST_ROWS_OF_ONE, Adjacency, PrivacyLoss
from mechanisms.single import SINGLE_MECHANISMS, MechanismModule, calibrate_by
from mechanisms.statistics.questions import Question
from mechanisms.statistics.registry import SINGLE_STATISTICS
from mechanisms.statistics.stack import MechanismName, Stack

STATISTICS: dict[str, type[Statistic]] = {**SINGLE_STATISTICS, "stack": Stack}

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
    """

    statistic: str
    mechanism: str
    default: bool
    norms: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    adjacencies: tuple[str, ...]
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
        One the statistic offers, or "auto": for a linear regression the one that a public
        simulation of errors chooses (:mod:`mechanisms.foresight.choice`), else the first.
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
    choice = None
    if mechanism == "auto":
        choice = choose(statistic, schema, epsilon, norm=norm, inference=inference)
    plan = calibrate_by(
        MECHANISMS,
        statistic,
        schema,
        epsilon,
        mechanism=mechanism if choice is None else choice.mechanism,
        norm=norm,
        inference=inference,
    )
    return plan if choice is None else choice.explained(plan)


def settled(statistic: Statistic, mechanism: str) -> tuple[Statistic, str]:
    """Return a question with the mechanism that ``auto`` stands for where no simulation chooses it.

    It is then the first that the statistic offers.
    """
    if isinstance(statistic, Stack):
        parts = []
        for part in statistic.parts:
            alone, name = settled(part.statistic, part.mechanism)
            parts.append(replace(part, statistic=alone, mechanism=cast(MechanismName, name)))
        statistic = replace(statistic, parts=tuple(parts))
    if mechanism == "auto" and not statistic.chosen_by_simulation:
        mechanism = next(iter(statistic.mechanisms))
    return statistic, mechanism


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
            for entry in _own_first(statistic)
            if entry.name != "kind"
        ),
        adjacencies=tuple(adjacency.value for adjacency in Adjacency),
        rows_per_person=MOST_ROWS_OF_ONE,
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
