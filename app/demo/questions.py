"""What the demo uploads and asks: public specs, and requests with a title each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEMO_DATA = Path(__file__).parent.parent / "demo_data"

ENGEL: dict[str, Any] = {
    "name": "Engel food expenditure",
    "description": "235 Belgian working-class households, 1857: income and food expenditure.",
    "adjacency": "replace_one",
    "columns": {
        "income": {"type": "number", "lower": 0, "upper": 5000},
        "foodexp": {"type": "number", "lower": 0, "upper": 2500},
    },
    "budget": {"epsilon": "6"},
    "same_people": "no",
}

HOUSING: dict[str, Any] = {
    "name": "California housing 1990",
    "description": "20,640 block groups of the 1990 US census.",
    "adjacency": "replace_one",
    "columns": {
        "longitude": {
            "type": "number",
            "lower": -124.5,
            "upper": -114,
            "typical": {"mean": -119.6, "std": 2},
        },
        "latitude": {
            "type": "number",
            "lower": 32,
            "upper": 42,
            "typical": {"mean": 35.6, "std": 2.1},
        },
        "housing_median_age": {
            "type": "number",
            "lower": 0,
            "upper": 60,
            "typical": {"mean": 29, "std": 13},
        },
        "total_rooms": {
            "type": "number",
            "lower": 0,
            "upper": 40000,
            "typical": {"mean": 2600, "std": 2200},
        },
        "total_bedrooms": {
            "type": "number",
            "lower": 0,
            "upper": 7000,
            "missing": 0,
            "typical": {"mean": 540, "std": 420},
        },
        "population": {
            "type": "number",
            "lower": 0,
            "upper": 36000,
            "typical": {"mean": 1400, "std": 1100},
        },
        "households": {
            "type": "number",
            "lower": 0,
            "upper": 6500,
            "typical": {"mean": 500, "std": 380},
        },
        "median_income": {
            "type": "number",
            "lower": 0,
            "upper": 15,
            "typical": {"mean": 3.9, "std": 1.9},
        },
        "median_house_value": {
            "type": "number",
            "lower": 0,
            "upper": 500001,
            "typical": {"mean": 207000, "std": 115000},
        },
        "ocean_proximity": {
            "type": "category",
            "values": ["<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"],
            "typical": {
                "<1H OCEAN": 0.4427,
                "INLAND": 0.3174,
                "ISLAND": 0.0003,
                "NEAR BAY": 0.1109,
                "NEAR OCEAN": 0.1287,
            },
        },
    },
    "budget": {"epsilon": "5"},
    "same_people": "no",
}

MEANS = {"kind": "mean", "columns": ["income", "foodexp"]}
QUANTILES = {"kind": "quantile", "column": "income", "levels": [0.1, 0.5, 0.9]}
FOOD_ON_INCOME = {
    "kind": "linear_regression",
    "target": "foodexp",
    "features": ["income"],
    "bound": 2,
}
PROXIMITY = {"kind": "histogram", "columns": ["ocean_proximity"]}
BY_COAST = {
    "kind": "mean",
    "columns": ["median_house_value"],
    "where": [{"column": "median_income", "op": ">", "value": 3}],
    "by": ["ocean_proximity"],
}
LOG_VALUE = {
    "kind": "linear_regression",
    "formula": "log(median_house_value + 1) ~ median_income + inland",
    "derive": {"inland": 'ocean_proximity == "INLAND"'},
    "bound": 3,
}
HOUSE_VALUE = {
    "kind": "linear_regression",
    "target": "median_house_value",
    "features": ["median_income", "housing_median_age", "total_rooms"],
}
DEAR_HOUSES = {
    "kind": "logistic_regression",
    "target": {"column": "median_house_value", "op": ">=", "value": 200000},
    "features": ["median_income", "housing_median_age", "total_rooms"],
}


@dataclass(frozen=True, slots=True)
class Question:
    """One release of the demo: a title, a remark, and the request."""

    title: str
    remark: str
    statistic: Mapping[str, object]
    epsilon: str
    mechanism: str = "auto"
    norm: str = "auto"


ENGEL_QUESTIONS = (
    *(
        Question(f"Means of income and food expenditure, {norm} noise", "", MEANS, "0.5", norm=norm)
        for norm in ("l1", "l2", "linf")
    ),
    Question("Quantiles of income", "", QUANTILES, "1"),
    Question(
        "Food expenditure on income: linear regression",
        "The mechanism is chosen by a public simulation of its errors.",
        FOOD_ON_INCOME,
        "2",
    ),
)
HOUSING_QUESTIONS = (
    Question("Histogram of ocean_proximity", "", PROXIMITY, "0.5"),
    Question(
        "Mean house value by the kind of coast, where the median income is above 3",
        "All groups together cost one epsilon. Few blocks are islands, so their mean is noise.",
        BY_COAST,
        "0.5",
    ),
    Question(
        "House value on income and distance from the coast, by a formula as in R",
        "Coefficients are differences of logarithms: -0.5 is about 40% less.",
        LOG_VALUE,
        "1",
    ),
    Question(
        "House value on income, age and rooms: linear regression",
        "At the default bound, by the mechanism that a public simulation of errors chooses.",
        HOUSE_VALUE,
        "1",
    ),
    Question(
        "Is a block's median house value at least 200,000? Objective-perturbation logistic "
        "regression",
        "Coefficients are log-odds per unit of the column.",
        DEAR_HOUSES,
        "1",
        mechanism="objective_perturbation",
    ),
)
