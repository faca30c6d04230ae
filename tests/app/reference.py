"""A ledger as one would explain it: three integers per account, and a table of releases.

It shares nothing with the ledger under test but the words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

REFUSED = "budget-exceeded"


@dataclass
class Account:
    """Total, spent and reserved, and the kinds and amounts of the entries so far."""

    total: int
    spent: int = 0
    reserved: int = 0
    log: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log.append(("open", self.total))

    def covers(self, amount: int) -> bool:
        return self.spent + self.reserved + amount <= self.total

    @property
    def amounts(self) -> tuple[int, int, int]:
        return self.total, self.spent, self.reserved


@dataclass
class Release:
    """What a release is, and what of its answer there is."""

    account: Account
    person: str
    amount: int
    state: str
    attempts: int = 0
    result: bytes | None = None


@dataclass
class Reference:
    """Every verb of the ledger; each returns None or the code of its refusal."""

    accounts: list[Account] = field(default_factory=list)
    archived: set[int] = field(default_factory=set)
    releases: dict[str, Release] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    caps: dict[tuple[int, str], int] = field(default_factory=dict)

    def refusal(self, which: int, amount: int, person: str) -> str | None:
        """Say why a new release cannot be charged, or set aside for."""
        if which in self.archived:
            return "dataset-archived"
        cap = self.caps.get((which, person))
        if cap is not None and self.used_by(which, person) + amount > cap:
            return REFUSED
        return None if self.accounts[which].covers(amount) else REFUSED

    def cap(self, which: int, person: str, amount: int | None) -> None:
        """Set a person's cap on an account, or lift it."""
        self.caps.pop((which, person), None)
        if amount is not None:
            self.caps[which, person] = amount

    def charge(
        self, which: int, amount: int, person: str, key: str, name: str, *, reserve: bool = False
    ) -> None:
        account = self.accounts[which]
        if reserve:
            account.reserved += amount
            self.releases[name] = Release(account, person, amount, "reserved")
        else:
            account.spent += amount
            self.releases[name] = Release(account, person, amount, "debited", 1)
        account.log.append(("reserve" if reserve else "debit", amount))
        self.keys[person, key] = name

    def approve(self, name: str) -> str | None:
        release = self.releases[name]
        if release.state != "reserved":
            return "precondition"
        release.account.reserved -= release.amount
        release.account.spent += release.amount
        release.account.log.append(("debit", release.amount))
        release.state, release.attempts = "debited", 1
        return None

    def unreserve(self, name: str, final: str) -> str | None:
        release = self.releases[name]
        if release.state != "reserved":
            return "precondition"
        release.account.reserved -= release.amount
        release.account.log.append(("unreserve", release.amount))
        release.state = final
        return None

    def settle(self, name: str, result: bytes | None) -> str | None:
        """Finish, or without a result void."""
        release = self.releases[name]
        if release.state != "debited":
            return "release-void"
        release.state, release.result = ("void" if result is None else "released"), result
        return None

    def attempt(self, name: str) -> str | None:
        release = self.releases[name]
        if release.state != "debited":
            return "release-void"
        release.attempts += 1
        return None

    def grant(self, which: int, amount: int) -> None:
        account = self.accounts[which]
        account.total += amount
        account.log.append(("grant", amount))

    def expire(self, which: int, amount: int) -> None:
        account = self.accounts[which]
        account.total = max(account.spent + account.reserved, account.total - amount)
        account.log.append(("expire", amount))

    def burn(self, which: int, amount: int) -> str | None:
        account = self.accounts[which]
        if not account.covers(amount):
            return REFUSED
        account.spent += amount
        account.log.append(("burn", amount))
        return None

    def spent_by(self, which: int, person: str) -> int:
        return self._sum_of(which, person, "debited", "released", "void")

    def used_by(self, which: int, person: str) -> int:
        return self._sum_of(which, person, "reserved", "debited", "released", "void")

    def _sum_of(self, which: int, person: str, *states: str) -> int:
        account = self.accounts[which]
        return sum(
            release.amount
            for release in self.releases.values()
            if (release.account is account and release.person == person and release.state in states)
        )
