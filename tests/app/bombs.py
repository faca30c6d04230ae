"""Small files that ask for a lot, written by hand because no library would."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_DOUBLE, _UNCOMPRESSED, _SNAPPY = 5, 0, 1
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _thrift(fields: dict[int, object]) -> bytes:
    """Encode a struct of Thrift's compact protocol; big integers are 64 bits, others 32."""
    out, last = b"", 0
    for number, value in fields.items():
        kind, body = _value(value)
        out += bytes([(number - last) << 4 | kind]) + body
        last = number
    return out + b"\0"


def _value(value: object) -> tuple[int, bytes]:
    match value:
        case ("i64", int(number)):
            return _I64, _zigzag(number)
        case int():
            return _I32, _zigzag(value)
        case str():
            return _BINARY, _varint(len(value)) + value.encode()
        case dict():
            return _STRUCT, _thrift(value)
        case list():
            kinds = [_value(item) for item in value]
            return _LIST, bytes([len(value) << 4 | kinds[0][0]]) + b"".join(b for _, b in kinds)
    raise TypeError(value)


def parquet(
    *, rows: int, told: int | None = None, page_bytes: int | None = None, codec: int = _UNCOMPRESSED
) -> bytes:
    """Return a Parquet file of one column ``x`` that holds the number 1 ``rows`` times.

    ``told`` is how many rows the footer says there are; ``page_bytes`` what the
    data page says it expands to.
    """
    one = struct.pack("<d", 1.0)
    dictionary = _thrift({1: _DICTIONARY_PAGE, 2: 8, 3: 8, 7: {1: 1, 2: _PLAIN}}) + one
    run = b"\x01" + _varint(rows << 1) + b"\x00"
    expanded = len(run) if page_bytes is None else page_bytes
    data = {1: rows, 2: _RLE_DICTIONARY, 3: _RLE, 4: _RLE}
    page = _thrift({1: _DATA_PAGE, 2: expanded, 3: len(run), 5: data}) + run
    said = ("i64", rows if told is None else told)
    size = ("i64", len(dictionary) + len(page))
    column = {
        1: _DOUBLE, 2: [_PLAIN, _RLE, _RLE_DICTIONARY], 3: ["x"], 4: codec, 5: said, 6: size,
        7: size, 9: ("i64", 4 + len(dictionary)), 11: ("i64", 4),
    }  # fmt: skip
    footer = _thrift(
        {
            1: 1,
            2: [{4: "schema", 5: 1}, {1: _DOUBLE, 3: 0, 4: "x"}],
            3: said,
            4: [{1: [{2: ("i64", 4), 3: column}], 2: size, 3: said}],
        }
    )
    body = b"PAR1" + dictionary + page + footer
    return body + struct.pack("<I", len(footer)) + b"PAR1"


def parquet_bombs() -> dict[str, bytes]:
    """Return files of a few hundred bytes that would fill gigabytes."""
    many = 1 << 29
    return {
        "rows": parquet(rows=many),
        "rows the footer denies": parquet(rows=many, told=10),
        "page": parquet(rows=10, page_bytes=(1 << 31) - 1),
        "compressed page": parquet(rows=10, page_bytes=(1 << 31) - 1, codec=_SNAPPY),
    }


def gzip_bomb(header: str, row: str, *, mebibytes: int) -> bytes:
    """Return a gzip file of a CSV with the same row over and over."""
    body = (row + "\n").encode()
    block = body * ((1 << 20) // len(body))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)

    def pieces() -> Iterator[bytes]:
        yield packer.compress(header.encode() + b"\n")
        for _ in range(mebibytes):
            yield packer.compress(block)
        yield packer.flush()

    return b"".join(pieces())


def nested_gzip(content: bytes, *, times: int) -> bytes:
    """Return gzip in gzip in gzip."""
    for _ in range(times):
        content = gzip.compress(content, mtime=0)
    return content
