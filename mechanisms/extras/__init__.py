"""More objectives for extended objective perturbation, for users of the library alone.

Theorem 5.1 of Awan & Slavkovic holds for more losses than the service offers: Huber's, which is
robust against outliers (:mod:`huber`), and for any loss with a public regulariser beside it
(:mod:`regularised`): a ridge and a smooth absolute value together are an elastic net.

They are not in the catalog, because no request can name them yet: a threshold and two strengths
would be three more fields of linear regression. And bounds do much of what Huber's loss is for,
since no record can lie beyond them.

docs/mechanisms.md has an example that runs.

May enter: objectives that a theorem covers, with their proofs, and that the catalog does not
offer. May import: the mechanisms and all below them. Nothing in ``mechanisms`` imports this.
"""

from mechanisms.extras.huber import HuberObjective, huber_loss, huber_objective
from mechanisms.extras.regularised import RegularisedObjective, Regulariser, Ridge, SmoothAbsolute

__all__ = [
    "HuberObjective",
    "RegularisedObjective",
    "Regulariser",
    "Ridge",
    "SmoothAbsolute",
    "huber_loss",
    "huber_objective",
]
