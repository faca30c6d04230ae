"""The rules of the tables of reviews: what has been said stays said."""

from __future__ import annotations

from app.store.database.rule import Event, Rule

_WRITTEN_ONCE = ("revision", "vote", "review_comment", "notice", "sight", "dataset_edit")
_CHANGES: tuple[tuple[str, Event], ...] = (("update", "UPDATE"), ("delete", "DELETE"))

REVIEW_RULES: tuple[Rule, ...] = (
    Rule("review_no_delete", "review", "DELETE", None, "review: reviews stay"),
    *(
        Rule(f"{table}_no_{verb}", table, event, None, f"{table}: written once")
        for table in _WRITTEN_ONCE
        for verb, event in _CHANGES
    ),
)
