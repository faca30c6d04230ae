r"""An index of many data sets' row digests: which of them an upload may overlap.

*What it is.* A run is a file with all digests of some data sets, in order: 40 bits of each and the
number of the sample that has it. Next to them it holds what the rule knows of each sample but its
digests. Runs are written once. A new one takes up those that are not much larger, so there are few,
and each digest is written about as often as there are powers of nine in their number.

*What it finds.* Whatever :func:`app.services.datasets.comparing.compare` finds by reading
everything, since each test here is a bound on a test of :mod:`app.domain.overlap`:

    common <= digests that are found here             (equal digests have equal first bits)
    r      >= the smaller of both tables' chances      (whichever of the two is the smaller one)
    N      >= digests of both below both limits, less eight standard deviations

and both conditions of the rule, ``(s - r) / (1 - r) >= 0.1 + r/2`` and ``N KL(s || r) >= 20``,
hold less easily with a smaller ``common`` and a larger ``r`` or ``N``. Several data sets of one
account are judged together, so there only ``common`` counts, summed over them.

*What it is not.* Nothing depends on it: a data set that is in no run, or whose file of digests is
not the one that was read, is compared by reading it. So a run may be lost at any time, and a crash
leaves nothing to repair.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.overlap import MIN_BITS, MIN_SHARE, Floor
from app.uploads.row_digests import RowDigests
from app.uploads.samples import SPACE, Digests, Sample

PEOPLE, ROWS = range(2)
_NUMBER_BITS = 24
_NUMBERS = (1 << _NUMBER_BITS) - 1
_KIND_AT = 61
_SLICES = 256
"""A run is read by the first eight bits of digests, so that little of it is in memory at once."""
_AT_ONCE = 1 << 23
"""Keys that are mapped into memory together: 64 MiB."""
_FEW, _BLOCK, _GATHERED = 1 << 20, 1 << 6, 1 << 14
_GROWTH = 8
_NO_CHANCE_BITS = 2000.0  # of people: what they share is not by chance
_EVEN_SLACK, _ENOUGH, _LEAST_CHANCE = 64, 30, 2.0**-40  # as in the rule
_SLACK = 1e-6  # of a share, for what rounding may do

SAMPLE = np.dtype(
    [
        ("dataset", "<u4"), ("kind", "<u4"), ("size", "<f8"), ("limit", "<u8"), ("rows", "<f8"),
        ("repeated", "<f8"), ("bits", "<f8"), ("alike", "<f8"), ("whole", "<u8"),
    ]
)  # fmt: skip
_FIELDS = {name: SAMPLE[name] for name in SAMPLE.names or ()}
Facts = NDArray[Any]
Columns = Mapping[str, NDArray[Any]]
Look = tuple[int, int, int, int]
"""What a file looks like: any change to it changes that."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A data set in a run: the SHA-256 of its digests, and what their file looked like."""

    dataset: str
    sha256: str
    look: Look


