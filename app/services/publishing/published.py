"""A release that is public: its answer, the facts that say what it is about, and both in words.

Facts are those of the columns that the question names, and no others: a page shows no more than
the answer does but what the answer's own words mean.

*The public document of a release: what strangers need to check it, and a signature over it all.*
Behind the stored answer and what is said of its publication come two members::

    "proof":     that the entry which charged for it is in the public log, against a checkpoint,
                 and the time stamp of that checkpoint, once it has one
    "signature": a JSON Web Signature over the SHA-256 of every byte before it

The signature is made by the key of receipts. Its payload has the members ``ledger``, ``release``
and ``page``, and no ``answer``, so that neither passes for the other.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any
from urllib.parse import quote

from app.domain.datasets import columns_json, derived_json
from app.domain.problems import Problem, SignerLostError
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.wording import asked, asked_in_full, columns_named
from app.services.releases.receipts import Receipts
from app.services.transparency.log import EntryProof, LogService
from app.store import ReleaseRecord
from app.store.publishing import PublicationRecord
from app.tidy.keys import first_tables, is_long, read_answer
from app.tidy.names import Labels, Phrase, joined, labels_of, marked, said_of, words
from app.tidy.rows import Row, rows_of
from mechanisms.accounting import epsilon_of, units
from mechanisms.catalog import written_guarantee
from mechanisms.exact.fractions import decimal_text
from mechanisms.privacy import Guarantee
from mechanisms.words import rounded, worded

_TOLD = ("type", "lower", "upper", "values", "labels", "label", "unit_of_measure", "expr")
"""What is shown of a column; how cells were read is of no use to a reader."""
_FIRST_CELLS = 1_000
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, kw_only=True)
class Published:
    """A release that everyone may read.

    Attributes
    ----------
    publication
        Who made it public, when and why.
    release
        The release; lists do without its result.
    dataset
        The name of its data set.
    columns
        The declared facts of the columns that it is about.
    delta
        That of its account; None where epsilons add up.
    software
        The version that serves it.
    """

    publication: PublicationRecord
    release: ReleaseRecord
    dataset: str
    columns: Mapping[str, Mapping[str, Any]]
    delta: Fraction | None
    software: str

    @property
    def content(self) -> bytes:
        """Return the stored answer, byte for byte as it is signed."""
        assert self.release.result is not None
        return self.release.result

    @cached_property
    def answer(self) -> Mapping[str, Any]:
        """Return the members of the answer."""
        return read_answer(self.content)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Return its numbers."""
        return rows_of(self.answer)

    @cached_property
    def first_rows(self) -> tuple[Row, ...]:
        """Return its numbers; of many tables those of the first ones alone."""
        return rows_of(first_tables(self.answer, _FIRST_CELLS))

    @property
    def is_long(self) -> bool:
        """Return whether a file of its numbers is made page by page."""
        return is_long(self.answer)

    @property
    def labels(self) -> Labels:
        """Return what values of its categories are called."""
        return labels_of(self.columns)

    @property
    def about_records(self) -> tuple[str, ...]:
        """Return what it says of missing cells and of weights, a sentence each; often nothing."""
        return said_of(self.answer)

    @property
    def id(self) -> str:
        """Return the release's id."""
        return self.release.id

    @property
    def path(self) -> str:
        """Return the path of its page."""
        return path_of(self.release.id)

    @property
    def epsilon(self) -> str:
        """Return its privacy loss."""
        return str(json.loads(self.release.request)["epsilon"])

    @property
    def promise(self) -> Guarantee:
        """Return what its plan guarantees."""
        return written_guarantee(json.loads(self.release.plan))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of statistics that it holds."""
        return tuple(self.publication.kinds.split())

    @property
    def title(self) -> Phrase:
        """Return what it is, in a line."""
        return marked("%(about)s in “%(name)s”", about=self.about.capitalized(), name=self.dataset)

    @property
    def about(self) -> Phrase:
        """Return what was asked, as words."""
        return asked(json.loads(self.release.request)["statistic"])

    @property
    def question(self) -> Phrase:
        """Return what was asked in full, with its conditions: which records a number is about."""
        return asked_in_full(json.loads(self.release.request)["statistic"])

    @property
    def day(self) -> str:
        """Return the day on which it was made public."""
        return self.publication.published_at[:10]

    def to_json(self, proof: Mapping[str, Any] | None = None) -> bytes:
        """Return the public document: the stored answer's own bytes, then what is added to it.

        The first members are those of the answer, up to its receipt, unchanged. So a reader who
        cuts the document behind the receipt, and closes the brace, has the bytes that it signs.
        """
        added: dict[str, Any] = {"publication": self._publication_json()}
        added["data"] = {"name": self.dataset, "columns": self.columns}
        added["software"] = self.software
        if proof is not None:
            added["proof"] = proof
        return b"%s,%s" % (self.content[:-1], _encode(added).encode()[1:])

    def _publication_json(self) -> dict[str, Any]:
        made = self.publication
        return {
            "address": self.path,
            "published_by": made.published_by,
            "published_at": made.published_at,
            "reason": made.reason,
            "account": "0",
            "seq": made.seq,
            "ledger_account": self.release.account,
            "ledger_seq": self.release.seq,
            "ledger_entry": self.release.entry_hash,
        }


def path_of(release: str) -> str:
    """Return where a public release is shown."""
    return f"/public/releases/{quote(release, safe='')}"


def columns_of(
    facts: DatasetFacts, statistic: Mapping[str, Any]
) -> Mapping[str, Mapping[str, Any]]:
    """Return the declared facts of the columns that a question names, in the data set's order."""
    named = columns_named(statistic)
    every = {**columns_json(facts.columns), **derived_json(facts.columns)}
    return {
        name: {each: column[each] for each in _TOLD if each in column} | _missing(column)
        for name, column in every.items()
        if name in named
    }


