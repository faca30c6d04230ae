"""The document of an earlier version still holds: what may change is words, and what is added.

A client that was written against the kept document goes on working, so nothing is taken away
and no name, type, bound, default, status or requirement moves. Additions are named below.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.api.openapi.snapshot import snapshot
from tests.fixtures.version_0_1 import make as kept

KEPT: dict[str, Any] = json.loads(Path(kept.__file__).with_name("openapi.json").read_text("utf-8"))
WORDS = frozenset({"description", "example", "examples"})
NAMES = frozenset({"properties", "schemas", "mapping", "headers", "responses", "content"})
"""Objects whose keys are names: one called ``description`` is no description."""
ADDED = (
    # the standard deviation
    r"/components/schemas/Std(/.*)?",
    r".*/statistic/discriminator/mapping/std",
    r'.*\[\{"\$ref": "#/components/schemas/Std"\}\]',
    # what to do about a refusal
    r'/components/schemas/ProblemAnswer/(properties/remedy|required\["remedy"\])',
    # every refusal for a while says for how long
    r"/paths//v1/datasets/post/responses/503/headers",
    # what the catalog says of a statistic's cost
    r"/components/schemas/Catalog\w*/(properties|required).*",
    # whom a person may be taken for
    r'/components/schemas/(New)?KeyAnswer/(properties/twins|required\["twins"\])',
    r"/paths//v1/keys/post/responses/409",
    # columns made of others
    r"/components/schemas/(Derived?Spec|Derived|Category|Logarithm|Expression|Product)(/.*)?",
    r"/components/schemas/\w+/properties/(derive|formula)",
    r"/components/schemas/\w+Regression/properties/(features|target)/(anyOf|default).*",
    # by which key and in which role an entry was made
    r'/components/schemas/EntryAnswer/(properties/(key|role)|required\["(key|role)"\])',
    # how far the anchor is from the ledger, and whether there is a replica
    r"/components/schemas/ReadinessAnswer/(properties/|required.*)(anchor_shares_device|replica).*",
    # pauses of a person or a data set
    r"/components/schemas/(Page_)?(Set)?Pause(d|Answer_?|Request)",
    r"/paths//v1/pauses",
    # what is public
    r"/components/schemas/Publication\w*",
    r"/paths//v1/releases/\{release\}/publication.*",
    r"/paths//v1/datasets/\{dataset\}/exports/.*",
    # the public log
    r"/components/schemas/(Consistency|Inclusion|LogKeys?)Answer",
    r"/paths//v1/log/.*",
    # a target in zCDP is fixed when its account is opened
    r"/paths//v1/datasets/\{dataset\}/grants/post/responses/409",
    # filters and groups
    r"/components/schemas/Bands",
    r"/components/schemas/\w+/properties/(where|by)",
    r"/components/schemas/GuaranteeAnswer/properties/reduction",
    # weights
    r"/components/schemas/(Mean|Sum|(Linear|Logistic|Quantile)Regression)/properties/weights",
    r"/components/schemas/(Linear|Logistic|Quantile)Regression/properties/base_measure",
    # people of several rows
    r"/components/schemas/UnitSpec",
    r"/components/schemas/DatasetSpec/properties/unit",
    r'/components/schemas/DatasetAnswer/(properties/(unit|protects)|required\["(unit|protects)"\])',
    r"/components/schemas/GuaranteeAnswer/properties/protects",
    # several releases as one
    r"/components/schemas/Derivation(Request|Answer)/properties/together_with",
    r'/components/schemas/DerivationAnswer/required\["together_with"\]',
    # standard errors
    r"/components/schemas/(Inference(Answer|Request)|TermAnswer)",
    r"/components/schemas/\w+(Request|Answer)/properties/inference",
    r'/components/schemas/DerivationAnswer/required\["inference"\]',
    # what an answer is worth, by which assumptions, and what it is for
    r"/components/schemas/(Assume(Answer|Spec)|SpreadSpec|UsefulnessAnswer)",
    r"/components/schemas/\w+(Request|Answer)/properties/(assume|purpose|usefulness)",
    r"/components/schemas/PreviewAnswer/properties/(expected_error|possible_range)",
    r'/components/schemas/PreviewAnswer/required\["(assume|expected_error|possible_range)"\]',
    r'/components/schemas/PreviewAnswer/required\["usefulness"\]',
    # about how long a job takes
    r"/components/schemas/JobAnswer/properties/expected_s",
    r"/components/schemas/ReleaseAnswer/properties/job",
    # releases of rows that nobody gave
    r"/components/schemas/DryRun(Answer|Request)",
    r"/paths//v1/datasets/\{dataset\}/dry-runs(/rows)?",
    # what is typical of columns
    r"/components/schemas/TypicalSpec",
    r"/components/schemas/(Boolean|Category|Number)Spec/properties/typical",
    # releases and questions as programs
    r"/paths//v1/(datasets/\{dataset\}/scripts|releases/\{release\}/script)",
    # what may be asked of a data set that has just been made
    r"/paths//v1/datasets/post/responses/201/links",
    # files as they are: types, spellings, markers, and how one was read
    r"/components/schemas/(Integer|Date|Datetime)Spec",
    r"/components/schemas/DatasetSpec/properties/columns/.*(Integer|Date|Datetime)Spec.*",
    r"/components/schemas/DatasetSpec/properties/columns/.*/mapping/(integer|date|datetime)",
    r"/components/schemas/(Boolean|Category|Number)Spec/properties/(label|na|unreadable|other)",
    r"/components/schemas/NumberSpec/properties/(decimal|thousands|unit_of_measure)",
    r"/components/schemas/DatasetSpec/properties/(na|delimiter|decimal|thousands)",
    r"/components/schemas/(Column(Report|Warning)|PeopleReport)",
    r"/components/schemas/Upload(edDataset|Report)Answer",
    r"/components/schemas/Histogram/properties/edges/additionalProperties/items/anyOf",
    # reviews with turns, two votes, versions and comments
    r"/components/schemas/(Comments?(Answer|Request)|Versions?Answer|DifferenceAnswer)",
    r"/components/schemas/ReviewAnswer/properties/(version|turn|conflict)",
    r'/components/schemas/Decision\w*/.*enum\["request_changes"\]',
    r"/components/schemas/(PolicySpec/properties|DatasetSpec/properties/policy/default)/reviewers",
    r"/paths//v1/releases/\{release\}/(comments|revisions)",
    r'/paths//v1/releases/get/parameters\[.*"changes_requested".*',
    # the review sheet, the inbox, and who has seen what
    r"/components/schemas/(Sheet|Asker|Cost|Expected|Earlier|Matrix|Overlap|Votes?)Answer",
    r"/components/schemas/(Page_)?(Notice|Sight|Read)(Answer_?|Request)",
    r"/paths//v1/(inbox(/read)?|audit|releases/\{release\}/review)",
    # rows that are read where they lie
    r"/components/schemas/SourcedDatasetSpec",
    r"/paths//v1/datasets/post/requestBody/content/application/json",
    # how far an upload is
    r"/components/schemas/Readings?Answer",
    r"/paths//v1/readings",
    r"/paths//v1/datasets/post/parameters",
    # versions of a data set
    r"/components/schemas/((Sourced)?VersionSpec|(Page_)?DatasetVersionAnswer_?)",
    r"/paths//v1/datasets/\{dataset\}/versions",
    r'/components/schemas/DatasetAnswer/(properties/|required\[")(version|extends)("\])?',
    # what else a curator says of a data set
    r"/components/schemas/(DatasetEdit|PolicyEdit)",
    r"/paths//v1/datasets/\{dataset\}/patch",
    r"/components/schemas/DatasetSpec/properties/(notices|checklist)",
    # one of a price and an accuracy
    r"/components/schemas/PreviewRequest/anyOf",
    r'/components/schemas/DatasetAnswer/(properties/|required\[")(notices|checklist)("\])?',
)
LOOSENED = (
    # a formula in place of target and features, and features that are more than names
    r'/components/schemas/\w+Regression/required\["(features|target)"\]',
    r"/components/schemas/\w+Regression/properties/(features|target)/(items|type)",
    # edges that are dates
    r"/components/schemas/Histogram/properties/edges/additionalProperties/items/type",
    # a price, which an accuracy may take the place of
    r'/components/schemas/PreviewRequest/required\["epsilon"\]',
    # a list of those whose reviewers want changes
    r'/paths//v1/releases/get/parameters\[.*"awaiting_review", "rejected".*',
)
"""What a request need not say any more, or may say in more ways than before."""


def without_words(part: Any, *, names: bool = False) -> Any:
    """Return a part of a document without its descriptions and examples."""
    if isinstance(part, list):
        return [without_words(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: without_words(value, names=not names and key in NAMES)
        for key, value in part.items()
        if names or key not in WORDS
    }


def changes(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield what is ``added``, ``removed`` or ``changed`` and where; lists are compared as sets."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            place = f"{path}/{key}"
            if key not in new:
                yield "removed", place
            elif key not in old:
                yield "added", place
            else:
                yield from changes(old[key], new[key], place)
    elif isinstance(old, list) and isinstance(new, list):
        was, now = ({json.dumps(item, sort_keys=True) for item in items} for items in (old, new))
        yield from (("removed", f"{path}[{item}]") for item in was - now)
        yield from (("added", f"{path}[{item}]") for item in now - was)
    elif old != new:
        yield "changed", path


WIDENED = (
    # the answer to an upload has a report beside the data set's facts
    r"/paths//v1/datasets/post/responses/201/content/application/json/schema/\$ref",
)
"""What is another form, which has all that the earlier one had."""
_FORESEEN = {"added": ADDED, "removed": LOOSENED, "changed": WIDENED}


def unforeseen(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the changes since the kept document that nobody has named."""
    found = changes(without_words(KEPT), without_words(document))
    return sorted(
        (kind, path)
        for kind, path in found
        if not any(re.fullmatch(pattern, path) for pattern in _FORESEEN.get(kind, ()))
    )


