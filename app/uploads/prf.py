"""The pseudo-random function under which cells are kept: AES with a secret key."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import polars as pl
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from app.uploads.samples import Digests

BLANK = " \t"
# beyond, a float of 64 bits, or of 32, stands for several integers
_EXACT_INTEGERS, _SINGLE_INTEGERS = 2.0**53, 2.0**24
_NUMBERS, _IDS, _ROWS = range(3)
"""What the second half of a first block says, so that none is taken for another."""
_BLOCK_BYTES = 16
_BLOCK_WORDS = 4
_RUN_WORDS = 1 << 13  # blocks of a run stay in the processor's nearest memory
_SPARE_WORDS = 2
"""The cipher wants room for one block more than it writes."""

T = TypeVar("T", np.float64, np.uint64)
_Put = Callable[[NDArray[T], Digests], None]
_TRUTHS = {"true": 1.0, "false": 0.0}


Ends = tuple[float, float]
"""The least and the greatest of some numbers."""


def ends_of(numbers: NDArray[np.float64]) -> Ends | None:
    """Return the ends of some numbers; None where there is none, or one of them is not finite."""
    if not len(numbers):
        return None
    # of a NaN both are one
    ends = float(numbers.min()), float(numbers.max())
    return ends if all(map(math.isfinite, ends)) else None


class Prf:
    """A pseudo-random function of 64-bit words and of texts.

    Parameters
    ----------
    key
        32 secret bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305 - a PRF of one block each

    @property
    def name(self) -> str:
        """Return an identifier of its key that does not reveal the key."""
        return hashlib.sha256(b"release-desk people key" + self._key).hexdigest()

    def of_numbers(self, values: NDArray[np.float64], ends: Ends | None = None) -> Digests:
        """Return the digests of finite numbers, whose ends may be known."""
        low, high = ends or ends_of(values) or (0.0, 0.0)
        put = _put_singles if max(-low, high) < _SINGLE_INTEGERS - 1 else _put_numbers
        return self._of_words(values, _NUMBERS, put=put)

    def of_text(self, text: str) -> int:
        """Return a keyed hash of a text, or that of the number it reads as."""
        plain = text.strip(BLANK).casefold()
        number = _TRUTHS.get(plain)
        if number is None:
            try:
                number = float(plain)
            except ValueError:
                number = math.nan
        if math.isfinite(number):
            return int(self.of_numbers(np.array([number]))[0])
        content = plain.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(content, digest_size=8, key=self._key, person=b"cell text")
        return int.from_bytes(digest.digest(), "little")

    def of_ids(self, texts: pl.Series) -> Digests:
        """Return the digests of many texts, none of them null, of 128 bits: of shape (n, 2).

        CBC-MAC over the length and all bytes, so that no two different texts are likely to meet.
        """
        return self._chained(texts)

    def of_rows(self, words: NDArray[np.int32]) -> Digests:
        """Return the digests of rows of as many words each, of 128 bits: of shape (n, 2)."""
        width = words.shape[1]
        padded = np.zeros((len(words), -(-width // _BLOCK_WORDS) * _BLOCK_WORDS), dtype=np.int32)
        padded[:, :width] = words
        blocks = padded.view(np.uint64).reshape(len(words), -1, 2)
        state = np.empty((len(words), 2), dtype=np.uint64)
        state[:, 0], state[:, 1] = width, _ROWS
        state = self._sealed(state)
        for place in range(blocks.shape[1]):
            state = self._sealed(state ^ blocks[:, place])
        return state

    def _chained(self, texts: pl.Series) -> Digests:
        """Return CBC-MACs over the lengths and the bytes of texts."""
        if not len(texts):
            return np.zeros((0, 2), dtype=np.uint64)
        sizes = texts.str.len_bytes().to_numpy().astype(np.uint64)
        # So much more, as the last text may end within a block.
        content = str(texts.str.join("").item()).encode() + bytes(_BLOCK_BYTES)
        starts = np.cumsum(sizes) - sizes
        state = np.zeros((len(sizes), 2), dtype=np.uint64)
        # The length comes first: a CBC-MAC is a random function of texts of one length only.
        state[:, 0], state[:, 1] = sizes, _IDS
        state = self._sealed(state).copy()
        windows = np.lib.stride_tricks.sliding_window_view(
            np.frombuffer(content, dtype=np.uint8), _BLOCK_BYTES
        )
        longest = int(sizes.max(initial=0))
        longer = np.arange(len(sizes))
        for offset in range(0, longest, _BLOCK_BYTES):
            longer = longer[sizes[longer] > offset]
            blocks = windows[starts[longer].astype(np.intp) + offset]
            left = np.minimum(sizes[longer] - np.uint64(offset), _BLOCK_BYTES)
            blocks[np.arange(_BLOCK_BYTES, dtype=np.uint64) >= left[:, None]] = 0
            state[longer] = self._sealed(state[longer] ^ blocks.view(np.uint64))
        return state

    def _of_words(self, cells: NDArray[T], kind: int, *, put: _Put[T]) -> Digests:
        """Return the first half of each block AES(word, kind); ``put`` makes words of cells."""
        found = np.empty(len(cells), dtype=np.uint64)
        # in short runs, which stay in the processor's nearest memory
        blocks = np.empty((min(len(cells), _RUN_WORDS), 2), dtype=np.uint64)
        sealed = np.empty(2 * len(blocks) + _SPARE_WORDS, dtype=np.uint64)
        blocks[:, 1] = kind
        cipher = self._cipher.encryptor()
        with np.errstate(over="ignore"):  # beyond all 32-bit floats: an infinity
            for start in range(0, len(cells), _RUN_WORDS):
                run = cells[start : start + _RUN_WORDS]
                put(run, blocks[: len(run), 0])
                cipher.update_into(blocks[: len(run)].data.cast("B"), sealed.data.cast("B"))
                found[start : start + len(run)] = sealed[: 2 * len(run) : 2]
        return found

    def _sealed(self, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        sealed = self._cipher.encryptor().update(blocks.tobytes())
        return np.frombuffer(sealed, dtype=np.uint64).reshape(-1, 2)


def _put_numbers(values: NDArray[np.float64], words: Digests) -> None:
    """Put the plain values of finite numbers: integers as they are, others as 32-bit floats."""
    whole = np.rint(values) == values
    whole &= np.abs(values) < _EXACT_INTEGERS
    # adding zero turns -0.0 into 0.0; a tiny number becomes either as a 32-bit float
    words.view(np.float64)[:] = np.where(whole, values, values.astype(np.float32)) + 0.0


def _put_singles(values: NDArray[np.float64], words: Digests) -> None:
    """Put the same of numbers so small that integers among them are equal at both widths."""
    single = values.astype(np.float32)
    single += np.float32(0)
    words.view(np.float64)[:] = single
