"""A trial of two arms as its office exports it: 25 columns, few of them clean, and a dictionary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, timedelta
from random import Random
from typing import Any

PEOPLE = 400
TOWNS: Mapping[str, str] = {
    "Ayr": "south", "Beith": "west", "Crieff": "north", "Duns": "south", "Elgin": "north",
    "Forres": "north", "Girvan": "west", "Hawick": "south",
}  # fmt: skip
"""The region that each municipality lies in."""
INCOME = "Monthly income (EUR)"
EMPTY = ("", "NA", "n/a", ".", "?", "-9", "-99", "k.A.", "unknown", "missing")
"""How the file writes that nothing is known."""
_MEASURED: Mapping[str, tuple[str, str, int, int]] = {
    "sbp_0": ("Systolic pressure at the start", "mmHg", 80, 220),
    "sbp_1": ("Systolic pressure after a year", "mmHg", 80, 220),
    "dbp_0": ("Diastolic pressure at the start", "mmHg", 40, 140),
    "dbp_1": ("Diastolic pressure after a year", "mmHg", 40, 140),
    "weight": ("Weight", "kg", 35, 200),
    "height": ("Height", "cm", 130, 210),
    "hba1c": ("HbA1c", "mmol/mol", 20, 120),
    "ldl": ("LDL cholesterol", "mg/dl", 30, 260),
    "steps": ("Steps a day", "steps", 0, 30_000),
    "qol": ("Quality of life", "points", 0, 100),
    "visits": ("Visits to a doctor", "visits", 0, 40),
    "sleep": ("Sleep", "hours", 0, 16),
}
"""By name: label, unit and bounds of what nurses wrote down."""
HEADER = (
    "pid", "arm", "sex", "region", "town", "age", "born", "seen", "Monthly income (EUR)",
    "smoker", "school", "family", *_MEASURED, "remark",
)  # fmt: skip


_NUMBERS: Mapping[str, Any] = {"type": "number", "missing": "keep"}
SPEC: Mapping[str, Any] = {
    "delimiter": ";", "skip_rows": 2, "decimal": ",", "thousands": ".", "na": list(EMPTY[1:]),
    "columns": {
        "arm": {
            "type": "category", "values": ["A", "B"], "label": "Arm",
            "labels": {"A": "usual care", "B": "new care"},
        },
        "sex": {
            "type": "category", "values": ["f", "m"], "label": "Sex",
            "labels": {"f": "women", "m": "men"},
        },
        "region": {"type": "category", "values": ["north", "south", "west"], "label": "Region"},
        "age": {"type": "integer", "lower": 18, "upper": 100, "label": "Age"},
        INCOME: {"type": "number", "lower": 0, "upper": 12_000, "label": "Income"},
        **{
            name: {**_NUMBERS, "label": label, "unit_of_measure": unit, "lower": low, "upper": high}
            for name, (label, unit, low, high) in _MEASURED.items()
        },
    },
}  # fmt: skip
"""How the file is declared where a test is about something else."""


def rows(wave: str = "first") -> str:
    """Return the file: title lines, semicolons, commas for points, and dates of two formats."""
    chance = Random(f"a trial of two arms, {wave}")
    lines = ["Trial of the two arms", "exported by the trial's office", ";".join(HEADER)]
    lines += [_row(chance, at) for at in range(PEOPLE)]
    return "\n".join([*lines, ""])


def _row(chance: Random, at: int) -> str:
    town = chance.choice(list(TOWNS))
    arm, sex = chance.choice(("A", "B")), chance.choice(("f", "m"))
    born = date(1935, 1, 1) + timedelta(days=chance.randrange(25_000))
    seen = date(2023, 1, 1) + timedelta(days=chance.randrange(700))
    pay = f"{chance.randrange(1, 9)}.{chance.randrange(1000):03d},{chance.randrange(10)}"
    measured = [
        chance.choice(EMPTY) if chance.random() < 0.03 else _written(chance, low, high)
        for _, _, low, high in _MEASURED.values()
    ]
    cells = [
        f"{at:06d}", arm, sex, TOWNS[town], town, str(2024 - born.year),
        born.isoformat() if at % 3 else f"{born:%d.%m.%Y}", seen.isoformat(), pay,
        chance.choice(("ja", "nein")), chance.choice(("1", "2", "3")),
        chance.choice(("single", "married", "widowed")), *measured, f"seen by nurse {at}",
    ]  # fmt: skip
    return ";".join(cells)


def _written(chance: Random, low: int, high: int) -> str:
    return f"{(2 * low + high) / 3 + chance.random() * (high - low) / 6:.1f}".replace(".", ",")


def dictionary() -> bytes:
    """Return the dictionary (a Frictionless table schema), which lacks what it says nothing of."""
    fields: list[dict[str, Any]] = [
        {"name": "pid", "type": "string", "title": "Id of the person"},
        _choice("arm", "Arm", {"A": "usual care", "B": "new care"}),
        _choice("sex", "Sex", {"f": "women", "m": "men"}),
        _choice("region", "Region", dict.fromkeys(sorted(set(TOWNS.values())), "")),
        _choice("town", "Municipality", dict.fromkeys(TOWNS, "")),
        {**_number("age", ("Age", "years", 18, 100)), "type": "integer"},
        {"name": "born", "type": "date", "title": "Date of birth"},
        {
            "name": "seen", "type": "date", "title": "First visit",
            "constraints": {"minimum": "2023-01-01", "maximum": "2025-12-31"},
        },
        {"name": "Monthly income (EUR)", "type": "number", "title": "Income",
         "unit": "EUR a month"},
        {
            "name": "smoker", "type": "boolean", "title": "Smokes",
            "trueValues": ["ja"], "falseValues": ["nein"],
        },
        _choice("school", "School", {"1": "primary", "2": "secondary", "3": "university"}),
        _choice("family", "Family", dict.fromkeys(("single", "married", "widowed"), "")),
        *(_number(name, about) for name, about in _MEASURED.items()),
        {"name": "remark", "type": "string"},
    ]  # fmt: skip
    return json.dumps({"fields": fields, "missingValues": list(EMPTY)}).encode()


def _number(name: str, about: tuple[str, str, int, int]) -> dict[str, Any]:
    title, unit, low, high = about
    limits = {"minimum": low, "maximum": high}
    return {"name": name, "type": "number", "title": title, "unit": unit, "constraints": limits}


def _choice(name: str, title: str, values: Mapping[str, str]) -> dict[str, Any]:
    said = [
        {"value": each, **({"label": label} if label else {})} for each, label in values.items()
    ]
    return {"name": name, "type": "string", "title": title, "categories": said}
