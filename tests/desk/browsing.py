"""A browser without script: it reads pages, fills forms in and sends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from lxml import html

from tests.contract.service import Service, make_key
from tests.speed import PATIENCE_S


@dataclass(frozen=True)
class Page:
    """What a browser shows."""

    answer: httpx.Response

    @property
    def tree(self) -> html.HtmlElement:
        return html.document_fromstring(self.answer.text)

    @property
    def path(self) -> str:
        return self.answer.url.path

    @property
    def heading(self) -> str:
        (found,) = self.tree.xpath("//h1")
        return str(found.text_content()).strip()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.tree.xpath("//main")[0].itertext()).split())

    def alerts(self) -> list[str]:
        found = self.tree.xpath("//*[@role='alert']")
        return [" ".join(each.text_content().split()) for each in found]

    def links(self) -> dict[str, str]:
        return {each.text_content().strip(): each.get("href") for each in self.tree.xpath("//a")}

    def form(self, button: str) -> html.FormElement:
        """Return the form that has a button of this name."""
        found = self.tree.xpath(f"//form[.//button[normalize-space()='{button}']]")
        assert len(found) == 1, f"{len(found)} forms have the button {button}"
        return found[0]

    def labels(self) -> list[str]:
        return [" ".join(each.text_content().split()) for each in self.tree.xpath("//label")]


class Browsing:
    """Somebody at a browser; it follows redirects and keeps cookies."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def open(self, path: str, *, status: int = 200) -> Page:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return Page(answer)

    def send(
        self,
        page: Page,
        button: str,
        *,
        status: int = 200,
        file: tuple[str, bytes] | None = None,
        dictionary: bytes | None = None,
        **filled: str | list[str],
    ) -> Page:
        """Fill in the fields of the form with this button, choose a file, and press it."""
        form = page.form(button)
        fields: dict[str, Any] = {}
        for name, value in form.form_values():
            fields.setdefault(name, []).append(value)
        (pressed,) = form.xpath(f".//button[normalize-space()='{button}']")
        if pressed.get("name"):
            fields[pressed.get("name")] = pressed.get("value")
        unknown = {name for name in filled if name not in form.fields}
        assert not unknown, f"the form has no {unknown}"
        if button != "Draft" and fields.get("same_people") == [""]:  # few tests are about it
            fields["same_people"] = ["no"]
        fields = _with_line_ends({**fields, **filled})
        sent: dict[str, Any] = {"params": fields} if form.method == "GET" else {"data": fields}
        if form.get("enctype") == "multipart/form-data":
            sent["files"] = {"file": file or ("", b"")}
            if dictionary is not None:
                sent["files"]["dictionary"] = ("dictionary", dictionary)
        answer = self.client.request(
            form.method,
            pressed.get("formaction") or form.action or str(page.answer.url),
            headers={"Sec-Fetch-Site": "same-origin"},
            **sent,
        )
        assert answer.status_code == status, answer.text
        return Page(answer)


def confirmed(
    browsing: Browsing, page: Page, button: str, *, status: int = 200, **filled: Any
) -> Page:
    """Send a form whose act cannot be undone, and confirm it on the page that comes."""
    shown = browsing.send(page, button, **filled)
    assert shown.tree.xpath("//input[@name='confirmed'][@required]")
    return browsing.send(shown, button, status=status, confirmed="yes")


def created(browsing: Browsing, page: Page, button: str = "Upload", **filled: Any) -> Page:
    """Send a file, look at how it was read, and create its data set."""
    shown = browsing.send(page, button, **filled)
    boxes = {"confirmed": "yes"} if shown.tree.xpath("//input[@name='confirmed']") else {}
    return browsing.send(shown, "Create data set", **boxes)  # type: ignore[arg-type]


def _with_line_ends(fields: dict[str, Any]) -> dict[str, list[str]]:
    """Return fields as browsers send them: each end of a line is two characters."""
    several = {name: [value] if isinstance(value, str) else value for name, value in fields.items()}
    return {
        name: [each.replace("\n", "\r\n") for each in values] for name, values in several.items()
    }


@contextmanager
def signed_out(service: Service) -> Iterator[Browsing]:
    """Return a browser that is not signed in."""
    with httpx.Client(
        base_url=service.url, timeout=PATIENCE_S, follow_redirects=True, verify=False
    ) as client:
        yield Browsing(client)


@contextmanager
def signed_in(service: Service, key: str) -> Iterator[Browsing]:
    """Return a browser that is signed in with a key."""
    with signed_out(service) as browsing:
        shown = browsing.send(browsing.open("/desk/sign-in"), "Sign in", key=key)
        assert shown.path == "/desk"
        yield browsing


@contextmanager
def person(service: Service, admin: httpx.Client, role: str) -> Iterator[Browsing]:
    """Return the browser of somebody new."""
    with signed_in(service, make_key(admin, role)["secret"]) as browsing:
        yield browsing
