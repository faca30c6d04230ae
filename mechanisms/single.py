"""One statistic with one mechanism: the table of mechanisms, and how a request gets its plan.

Adding a mechanism is one line in :data:`SINGLE_MECHANISMS`. A release of several statistics
composes these plans (:mod:`mechanisms.composition`), so composition is not in the table;
:mod:`mechanisms.catalog` lists both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

from mechanisms import exponential, functional, gaussian, kng, knorm, margins, perturbation
from mechanisms.available import parts_by_column, plan_by_column
from mechanisms.clipping import plan_clipped
from mechanisms.contract import (
    Calibrate,
    Data,
    Drawing,
    InvalidStatisticError,
    Noise,
    Outcome,
    Parameters,
    Plan,
    Statistic,
)
from mechanisms.domain import Schema
from mechanisms.filtered import plan_filtered
from mechanisms.grouped import plan_grouped
from mechanisms.inference.bought import WithInference, require_offered, why_none
from mechanisms.inference.design import is_designed
from mechanisms.people import plan_for_people
from mechanisms.perturbation.choice import Chosen
from mechanisms.privacy import PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.statistics.facts.clipping import clip_of, suggestions
from mechanisms.statistics.facts.readings import Released, Sourced
from mechanisms.statistics.questions import Question, check_asked, viewed


class MechanismModule(Protocol):
    """The interface of a mechanism's module."""

    THEOREM: str

    @property
    def calibrate(self) -> Calibrate:
        """Plans one release; see :func:`mechanisms.contract.by_statistic`."""


@runtime_checkable
class InfersParts(Protocol):
    """A mechanism that buys standard errors part by part."""

    def inferring(self, share: Fraction, /) -> Calibrate:
        """Return what plans with standard errors, at this share of each part's epsilon."""


SINGLE_MECHANISMS: dict[str, MechanismModule] = {
    "k_norm": knorm,
    "kng": kng,
    "exponential": exponential,
    "objective_perturbation": perturbation,
    "functional": functional,
    "margins": margins,
    "gaussian": gaussian,
}

IN_ZCDP = "gaussian"
"""The mechanism of accounts in zCDP alone: its draws are not pure epsilon-DP."""


def calibrate_by(
    mechanisms: Mapping[str, MechanismModule],
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str,
    norm: str,
    inference: Fraction | None = None,
) -> Plan:
    """Return the plan of a release by one of these mechanisms: see ``catalog.calibrate``."""
    if inference is not None:
        require_offered(statistic, schema)
    plan = _calibrated(
        mechanisms, statistic, schema, epsilon, mechanism=mechanism, norm=norm, inference=inference
    )
    why = why_none(statistic, schema) if inference is None else ""
    return replace(plan, details={**plan.details, "no_inference": why}) if why else plan


def _calibrated(
    mechanisms: Mapping[str, MechanismModule],
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str,
    norm: str,
    inference: Fraction | None,
) -> Plan:
    offered = statistic.mechanisms
    if isinstance(statistic, Sourced):
        return _plan_source(
            mechanisms, statistic, schema, epsilon, mechanism=mechanism, norm=norm,
            inference=inference,
        )  # fmt: skip
    if mechanism not in ("auto", *offered):
        names = ", ".join(offered)
        raise InvalidStatisticError(
            f"{statistic.kind} is released by {names}", field_name="mechanism"
        )

    if mechanism == IN_ZCDP and not schema.zcdp:
        other = next(iter(offered))
        raise InvalidStatisticError(
            "gaussian is offered in accounts that have a delta, and this one has none: ask for "
            f'{other}, or leave it to "auto"',
            field_name="mechanism",
        )

    def calibrate_with(name: str) -> Calibrate:
        module = mechanisms[name]
        if inference is None or statistic.has_inference:
            return module.calibrate
        if isinstance(module, InfersParts):
            return module.inferring(inference)
        return WithInference(module.calibrate, inference)

    if mechanism == "auto" and statistic.chosen_by_error:
        calibrate: Calibrate = Chosen(
            {name: calibrate_with(name) for name in offered if name != IN_ZCDP or schema.zcdp},
            inferring=inference is not None,
        )
    elif mechanism == "auto" and inference is None and schema.zcdp and IN_ZCDP in offered:
        calibrate = gaussian.calibrate_best
    elif mechanism == "auto" and inference and schema.zcdp and is_designed(statistic, schema):
        # its noise by R replicates is sqrt(R) times as large, and that of the norms R times
        calibrate = WithInference(gaussian.calibrate_best, inference)
    else:
        calibrate = calibrate_with(next(iter(offered)) if mechanism == "auto" else mechanism)
    plan = partial(_plan_of_rows, calibrate)
    return plan_for_people(plan, statistic, schema, epsilon, norm)


# A question that is read off the answer to another whole question