def test_nothing_but_words_and_named_additions_has_changed() -> None:
    assert unforeseen(json.loads(snapshot())) == []


def test_a_form_that_took_another_s_place_has_all_of_it() -> None:
    schemas = json.loads(snapshot())["components"]["schemas"]
    facts, uploaded = schemas["DatasetAnswer"], schemas["UploadedDatasetAnswer"]
    assert facts["properties"].items() <= uploaded["properties"].items()
    assert set(facts["required"]) <= set(uploaded["required"])


def _drop_a_field(document: dict[str, Any]) -> None:
    del document["components"]["schemas"]["ReleaseRequest"]["properties"]["epsilon"]


def _demand_more(document: dict[str, Any]) -> None:
    document["components"]["schemas"]["ReleaseRequest"]["required"].append("norm")


def _drop_a_status(document: dict[str, Any]) -> None:
    del document["paths"]["/v1/datasets"]["post"]["responses"]["409"]


def _add_a_path(document: dict[str, Any]) -> None:
    document["paths"]["/v2/datasets"] = {}


def _change_a_default(document: dict[str, Any]) -> None:
    parameters = document["paths"]["/v1/releases"]["get"]["parameters"]
    next(entry for entry in parameters if entry["name"] == "limit")["schema"]["default"] = 7


@pytest.mark.parametrize(
    "plant", [_drop_a_field, _demand_more, _drop_a_status, _add_a_path, _change_a_default]
)
def test_a_planted_change_is_found(plant: Any) -> None:
    document = copy.deepcopy(KEPT)
    plant(document)
    assert unforeseen(document) != []


def test_words_may_change() -> None:
    document = copy.deepcopy(KEPT)
    document["paths"]["/v1/datasets"]["get"]["description"] = "in other words"
    assert unforeseen(document) == []
    document["components"]["schemas"]["GrantRequest"]["properties"]["description"] = {}
    assert unforeseen(document) != []
