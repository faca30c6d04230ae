"""Roots are those of RFC 9162; the vectors are Certificate Transparency's own."""

from __future__ import annotations

from hashlib import sha256

from app.domain.ledger import result_leaves, tree_root
from tests.tiers import in_one

LEAVES = [
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


@in_one("count", range(1, 9))
def test_roots_are_those_of_the_standard(count: int) -> None:
    leaves = [sha256(b"\0" + bytes.fromhex(leaf)).hexdigest() for leaf in LEAVES[:count]]
    assert tree_root(leaves) == ROOTS[count - 1]


def test_a_leaf_is_of_its_release_its_charge_and_its_bytes() -> None:
    releases = ["rel_a", "rel_b", "rel_a", "rel_a", "rel_"]
    charges = ["0" * 64, "0" * 64, "1" * 64, "0" * 64, "a" + "0" * 64]
    results = [b"{}", b"{}", b"{}", b"{ }", b"{}"]
    assert len(set(result_leaves(releases, charges, results))) == 5
    assert result_leaves(releases[:1], charges[:1], results[:1]) == (
        sha256(
            b"\0"
            + b"".join(
                len(part).to_bytes(8, "big") + b"t" + part
                for part in (
                    b"release-desk leaf 1", b"rel_a", b"0" * 64,
                    sha256(b"{}").hexdigest().encode(),
                )
            )
        ).hexdigest(),
    )  # fmt: skip