def _missing(column: Mapping[str, Any]) -> dict[str, Any]:
    """Return what missing cells of a column count as, where they are kept or filled in."""
    missing = column.get("missing", "reject")
    return {} if missing in ("reject", "drop") else {"missing": missing}


# The public document of a release: what strangers need to check it, and a signature over it all

_MEMBER = b',"signature":"'


class PublicDocuments:
    """Makes public documents, with their proofs and signatures."""

    def __init__(self, log: LogService, receipts: Receipts) -> None:
        self._log = log
        self._receipts = receipts

    def document(self, published: Published) -> bytes:
        """Return the public document of a release.

        Its proof is against the first checkpoint that covers it, so it stays as it is; it is left
        out until there is one, as is the time stamp of that checkpoint.

        Raises
        ------
        Problem
            ``busy`` while the key is not at hand.
        """
        proof = self._log.prove(published.release.account, published.release.seq)
        content = published.to_json(None if proof is None else proof_json(self._log, proof))
        try:
            signature = self._receipts.sign_page(published.id, content)
        except SignerLostError:
            raise Problem("busy", "The signing key is not at hand.") from None
        return b'%s%s%s"}' % (content[:-1], _MEMBER, signature)


def proof_json(log: LogService, proof: EntryProof) -> Mapping[str, Any]:
    """Return a proof: what is shown of the entry, and the way from its leaf to a signed root."""
    entry = proof.entry
    stamped = {} if proof.stamp is None else {"stamp": base64.b64encode(proof.stamp).decode()}
    return {
        "entry": {
            "ledger": log.ledger,
            "account": entry.account,
            "seq": entry.seq,
            "epoch": entry.epoch,
            "kind": entry.kind,
            "release": entry.release,
            "amount": entry.amount,
            "at": entry.at,
            "hash": entry.hash,
            "hidden": proof.hidden,
        },
        "index": proof.inclusion.index,
        "path": [each.hex() for each in proof.inclusion.path],
        "checkpoint": proof.checkpoint,
    } | stamped


_MOST_READABLE = 20.0  # exp(20) is above a hundred million, which is said instead
_NEARLY_SURE = 99.5  # what is above would be written as 100%
_NOISY = worded(
    "Every number has noise added on purpose, to protect every person in the data. "
    "The same question asked again would give another number."
)
_CHANGES = {
    "replace_one": (
        worded(
            "Replacing one person's data changes the probability of any result by at most a factor "
            "of %(factor)s."
        ),
        worded(
            "Replacing one person's data changes the probability of any result by at most a factor "
            "of %(factor)s, and %(delta)s more."
        ),
    ),
    "add_remove": (
        worded(
            "Adding or removing one person changes the probability of any result by at most a "
            "factor of %(factor)s."
        ),
        worded(
            "Adding or removing one person changes the probability of any result by at most a "
            "factor of %(factor)s, and %(delta)s more."
        ),
    ),
}
"""What a guarantee says, without a delta and with one."""


