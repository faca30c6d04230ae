"""Public releases as catalogues read them: schema.org, DataCite, Croissant, and one registry.

*The Deployments Registry for differential privacy.* Its members are named as in its own records
(basic, variant, privacy loss, deployment model, implementation, administrative). All three tiers
are filled, but for what only people know: who the curator is in law, and where the data come from.
Those are empty texts, to be filled in by hand. Source: Nanayakkara, Ghazi and Vadhan 2025,
arXiv 2509.13509.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from app.domain.ledger import sha256_hex
from app.services.datasets.datasets import DatasetFacts
from app.services.plans.wording import kinds_in_words
from app.services.publishing.published import Published, guarantee
from app.services.releases.public_moments import NUMBERS, csv_columns, tidy_csv
from app.tidy.rows import Row
from mechanisms.privacy import PURE, definition_of

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
                "variant_name": _variant(items),
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


def _is_pure(items: Sequence[Published]) -> bool:
    return definition_of(item.promise for item in items) == PURE


def _variant(items: Sequence[Published]) -> str:
    return "Pure DP" if _is_pure(items) else "Zero-concentrated DP"


def _loss(facts: DatasetFacts, items: Sequence[Published]) -> Json:
    adjacency = str(facts.schema.adjacency)
    # As fractions: three times 0.1 is 0.3.
    if _is_pure(items):
        parameter, losses = "epsilon", [Fraction(item.epsilon) for item in items]
    else:
        parameter, losses = "rho", [item.promise.zcdp for item in items]
    return {
        "privacy_unit": facts.schema.protects.words,
        "privacy_unit_details": _ADJACENT[adjacency],
        "number_of_privacy_units": 1,
        "privacy_parameters": {parameter: float(sum(losses, Fraction(0)))},
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
        f"{kinds_in_words(item.kinds)}: {item.answer['mechanism']}"
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


_US: Json = {"@type": "Organization", "name": "Release Desk"}
_RIGHTS = "https://rightsstatements.org/vocab/CNE/1.0/"
"""No rights holder is stated; Croissant requires a licence."""
_MOST_VARIABLES = 100
_CROISSANT: Json = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the Croissant format 1.0 gives its names."""


def schema_org(published: Published, base: str) -> Json:
    """Return a public release as a ``Dataset`` of schema.org, for JSON-LD."""
    address = f"{base}{published.path}"
    return {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "@id": address,
        "url": address,
        "identifier": published.id,
        "name": published.title,
        "description": " ".join(
            [published.answer["citation"], guarantee(published), *published.about_records]
        ),
        "datePublished": published.day,
        "creator": _US,
        "publisher": _US,
        "isAccessibleForFree": True,
        "includedInDataCatalog": {"@type": "DataCatalog", "url": f"{base}/public"},
        "measurementTechnique": published.answer["guarantee"]["theorem"],
        "variableMeasured": [_variable(row) for row in published.first_rows[:_MOST_VARIABLES]],
        "distribution": [
            {"@type": "DataDownload", "encodingFormat": kind, "contentUrl": f"{address}.{end}"}
            for end, kind in (("csv", "text/csv"), ("json", "application/json"))
        ],
    }


def _variable(row: Row) -> Json:
    variable: Json = {"@type": "PropertyValue", "name": row.name, "value": row.estimate}
    interval = row.confidence or row.noise
    if interval is not None:
        variable |= {"minValue": interval[0], "maxValue": interval[1]}
    return variable


def datacite(facts: DatasetFacts, items: Sequence[Published], base: str) -> Json:
    """Return a data set's public releases in the fields of DataCite 4, without a DOI."""
    first, last = _days(items)
    return {
        "schemaVersion": "http://datacite.org/schema/kernel-4",
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": "Private statistics"},
        "alternateIdentifiers": [
            {"alternateIdentifierType": "Release Desk", "alternateIdentifier": facts.id}
        ],
        "titles": [{"title": _name(facts)}],
        "creators": [{"name": "Release Desk", "nameType": "Organizational"}],
        "publisher": {"name": "Release Desk"},
        "publicationYear": last[:4],
        "dates": [{"date": f"{first}/{last}", "dateType": "Issued"}] if items else [],
        "descriptions": [
            {"descriptionType": "Abstract", "description": _about(facts, items), "lang": "en"}
        ],
        "formats": ["text/csv", "application/json"],
        "relatedIdentifiers": [
            {
                "relationType": "HasPart",
                "relatedIdentifierType": "URL",
                "relatedIdentifier": f"{base}{item.path}",
                "resourceTypeGeneral": "Dataset",
            }
            for item in items
        ],
    }


def croissant(facts: DatasetFacts, items: Sequence[Published], base: str) -> Json:
    """Return a data set's public releases in the Croissant format 1.0: a table for each.

    A file has its size and its hash there. So releases of very many cells are left out, whose files
    are made page by page.
    """
    described = [item for item in items if not item.is_long]
    return {
        "@context": _CROISSANT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": facts.record.name,
        "description": _about(facts, items),
        "url": f"{base}/public?dataset={facts.id}",
        "datePublished": _days(items)[1],
        "license": _RIGHTS,
        "version": f"{len(items)}.0.0",
        "citeAs": f"{_name(facts)}, Release Desk, {base}/public?dataset={facts.id}",
        "creator": _US,
        "publisher": _US,
        "distribution": [_file(item, base) for item in described],
        "recordSet": [_records(item) for item in described],
    }


