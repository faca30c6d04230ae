"""A data set's releases in the fields of the Deployments Registry for differential privacy.

Source: Nanayakkara, Ghazi and Vadhan 2025, arXiv 2509.13509; the members are named as in the
registry's own records (basic, variant, privacy loss, deployment model, implementation,
administrative). All three tiers are filled, but for what only people know: who the curator is
in law, and where the data come from. Those are empty texts, to be filled in by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from app.services.datasets.datasets import DatasetFacts
from app.services.publishing.published import Published, listed

Json = dict[str, Any]
_ADJACENT = {
    "replace_one": "Data sets are neighbours when one privacy unit is replaced by another.",
    "add_remove": "Data sets are neighbours when one privacy unit is added or removed.",
}
_COMPOSED = {
    "pure": "Basic composition: the epsilons of all releases of an account add up.",
    "zcdp": (
        "Zero-concentrated differential privacy: the rho of all releases of an account add up, "
        "and stay within a target of epsilon and delta."
    ),
}
_UNPROTECTED = (
    "The declared bounds and categories of the columns, the data set's name and description, what "
    "was asked, by whom and when. Bounds are declared before the upload and never read off it."
)


def deployment(facts: DatasetFacts, items: Sequence[Published], base: str) -> Json:
    """Return one record of the registry about a data set's public releases."""
    return {
        "url_slug": f"release-desk-{facts.id.replace('_', '-')}",
        "deployment": {
            "basic": _basic(facts, items),
            "dp_variant": {
                "variant_name": "Pure DP",
                "data_domain": _domain(facts),
                "unprotected_quantities": _unprotected(facts),
            },
            "privacy_loss": _loss(facts, items),
            "deployment_model": _model(items),
            "implementation": _implementation(facts, items),
            "administrative": {
                "evidence_sources": {
                    item.id: {"evidence_source_type": "Website", "url": f"{base}{item.path}"}
                    for item in items
                },
                "status": "Draft",
                "registry_authors": [""],
                "tier": 3,
            },
        },
    }


def _basic(facts: DatasetFacts, items: Sequence[Published]) -> Json:
    days = [item.day for item in items]
    return {
        "name": facts.record.name,
        "data_curators": [{"data_curator_name": "", "data_curator_type": ""}],
        "description": facts.description,
        "intended_use": "; ".join(
            dict.fromkeys(purpose for item in items if (purpose := item.answer.get("purpose")))
        ),
        "data_product_type": "Summary statistics",
        "data_product_region": "",
        "data_product_sector": "",
        "publication_date": min(days) if days else datetime.now(UTC).date().isoformat(),
    }


def _domain(facts: DatasetFacts) -> str:
    adjacency = str(facts.schema.adjacency)
    rows = "a public number of" if adjacency == "replace_one" else "any number of"
    return f"Tables of {rows} rows with declared columns, each value inside declared bounds."


def _unprotected(facts: DatasetFacts) -> str:
    if str(facts.schema.adjacency) == "replace_one":
        return f"{_UNPROTECTED} The number of rows is public too."
    return _UNPROTECTED


def _loss(facts: DatasetFacts, items: Sequence[Published]) -> Json:
    adjacency = str(facts.schema.adjacency)
    # As fractions: three times 0.1 is 0.3.
    total = sum((Fraction(item.epsilon) for item in items), Fraction(0))
    return {
        "privacy_unit": facts.schema.protects.words,
        "privacy_unit_details": _ADJACENT[adjacency],
        "number_of_privacy_units": 1,
        "privacy_parameters": {"epsilon": float(total)},
        "privacy_parameters_details": (
            "The sum over the releases named here. All releases of the data set together, public "
            "or not, stay within a budget that a hash-chained ledger enforces before each draw."
        ),
    }


def _model(items: Sequence[Published]) -> Json:
    return {
        "model_name": "Central",
        "model_name_details": "A service holds the rows and gives out private numbers only.",
        "trust_assumptions": (
            "The operator of the service and its host are trusted with the rows. Analysts, "
            "curators and readers are not trusted with anything beyond the noisy numbers."
        ),
        "actors": (
            "Curators upload data, set budgets, review and publish. Analysts ask. Admins hand out "
            "keys. The public reads what is published, and can check its receipts."
        ),
        "release_type": "Many releases" if len(items) != 1 else "Single release",
        "release_type_details": "Each release is charged to the account before it is drawn.",
        "data_source_type": "Static",
        "data_source_type_details": "An uploaded data set never changes.",
        "access_type": "Interactive",
        "access_type_details": "Analysts with a key ask; a policy and reviews say what may be.",
    }


def _implementation(facts: DatasetFacts, items: Sequence[Published]) -> Json:
    answers = [item.answer for item in items]
    theorems = dict.fromkeys(answer["guarantee"]["theorem"] for answer in answers)
    mechanisms = dict.fromkeys(
        f"{listed(item.kinds)}: {item.answer['mechanism']}"
        + (f" ({item.answer['norm']} norm)" if item.answer.get("norm") else "")
        for item in items
    )
    software = dict.fromkeys(item.software for item in items)
    return {
        "preprocessing_and_hyperparameter_tuning": (
            "Values are clamped to the declared bounds; missing cells are refused, filled or left "
            "out as declared. Nothing is tuned on the data."
        ),
        "mechanisms": "; ".join((*mechanisms, *theorems)),
        "composition": _COMPOSED[facts.meter.kind],
        "post_processing": "None but what a release names; derivations use released numbers only.",
        "justification": "; ".join(dict.fromkeys(answer["reason"] for answer in answers)),
        "utility": "; ".join(
            f"{item.id}: {meaning['sentence']}"
            for item in items
            if (meaning := item.answer.get("usefulness")) is not None
        ),
        "additional_information": (
            f"{', '.join(software)}. Draws are exact: integers and rationals decide every private "
            "outcome, so there is no floating-point leak. Answers leave at ticks of a public clock."
        ),
    }
