"""A desk that has been used for years: a thousand data sets, ten thousand releases of them.

Everything that is stored is written by the store's own commands, many in a transaction, so the
chain, the sums and the signatures are those of a real ledger. Rows have no files, as no page reads
them; answers are copies of a few real ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from app.domain.ledger import sha256_hex
from app.domain.reviews import Decision, PlannedRequest
from app.places import open_store
from app.services.releases.receipts import Receipts
from app.settings import Settings
from app.store import Debit, ReleaseRecord, Store, UnitOfWork
from app.store.ledger.commands import Finish
from app.store.ledger.signing import split
from tests.contract.service import ask, make_key, running, settled, upload

DATASETS, RELEASES = 1_000, 10_000
_HALF = RELEASES // 2
"""As many are of one data set; the others are spread over all of them."""
WAITING, RETURNED = 600, 200
"""Requests that wait; to so many of them changes are wanted."""
_PLANS, _PUBLISHED, _REMARKS, _PEOPLE = 300, 1_000, 300, 30
_AT_ONCE = 1_000
_ASKED: Sequence[Mapping[str, Any]] = (
    {"kind": "mean", "columns": ["income", "food"], "by": ["region", "owner"]},
    {"kind": "linear_regression", "target": "food", "features": ["income"]},
    {"kind": "count", "by": ["region"]},
    {"kind": "quantile", "column": "income", "levels": [0.25, 0.5, 0.75]},
)
_FIRST, _PURPOSES = "Household budgets", ("The yearly report, table {}", "Appendix {}", "Figure {}")


@dataclass(frozen=True, slots=True)
class Full:
    """A data directory, the keys of an analyst and a curator, and ids of what pages show."""

    data_dir: Path
    keys: Mapping[str, str]
    ids: Mapping[str, str]


def fill(data_dir: Path) -> Full:
    """Make the store of such a desk; no server is running on it afterwards."""
    with running(data_dir) as service, service.client() as admin:
        made = {role: make_key(admin, role, f"The {role}") for role in ("analyst", "curator")}
        people = [str(made["analyst"]["person"]), *(f"person {at}" for at in range(_PEOPLE))]
        model = _model(admin)
    settings = Settings(data_dir=data_dir)
    store = open_store(settings)
    try:
        filling = _Filling(store, *model, people=people, curator=str(made["curator"]["person"]))
        ids = filling.fill()
    finally:
        store.close()
    return Full(data_dir, {role: str(key["secret"]) for role, key in made.items()}, ids)


def _model(admin: httpx.Client) -> tuple[str, Sequence[str]]:
    """Return a data set and a few releases of it, which the others are like."""
    dataset = str(upload(admin, name=_FIRST, budget={"epsilon": "100000"})["id"])
    answers = [settled(admin, ask(admin, dataset, each, epsilon="0.5")) for each in _ASKED]
    return dataset, [str(answer.json()["id"]) for answer in answers]


class _Filling:
    """What is written, each kind of thing in turn."""

    def __init__(
        self, store: Store, dataset: str, releases: Sequence[str], *, people: Sequence[str],
        curator: str,
    ) -> None:  # fmt: skip
        self.store, self.people, self.curator = store, people, curator
        with store.reading() as reader:
            found = reader.datasets.get(dataset)
            assert found is not None
            self.like = [reader.releases.get_all([each])[each] for each in releases]
        self.first = found
        self.receipts = Receipts(store)

    def fill(self) -> Mapping[str, str]:
        """Write all, and return what pages show: one id of each kind of thing."""
        account, datasets = self.datasets()
        made = self.releases(datasets)
        waiting = self.waiting(datasets)
        plan = self.plans(account, datasets)
        self.publish(made)
        self.remark(waiting)
        last = next(each for each in reversed(made) if each.dataset == self.first.id)
        return {
            "dataset": self.first.id, "account": self.first.account, "release": last.id,
            "review": waiting[-1], "returned": waiting[0], "plan": plan, "public": made[-1].id,
            "small": datasets[-1][1],
        }  # fmt: skip

    def datasets(self) -> tuple[str, Sequence[tuple[str, str]]]:
        """Return the accounts and ids of a thousand data sets; ten in a hundred are archived."""
        made = [(self.first.account, self.first.id)]

        def write(numbers: range, u: UnitOfWork) -> None:
            for at in numbers:
                account = u.accounts.open(total=10**14, principal=self.curator, reason="first")
                dataset = u.datasets.insert(
                    name=f"Survey of households {at}, wave {at % 7}", account=account.id,
                    spec=self.first.spec, rows=40, principal=self.curator,
                )  # fmt: skip
                if at % 10 == 0:
                    u.datasets.archive(dataset.id, principal=self.curator)
                else:
                    made.append((account.id, dataset.id))

        for start in range(1, DATASETS, _AT_ONCE // 4):
            numbers = range(start, min(start + _AT_ONCE // 4, DATASETS))
            self.store.write(partial(write, numbers))
        return self.first.account, made

    def releases(self, datasets: Sequence[tuple[str, str]]) -> Sequence[ReleaseRecord]:
        """Charge for releases and answer them."""
        like, made = self.like, list[ReleaseRecord]()
        wanted = (
            (self._debit(at, datasets[0 if at < _HALF else at % len(datasets)][1]), like[at % 4])
            for at in range(RELEASES - len(like))
        )
        while part := list(islice(wanted, _AT_ONCE)):
            charged = [self.store.writer.submit(debit) for debit, _ in part]
            records = [each.result().record for each in charged]
            ended = [
                self.store.writer.submit(
                    Finish(release=each.id, result=self._answer(each, model), known=each)
                )
                for each, (_, model) in zip(records, part, strict=True)
            ]
            made += [each.result() for each in ended]
        return made

    def _debit(self, at: int, dataset: str) -> Debit:
        like = self.like[at % 4]
        return Debit(
            dataset=dataset, principal=self.people[at % len(self.people)], idem=f"full {at}",
            amount=like.amount, plan=like.plan, request=self._request(like, at),
        )  # fmt: skip

    def _request(self, like: ReleaseRecord, at: int) -> str:
        purpose = _PURPOSES[at % 3].format(at)
        return json.dumps({**json.loads(like.request), "purpose": purpose})

    def _answer(self, record: ReleaseRecord, like: ReleaseRecord) -> bytes:
        assert like.result is not None
        answer, _ = split(like.result)
        for old, new in ((like.id, record.id), (like.dataset, record.dataset)):
            answer = answer.replace(old.encode(), new.encode())
        return self.receipts.attach(record, answer)

    def waiting(self, datasets: Sequence[tuple[str, str]]) -> Sequence[str]:
        """Reserve budget for requests that wait; of every third changes are wanted."""
        made: list[str] = []

        def write(u: UnitOfWork) -> None:
            for at in range(WAITING):
                account, dataset = datasets[0 if at % 3 else at % len(datasets)]
                like = self.like[at % 4]
                record = u.reviews.reserve(
                    account=account, amount=like.amount, dataset=dataset, idem=f"waits {at}",
                    principal=self.people[at % len(self.people)], plan=like.plan,
                    request=self._request(like, at),
                )  # fmt: skip
                made.append(record.id)
                if at % 3 == 0:
                    u.votes.cast(
                        record.id, turn=1, person=self.curator, reason="less, please",
                        decision=Decision.REQUEST_CHANGES,
                    )  # fmt: skip
                    u.reviews.request_changes(
                        record.id, principal=self.curator, reason="less, please"
                    )

        self.store.write(write)
        return made

    def plans(self, account: str, datasets: Sequence[tuple[str, str]]) -> str:
        """Save study plans, two of three of which wait; return the last one."""
        like = [
            PlannedRequest(request=each.request, amount=each.amount, mechanism="k_norm", norm="l2")
            for each in self.like
        ]

        def write(u: UnitOfWork) -> str:
            plan = ""
            for at in range(_PLANS):
                plan = u.study_plans.save(
                    account=account, dataset=self.first.id, name=f"Study {at}",
                    person=self.people[at % len(self.people)], purpose="a report", questions=like,
                ).id  # fmt: skip
                if at % 3:
                    u.study_plans.request(plan)
            return plan

        return self.store.write(write)

    def publish(self, made: Sequence[ReleaseRecord]) -> None:
        """Make every tenth release public."""

        def write(u: UnitOfWork) -> None:
            for each in made[-1 :: -(len(made) // _PUBLISHED)]:
                statistic = json.loads(each.request)["statistic"]["kind"]
                u.publications.publish(
                    release=each.id, dataset=each.dataset, kinds=[statistic],
                    words=f"{_FIRST}\n{statistic}\nincome\nfood\n{each.id}".casefold(),
                    content=sha256_hex(each.result or b""), principal=self.curator,
                    reason="The yearly report",
                )  # fmt: skip

        self.store.write(write)

    def remark(self, waiting: Sequence[str]) -> None:
        """Comment on what waits."""

        def write(u: UnitOfWork) -> None:
            for at in range(_REMARKS):
                u.comments.add(
                    waiting[at], turn=1, person=self.curator, private=at % 2 == 0,
                    text=f"Remark {at}: is the smaller group needed?", most_bytes=None,
                )  # fmt: skip

        self.store.write(write)