def _plan_source(
    mechanisms: Mapping[str, MechanismModule],
    statistic: Statistic,
    schema: Schema,
    epsilon: PrivacyLoss,
    *,
    mechanism: str,
    norm: str,
    inference: Fraction | None,
) -> Plan:
    """Return the plan of a question that is read off another one's answer: the other one's plan."""
    asked = viewed(statistic, schema)
    check_asked(asked.statistic, asked.view.schema)
    sourced = cast(Sourced, statistic)
    if mechanism not in ("auto", *statistic.mechanisms):
        names = ", ".join(statistic.mechanisms)
        raise InvalidStatisticError(
            f"{statistic.kind} is released by {names}", field_name="mechanism"
        )
    norms = {each for name in statistic.mechanisms for each in statistic.mechanisms[name]}
    if norm not in ("auto", *norms):
        raise InvalidStatisticError(f"{statistic.kind} has no norm to choose", field_name="norm")
    source = sourced.source_question(schema)
    own = sourced.inference_share(schema)
    if mechanism == "auto" and IN_ZCDP not in statistic.mechanisms:
        # what it is read off must have the law that the reading knows
        mechanism = next(iter(statistic.mechanisms))
    try:
        plan = _calibrated(
            mechanisms,
            source,
            schema,
            epsilon,
            mechanism=mechanism,
            norm=norm,
            # where its intervals cost nothing, a share changes nothing
            inference=own if own is None or inference is None else inference,
        )
    except InvalidStatisticError as error:
        raise InvalidStatisticError(error.detail, field_name=_own(error.field_name)) from None
    alone = {"mechanism": plan.mechanism, "norm": plan.norm}
    parts = cast(Sequence[Mapping[str, Any]], plan.details.get("parts", (alone,)))
    return replace(
        plan,
        statistic=statistic,
        parameters=ReadOffWhole(
            plan.parameters,
            epsilon,
            mechanisms=tuple(part["mechanism"] for part in parts),
            norms=tuple(part["norm"] for part in parts),
        ),
        grid={"read_off": plan.grid},
        expected_ms=plan.expected_ms + sourced.reading_ms(schema),
        details={
            **plan.details,
            "noise": sourced.noise_in_words,
            **({"estimates": said} if (said := sourced.estimated(schema)) else {}),
        },
    )


def _own(place: str) -> str:
    """Return the field that a field of a part of the source follows from."""
    found = _PART.fullmatch(place)
    if found is None:
        return place
    return "shares" if found[1] == "share" else found[1]


_PART = re.compile(r"parts\[\d+\]\.(?:statistic\.)?(.+)")


@dataclass(frozen=True, slots=True)
class ReadOffWhole:
    """The parameters of a question that is read off the answer to another whole question.

    ``epsilon``, and ``mechanisms`` and ``norms``, of each part where the other one is a stack, are
    those of the other one, by which the law of its noise is known.

    **Privacy.** A function of a released answer keeps its guarantee, whatever the adjacency (Awan &
    Slavkovic, Proposition 2.11).
    """

    source: Parameters
    epsilon: PrivacyLoss
    mechanisms: tuple[str, ...]
    norms: tuple[str | None, ...]

    def drawing(self, statistic: Any, schema: Schema) -> Drawing:
        """Return a drawing that draws the other question, and reads this one off its answer."""
        source = statistic.source_question(schema)
        drawn = self.source.drawing(source, schema)

        parts = zip(self.mechanisms, self.norms, strict=True)
        planned = Released(
            statistic=source,
            mechanism=self.mechanisms[0],
            norm=self.norms[0],
            epsilon=self.epsilon,
            value={},
            noise=None,
            details={
                "parts": [
                    {"mechanism": mechanism, "norm": norm, "details": {}}
                    for mechanism, norm in parts
                ]
            },
        )

        def draw(data: Data, randomness: Randomness) -> Outcome:
            answer = drawn.draw(data, randomness)
            released = replace(
                planned, value=answer.value, noise=answer.noise, inference=answer.inference
            )
            outcome: Outcome = statistic.read(released, schema)
            return outcome

        def preview(rows: int | None) -> Noise | None:
            found: Noise | None = statistic.read_noise(
                replace(planned, noise=drawn.preview(rows)), schema, rows
            )
            return found

        return Drawing(draw=draw, preview=preview)


# A question by one mechanism


def _plan_of_rows(
    calibrate: Calibrate, statistic: Statistic, schema: Schema, epsilon: PrivacyLoss, norm: str
) -> Plan:
    """Return the plan for people of one row each, with the columns that the question makes."""
    parts = parts_by_column(statistic, schema)
    if len(parts) > 1:
        return plan_by_column(partial(_plan_of_rows, calibrate), statistic, schema, epsilon, norm)
    (asked_of,) = parts
    asked = viewed(asked_of, schema)
    if clip_of(asked.statistic) != "none":
        calibrate = partial(plan_clipped, calibrate)
    planner = _planner(asked.statistic, calibrate)
    plan = planner(asked.statistic, asked.view.schema, epsilon, norm)
    details = plan.details
    own = cast(Sequence[str], details.get("warnings", ()))
    warnings = [*own, *suggestions(asked.statistic, asked.view.schema)]
    if isinstance(asked.statistic, Question) and not asked.statistic.is_of_all_rows:
        warnings += asked.statistic.warnings(asked.view.schema)
    if warnings:
        details = {**details, "warnings": warnings}
    return replace(
        plan,
        statistic=statistic,
        schema=schema,
        parameters=OfRows(plan.parameters),
        expected_ms=plan.expected_ms + asked.view.expected_ms,
        details={**details, **asked.facts},
    )


@dataclass(frozen=True, slots=True)
class OfRows:
    """The parameters of a question about rows: those for plain columns of its view."""

    viewed: Parameters

    def drawing(self, statistic: Statistic, schema: Schema) -> Drawing:
        """Return a drawing from the data set's own rows."""
        (statistic,) = parts_by_column(statistic, schema)
        asked = viewed(statistic, schema)
        return asked.view.drawing(self.viewed.drawing(asked.statistic, asked.view.schema))


def _planner(statistic: Statistic, calibrate: Calibrate) -> Calibrate:
    """Return how a mechanism plans a statistic of the rows that are asked about."""
    if not isinstance(statistic, Question) or statistic.is_of_all_rows:
        return calibrate
    return partial(plan_grouped if statistic.by else plan_filtered, calibrate)
