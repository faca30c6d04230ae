"""What a curator declares of an upload, and writing it into the ledger once it is stored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction

from app.domain.column_json import parse_column
from app.domain.columns import InvalidSpecError, exact
from app.domain.datasets import (
    ColumnsSpec,
    StatedPeople,
    TextFile,
    columns_json,
    derived_json,
    design_json,
    parse_columns,
    parse_design,
    with_levels,
)
from app.domain.policies import Policy, policy_json
from app.domain.problems import Problem, invalid_request
from app.domain.units import unit_json
from app.engine.schema import WantedColumn, read_definitions, with_derived
from app.services.datasets.accounting import meter_of, origin_of
from app.services.datasets.lineage import Comparison
from app.services.people.keys import Caller
from app.store import DatasetRecord, DatasetStatus, Reader, UnitOfWork
from app.vault.lineage import Origin
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.words import worded

# What a curator declares about the columns of a data set, read as a whole


def declared_columns(
    columns: Mapping[str, Mapping[str, object]],
    derive: Mapping[str, Mapping[str, object]],
    *,
    adjacency: Adjacency,
    max_rows: int | None,
    unit: Mapping[str, object] | None = None,
    design: Mapping[str, object] | None = None,
) -> ColumnsSpec:
    """Return the columns of a spec, and those it derives from them, as they stand in JSON.

    Parameters
    ----------
    derive
        By name: ``expr``, and ``lower`` and ``upper`` where they are narrowed.
    unit
        Who a person is: ``column``, ``max_rows`` and perhaps ``reduce``.
    design
        How rows were sampled: ``weight``, and perhaps ``strata``, ``replicates`` and ``scale``.

    Raises
    ------
    InvalidSpecError
        All that is not sound in the declaration; each place names its column.
    """
    wanted = {
        name: WantedColumn(
            expression=str(column["expr"]),
            lower=_bound(name, column, "lower"),
            upper=_bound(name, column, "upper"),
        )
        for name, column in derive.items()
    }
    try:
        spec = parse_columns(columns, adjacency=adjacency, max_rows=max_rows, unit=unit)
    except InvalidSpecError as error:
        faults = [*error.more, *_derived_faults(columns, wanted)]
        raise InvalidSpecError(error.field_name, error.detail, faults) from None
    made = with_derived(spec, wanted)
    return made if design is None else replace(made, design=parse_design(design))


def _derived_faults(
    columns: Mapping[str, Mapping[str, object]], wanted: Mapping[str, WantedColumn]
) -> Sequence[InvalidSpecError]:
    """Return what is wrong with derived columns, but for those made of columns that are wrong."""
    sound = {}
    for name, column in columns.items():
        with suppress(InvalidSpecError):
            sound[name] = parse_column(column)
    try:
        # expressions mean the same under every privacy unit
        spec = ColumnsSpec(columns=with_levels(sound), adjacency=Adjacency.ADD_REMOVE, max_rows=1)
    except InvalidSpecError:
        _, faults = read_definitions(wanted)
        return faults
    try:
        with_derived(spec, wanted, wrong=columns.keys() - sound.keys())
    except InvalidSpecError as error:
        return [InvalidSpecError(error.field_name, error.detail), *error.more]
    return []


def _bound(name: str, column: Mapping[str, object], end: str) -> Fraction | None:
    value = column.get(end)
    if value is None:
        return None
    try:
        return exact(value)  # type: ignore[arg-type]
    except InvalidSpecError as error:
        raise InvalidSpecError(f"derive.{name}.{end}", error.detail) from None


# What a curator declares of an upload, and writing it into the ledger once it is stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The data set that an upload adds rows to, and the SHA-256 of its manifest, if it is known.

    ``family`` are its versions so far whose people are not to come again.
    """

    record: DatasetRecord
    manifest: str | None
    family: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDataset:
    """What a curator declares about an upload.

    ``account`` attaches it to an existing budget; then ``budget`` opens
    nothing and may be None. A ``delta`` makes the new account one in zCDP. What ``extends``
    another data set has its spec, and ``columns`` say how to read the rows that are added. What
    ``replaces`` another one that has no releases deletes it when it is registered. ``same_people``
    is what was stated of whether its people may be in an earlier data set.
    """

    name: str
    description: str
    columns: ColumnsSpec
    budget: Epsilon | None
    delta: Fraction | None = None
    account: str | None = None
    overlap_reason: str | None = None
    policy: Policy = field(default_factory=Policy)
    notices: tuple[str, ...] = ()
    checklist: tuple[str, ...] = ()
    extends: Extension | None = None
    replaces: str | None = None
    same_people: StatedPeople = "not_stated"

    @property
    def stored_before(self) -> tuple[str, str | None] | None:
        """Return the data set whose rows come first, and its manifest's digest if it is known."""
        return None if self.extends is None else (self.extends.record.id, self.extends.manifest)

    @property
    def family(self) -> frozenset[str]:
        """Return the data sets of its account whose people it must not be about."""
        return frozenset() if self.extends is None else self.extends.family


