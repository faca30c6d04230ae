"""The theorem behind extended objective perturbation."""

THEOREM = "Awan & Slavkovic 2021, Theorem 5.1 (extended objective perturbation)"
