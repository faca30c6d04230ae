"""A question in words names every column that it is about, whatever its kind."""

from __future__ import annotations

import re

from app.services.plans.wording import asked, asked_in_full, columns_named
from mechanisms.catalog import STATISTICS
from tests.tiers import in_one


@in_one("kind", STATISTICS)
def test_every_column_is_named(kind: str) -> None:
    question = STATISTICS[kind].example
    words = set(re.findall(r"\w+", asked_in_full(question)))
    assert columns_named(question) <= words


def test_kinds_are_called_what_statisticians_call_them() -> None:
    fit = {"time": "months", "event": "died", "by": ["arm"]}
    assert asked({"kind": "kaplan_meier", **fit}) == "Kaplan-Meier curve of months, died by arm"
    roc = {"kind": "roc", "score": "age", "label": "died"}
    assert asked_in_full(roc) == "ROC curve of age, died"
    assert asked({"kind": "std", "columns": ["age"]}) == "standard deviation of age"
