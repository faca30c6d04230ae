"""What an audit found, as text for a terminal, as JSON, and as a page that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template

from app.audit.findings import Finding, Findings, Verdict

CORRECTION = (
    "Bonferroni: the level is shared evenly among all offers that were asked, and within each "
    "among its Clopper-Pearson bounds: one of right guesses, or two of probabilities in two "
    "directions. The event of each offer and how it is counted were chosen on the first third of "
    "its draws, and counted on the others."
)
_COLUMNS = ("offer", "promised", "at least", "could be", "draws", "verdict")


def as_json(findings: Findings) -> str:
    """Return the report as JSON."""
    terms = asdict(findings.terms)
    facts = {
        "url": findings.url,
        "began_at": findings.began_at,
        "took_s": findings.took_s,
        "ok": not findings.flagged,
        "verdict": sentence(findings),
        "correction": CORRECTION,
        **{name: terms[name] for name in ("confidence", "epsilon", "seconds", "alone")},
        "offers": [_facts(each) for each in findings.offers],
    }
    return json.dumps(facts, indent=1) + "\n"


def _facts(found: Finding) -> dict[str, object]:
    bound = found.bound
    return {
        **asdict(found.offer),
        "promised_epsilon": found.promised,
        "epsilon_at_least": None if bound is None else bound.epsilon,
        "reachable": None if bound is None else bound.reachable,
        "draws": found.draws,
        "counted": 0 if bound is None else bound.counted,
        "hits": None if bound is None else list(bound.hits),
        "event": None if bound is None else bound.event,
        "verdict": found.verdict,
        "note": found.note or None,
    }


def as_text(findings: Findings) -> Iterator[str]:
    """Yield the report line by line."""
    rows = [_COLUMNS, *map(_cells, findings.offers)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield sentence(findings)


def sentence(findings: Findings) -> str:
    """Return the whole audit in a sentence or two."""
    kept, few = findings.count(Verdict.KEPT), findings.count(Verdict.FEW)
    confidence = f"{findings.terms.confidence:.12g}"
    if findings.flagged:
        text = f"{len(findings.flagged)} of {len(findings.offers)} offers lose more than promised"
        text += f", with confidence {confidence} for all together."
    else:
        text = f"No offer is above its promise; {kept} of {len(findings.offers)} could have been"
        text += f" flagged by these draws. Confidence {confidence} for all together."
    unknown = findings.count(Verdict.UNKNOWN)
    text += f" Too few draws: {few}." if few else ""
    return text + (f" Not audited: {unknown}." if unknown else "")


def _cells(found: Finding) -> tuple[str, ...]:
    bound = found.bound
    bounds = ("", "") if bound is None else (f"{bound.epsilon:.3f}", f"{bound.reachable:.3f}")
    said = found.verdict + (f" ({found.note})" if found.note else "")
    return (str(found.offer), found.promised, *bounds, str(found.draws), said)


def as_html(findings: Findings) -> str:
    """Return the report as a page: no script, nothing loaded from elsewhere."""
    return _page().render(
        findings=findings,
        sentence=sentence(findings),
        correction=CORRECTION,
        flagged=Verdict.FLAGGED,
    )


@cache
def _page() -> Template:
    text = Path(__file__).with_name("report.html").read_text("utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
