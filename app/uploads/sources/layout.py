"""Which columns the files of one upload have: the same in all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from app.domain.sources import Partitions
from app.uploads.texts.points import Points
from app.uploads.trouble import OTHER_COLUMNS, UnreadableError
from mechanisms.words import header_text


class Layout:
    """The columns of the file that is being read: its own, and those that its folders give.

    ``points`` notices numbers of all files that may be thousands. The reader of the file sets
    ``place``, which says how many of its bytes have been read.
    """

    def __init__(self) -> None:
        self.partitions: Partitions = {}
        self.points: Points | None = None
        self.place: Callable[[], int] = lambda: 0
        self._earlier_bytes = 0
        self._first: tuple[object, ...] | None = None
        self._kinds: Mapping[str, str] = {}

    def begin(self, partitions: Partitions) -> None:
        """Begin another file."""
        self.partitions = partitions
        self._earlier_bytes = self.read_bytes
        self.place = lambda: 0

    @property
    def read_bytes(self) -> int:
        """Return about how many bytes of all files have been read."""
        return self._earlier_bytes + self.place()

    def require_same(self, kind: str, names: Sequence[str]) -> None:
        """Check that this file is of the first one's kind, and has its columns in its order.

        Raises
        ------
        UnreadableError
            It has others.
        """
        self.partitions = {key: value for key, value in self.partitions.items() if key not in names}
        own = kind, tuple(names), tuple(self.partitions)
        self._first = self._first or own
        if own != self._first:
            raise UnreadableError(OTHER_COLUMNS)

    def of_other_kinds(self, kinds: Mapping[str, str]) -> Sequence[str]:
        """Return the columns whose cells are of another kind than in the first file."""
        self._kinds = self._kinds or kinds
        return [name for name, kind in kinds.items() if self._kinds[name] != kind]

    def all_of(self, names: Sequence[str]) -> list[str]:
        """Return a file's own columns, and those that its folders give."""
        return [*names, *self.partitions]

    def named(self, names: Sequence[str], headers: Mapping[str, str]) -> list[str]:
        """Return what a file's own columns are called: as declared, where they are.

        ``headers`` are the texts of declared columns. An undeclared column is called
        otherwise where it has the name of one that is declared of another header. From here on
        the file's folders give columns by those names too.
        """
        declared = {header: name for name, header in headers.items()}

        def name(header: str) -> str:
            found = declared.get(header_text(header))
            if found is not None:
                return found
            return f"\0{header}" if header in headers else header

        self.partitions = {name(key): value for key, value in self.partitions.items()}
        return [name(header) for header in names]

    def completed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return some rows with the columns that the folders give, as texts."""
        if not self.partitions:
            return frame
        return frame.with_columns(
            pl.lit(value, dtype=pl.String).alias(name) for name, value in self.partitions.items()
        )