def origin_in(
    reader: Reader | UnitOfWork, new: NewDataset, *, hidden: Collection[str] = ()
) -> Origin:
    """Return whose an upload is, if it may share the account it names.

    One of the ``hidden`` accounts is refused like one that is not there.
    """
    if new.account in hidden:
        new = replace(new, account="")
    return origin_of(reader, account=new.account, adjacency=new.columns.adjacency, delta=new.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A stored upload that may be registered, as far as its comparison goes."""

    dataset: str
    new: NewDataset
    rows: int
    caller: Caller
    origin: Origin
    sha256: str | None
    manifest: str
    comparison: Comparison


def register(upload: Registration, work: UnitOfWork) -> None:
    """Open an upload's account, unless it shares one, and register its data set."""
    new, person = upload.new, upload.caller.person
    work.by(upload.caller.acting)
    origin = upload.origin
    if new.account is None:
        total = 0 if new.budget is None else meter_of(new.delta).opening(new.budget)
        work.accounts.open(total=total, principal=person, reason=_occasion(new), id=origin.account)
    else:
        origin = origin_in(work, new)  # looked up again: it may have changed during the reading
    replaced = None
    if new.replaces is not None:
        replaced = work.datasets.delete(new.replaces, principal=person)
    if new.overlap_reason is not None:
        note = f"{upload.dataset} over {upload.comparison.named}: {new.overlap_reason}"
        work.accounts.system_entry("overlap_override", principal=person, note=note)
    earlier = None
    if new.extends is not None:
        earlier = work.datasets.get(new.extends.record.id)
        # it may have been archived while the file was read
        if earlier is None or earlier.status is not DatasetStatus.ACTIVE:
            raise Problem("dataset-archived")
    before = 0 if earlier is None else earlier.rows or 0
    add_remove = new.columns.adjacency is Adjacency.ADD_REMOVE
    spec = _declared(new, origin) if earlier is None else _extended(earlier, new.columns)
    work.datasets.insert(
        id=upload.dataset,
        name=new.name,
        account=origin.account,
        spec=json.dumps(spec, allow_nan=False),
        # under add_remove the number of rows is private
        rows=None if add_remove else upload.rows + before,
        principal=person,
        lineage=upload.sha256,
        manifest=upload.manifest,
        extends=earlier,
    )
    # Only now: the new data set may share the account.
    if replaced is not None:
        _keep_access(work, replaced.account, origin.account, upload.caller)
        work.accounts.close_if_empty(replaced.account, principal=person)


def _keep_access(work: UnitOfWork, before: str, after: str, caller: Caller) -> None:
    """Restrict the account of a data set as the one was that it replaces."""
    lists = work.access.now().lists
    if before in lists and after not in lists:
        work.access.restrict(
            after, lists[before], principal=caller.person, reason="as the replaced data set"
        )


def _declared(new: NewDataset, origin: Origin) -> Mapping[str, object]:
    """Return the public spec of an upload."""
    spec: dict[str, object] = {
        "description": new.description,
        "adjacency": str(new.columns.adjacency),
        "max_rows": new.columns.max_rows,
        "columns": columns_json(new.columns),
        "derive": derived_json(new.columns),
        "policy": policy_json(new.policy),
        "delta": origin.delta,
        "notices": list(new.notices),
        "checklist": list(new.checklist),
        "same_people": new.same_people,
    }
    if new.columns.unit is not None:
        spec["unit"] = unit_json(new.columns.unit)
    if new.columns.design is not None:
        spec["design"] = design_json(new.columns.design)
    if new.columns.text != TextFile():
        spec["text"] = asdict(new.columns.text)
    return spec


def _extended(earlier: DatasetRecord, added: ColumnsSpec) -> Mapping[str, object]:
    """Return the spec of a data set as it has been edited; bounds on rows add up."""
    spec, edits = json.loads(earlier.spec), json.loads(earlier.edits or "{}")
    # They are columns' own. All else that is edited stands in the spec under the same name.
    for name, label in edits.pop("labels", {}).items():
        spec["columns"][name]["label"] = label
    if added.max_rows is not None:
        spec["max_rows"] += added.max_rows
    return {**spec, **edits}


def _occasion(new: NewDataset) -> str:
    """Return the reason an account is opened, for its first entry."""
    same = new.same_people.replace("_", " ")
    if new.overlap_reason is None:
        return worded("data set upload, same people in an earlier data set: %(same)s", same=same)
    return worded(
        "data set upload, same people in an earlier data set: %(same)s, overlap overridden: "
        "%(reason)s",
        same=same,
        reason=new.overlap_reason,
    )


def require_replaceable(reader: Reader, dataset: str, *, hidden: Collection[str] = ()) -> None:
    """Pass for a data set that may be deleted now; it is looked at again when that happens."""
    found = reader.datasets.get(dataset)
    if found is None or found.account in hidden or found.status is DatasetStatus.DELETED:
        raise invalid_request("spec.replaces", "is not the id of a data set that is there")
    reader.datasets.require_unreleased(dataset)
    reader.datasets.require_newest(dataset)
