"""Bodies of requests that are small to send and much to read."""

from __future__ import annotations

from collections.abc import Mapping

_EMPTY_TEXT = '""'
_CONDITION = '{"column":"x","op":"<","value":1}'
_REPEATED: Mapping[str, tuple[str, str, str]] = {
    "conditions that are numbers": ('{"kind":"count","where":[', "1", "]}"),
    "conditions that are empty": ('{"kind":"count","where":[', "{}", "]}"),
    "objects to choose from": (
        '{"kind":"count","where":[{"column":"x","op":"in","value":[', "{}", "]}]}"
    ),
    "columns that are numbers": ('{"kind":"histogram","columns":[', "1", "]}"),
    "levels that are text": ('{"kind":"quantile","column":"x","levels":[', '"a"', "]}"),
    "a kind that is a list": ('{"kind":[', "[[[[]]]]", "]}"),
    "sound edges": ('{"kind":"histogram","columns":["x"],"edges":{"x":[', "1", "]}}"),
    "sound conditions": ('{"kind":"count","where":[', _CONDITION, "]}"),
    "sound choices": ('{"kind":"count","where":[{"column":"x","op":"in","value":[', "1", "]}]}"),
    "sound columns": ('{"kind":"histogram","columns":[', _EMPTY_TEXT, "]}"),
    "sound parts": ('{"kind":"stack","parts":[', '{"statistic":{"kind":"count"}}', "]}"),
}  # fmt: skip
_MEMBERS: Mapping[str, tuple[str, str]] = {
    "edges that are numbers": ('{"kind":"histogram","columns":["x"],"edges":{', "}}"),
    "unknown fields": ('{"kind":"count",', "}"),
}
KINDS = tuple(_MEMBERS) + tuple(_REPEATED)


def hostile_body(kind: str, size: int) -> bytes:
    """Return a body of some kind that has about so many bytes, and not more."""
    if kind in _MEMBERS:
        before, after = _MEMBERS[kind]
        items = [f'"{number:06}":1' for number in range(size // 11 - 20)]
    else:
        before, item, after = _REPEATED[kind]
        items = [item] * ((size - 200) // (len(item) + 1))
    return f'{{"epsilon":"1","statistic":{before}{",".join(items)}{after}}}'.encode()