def meaning(published: Published) -> tuple[str, ...]:
    """Return what the numbers say and what they do not, a sentence or two each."""
    sentences = [*published.about_records, _NOISY]
    if any(row.noise is not None for row in published.first_rows):
        sentences.append(
            worded(
                "A noise interval says where a number would have been without the noise: it holds "
                "that number in 95 of 100 releases. It says nothing of people who are not in the "
                "data."
            )
        )
    else:
        sentences.append(
            worded(
                "The law of the noise depends on the data here, so no noise interval is shown: it "
                "would reveal something about the data."
            )
        )
    if any(row.confidence is not None for row in published.first_rows):
        sentences.append(
            worded(
                "A confidence interval says where the number of the whole population is, sampling "
                "error and noise together. It is the wider one, and the one to draw conclusions "
                "from."
            )
        )
    else:
        sentences.append(
            worded(
                "There is no confidence interval, because none was asked for. So no interval here "
                "covers the error of having seen a sample of the population only."
            )
        )
    sentences.append(
        worded(
            "Values outside the declared bounds were moved to the nearest bound before anything "
            "was computed. The bounds are public knowledge and were not read off the data."
        )
    )
    return tuple(sentences)


def guarantee(published: Published) -> str:
    """Return the promise in words, with the factor that epsilon stands for."""
    promised = published.answer["guarantee"]
    here = worded("Here %(protects)s.", protects=promised["protects"])
    if "rho" in promised:
        loss = worded("Rho is %(rho)s.", rho=promised["rho"])
        this = worded(
            "This is zero-concentrated differential privacy: it holds whatever else is known and "
            "whatever is computed from the result."
        )
    else:
        loss = worded("Epsilon is %(epsilon)s.", epsilon=promised["epsilon"])
        this = worded(
            "This is pure differential privacy: it has no exceptions, whatever else is known and "
            "whatever is computed from the result."
        )
    return " ".join((changes_at_most(promised, published.delta), here, loss, this))


def changes_at_most(promised: Mapping[str, Any], delta: Fraction | None) -> str:
    """Return by how much one person's data change the probability of any result.

    ``promised`` is the guarantee of an answer, ``delta`` that of its account.
    """
    plain, with_delta = _CHANGES[promised["adjacency"]]
    if "rho" in promised and delta is not None:
        epsilon = epsilon_of(units(Fraction(promised["rho"])), delta).fraction
        return with_delta % {"factor": _factor(float(epsilon)), "delta": decimal_text(delta)}
    return plain % {"factor": _factor(float(Fraction(promised["epsilon"])))}


_GUESSES = {
    "replace_one": worded(
        "Someone who guesses which of two values one person has, and is 50%% sure before, is at "
        "most %(sure)s sure after it."
    ),
    "add_remove": worded(
        "Someone who guesses whether one person is in the data, and is 50%% sure before, is at "
        "most %(sure)s sure after it."
    ),
}


def odds_at_most(epsilon: float, adjacency: str) -> str:
    """Return what a privacy loss means for one person: how sure a guess at even odds may become.

    By Bayes' rule the posterior odds are at most exp(epsilon) times the prior odds.

    >>> odds_at_most(1.0, "add_remove")[-55:]
    ', and is 50% sure before, is at most 73% sure after it.'
    """
    return _GUESSES[adjacency] % {"sure": sure_at_most(epsilon)}


def together_at_most(own: float, others: float, *, linked: bool) -> str:
    """Return the same of an epsilon with that of ``others``, the releases before it.

    Those are of linked data sets, or of one account alone.
    """
    text = (
        worded(
            "Together with all other releases of the linked data sets (epsilon %(epsilon)s): "
            "%(sure)s at most."
        )
        if linked
        else worded(
            "Together with all other releases of this account (epsilon %(epsilon)s): %(sure)s at "
            "most."
        )
    )
    return text % {"epsilon": f"{others:g}", "sure": sure_at_most(own + others)}


