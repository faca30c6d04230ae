"""Requests about things that are there, made of generated ones.

A generated request names ids, columns and people that no one has heard of, and ends in a refusal.
Here each is given a name that the service knows, and each member whose rules no schema can tell
(a price within a budget, a moment to come) a value that is accepted; which members there are, and
everything about the requests that must be refused, stays as it was generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
from schemathesis import Case
from schemathesis.core.parameters import ParameterLocation

from tests.contract.examples import of_moments
from tests.contract.service import MEAN, ROWS, ask, make_key, spec, upload
from tests.contract.test_releases import STATISTICS
from tests.speed import PATIENCE_S

BY_KIND = {statistic["kind"]: statistic for statistic in STATISTICS}
MOMENTS = {"kind": "moments", "columns": ["income", "food", "owner"]}
FROM_MOMENTS = ("linear_regression", *of_moments())
EPSILON = "0.0001"
PLANNED = [{"statistic": MEAN, "epsilon": EPSILON}]
NAMED = {"name": "a study", "purpose": "a table"}
PRICED: dict[str, Any] = {"epsilon": EPSILON, "accuracy": None}
"""What is saved has an epsilon, or an accuracy that some epsilon is known to reach."""
LATER = "2999-01-01T00:00:00Z"
ASSUMED: dict[str, Any] = {
    "rows": 1000, "population": {"income": {"mean": 50, "std": 10}}, "r_squared": 0.3
}  # fmt: skip
EDIT: dict[str, Any] = {
    "reason": "it was unclear", "description": "rows", "policy": {"reviewers": 2},
    "notices": ["old"], "labels": {"income": "Income"}, "checklist": ["why?"],
}  # fmt: skip


def _program(admin: httpx.Client, key: dict[str, Any]) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key['secret']}"}
    return httpx.Client(base_url=admin.base_url, headers=headers, timeout=PATIENCE_S, verify=False)


OF_TABLES = ("listCells", "describeSyntheticRows", "makeSyntheticRows")
"""Operations on releases of tables alone."""
TABLES = {"kind": "tables", "columns": ["region", "owner"], "margins": "all_two_way"}


def prepared(admin: httpx.Client, *, source: str) -> World:
    """Make the things that requests may name."""
    made = make_key(admin, "analyst")
    analyst = _program(admin, made)
    budget = {"epsilon": "100000"}
    dataset = upload(admin, budget=budget)
    reviewed = str(upload(admin, policy={"review": "always"}, budget=budget)["id"])
    answer = ask(admin, dataset["id"], MOMENTS)
    # a second of each, so that every list has a second page
    ask(admin, dataset["id"], MEAN)
    more = {"file": ("rows.csv", ROWS), "spec": (None, "{}")}
    admin.post(f"/v1/datasets/{dataset['id']}/versions", files=more).raise_for_status()
    for person in (made["person"], make_key(admin, "analyst")["person"]):
        cap = {"person": person, "epsilon": "9", "reason": "to have a list"}
        admin.put(f"/v1/datasets/{dataset['id']}/caps", json=cap).raise_for_status()
        paused = make_key(admin, "analyst")["person"]
        group = {"name": f"group of {person}", "persons": [person], "reason": "to have a list"}
        admin.put("/v1/groups", json=group).raise_for_status()
        pause = {"what": "person", "name": paused, "paused": True, "reason": "to have a list"}
        admin.put("/v1/pauses", json=pause).raise_for_status()
    for path in ("/v1/releases", f"/v1/releases/{answer.json()['id']}"):
        admin.get(path).raise_for_status()
    curator = _program(admin, make_key(admin, "curator"))
    world = World(
        admin=admin, analyst=analyst, curator=curator, dataset=str(dataset["id"]),
        reviewed=reviewed, answer=answer.json(), person=str(made["person"]), source=source,
        logged=admin.get("/v1/log/checkpoint").raise_for_status().text.split("\n")[1],
    )  # fmt: skip
    for asker in (admin, analyst):
        ask(asker, reviewed, MEAN, epsilon=EPSILON)
        world.planned(admin, world.dataset)
    return world


@dataclass(frozen=True)
class World:
    """Three people, and the things they have made; what a request uses up is made for it."""

    admin: httpx.Client
    analyst: httpx.Client
    curator: httpx.Client
    dataset: str
    reviewed: str
    answer: Mapping[str, Any]
    person: str
    source: str
    logged: str
    """How many entries of the ledger are in the public log, and signed."""
    _cursors: dict[str, str] = field(default_factory=dict)
    _kept: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def named(self, case: Case) -> Case | None:
        """Return the request with real things in it; None if it names nothing and holds nothing.

        What was generated in order to be refused is not touched.
        """
        real = case.derive()
        touched = False
        if real.path_parameters and _fits(case, ParameterLocation.PATH):
            real.path_parameters = dict(self._ids(case, real.path_parameters))
            touched = True
        if real.query and _fits(case, ParameterLocation.QUERY):
            real.query = {name: self._asked(real, name, was) for name, was in real.query.items()}
            touched = True
        return real if self.fill(real) or touched else None

    def fill(self, case: Case) -> bool:
        """Put real things into a request's body and headers; return whether it has a body."""
        if _fits(case, ParameterLocation.HEADER):
            seen = "*" if _name(case) in ("publishRelease", "reviseRelease") else '"reserved"'
            if _name(case) == "decideOnStudyPlan":
                place = f"/v1/study-plans/{case.path_parameters['plan']}"
                seen = self.admin.get(place).headers.get("ETag", seen)
            fresh = {"Idempotency-Key": str(uuid4()), "If-Match": seen}
            case.headers.update({name: fresh[name] for name in fresh if name in case.headers})
        if not isinstance(case.body, dict) or not _fits(case, ParameterLocation.BODY):
            return False
        case.body = self._body(_name(case), case.body)
        return True

    def _ids(self, case: Case, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        fresh: dict[str, Callable[[], str]] = {
            "archiveDataset": lambda: str(upload(self.admin)["id"]),
            "deleteDataset": lambda: str(upload(self.admin)["id"]),
            "extendDataset": self._newest,
            "decideOnRelease": lambda: self._waiting(self.analyst),
            "getPublication": lambda: self._released(public=True),
            "publishRelease": lambda: self._released(public=False),
            "withdrawPublication": lambda: self._released(public=True),
            "commentOnRelease": lambda: self._waiting(self.analyst),
            "getReviewSheet": lambda: self._waiting(self.analyst),
            "reviseRelease": self._returned,
            "deleteStudyPlan": lambda: self.planned(self.admin, self.dataset),
            "editStudyPlan": lambda: self.planned(self.admin, self.dataset),
            "getStudyPlan": lambda: self.planned(self.admin, self.dataset),
            "requestStudyPlan": lambda: self.planned(self.admin, self.dataset),
            "drawPlannedQuestion": lambda: self._requested(self.admin, self.dataset),
            "decideOnStudyPlan": lambda: self._requested(self.analyst, self.reviewed),
            "commentOnPlan": lambda: self._requested(self.analyst, self.reviewed),
            "listPlanComments": lambda: self._requested(self.analyst, self.reviewed),
            "listPlanVersions": lambda: self._requested(self.analyst, self.reviewed),
            "getStudyPlanSheet": lambda: self._requested(self.analyst, self.reviewed),
            "withdrawStudyPlan": lambda: self._requested(self.admin, self.reviewed),
            "revokeKey": lambda: str(make_key(self.admin, "analyst")["id"]),
            "withdrawRelease": lambda: self._waiting(self.admin),
        }
        known = {"dataset": self.dataset, "release": str(self.answer["id"])}
        operation = _name(case)
        if operation in OF_TABLES:
            return {"release": self._tables()}
        make = fresh.get(operation)
        if make is None:
            return {name: known[name] for name in parameters}
        if not must_be_refused(case):
            return {name: make() for name in parameters}
        if operation not in self._kept:  # a request that is refused uses nothing up
            self._kept[operation] = {name: make() for name in parameters}
        return self._kept[operation]

    def _tables(self) -> str:
        """Return a release of tables, the same each time."""
        if "tables" not in self._kept:
            found = ask(self.admin, self.dataset, TABLES, epsilon=EPSILON).json()
            self._kept["tables"] = {"release": str(found["id"])}
        return self._kept["tables"]["release"]

    def _newest(self) -> str:
        """Return the newest version of the data set: each that is made can be extended once."""
        found = self.admin.get(f"/v1/datasets/{self.dataset}/versions", params={"limit": 1})
        return str(found.json()["items"][0]["id"])

    def _waiting(self, asker: httpx.Client) -> str:
        """Return a release of somebody's that waits for a review."""
        return str(ask(asker, self.reviewed, MEAN, epsilon=EPSILON).json()["id"])

    def _released(self, *, public: bool) -> str:
        """Return a release that has its result, and is public or not."""
        release = str(ask(self.admin, self.dataset, MEAN, epsilon=EPSILON).json()["id"])
        if public:
            reason, seen = {"reason": "to be read"}, {"If-Match": "*"}
            path = f"/v1/releases/{release}/publication"
            self.admin.post(path, json=reason, headers=seen).raise_for_status()
        return release

    def _returned(self) -> str:
        """Return a release of the admin's whose reviewer wants changes."""
        release = self._waiting(self.admin)
        said = {"decision": "request_changes", "reason": "less"}
        self.curator.post(
            f"/v1/releases/{release}/decision", json=said, headers={"If-Match": '"reserved"'}
        ).raise_for_status()
        return release

    def planned(self, asker: httpx.Client, dataset: str) -> str:
        """Return a new study plan of somebody's, a draft."""
        body = {"dataset": dataset, "name": "a study", "questions": PLANNED}
        made = asker.post("/v1/study-plans", json=body).raise_for_status()
        return str(made.json()["id"])

    def _requested(self, asker: httpx.Client, dataset: str) -> str:
        """Return a study plan that is requested; approved at once where nothing is reviewed."""
        plan = self.planned(asker, dataset)
        asker.post(f"/v1/study-plans/{plan}/request").raise_for_status()
        return plan

    def _asked(self, case: Case, name: str, was: Any) -> Any:
        """Return what to ask a list for."""
        if name == "cursor" and was is not None:
            path = case.formatted_path
            if path not in self._cursors:
                first = self.admin.get(path, params={"limit": 1}).json()
                self._cursors[path] = str(first["next"])
            return self._cursors[path]
        if was is not None and name in (of_tables := {"rows": "5", "table": "0"}):
            return of_tables[name]
        of_the_log = {"from": "1", "index": "0", "size": self.logged, "to": self.logged}
        if "/log/" in case.formatted_path and name in of_the_log and was is not None:
            return of_the_log[name]
        return self.dataset if name == "dataset" and was is not None else was

    def _body(self, operation: str, was: Mapping[str, Any]) -> dict[str, Any]:
        if operation in ("createDataset", "extendDataset"):
            declared = _declared if operation == "createDataset" else _added
            if "source" in was:
                return {**declared(was), "source": self.source}
            return {**was, "file": ROWS, "spec": declared(was["spec"])}
        made: dict[str, Callable[[], dict[str, Any]]] = {
            "editDataset": lambda: {name: EDIT[name] for name in was},
            "checkReceipt": lambda: {**was, "receipt": self.answer["receipt"]},
            "makeSyntheticRows": lambda: {**was, "rows": 5, "seed": 7},
            "planStudy": lambda: self._several(was),
            "saveStudyPlan": lambda: {
                **self._several(was, **PRICED),
                **NAMED,
                "dataset": self.dataset,
            },
            "editStudyPlan": lambda: {**self._several(was, **PRICED), **NAMED},
            "drawPlannedQuestion": lambda: {**was, "question": 0},
            "setAccess": lambda: {**was, "access": None, "reason": "a test"},
            "setGroup": lambda: {
                **was,
                "name": f"group {uuid4()}",
                "persons": [self.person],
                "reason": "a test",
            },
            "setPause": lambda: {
                **was,
                "what": "person",
                "name": make_key(self.admin, "analyst")["person"],
                "paused": True,
                "reason": "a test",
            },
        }
        if operation in made:
            return made[operation]()
        members: dict[str, Callable[[Any], Any]] = {
            "accuracy": lambda _: 0.5,
            "assume": lambda generated: {
                name: ASSUMED[name] for name in generated if name in ASSUMED
            },
            "assume_rows": lambda _: 40,
            "derive": lambda _: {"double": "income * 2"},
            "epsilon": lambda _: EPSILON,
            "expires": lambda _: LATER,
            "ids": lambda _: ["ntf_1"],
            # few statistics have standard errors
            "inference": lambda _: None,
            "mechanism": lambda _: "auto",
            "name": lambda _: f"somebody {uuid4()}",
            "norm": lambda _: "auto",
            "note": lambda _: "a mistake",
            "person": lambda _: self.person,
            "purpose": lambda _: "a table",
            "reason": lambda _: "to be fair",
            "text": lambda _: "a word",
            # few releases say the same
            "together_with": lambda _: [],
            "statistic": lambda generated: _statistic(operation, generated["kind"]),
        }
        kept = (name for name, value in was.items() if name not in members or value is None)
        return {
            **{name: was[name] for name in kept},
            **{n: make(was[n]) for n, make in members.items() if was.get(n) is not None},
        }

    def _several(self, was: Mapping[str, Any], **fixed: Any) -> dict[str, Any]:
        """Return a body with several questions, each about real things."""
        asked = [{**self._body("previewRelease", each), **fixed} for each in was["questions"]]
        return {**was, "questions": asked}


def _name(case: Case) -> str:
    return str(case.operation.definition.raw["operationId"])


def must_be_refused(case: Case) -> bool:
    """Return whether a request was made not to fit the document."""
    return case.meta is not None and not case.meta.generation.mode.is_positive


def _fits(case: Case, location: ParameterLocation) -> bool:
    """Return whether a part of a request was made to fit the document."""
    known = case.meta and case.meta.components.get(location)
    return known is None or known.mode.is_positive


def _statistic(operation: str, kind: str) -> dict[str, Any]:
    if operation == "deriveFromRelease":
        return BY_KIND[kind] if kind in FROM_MOMENTS else MEAN
    return BY_KIND[kind]


def _added(_: Any) -> dict[str, Any]:
    return {"name": f"grown {uuid4()}"}


def _declared(was: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec of our rows with the members that a generated one has."""
    sound = {
        **spec(),
        "description": "rows of a test",
        "derive": {"rich": "income > 50", "log_food": {"expr": "log1p(food)", "upper": 3.5}},
        "overlap": {"reason": "the rows of every test are these"},
        "same_people": "unknown",
        "policy": {"review": "above:0.5", "max_epsilon_per_release": "1", "allowed": ["mean"]},
    }
    optional = {name: sound[name] for name in was if name in sound and was[name] is not None}
    return {**spec(), **optional}
