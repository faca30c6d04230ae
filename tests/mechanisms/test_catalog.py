"""The catalog: requests find their plans, refusals name what is on offer."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Annotated, Any, Union, get_args

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from app.services.plans.questions import statistic_json
from mechanisms.analysis.hypothesis import HypothesisTest
from mechanisms.catalog import MECHANISMS, STATISTICS, calibrate, offers
from mechanisms.contract import InvalidStatisticError
from mechanisms.domain import NumberColumn, Schema
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.statistics.conditions import Condition
from mechanisms.statistics.count import Count
from mechanisms.statistics.histogram import Histogram
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.stack import MechanismName, Part, Stack
from mechanisms.statistics.weights import UNWEIGHTED
from tests.tiers import in_one

SCHEMA = Schema({"x": NumberColumn(Fraction(0), Fraction(1))}, Adjacency.REPLACE_ONE, 10)
MODEL: TypeAdapter[Any] = TypeAdapter(
    Annotated[Union[tuple(STATISTICS.values())], Field(discriminator="kind")]  # noqa: UP007
)


def test_every_statistic_names_its_kind_and_known_mechanisms() -> None:
    for kind, statistic in STATISTICS.items():
        assert statistic.__dataclass_fields__["kind"].default == kind  # type: ignore[attr-defined]
        assert statistic.mechanisms
        assert set(statistic.mechanisms) <= set(MECHANISMS)
    used = {name for statistic in STATISTICS.values() for name in statistic.mechanisms}
    assert used == set(MECHANISMS)
    assert {*get_args(MechanismName), "composition"} == {"auto", *MECHANISMS}, "requests name all"


def test_offers_are_complete_and_json_ready() -> None:
    listed = [asdict(offer) for offer in offers()]
    assert json.loads(json.dumps(listed, allow_nan=False))
    pairs = [(offer["statistic"], offer["mechanism"]) for offer in listed]
    assert len(set(pairs)) == len(pairs)
    assert {kind for kind, _ in pairs} == set(STATISTICS)
    for offer in listed:
        without = ("exponential", "margins", "gaussian", "composition")  # no norm
        read_off = issubclass(STATISTICS[offer["statistic"]], HypothesisTest)
        assert offer["norms"] or offer["mechanism"] in without or read_off
        assert offer["theorem"]
        assert offer["summary"]
        assert all(parameter["name"] != "kind" for parameter in offer["parameters"])
        for parameter in offer["parameters"]:
            assert parameter["meaning"]
            assert parameter["example"] is not None, (offer["statistic"], parameter["name"])
    for kind in STATISTICS:
        several = sum(named == kind for named, _ in pairs) > 1
        for offer in (each for each in listed if each["statistic"] == kind):
            assert (len(offer["advice"] or "") > 20) == several, (kind, offer["mechanism"])
        assert sum(offer["default"] for offer in listed if offer["statistic"] == kind) == 1


def _silent(*classes: Any) -> list[str]:
    """Return the fields that do not say what they mean in a sentence, ``kind`` aside."""
    return [
        f"{each.__name__}.{entry.name}"
        for each in classes
        for entry in fields(each)
        if entry.name != "kind" and not entry.metadata.get("description", "").endswith(".")
    ]


def test_every_field_of_a_statistic_says_what_it_means() -> None:
    assert _silent(*STATISTICS.values(), Condition, Part) == []


def test_a_field_without_a_meaning_would_be_found() -> None:
    @dataclass
    class Silent:
        columns: tuple[str, ...]

    assert _silent(Silent) == ["Silent.columns"]


@in_one("kind", STATISTICS)
def test_every_statistic_has_a_whole_example(kind: str) -> None:
    read = MODEL.validate_json(json.dumps(STATISTICS[kind].example), strict=True)
    assert type(read) is STATISTICS[kind]


def test_auto_is_the_first_mechanism_and_the_advisor_s_norm() -> None:
    plan = calibrate(Mean(columns=("x",)), SCHEMA, Epsilon.parse("1"))
    assert (plan.mechanism, plan.norm) == ("k_norm", "linf")
    assert "Theorem 4.5" in plan.reason
    assert {row.norm for row in plan.alternatives} == {"l1", "l2", "optimal"}
    assert plan.guarantee.exact
    assert plan.guarantee.sensitivity == "2"
    assert plan.guarantee.theorem == MECHANISMS["k_norm"].THEOREM


@pytest.mark.parametrize(
    ("mechanism", "norm", "field", "words"),
    [
        ("kng", "auto", "mechanism", "k_norm"),
        ("nonsense", "auto", "mechanism", "k_norm"),
        ("k_norm", "l7", "norm", "l1, l2, linf, optimal"),
        ("auto", "l0", "norm", "l1, l2, linf, optimal"),
    ],
)
def test_refusals_name_what_is_on_offer(mechanism: str, norm: str, field: str, words: str) -> None:
    with pytest.raises(InvalidStatisticError, match=words) as refusal:
        calibrate(Mean(columns=("x",)), SCHEMA, Epsilon.parse("1"), mechanism=mechanism, norm=norm)
    assert refusal.value.field_name == field
    assert "l7" not in refusal.value.detail
    assert "nonsense" not in refusal.value.detail


def test_a_mechanism_refuses_what_it_cannot_release() -> None:
    quantile = STATISTICS["quantile"](column="x", levels=(0.5,))  # type: ignore[call-arg]
    for name, module in MECHANISMS.items():
        foreign = quantile if name in ("k_norm", "gaussian") else Mean(columns=("x",))
        with pytest.raises(InvalidStatisticError):
            module.calibrate(foreign, SCHEMA, Epsilon.parse("1"), "auto")


def test_statistics_are_request_models() -> None:
    """Strict JSON in, the same statistic out; unknown fields and kinds refused."""
    count = MODEL.validate_json(
        '{"kind":"count","where":[{"column":"x","op":"in","value":[0.5,1]}]}', strict=True
    )
    assert count == Count(where=(Condition(column="x", op="in", value=(0.5, 1)),))
    text = '{"kind":"histogram","columns":["x"],"edges":{"x":[0,0.5,1]}}'
    assert MODEL.validate_json(text, strict=True) == Histogram(
        columns=("x",), edges={"x": (0, 0.5, 1)}
    )
    # null is said of weights: left out, they are those of the data set's design
    again = json.dumps(asdict(count))
    assert MODEL.validate_json(again, strict=True) == replace(count, weights=UNWEIGHTED)
    left_out = json.dumps({k: v for k, v in asdict(count).items() if k != "weights"})
    assert MODEL.validate_json(left_out, strict=True) == count
    truth = MODEL.validate_json(
        '{"kind":"count","where":[{"column":"b","op":"==","value":true}]}', strict=True
    )
    assert truth.where[0].value is True
    stack = Stack(parts=(Part(statistic=count, share=0.5), Part(statistic=truth, norm="l1")))
    assert MODEL.validate_json(json.dumps(statistic_json(stack)), strict=True) == stack
    for bad in (
        '{"kind":"mean"}',
        '{"kind":"mean","columns":["x"],"more":1}',
        '{"kind":"meen","columns":["x"]}',
        '{"kind":"mean","columns":"x"}',
        '{"kind":"mean","columns":[1]}',
        '{"kind":"count","where":[{"column":"x","op":"~","value":1}]}',
        '{"kind":"count","where":[{"column":"x","op":"<"}]}',
        '{"kind":"stack","parts":[{"share":1}]}',
        '{"kind":"stack","parts":[{"statistic":{"kind":"stack","parts":[]}}]}',
        '{"kind":"stack","parts":[{"statistic":{"kind":"mean","columns":["x"]},"share":"1"}]}',
        '{"kind":"stack","parts":[{"statistic":{"kind":"mean","columns":["x"]},"norm":"l0"}]}',
    ):
        with pytest.raises(ValidationError):
            MODEL.validate_json(bad, strict=True)
