"""The cookbook: a page for every statistic, which names all that the catalog offers of it.

``tests/e2e/test_documents.py`` sends the pages' requests. A statistic that is added
to the catalog needs one page here, and no other line.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from mechanisms.catalog import MECHANISMS, STATISTICS, Parameter, offers
from tests.documents import Block, Document, documents
from tests.tiers import in_one

FOLDER = "docs/reference/statistics/"
PAGES = {
    path.removeprefix(FOLDER).removesuffix(".md"): page
    for path, page in documents().items()
    if path.startswith(FOLDER) and not path.endswith("README.md")
}
PARAMETERS = {offer.statistic: offer.parameters for offer in offers()}


def test_every_statistic_has_its_page() -> None:
    assert set(PAGES) == set(STATISTICS)


@in_one("kind", STATISTICS)
def test_a_page_sends_the_statistic_s_own_example(kind: str) -> None:
    page, languages = PAGES[kind], [block.language for block in PAGES[kind].blocks]
    assert page.after == f"{FOLDER}README.md"
    first = page.blocks[0]
    assert sent(first) == json.loads(json.dumps(STATISTICS[kind].example))
    assert page.blocks[1].how == "printed"
    assert "python" in languages


def sent(block: Block) -> Any:
    """Return the statistic that a command sends, or where a job is waited for, a program."""
    if block.language == "python":
        assert ".release(" in block.text
        dicts = (node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Dict))
        return ast.literal_eval(next(dicts))
    assert block.language == "bash"
    assert "/releases" in block.text
    _, _, body = block.text.partition('"statistic": ')
    return json.JSONDecoder().raw_decode(body)[0]


@in_one("kind", STATISTICS)
def test_a_page_says_what_every_parameter_means(kind: str) -> None:
    assert section(PAGES[kind], "Parameters").startswith(table(PARAMETERS[kind]))


def table(parameters: tuple[Parameter, ...]) -> str:
    """Return the table of parameters, as a page has it."""
    rows = [
        (
            f"`{each.name}`",
            "required" if each.required else f"`{json.dumps(each.default)}`",
            each.meaning.replace("|", r"\|"),
        )
        for each in parameters
    ]
    lines = [("parameter", "default", "meaning"), ("---", "---", "---"), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def section(page: Document, title: str) -> str:
    """Return what a page says below a heading."""
    _, heading, rest = page.text.partition(f"\n## {title}\n\n")
    assert heading, f"{page.path} has no section {title}"
    return rest.partition("\n## ")[0]


@in_one("kind", STATISTICS)
def test_a_page_names_every_mechanism_and_norm(kind: str) -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]+) \| .+ \|$",
        section(PAGES[kind], "Mechanisms and norms"),
        re.MULTILINE,
    )
    named = {mechanism: set(re.findall(r"`(\w+)`", norms)) for mechanism, norms in rows}
    offered = STATISTICS[kind].mechanisms
    assert named == {mechanism: set(norms) for mechanism, norms in offered.items()}


@in_one("kind", STATISTICS)
def test_a_page_names_every_limit(kind: str) -> None:
    for name, most in getattr(STATISTICS[kind], "limits", {}).items():
        assert re.search(rf"\b{most:,}\b", PAGES[kind].text), f"{name}: {most}"


@in_one("mechanism", MECHANISMS)
def test_every_mechanism_is_explained_with_its_theorem(mechanism: str) -> None:
    reported = " ".join(documents()["docs/reference/mechanisms.md"].text.split())
    assert f"Name in requests: `{mechanism}`." in reported
    assert f'Theorem in answers: "{MECHANISMS[mechanism].THEOREM}".' in reported
