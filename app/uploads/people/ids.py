"""Whose a row is: a keyed digest of the id in it, of 128 bits; the id itself is never stored.

Two ids are one person exactly if they have the same canonical text
(:mod:`app.uploads.people.canonical`). A row whose id is empty, or a declared marker of what is
missing, has the digest 0 and is a person of its own.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.uploads.prf import Prf
from app.uploads.samples import Digests

Words = NDArray[np.int32]

WORDS = 4
"""A digest as words of 32 bits, as blocks carry them."""


def id_words(prf: Prf, texts: pl.Series) -> list[Words]:
    """Return the digests of some canonical ids, empty where there is none, as columns of words."""
    here = (texts != "").to_numpy()
    digests = np.zeros((len(texts), 2), dtype=np.uint64)
    if here.all():
        digests[:] = prf.of_ids(texts)
    else:
        digests[here] = prf.of_ids(texts.filter(pl.Series(here)))
    words = digests.view(np.int32)
    return [np.ascontiguousarray(words[:, place]) for place in range(WORDS)]


def digests_of(words: Words) -> Digests:
    """Return the digests, of shape (n, 2), that rows of words are."""
    return np.ascontiguousarray(words).view(np.uint64)
