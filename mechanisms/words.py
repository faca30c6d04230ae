"""Lists of names in sentences: bounded, and what was probably meant first."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

MOST_LISTED = 20  # a sentence of more is no sentence
_LONGEST_COMPARED = 40  # the work grows with both lengths, and whoever asks chooses one
_MOST_COMPARED = 1_000
"""A refusal takes a few hundredths of a second at most, however many names there are."""
_ALIKE = 0.6  # SequenceMatcher's ratio, from 0 to 1


def closest_first(names: Sequence[str], written: str) -> list[str]:
    """Return names, those much like what somebody wrote first; the rest keep their order.

    What was written decides the order alone, and is not in the list unless it is a name.

    >>> closest_first(["epsilon", "norm", "mechanism"], "mecanism")
    ['mechanism', 'epsilon', 'norm']
    """
    first = _alike(names, written)
    return [*first, *(name for name in names if name not in set(first))]


def closest(names: Sequence[str], written: str) -> str | None:
    """Return the name that somebody probably meant, if there is one.

    >>> closest(["epsilon", "norm"], "epsilom"), closest(["epsilon", "norm"], "x")
    ('epsilon', None)
    """
    return next(iter(_alike(names, written)), None)


def _alike(names: Sequence[str], written: str) -> list[str]:
    """Return the names that are much like what was written, the closest first."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(written[:_LONGEST_COMPARED].casefold())
    maybe = []
    for name in names[:_MOST_COMPARED]:
        matcher.set_seq1(name[:_LONGEST_COMPARED].casefold())
        if matcher.quick_ratio() >= _ALIKE:  # an upper bound, and cheap
            maybe.append((matcher.quick_ratio(), name))
    alike = []
    # A full comparison is slow: only the most promising are compared so.
    for _, name in sorted(maybe, reverse=True)[:MOST_LISTED]:
        matcher.set_seq1(name[:_LONGEST_COMPARED].casefold())
        if (likeness := matcher.ratio()) >= _ALIKE:
            alike.append((-likeness, name))
    return [name for _, name in sorted(alike)]


def listed(names: Sequence[str], *, last: str = "and") -> str:
    """Return names as a part of a sentence, at most 20 of them.

    >>> listed(["a", "b", "c"]), listed(["a", "b"], last="or"), listed(["a"])
    ('a, b and c', 'a or b', 'a')
    """
    if len(names) > MOST_LISTED:
        return f"{', '.join(names[:MOST_LISTED])} and {len(names) - MOST_LISTED} more"
    return f" {last} ".join([part for part in (", ".join(names[:-1]), *names[-1:]) if part])