@dataclass(frozen=True, slots=True)
class Run:
    """A file of the index: a line of JSON, what files looked like, samples' facts, digests.

    ``datasets`` are the SHA-256 of its data sets' digests, in the order of their numbers.
    """

    path: Path
    key: str
    datasets: Mapping[str, str]
    samples: int
    starts: Sequence[int]
    looks_at: int
    facts_at: int

    @classmethod
    def open(cls, path: Path) -> Run | None:
        """Return a run, None where it is gone or is none."""
        try:
            with path.open("rb") as file:
                line = file.readline()
            head = json.loads(line)
            datasets = dict(zip(head["datasets"].split(), head["sha256"].split(), strict=True))
            facts_at = len(line) + head["looks_bytes"]
            run = cls(
                path, head["key"], datasets, head["samples"], head["starts"], len(line), facts_at
            )
            size = run._keys_at + 8 * (run.keys + -(-run.keys // _BLOCK))
            whole = path.stat().st_size == size and len(datasets) == head["datasets"].count(" ") + 1
            return run if whole else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def keys(self) -> int:
        """Return how many digests it has."""
        return self.starts[-1]

    def indexed(self) -> Sequence[Indexed]:
        """Return its data sets, with what their files looked like."""
        with self.path.open("rb") as file:
            file.seek(self.looks_at)
            looks = json.loads(file.read(self.facts_at - self.looks_at))
        return [
            Indexed(name, sha256, tuple(look))
            for (name, sha256), look in zip(self.datasets.items(), looks, strict=True)
        ]

    def facts(self) -> Columns:
        """Return what it knows of its samples, field by field."""
        found, at = {}, self.facts_at
        for name, kind in _FIELDS.items():
            shape = (self.samples,)
            column = np.memmap(self.path, kind, "r", offset=at, shape=shape)
            found[name] = column.view(np.ndarray)
            at += kind.itemsize * self.samples
        return found

    @property
    def _keys_at(self) -> int:
        return self.facts_at + SAMPLE.itemsize * self.samples

    def piece(self, start: int, stop: int) -> Digests:
        """Return some of its keys, by their places."""
        if start >= stop:
            return np.zeros(0, dtype=np.uint64)
        at = self._keys_at + 8 * start
        found = np.memmap(self.path, "<u8", "r", offset=at, shape=(stop - start,))
        return found.view(np.ndarray)

    def fences(self) -> Digests:
        """Return the first key of each block: with them a key takes one page of memory to find."""
        return np.fromfile(self.path, "<u8", offset=self._keys_at + 8 * self.keys)

    def places_of(self, keys: Digests) -> NDArray[np.intp]:
        """Return how many of its keys are below each of some ordered keys."""
        if self.keys <= _FEW:
            return self.piece(0, self.keys).searchsorted(keys)
        blocks = np.maximum(0, self.fences().searchsorted(keys) - 1)
        found = np.empty(len(keys), dtype=np.intp)
        within = np.arange(_BLOCK)
        start = 0
        while start < len(keys):
            # as many together as are mapped and gathered at once
            first = int(blocks[start])
            far = int(blocks.searchsorted(first + _AT_ONCE // _BLOCK))
            some = slice(start, min(far, start + _GATHERED))
            base = first * _BLOCK
            piece = self.piece(base, min(self.keys, base + _AT_ONCE))
            if len(piece):
                places = (blocks[some] * _BLOCK - base)[:, None] + within
                block = piece[np.minimum(places, len(piece) - 1)]
                below = (block < keys[some, None]).sum(axis=1)
                found[some] = np.minimum(blocks[some] * _BLOCK + below, self.keys)
            else:
                found[some] = 0
            start = some.stop
        return found


def samples_of(digests: RowDigests) -> Iterator[tuple[Sequence[float], Digests]]:
    """Yield what the rule knows of each sample of a table, with the sample's digests."""

    def described(
        kind: int, sample: Sample, bits: float, *, alike: float = 0.0, whole: str | None = None
    ) -> tuple[Sequence[float], Digests]:
        mark = 0 if whole is None else int(whole[:16], 16) | 1
        facts = (kind, len(sample.digests), sample.limit, sample.rows, sample.repeated)
        return (*facts, bits, alike, mark), sample.digests

    if digests.people is not None:
        sample = digests.people
        facts = (PEOPLE, len(sample.digests), sample.limit, sample.rows, 0.0)
        yield (*facts, _NO_CHANCE_BITS, 0.0, 0), sample.digests
    for place, kept in enumerate(digests.kept):
        whole = digests.whole if place == 0 else None
        yield described(ROWS, kept.sample, kept.bits, alike=kept.alike, whole=whole)


def write_run(directory: Path, key: str, tables: Sequence[tuple[Indexed, RowDigests]]) -> Run:
    """Write a run of some data sets, and return it."""
    facts: list[tuple[Any, ...]] = []
    keys: list[Digests] = []
    for number, (_, digests) in enumerate(tables):
        for sample, found in samples_of(digests):
            keys.append(_key_of(found, int(sample[0])) | np.uint64(len(facts)))
            facts.append((number, *sample))
    ordered = np.sort(np.concatenate([np.zeros(0, dtype=np.uint64), *keys]))
    bounds = np.arange(1, _SLICES, dtype=np.uint64) << np.uint64(56)
    starts = [0, *ordered.searchsorted(bounds).tolist(), len(ordered)]
    header = _header(key, [each for each, _ in tables], len(facts), starts)
    known = np.array(facts, SAMPLE)
    return _written(directory, header, {name: known[name] for name in _FIELDS}, [ordered])


def _key_of(digests: Digests, kind: int) -> Digests:
    """Return the first bits of digests, of each kind in places of their own, and zeros."""
    return (digests ^ np.uint64(kind << _KIND_AT)) & ~np.uint64(_NUMBERS)


def merged(directory: Path, runs: Sequence[Run]) -> Run:
    """Write one run in place of several, a piece after the other, and remove these."""
    tables, samples = [run.facts() for run in runs], 0
    shifts: list[np.uint64] = []
    datasets: list[Indexed] = []
    numbers = []
    for run, facts in zip(runs, tables, strict=True):
        numbers.append(facts["dataset"] + np.uint32(len(datasets)))
        shifts.append(np.uint64(samples))
        datasets += run.indexed()
        samples += run.samples

    def pieces() -> Iterator[Digests]:
        for number in range(_SLICES):
            both = [
                run.piece(run.starts[number], run.starts[number + 1]) + by
                for run, by in zip(runs, shifts, strict=True)
            ]
            yield np.sort(np.concatenate(both), kind="stable")

    starts = np.sum([run.starts for run in runs], axis=0).tolist()
    header = _header(runs[0].key, datasets, samples, starts)
    facts = {name: np.concatenate([each[name] for each in tables]) for name in _FIELDS}
    facts["dataset"] = np.concatenate(numbers)
    made = _written(directory, header, facts, pieces())
    for run in runs:
        run.path.unlink(missing_ok=True)
    return made


def _header(key: str, datasets: Sequence[Indexed], samples: int, starts: Sequence[int]) -> bytes:
    looks = json.dumps([each.look for each in datasets]).encode()
    header = {
        "key": key,
        "datasets": " ".join(each.dataset for each in datasets),
        "sha256": " ".join(each.sha256 for each in datasets),
        "samples": samples,
        "starts": starts,
        "looks_bytes": len(looks),
    }
    return json.dumps(header).encode() + b"\n" + looks


def _written(
    directory: Path,
    header: bytes,
    facts: Columns,
    pieces: Iterator[Digests] | Sequence[Digests],
) -> Run:
    """Write a run in a file of another name first: one that is cut off is none."""
    name = secrets.token_hex(8)
    part, path = directory / f"{name}.part", directory / f"{name}.run"
    try:
        with part.open("xb") as file:
            part.chmod(0o600)
            file.write(header)
            for name in _FIELDS:
                file.write(facts[name].tobytes())
            fences, written = [], 0
            for piece in pieces:
                file.write(piece.astype("<u8", copy=False).tobytes())
                fences.append(piece[-written % _BLOCK :: _BLOCK].copy())
                written += len(piece)
            file.write(np.concatenate(fences).astype("<u8", copy=False).tobytes())
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    run = Run.open(path)
    assert run is not None
    return run


def runs_in(directory: Path) -> Sequence[Run]:
    """Return the runs that there are, the largest first."""
    found = (Run.open(path) for path in directory.glob("*.run"))
    return sorted((run for run in found if run is not None), key=lambda run: -run.keys)


def settle(directory: Path, runs: Sequence[Run]) -> None:
    """Merge runs until each is much larger than all smaller ones together."""
    waiting = sorted(runs, key=lambda run: -run.keys)
    while len(waiting) > 1:
        small = [waiting.pop()]
        while waiting and waiting[-1].keys <= _GROWTH * sum(run.keys for run in small):
            small.append(waiting.pop())
        if len(small) == 1:
            return
        total = sum(run.samples for run in small)
        if total > _NUMBERS:  # more samples than have numbers: about 300,000 data sets
            return
        waiting.append(merged(directory, small))


@dataclass(frozen=True, slots=True)
class Group:
    """Data sets that are judged together: one alone, or those of an account."""

    members: Sequence[str]
    floor: Floor


class Lookup:
    """The digests of an upload, and of the data sets of its account: what is looked up in runs.

    Parameters
    ----------
    upload, together
        Their digests.
    """

    def __init__(self, upload: RowDigests, together: Sequence[RowDigests] = ()) -> None:
        own = [each for table in (upload, *together) for each in samples_of(table)]
        self.alone = not together
        self.facts = np.array([(0, *facts) for facts, _ in own], SAMPLE)
        self.samples = [found for _, found in own]
        keys = [_key_of(found, int(facts[0])) for facts, found in own]
        digests = np.concatenate([np.zeros(0, dtype=np.uint64), *keys])
        owners = np.repeat(np.arange(len(own)), [len(found) for found in self.samples])
        order = np.argsort(digests, kind="stable")
        self._keys, self._owners = digests[order], owners[order]

    def found(self, runs: Sequence[Run], groups: Sequence[Group]) -> set[int]:
        """Return the places of the groups that the upload may overlap.

        All members of each group are in the runs.
        """
        places = {name: place for place, group in enumerate(groups) for name in group.members}
        least = np.array([group.floor.common for group in groups], dtype=np.int64)
        single = np.array([len(group.members) == 1 for group in groups], dtype=np.bool_)
        # with an account's data sets, samples of one kind may be put together to one
        slots = np.arange(len(self.facts)) if self.alone else self.facts["kind"].astype(np.intp)
        sums = np.zeros((int(slots.max(initial=0)) + 1, len(groups)), dtype=np.int64)
        marked = np.zeros(len(groups), dtype=np.bool_)
        for run in runs:
            facts = run.facts()
            wanted = [places.get(name, -1) for name in run.datasets]
            group_of = np.array(wanted, dtype=np.intp)[facts["dataset"]]
            for owner, samples, common in self._common(run, group_of):
                own, group = self.facts[owner], group_of[samples]
                same = (facts["whole"][samples] == own["whole"]) & (own["whole"] != 0)
                marked[group[same]] = True
                np.add.at(sums[slots[owner]], group, common)
                if not self.alone:
                    continue
                pairs = np.flatnonzero((common >= least[group]) & single[group] & ~marked[group])
                theirs = {name: column[samples[pairs]] for name, column in facts.items()}
                overlapping = may_overlap(own, self.samples[owner], theirs, common[pairs])
                marked[group[pairs][overlapping]] = True
        together = (sums >= least).any(axis=0) & ~(single & self.alone)
        return set(np.flatnonzero(marked | together).tolist())

    def _common(
        self, run: Run, group_of: NDArray[np.intp]
    ) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        """Yield each of our samples with those of a run that share digests, and how many.

        Those of groups that are wanted.
        """
        owners, samples = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
        starts = run.places_of(self._keys)
        counts = run.places_of(self._keys | np.uint64(_NUMBERS)) - starts
        some = np.flatnonzero(counts)
        starts, ends, whose = starts[some], starts[some] + counts[some], self._owners[some]
        for first in range(0, run.keys, _AT_ONCE):
            last = min(run.keys, first + _AT_ONCE)
            here = np.flatnonzero((starts < last) & (ends > first))
            low, high = np.maximum(starts[here], first), np.minimum(ends[here], last)
            lengths = high - low
            before = np.cumsum(lengths) - lengths
            places = np.arange(int(lengths.sum())) + np.repeat(low - first - before, lengths)
            numbers = (run.piece(first, last)[places] & np.uint64(_NUMBERS)).astype(np.intp)
            wanted = group_of[numbers] >= 0
            owners.append(np.repeat(whose[here], lengths)[wanted])
            samples.append(numbers[wanted])
        whose, numbers = np.concatenate(owners), np.concatenate(samples)
        order = np.argsort(whose.astype(np.uint16), kind="stable")
        edges = whose[order].searchsorted(np.arange(len(self.samples) + 1)).tolist()
        for owner, (start, stop) in enumerate(pairwise(edges)):
            if start < stop:
                counts = np.bincount(numbers[order[start:stop]])
                found = np.flatnonzero(counts)
                yield owner, found, counts[found]


def may_overlap(
    one: Facts, digests: Digests, others: Facts | Columns, common: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Say of which samples the rule may say that they overlap one, whose digests these are."""
    ours = digests.searchsorted(others["limit"])
    mean = others["size"] * np.minimum(1.0, float(one["limit"]) / others["limit"])
    fewest = np.where(others["limit"] <= one["limit"], others["size"], mean - 8 * np.sqrt(mean) - 8)
    compared = np.maximum(common, np.minimum(np.minimum(ours, one["size"]), fewest))
    chance = np.minimum(_chance(one, others), _chance(others, one))
    share = common / compared + _SLACK
    with np.errstate(divide="ignore", invalid="ignore"):
        least = chance + (MIN_SHARE + chance / 2) * (1 - chance)
        other = np.maximum(0.0, 1 - share)
        rest = np.where(other > 0, other * np.log2(other / (1 - chance)), 0.0)
        bits = compared * (share * np.log2(share / chance) + rest)
    enough: NDArray[np.bool_] = (chance < 1) & (share >= least) & (bits + 1 >= MIN_BITS)
    return enough


def _chance(smaller: Any, larger: Any) -> NDArray[np.float64]:
    """Return what :func:`app.domain.overlap.chance_of_equal` does, for many pairs."""
    bound = np.minimum(
        1.0, (smaller["repeated"] + 1 / smaller["rows"]) * (larger["rows"] / smaller["rows"])
    )
    repeated = np.minimum(larger["repeated"], bound)
    distinct = larger["size"] * (SPACE / larger["limit"])
    even = np.minimum(1.0, distinct * np.exp2(-larger["bits"]))
    sure = (repeated >= even) & (larger["repeated"] * larger["rows"] >= _ENOUGH)
    alike = np.maximum(smaller["alike"], larger["alike"])
    chance = np.maximum(np.maximum(_LEAST_CHANCE, repeated), alike)
    found: NDArray[np.float64] = np.where(
        sure, chance, np.maximum(chance, np.minimum(1.0, _EVEN_SLACK * even))
    )
    return found