def _file(item: Published, base: str) -> Json:
    content = tidy_csv(item.answer).encode()
    return {
        "@type": "cr:FileObject",
        "@id": f"{item.id}.csv",
        "name": f"{item.id}.csv",
        "description": " ".join([item.answer["citation"], *item.about_records]),
        "contentUrl": f"{base}{item.path}.csv",
        "contentSize": f"{len(content)} B",
        "encodingFormat": "text/csv",
        "sha256": sha256_hex(content),
    }


def _records(item: Published) -> Json:
    return {
        "@type": "cr:RecordSet",
        "@id": item.id,
        "name": item.id,
        "description": item.title,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{item.id}/{column}",
                "name": column,
                "dataType": "sc:Float" if column in NUMBERS and not _has_texts(item) else "sc:Text",
                "source": {
                    "fileObject": {"@id": f"{item.id}.csv"},
                    "extract": {"column": column},
                },
            }
            for column in csv_columns(item.rows, item.answer.get("labels", {}))
        ],
    }


def _has_texts(item: Published) -> bool:
    """Return whether numbers are written as texts: dates and moments are."""
    return any(isinstance(row.estimate, str) for row in item.rows)


def _name(facts: DatasetFacts) -> str:
    return f"Differentially private statistics of {facts.record.name}"


def _about(facts: DatasetFacts, items: Sequence[Published]) -> str:
    said = f"{facts.description.strip()} " if facts.description.strip() else ""
    return (
        f"{said}Statistics released with {_definition(items)} "
        f"({facts.schema.adjacency}, {facts.schema.protects.words}). The rows are not public."
    )


def _definition(items: Sequence[Published]) -> str:
    kind = "pure" if _is_pure(items) else "zero-concentrated"
    return f"{kind} differential privacy"


def _days(items: Sequence[Published]) -> tuple[str, str]:
    """Return the days of the first and the last; where there is none, that of nothing."""
    days = sorted(item.day for item in items) or ["1970-01-01"]
    return days[0], days[-1]


# What is public as an Atom feed (RFC 4287), newest first

_NOTHING_YET = "1970-01-01T00:00:00Z"


def atom(items: Sequence[Published], base: str) -> str:
    """Return the feed; ``base`` is where the service is, without a slash at its end."""
    own = f"{base}/public/feed.atom"
    updated = items[0].publication.published_at if items else _NOTHING_YET
    entries = "".join(_entry(item, base) for item in items)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<title>Public releases</title><id>{escape(own)}</id>"
        f'<link rel="self" type="application/atom+xml" href={quoteattr(own)}/>'
        f'<link rel="alternate" type="text/html" href={quoteattr(f"{base}/public")}/>'
        f"<author><name>Release Desk</name></author><updated>{updated}</updated>"
        f"{entries}</feed>\n"
    )


def _entry(item: Published, base: str) -> str:
    address = f"{base}{item.path}"
    at = item.publication.published_at
    return (
        f"<entry><title>{escape(item.title)}</title><id>{escape(address)}</id>"
        f'<link rel="alternate" type="text/html" href={quoteattr(address)}/>'
        f'<link rel="alternate" type="application/json" href={quoteattr(address + ".json")}/>'
        f"<published>{at}</published><updated>{at}</updated>"
        f"<summary>Epsilon {escape(item.epsilon)}, data set {escape(item.dataset)}.</summary>"
        "</entry>"
    )


# Where a public release leads, as ``Link`` headers (Signposting, RFC 8288)

FORMS = (
    ("json", "application/json", "item"),
    ("csv", "text/csv", "item"),
    ("jsonld", "application/ld+json", "describedby"),
    ("csl.json", "application/vnd.citationstyles.csl+json", "describedby"),
    ("bib", "application/x-bibtex", "describedby"),
    ("ris", "application/x-research-info-systems", "describedby"),
    ("txt", "text/plain", "describedby"),
    ("svg", "image/svg+xml", "icon"),
)
"""Other formats of a public release: how the address ends, the type, the relation."""


def signposts(published: Published, base: str) -> str:
    """Return the ``Link`` header of a public release's page."""
    address = f"{base}{published.path}"
    links = [
        f'<{address}>; rel="cite-as"',
        '<https://schema.org/Dataset>; rel="type"',
        '<https://schema.org/AboutPage>; rel="type"',
        f'<{base}/public>; rel="collection"',
    ]
    links += [
        f'<{address}.{end}>; rel="{relation}"; type="{kind}"'
        for end, kind, relation in FORMS
        if relation != "icon"
    ]
    return ", ".join(links)


def back(published: Published, base: str) -> str:
    """Return the ``Link`` header of another form of it, which leads to the page."""
    address = f"{base}{published.path}"
    return f'<{address}>; rel="describes"; type="text/html", <{address}>; rel="cite-as"'


# The export formats of a data set's public releases for catalogues, by name

Export = Callable[[DatasetFacts, Sequence[Published], str], dict[str, Any]]

EXPORTS: Mapping[str, Export] = {
    "registry": deployment,
    "datacite": datacite,
    "croissant": croissant,
}
"""Each takes a data set's facts, its public releases, and where the service is."""
