"""A survey's design at the desk: declared in fields, refused at them, copied and exported."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from uuid import uuid4

import httpx

from tests.desk.browsing import Browsing, Page, created

NEW = "/desk/datasets/new"
REPLICATES = ["rep_1", "rep_2", "rep_3"]
NAMES = ["income", "region", "weight", *REPLICATES]
DESIGN = {
    "design_weight": "weight", "design_strata": "region", "design_replicates": "rep_*",
    "design_scale": "0.25", "design_rscales": "0.5\n0.5\n1",
}  # fmt: skip


def survey() -> bytes:
    """Return rows of people whom no other test has uploaded."""
    chance = Random(uuid4().int)
    rows = [",".join(NAMES)] + [
        f"{chance.randrange(10**6)},{chance.choice('ab')},{chance.uniform(1, 4):.3f},1.5,0,3"
        for _ in range(60)
    ]
    return "\n".join(rows).encode()


def filled(**changes: str) -> dict[str, str]:
    numbers = {
        f"columns.{at}.{end}": bound
        for at, name in enumerate(NAMES)
        for end, bound in (("lower", "0"), ("upper", "1000000"))
        if name != "region"
    }
    return {
        **numbers, "columns.1.values": "a\nb", "epsilon": "3", "same_people": "no",
        "name": f"survey {uuid4()}", **DESIGN, **changes,
    }  # fmt: skip


def drafted(browsing: Browsing, rows: bytes) -> Page:
    page = browsing.send(browsing.open(NEW), "Draft", file=("survey.csv", rows))
    kinds = {
        f"columns.{at}.{field}": text
        for at in range(2, 6)
        for field, text in (("type", "number"), ("missing", "reject"))
    }
    kinds |= {"columns.1.type": "category", "columns.1.missing": "reject"}
    return browsing.send(page, "Check", status=422, **kinds)


def test_a_design_is_declared_in_fields(admin: httpx.Client, curator: Browsing) -> None:
    rows = survey()
    page = drafted(curator, rows)
    labels = {"Weight", "Strata", "Replicate weights", "Scale", "Scale of each replicate"}
    assert labels <= set(page.labels())
    shown = created(curator, page, file=("survey.csv", rows), **filled())
    assert "by default records count by weight; strata are region" in shown.text
    assert "3 columns of replicate weights" in shown.text
    facts = admin.get(f"/v1/{shown.path.removeprefix('/desk/')}").json()
    assert facts["design"] == {
        "weight": "weight", "strata": "region", "replicates": REPLICATES, "scale": 0.25,
        "rscales": [0.5, 0.5, 1],
    }  # fmt: skip
    copied = curator.send(curator.open(NEW), "Copy its columns", copied=shown.path.split("/")[3])
    fields = copied.form("Upload").fields
    assert {name: str(fields[name]) for name in DESIGN} == {
        **DESIGN, "design_replicates": "\n".join(REPLICATES),
    }  # fmt: skip
    (section,) = copied.tree.xpath("//details[.//*[@name='design_weight']]")
    assert "open" in section.attrib, "what is filled in is not hidden"
    (section,) = curator.open(NEW).tree.xpath("//details[.//*[@name='design_weight']]")
    assert "open" not in section.attrib


def faults_of(page: Page) -> dict[str, list[str]]:
    """Return what is wrong, by the names of fields in the summary of faults."""
    found: dict[str, list[str]] = {}
    for each in page.tree.xpath("//*[@role='alert']//li"):
        name, _, said = " ".join(each.text_content().split()).partition(": ")
        found.setdefault(name, []).append(said)
    return found


def test_what_is_wrong_with_a_design_is_at_its_fields(curator: Browsing) -> None:
    page = drafted(curator, survey())
    for changes, wrong in (
        ({"design_weight": ""}, {"Weight": "required"}),
        ({"design_weight": "region"}, {"Weight": "a number column with a lower bound of 0"}),
        ({"design_strata": "income"}, {"Strata": "a category"}),
        ({"design_replicates": "rep_1", "design_rscales": "1"}, {"Replicate weights": "2 to 500"}),
        ({"design_replicates": "x*\nrep_1\nregion"}, {"Replicate weights": "x*: "}),
        ({"design_scale": "0"}, {"Scale": "more than 0"}),
        ({"design_scale": "a half"}, {"Scale": "number"}),
        ({"design_rscales": "1\n2"}, {"Scale of each replicate": "one number for each"}),
        ({"design_rscales": "1\n-2\n1"}, {"Scale of each replicate": "-2: "}),
        ({"design_rscales": "1\nhalf\n1"}, {"Scale of each replicate": "half: "}),
    ):  # fmt: skip
        found = faults_of(curator.send(page, "Check", status=422, **filled(**changes)))
        assert found.keys() == wrong.keys(), changes
        for name, said in wrong.items():
            assert said in found[name][0], changes
    lower = filled(**{"columns.3.lower": "-1", "columns.5.lower": "-1"})
    found = faults_of(curator.send(page, "Check", status=422, **lower))
    assert [said.partition(":")[0] for said in found["Replicate weights"]] == ["rep_1", "rep_3"]


def test_a_design_is_imported_and_exported(curator: Browsing) -> None:
    columns: dict[str, Any] = {
        name: {"type": "number", "lower": 0, "upper": 9} for name in ("w", "r1", "r2", "y")
    }
    design = {"weight": "w", "replicates": ["r1", "r2"], "scale": 0.5}
    spec = {"name": "imported", "adjacency": "replace_one", "columns": columns, "design": design}
    page = curator.send(curator.open(NEW), "Import", spec=json.dumps(spec))
    exported = curator.send(page, "Export the spec").answer.json()
    assert exported["design"] == design
    without = curator.send(page, "Export the spec", design_weight="", design_replicates="",
                           design_scale="").answer.json()  # fmt: skip
    assert "design" not in without
