"""A public release in plain words: what its numbers mean and do not, and what it promises."""

from __future__ import annotations

import math

from app.services.publishing.published import Published

_MOST_READABLE = 20.0  # exp(20) is above a hundred million, which is said instead
_NOISY = (
    "Every number has noise added on purpose, to protect every person in the data. "
    "The same question asked again would give another number."
)
_NEIGHBOURS = {
    "replace_one": "Replacing one person's data",
    "add_remove": "Adding or removing one person",
}


def meaning(published: Published) -> tuple[str, ...]:
    """Return what the numbers say and what they do not, a sentence or two each."""
    sentences = [*published.about_missing, _NOISY]
    if any(row.noise is not None for row in published.rows):
        sentences.append(
            "A noise interval says where a number would have been without the noise: it holds that "
            "number in 95 of 100 releases. It says nothing of people who are not in the data."
        )
    else:
        sentences.append(
            "The law of the noise depends on the data here, so no noise interval is shown: it "
            "would reveal something about the data."
        )
    if any(row.confidence is not None for row in published.rows):
        sentences.append(
            "A confidence interval says where the number of the whole population is, sampling "
            "error and noise together. It is the wider one, and the one to draw conclusions from."
        )
    else:
        sentences.append(
            "There is no confidence interval, because none was asked for. So no interval here "
            "covers the error of having seen a sample of the population only."
        )
    sentences.append(
        "Values outside the declared bounds were moved to the nearest bound before anything was "
        "computed. The bounds are public knowledge and were not read off the data."
    )
    return tuple(sentences)


def bars(published: Published) -> str:
    """Return what a chart of the numbers shows next to its dots."""
    thick = any(row.noise is not None for row in published.rows)
    thin = any(row.confidence is not None for row in published.rows)
    return (", thick bars their noise intervals" if thick else "") + (
        ", thin lines their confidence intervals" if thin else ""
    )


def guarantee(published: Published) -> str:
    """Return the promise in words, with the factor that epsilon stands for."""
    answer = published.answer
    promised = answer["guarantee"]
    changes = changes_at_most(float(answer["epsilon"]), promised["adjacency"])
    return (
        f"{changes} Here {promised['protects']}. Epsilon is "
        f"{answer['epsilon']}. This is pure differential privacy: it has no exceptions, whatever "
        "else is known and whatever is computed from the result."
    )


def changes_at_most(epsilon: float, adjacency: str) -> str:
    """Return by how much one person's data change the probability of any result."""
    return (
        f"{_NEIGHBOURS[adjacency]} changes the probability of any result by at most a factor of "
        f"{_factor(epsilon)}."
    )


def _factor(epsilon: float) -> str:
    if epsilon > _MOST_READABLE:
        return "a hundred million"
    return f"{math.exp(epsilon):.3g}"


def methods(published: Published) -> str:
    """Return a paragraph for the methods section of a paper, ready to paste."""
    answer = published.answer
    promised = answer["guarantee"]
    norm = f" in the {answer['norm']} norm" if answer.get("norm") else ""
    exact = ", and drawn exactly, without rounding error" if promised["exact"] else ""
    bounds = bounds_in_words(published)
    return (
        f"We report a {published.about} of the data set “{published.dataset}”, released under "
        f"{promised['definition']} with epsilon = {answer['epsilon']} and "
        f"{promised['adjacency'].replace('_', '-')} adjacency ({promised['protects']}). "
        f"What was asked, in full: {published.question}. "
        f"{''.join(f'{each} ' for each in published.about_missing)}"
        f"{f'Columns were clamped to public bounds: {bounds}. ' if bounds else ''}"
        f"The noise was calibrated by the {answer['mechanism'].replace('_', '-')} mechanism{norm} "
        f"({promised['theorem']}; sensitivity {promised['sensitivity']} "
        f"{promised['sensitivity_unit']}){exact}. The release {published.id} is entry "
        f"{published.release.seq} of account {published.release.account} in a hash-chained privacy "
        f"ledger, and carries a signed receipt ({published.software})."
    )


def bounds_in_words(published: Published) -> str:
    """Return the bounds of the columns, as "age 0 to 100 years"."""
    return "; ".join(
        f"{name} {column['lower']} to {column['upper']}"
        + (f" {column['unit_of_measure']}" if "unit_of_measure" in column else "")
        for name, column in published.columns.items()
        if "lower" in column
    )


def badge_text(published: Published) -> tuple[str, str]:
    """Return the two halves of a badge: "epsilon 0.5" and "pure DP"."""
    definition = published.answer["guarantee"]["definition"]
    return f"epsilon {published.answer['epsilon']}", definition.replace("epsilon-DP", "DP")
