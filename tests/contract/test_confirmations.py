"""Acts of the command line that cannot be undone: said first, confirmed, refused without."""

from __future__ import annotations

import httpx
import pytest
from click.testing import CliRunner, Result

from app.cli import caution, main
from tests.contract.service import ADMIN_KEY, Service, ask, make_key, upload

WRONG_USAGE, ABORTED = 2, 1


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caution, "at_terminal", lambda: True)


def run(service: Service, *words: str, typed: str = "", key: str = ADMIN_KEY) -> Result:
    environment = {"RELEASE_DESK_URL": service.url, "RELEASE_DESK_KEY": key}
    return CliRunner().invoke(main, words, env=environment, input=typed)


def total(admin: httpx.Client, dataset: str) -> str:
    return str(admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"]["total"])


@pytest.mark.usefixtures("at_terminal")
def test_a_grant_is_said_and_confirmed_and_a_large_one_typed_again(
    service: Service, admin: httpx.Client
) -> None:
    dataset = upload(admin, budget={"epsilon": "4"})["id"]
    kept = total(admin, dataset)
    again = "To confirm, type the amount again"
    for epsilon, typed, asked, after in (
        ("2", "n\n", "Go on?", None),
        ("2", "", "Go on?", None),
        ("8.5", "y\n", again, None),
        ("8.5", "8\n", again, None),
        ("8.5", "nan\n", again, None),
        ("1e3", "100\n", again, None),
        ("2", "y\n", "Go on?", "6"),
        ("8", "y\n", "Go on?", "14"),
        ("1e1", "y\n", "Go on?", "24"),
        ("10.5", "10.50\n", again, "34.5"),
    ):
        grant = ("datasets", "grant", dataset, "--epsilon", epsilon, "--reason", "more questions")
        answer = run(service, *grant, typed=typed)
        assert asked in answer.stderr, (epsilon, answer.output)
        assert f"rises from epsilon {kept} to " in answer.stderr
        assert "It cannot be taken back." in answer.stderr
        assert (answer.exit_code == 0) is (after is not None), (epsilon, typed, answer.output)
        kept = after or kept
        assert total(admin, dataset) == kept
    for wrong in ("much", "inf"):
        answer = run(service, "datasets", "grant", dataset, "--epsilon", wrong, "--reason", "r")
        assert (answer.exit_code, wrong in answer.stderr) == (WRONG_USAGE, True)


@pytest.mark.usefixtures("at_terminal")
def test_where_the_total_is_fixed_nothing_is_asked(service: Service, admin: httpx.Client) -> None:
    dataset = upload(admin, budget={"epsilon": "4", "delta": "1e-6"})["id"]
    grant = ("datasets", "grant", dataset, "--reason", "r", "--epsilon", "1")
    answer = run(service, *grant)
    assert (answer.exit_code, "target-fixed" in answer.stderr) == (1, True)
    assert "Go on?" not in answer.stderr


def test_each_act_is_confirmed_and_without_a_terminal_needs_a_word(
    service: Service, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = upload(admin, policy={"review": "above:0.5"})["id"]
    release = ask(admin, dataset).json()["id"]
    first, second, third = (
        ask(admin, dataset, epsilon=epsilon).json()["id"] for epsilon in ("0.8", "0.7", "0.6")
    )
    paused = upload(admin, policy={"review": "always"})["id"]
    ask(admin, paused)
    curator, old = make_key(admin, "curator")["secret"], make_key(admin, "analyst")
    because = ("--reason", "within the protocol")
    pause = ("pauses", "set", "dataset", paused, *because)
    # as (act, what is said, what follows)
    acts = (
        (("datasets", "grant", dataset, "--epsilon", "1", *because), "weaker privacy", "total 11"),
        (("releases", "approve", first, *because), "never given back", "running"),
        (("releases", "reject", second, *because), "cannot be approved later", "rejected"),
        (("releases", "publish", release, *because), "without a key", "/public/"),
        (("releases", "unpublish", release, "--note", "wrong"), "no numbers", "withdrawn"),
        (("datasets", "archive", dataset), "erased for good", "archived"),
        (("datasets", "delete", upload(admin)["id"]), "account is closed", "deleted"),
    )  # fmt: skip
    by_admin = (
        (("releases", "withdraw", third), "Nothing is charged", "withdrawn"),
        (
            ("keys", "revoke", old["id"]),
            f"The key {old['name']} belongs to",
            f"revoked {old['id']}",
        ),
        ((*pause, "--cancel-waiting"), "None is charged", "cancelled 1"),
    )
    both = [(each, ADMIN_KEY) for each in by_admin] + [(each, curator) for each in acts]
    for (act, said, follows), key in both:
        refused = run(service, *act, typed="y\n", key=key)
        assert refused.exit_code == WRONG_USAGE
        assert "Add --yes if it is meant." in " ".join(refused.stderr.split())
        with monkeypatch.context() as patched:
            patched.setattr(caution, "at_terminal", lambda: True)
            refused = run(service, *act, typed="n\n", key=key)
            assert (refused.exit_code, refused.stdout) == (ABORTED, "")
            assert said in refused.stderr
        done = run(service, *act, "--yes", key=key)
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        assert follows in done.stdout