def sure_at_most(epsilon: float) -> str:
    """Return how sure a guess at even odds may become, in percent.

    >>> sure_at_most(0.5), sure_at_most(19)
    ('62%', 'nearly 100%')
    """
    sure = 100 / (1 + math.exp(-epsilon))
    return f"{sure:.0f}%" if sure < _NEARLY_SURE else "nearly 100%"


def loss_of(promised: Mapping[str, Any]) -> tuple[str, str]:
    """Return the parameter that a guarantee limits, and its value: epsilon, or rho."""
    name = "rho" if "rho" in promised else "epsilon"
    return name, promised[name]


def _factor(epsilon: float) -> str:
    """Return exp(epsilon) for a sentence.

    >>> _factor(1.0), _factor(7.0)
    ('2.72', '1,100')
    """
    if epsilon > _MOST_READABLE:
        return "a hundred million"
    return rounded(math.exp(epsilon))


def methods(published: Published) -> Phrase:
    """Return a paragraph for the methods section of a paper, ready to paste."""
    promised = published.answer["guarantee"]
    bounds = bounds_in_words(published)
    return joined(
        (
            marked(
                "We report the %(about)s of the data set “%(name)s”, released under %(definition)s "
                "with %(loss)s and %(adjacency)s adjacency (%(protects)s).",
                about=published.about,
                name=published.dataset,
                definition=Phrase(promised["definition"]),
                loss=joined(loss_of(promised), " = "),
                adjacency=promised["adjacency"].replace("_", "-"),
                protects=promised["protects"],
            ),
            marked("What was asked, in full: %(question)s.", question=published.question),
            *(Phrase("%(sentence)s", {"sentence": each}) for each in published.about_records),
            *(
                [marked("Columns were clamped to public bounds: %(bounds)s.", bounds=bounds)]
                * bool(bounds)
            ),
            _noise_of(published.answer),
            marked(
                "The release %(id)s is entry %(seq)s of account %(account)s in a hash-chained "
                "privacy ledger, and carries a signed receipt (%(software)s).",
                id=published.id,
                seq=published.release.seq,
                account=published.release.account,
                software=published.software,
            ),
        ),
        " ",
    )


_CALIBRATED = {
    (True, True): marked(
        "The noise was calibrated by the mechanism %(mechanism)s in the %(norm)s norm "
        "(%(theorem)s; sensitivity %(sensitivity)s %(unit)s), and drawn exactly, without rounding "
        "error."
    ),
    (True, False): marked(
        "The noise was calibrated by the mechanism %(mechanism)s in the %(norm)s norm "
        "(%(theorem)s; sensitivity %(sensitivity)s %(unit)s)."
    ),
    (False, True): marked(
        "The noise was calibrated by the mechanism %(mechanism)s (%(theorem)s; sensitivity "
        "%(sensitivity)s %(unit)s), and drawn exactly, without rounding error."
    ),
    (False, False): marked(
        "The noise was calibrated by the mechanism %(mechanism)s (%(theorem)s; sensitivity "
        "%(sensitivity)s %(unit)s)."
    ),
}
"""What a paper says of the noise, by whether there is a norm, and whether draws are exact."""


def _noise_of(answer: Mapping[str, Any]) -> Phrase:
    promised, norm = answer["guarantee"], answer.get("norm")
    return Phrase(
        _CALIBRATED[bool(norm), bool(promised["exact"])],
        {
            "mechanism": words(answer["mechanism"]),
            "norm": norm or "",
            "theorem": promised["theorem"],
            "sensitivity": str(promised["sensitivity"]),
            "unit": promised["sensitivity_unit"],
        },
    )


def bounds_in_words(published: Published) -> Phrase:
    """Return the bounds of the columns, as "age 0 to 100 years"."""
    return joined(
        (
            joined(
                [
                    name,
                    marked("%(low)s to %(high)s", low=column["lower"], high=column["upper"]),
                    *filter(None, [column.get("unit_of_measure")]),
                ],
                " ",
            )
            for name, column in published.columns.items()
            if "lower" in column
        ),
        "; ",
    )


def badge_text(published: Published) -> tuple[str, str]:
    """Return the two halves of a badge: "epsilon 0.5" and "pure DP", or "rho 0.125" and "zCDP"."""
    promised = published.answer["guarantee"]
    definition = promised["definition"].replace("epsilon-DP", "DP").replace("rho-zCDP", "zCDP")
    return " ".join(loss_of(promised)), definition
