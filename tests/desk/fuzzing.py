"""Every form of the desk, filled in wrongly: fields are left out, doubled, spoilt, or files.

Each case is made from its number alone, so a fault is found again by it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from lxml import html

from tests.contract.service import ROWS, ask, make_key, upload
from tests.desk.browsing import Browsing, Page

Pairs = list[tuple[str, str]]

SOUND: dict[str, Sequence[str]] = {
    "accuracy": ["1", "0.5"],
    "adjacency": ["replace_one"],
    "checklist": ["Is it needed?"],
    "columns": ["income", "food"],
    "comment": ["Why so much?"],
    "confirmed": ["yes"],
    "derive": ["twice = 2 * income"],
    "edges income": ["0, 50, 100", "step 10", "values"],
    "epsilon": ["0.1", "1e-3", "12"],
    "features": ["income", "owner"],
    "formula": ["food ~ income"],
    "levels": ["0.25, 0.5"],
    "name": ["rows"],
    "note": ["It was published by mistake."],
    "notices": ["Old rows."],
    "parts": ['[{"statistic": {"kind": "mean", "columns": ["income"]}}]'],
    "reason": ["The board decided so."],
    "person": ["", "Ada"],
    "same_people": ["no", "unknown"],
    "target": ["food"],
    "wanted": ["epsilon", "accuracy"],
    "where 0 column": ["region"],
    "where 0 op": ["==", "in", "<", "present"],
    "where 0 value": ["north", "1"],
}
"""Values that some fields take, so that cases come further than to the first refusal."""

SPOILT: Sequence[str] = (
    "", " ", "\x00", "\r\n", "\u202e", "\ud7ff\ue000", "0", "-1", "1e3", "1e999", "nan", "inf",
    "01", ".5", "½", "٣", "9" * 400, "0." + "0" * 400 + "1", "true", "null", "[]", "{}", "[[[[",
    '{"product": []}', '{"product": 5}', '{"column": null}', '[{"statistic": {}}]', "[1e999]",
    '{"expr": 5}', '{"reference": {}}', '[{"statistic": 5, "share": {}}]', "a" * 3000, "<b>&'\"",
    "../../etc", "%00%ff", "step", "step x", "values", "==", "in", "'", '"', "log(", "a = b = c",
    " = ", "=", "x =", "2026-02-30", "2026-13-01T00:00:00Z", "9999-12-31", "0001-01-01",
    "yes", "approve", "above", "mean", "stack", "histogram", "logistic_regression", "number",
    "category", "left out", "utf-16", "file:///", "s3://x", "always", "2", "999999999999999999999",
)  # fmt: skip
EXTRA: Sequence[str] = (
    "statistic", "act", "part", "seen", "fresh", "once", "columns.0.name", "columns.99999.name",
    "columns.0.values", "edges zz", "where 99 column", "target op", "column.0", "column.x",
    "label.0", "labels", "decision", "checked", "notice", "file", "dictionary", "spec", "",
    "confirmed", "lift", "next", "constructor", "form_key",
)  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """A form as a browser would send it."""

    method: str
    address: str
    pairs: Pairs
    multipart: bool
    files: Sequence[tuple[str, str, bytes]] = ()
    body: bytes | None = None
    kind: str | None = None


def forms_of(page: Page) -> Iterator[Sent]:
    """Yield the forms of a page, each of its buttons pressed."""
    for form in page.tree.xpath("//form"):
        multipart = form.get("enctype") == "multipart/form-data"
        fields = [(name, value) for name, value in form.form_values() if name]
        named = {each.get("name") for each in form.xpath(".//*[@name]") if _is_text(each)}
        empty = [(name, "") for name in sorted(named - {name for name, _ in fields})]
        file = [("file", "rows.csv", ROWS.encode())] if multipart else []
        for button in form.xpath(".//button[@type='submit']"):
            pressed = [(button.get("name"), button.get("value") or "")]
            yield Sent(
                method=form.method,
                address=button.get("formaction") or form.get("action") or page.path,
                pairs=[*fields, *empty, *(pair for pair in pressed if pair[0])],
                multipart=multipart,
                files=file,
            )


def _is_text(element: html.HtmlElement) -> bool:
    return element.tag != "button" and element.get("type") != "file"


class World:
    """Things that forms are about, made again and again, since some cases use them up."""

    def __init__(self, admin: httpx.Client, chief: Browsing, curator: Browsing) -> None:
        self.admin, self.chief, self.curator = admin, chief, curator

    def forms(self) -> list[tuple[Browsing, Sent]]:
        """Return every form of the desk, and who sends it."""
        made, chief, curator = make_key(self.admin, "analyst"), self.chief, self.curator
        dataset = str(upload(self.admin, budget={"epsilon": "1000"})["id"])
        reviewed = str(upload(self.admin, policy={"review": "always", "reviewers": 1})["id"])
        fresh = str(upload(self.admin)["id"])
        make_key(self.admin, "analyst", "Ada")
        released, public = (ask(self.admin, dataset).json()["id"] for _ in range(2))
        waiting = [ask(self.admin, reviewed).json()["id"] for _ in range(3)]
        published = {"reason": "for everyone"}
        answer = self.admin.post(
            f"/v1/releases/{public}/publication", json=published, headers={"If-Match": "*"}
        )
        assert answer.status_code == 201, answer.text
        returned = curator.send(
            curator.open(f"/desk/reviews/{waiting[1]}"), "Request changes", reason="Ask for less."
        )
        assert "changes" in returned.text
        empty = chief.open("/desk/datasets/new")
        file = ("rows.csv", ROWS.encode())
        drafted = chief.send(empty, "Draft", file=file)
        curators = ["grants", "caps", "access", "edit", "versions"]
        extending = chief.open(f"/desk/datasets/{dataset}/versions")
        pages = [
            drafted,
            chief.send(extending, "Add rows", file=file),
            *(chief.open(f"/desk/datasets/{dataset}/{each}") for each in curators),
            *(chief.open(f"/desk/datasets/{fresh}/{each}") for each in ("archive", "delete")),
            *(
                chief.open(f"/desk/releases/{each}")
                for each in (released, public, waiting[0], waiting[2])
            ),
            chief.open(f"/desk/reviews/{waiting[1]}"),
            chief.open("/desk/reviews"),
            chief.open("/desk/audit"),
            chief.open("/desk/sign-in"),
            chief.open("/desk/keys"),
            chief.open("/desk/groups"),
            chief.open(f"/desk/keys/{made['id']}/revocation"),
            *(
                chief.open(f"/desk/datasets/{dataset}/ask?statistic={kind}")
                for kind in ("count", "histogram", "mean", "quantile", "linear_regression",
                             "logistic_regression", "stack")
            ),
            chief.open(f"/desk/reviews/{waiting[1]}/revision"),
        ]  # fmt: skip
        found = [(chief, sent) for page in pages for sent in forms_of(page)]
        found += [(curator, sent) for sent in forms_of(curator.open(f"/desk/reviews/{waiting[0]}"))]
        asked = "statistic=mean&columns=income&wanted=epsilon&epsilon=0.1&act=release&form_key=key"
        for path in (f"/desk/datasets/{dataset}/ask", f"/desk/reviews/{waiting[1]}/revision"):
            confirm = chief.open(f"{path}?{asked}")
            found += [(chief, sent) for sent in forms_of(confirm) if sent.method == "POST"]
        return [each for each in found if not each[1].address.endswith("/sign-out")]


def case_of(number: int, forms: Sequence[tuple[Browsing, Sent]]) -> tuple[Browsing, Sent]:
    """Return a case by its number: one of the forms, filled in soundly, then spoilt."""
    chance = random.Random(number)
    by_page: dict[str, list[tuple[Browsing, Sent]]] = {}
    for each in forms:
        by_page.setdefault(page_of(each[1]), []).append(each)
    browsing, sent = chance.choice(by_page[chance.choice([*by_page])])
    pairs = [
        (name, chance.choice(SOUND[name]) if name in SOUND and chance.random() < 0.8 else value)
        for name, value in sent.pairs
    ]
    sent = replace(sent, pairs=pairs)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 5))):
        sent = chance.choice(_WAYS)(sent, chance)
    return browsing, sent


def page_of(sent: Sent) -> str:
    """Return what a form is for: its address without the things that it is about."""
    parts = sent.address.partition("?")[0].split("/")
    return " ".join((sent.method, *(part for part in parts if "_" not in part)))


def _left_out(sent: Sent, chance: random.Random) -> Sent:
    if not sent.pairs:
        return sent
    gone = chance.choice(sent.pairs)[0]
    return replace(sent, pairs=[pair for pair in sent.pairs if pair[0] != gone])


def _doubled(sent: Sent, chance: random.Random) -> Sent:
    if not sent.pairs:
        return sent
    name, value = chance.choice(sent.pairs)
    other = value if chance.random() < 0.5 else chance.choice(SPOILT)
    pairs = [*sent.pairs]
    pairs.insert(chance.randrange(len(pairs) + 1), (name, other))
    return replace(sent, pairs=pairs)


def _wrong(sent: Sent, chance: random.Random) -> Sent:
    if not sent.pairs:
        return sent
    pairs, at = [*sent.pairs], chance.randrange(len(sent.pairs))
    pairs[at] = (pairs[at][0], chance.choice(SPOILT))
    return replace(sent, pairs=pairs)


def _huge(sent: Sent, chance: random.Random) -> Sent:
    if not sent.pairs:
        return sent
    pairs, at = [*sent.pairs], chance.randrange(len(sent.pairs))
    huge = chance.choice(("9", "a", "é", ", ", "\n", "(", "[")) * chance.choice((10_000, 70_000))
    pairs[at] = (pairs[at][0], huge)
    return replace(sent, pairs=pairs)


def _unknown(sent: Sent, chance: random.Random) -> Sent:
    more = (chance.choice(EXTRA), chance.choice(SPOILT))
    return replace(sent, pairs=[*sent.pairs, more])


def _many(sent: Sent, chance: random.Random) -> Sent:
    name = chance.choice([*EXTRA, *(name for name, _ in sent.pairs)])
    return replace(sent, pairs=[*sent.pairs, *((name, str(at)) for at in range(300))])


def _file_for_text(sent: Sent, chance: random.Random) -> Sent:
    if not sent.pairs:
        return sent
    name, value = chance.choice(sent.pairs)
    content = chance.choice((value.encode("utf-8", "replace"), b"\xff\xfe\x00", b""))
    pairs = [pair for pair in sent.pairs if pair[0] != name]
    return replace(sent, pairs=pairs, multipart=True, files=[*sent.files, (name, "x", content)])


def _text_for_file(sent: Sent, chance: random.Random) -> Sent:
    texts = [(name, chance.choice(SPOILT)) for name in ("file", "dictionary")]
    return replace(sent, pairs=[*sent.pairs, chance.choice(texts)], files=[])


def _other_file(sent: Sent, chance: random.Random) -> Sent:
    content = chance.choice((b"", b"\x00" * 100, b"PAR1", b"PK\x03\x04", b"\x1f\x8b", b"a,a\n1,2\n",
                             b"\xff\xfea\x00", b'"', b"income\n" * 500, ROWS.encode()))  # fmt: skip
    name = chance.choice(("file", "dictionary"))
    return replace(sent, files=[(name, chance.choice(("x", "x.csv", "", "\x00")), content)])


def _body(sent: Sent, chance: random.Random) -> Sent:
    body = chance.choice((b"", b"\xff", b"%", b"%ff=%fe", b"a" * 100, b"&" * 100, b"=", b"{}",
                          json.dumps(dict(sent.pairs)).encode()))  # fmt: skip
    kind = chance.choice((
        None, "", "application/json", "text/plain", "application/x-www-form-urlencoded",
        "multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=x",
    ))  # fmt: skip
    return replace(sent, body=body, kind=kind)


def _other_kind(sent: Sent, _: random.Random) -> Sent:
    return replace(sent, multipart=not sent.multipart)


def _elsewhere(sent: Sent, chance: random.Random) -> Sent:
    parts = sent.address.partition("?")[0].split("/")
    if len(parts) < 4:
        return sent
    parts[3] = quote(chance.choice(("new", "x", "\x00", "é", "ds_" + "0" * 26, "a" * 300)), safe="")
    return replace(sent, address="/".join(parts))


_WAYS: Sequence[Callable[[Sent, random.Random], Sent]] = (
    _left_out, _left_out, _left_out, _doubled, _doubled, _wrong, _wrong, _wrong, _wrong, _huge,
    _unknown, _unknown, _many, _file_for_text, _text_for_file, _other_file, _body, _other_kind,
    _elsewhere,
)  # fmt: skip


def send(browsing: Browsing, sent: Sent) -> httpx.Response:
    """Send a form, and go nowhere after it."""
    headers = {"Sec-Fetch-Site": "same-origin"}
    options: dict[str, Any] = {"headers": headers, "follow_redirects": False}
    if sent.method == "GET":
        return browsing.client.get(f"{sent.address}?{_urlencoded(sent.pairs)[:60_000]}", **options)
    if sent.body is not None:
        if sent.kind is not None:
            headers["Content-Type"] = sent.kind
        options["content"] = sent.body
    elif sent.multipart:
        headers["Content-Type"] = "multipart/form-data; boundary=fuzzed-fuzzed"
        options["content"] = _multipart(sent)
    else:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        options["content"] = _urlencoded(sent.pairs)
    return browsing.client.post(sent.address, **options)


def _urlencoded(pairs: Pairs) -> str:
    return urlencode(pairs, errors="replace")


def _multipart(sent: Sent) -> bytes:
    def part(about: str, content: bytes) -> bytes:
        head = f"--fuzzed-fuzzed\r\nContent-Disposition: form-data; {about}\r\n\r\n"
        return head.encode("utf-8", "replace") + content + b"\r\n"

    texts = [part(f'name="{name}"', value.encode("utf-8", "replace")) for name, value in sent.pairs]
    files = [
        part(f'name="{name}"; filename="{reported}"', content)
        for name, reported, content in sent.files
    ]
    return b"".join([*texts, *files, b"--fuzzed-fuzzed--\r\n"])


def failures(
    world: World, numbers: Iterable[int], *, renewed: int = 1_000
) -> list[tuple[int, str]]:
    """Return the cases that a page failed for, each with where it was sent."""
    failed: list[tuple[int, str]] = []
    forms: list[tuple[Browsing, Sent]] = []
    for count, number in enumerate(numbers):
        if count % renewed == 0:
            forms = world.forms()
        browsing, sent = case_of(number, forms)
        answer = None
        with suppress(httpx.LocalProtocolError, httpx.InvalidURL):  # no client sends such a thing
            answer = send(browsing, sent)
        if answer is not None and answer.status_code >= 500:
            failed.append((number, f"{sent.method} {sent.address[:80]}: {answer.status_code}"))
    return failed
